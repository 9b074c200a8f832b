#pragma once

// Products of matrices by the tensor cores, by the 128 threads of a warpgroup (four warps, from a multiple of
// four on) and asynchronously: wgmma, of sm_90a exactly. D[64][N] += A[64][K] * B[K][N], with K = 16 elements
// of 16 bits or 8 of TF32, and float sums. B lies in shared memory, A there or in registers, D in registers.
// PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
//
//     wgmma_fence();                                  // what threads did with these registers is done
//     wgmma_bf16<Major::K, Major::MN>(sums, a, b);    // begins; all four warps, with the same descriptors
//     wgmma_commit();                                 // closes a group: those begun since the last one
//     wgmma_wait<0>(sums);                            // until no more than 0 groups are under way
//
// From its beginning until a wait has covered its group, nobody may write to the operands in shared memory,
// and the thread may not touch `sums`, nor change A's registers: further wgmma on the same sums excepted,
// which add up in order. Wgmma reads shared memory as asynchronous copies do, by another way than threads:
// what threads have written there is there for it behind fence_async_proxy() (bulk_copy.hpp), by each of
// them, and a barrier. What tensor copies brought needs the wait for their mbarrier only.
//
// Sums are those of a tensor core, not of FP32 arithmetic: experiments/tensor_core_arithmetic.

#include <cstdint>

#include "common/cuda/matrix_descriptor.hpp"

// Where a thread's sums lie in D [64][N]: sum i of thread `thread` of the warpgroup. Each warp has 16 rows,
// and of eight columns what a lane has of mma.sync's D (fragments.hpp).
struct WgmmaPlace {
  int row, col;
};
HOST_DEVICE constexpr WgmmaPlace wgmma_place(int thread, int i) {
  const int warp = thread / 32, lane = thread % 32;
  return {warp * 16 + lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2};
}

#ifdef __CUDACC__

// As with cp.async (async_copy.hpp): what is compiled for other GPUs, too, does not use it there.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAVE_WGMMA 1
#else
#define HAVE_WGMMA 0
#endif

// As in launch.hpp: another name for the linker than the CPU device's.
inline namespace on_gpu {

struct MatrixDescriptor {
  std::uint64_t bits;
};

// Of an operand that begins here; matrix_descriptor.hpp says what the rest means.
__device__ __forceinline__ MatrixDescriptor matrix_descriptor(const void* shared, Swizzle swizzle,
                                                              unsigned leading, unsigned stride) {
  return {descriptor_bits(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)), swizzle, leading,
                          stride)};
}

// The same operand, so many bytes further on.
__device__ __forceinline__ MatrixDescriptor operator+(MatrixDescriptor from, unsigned bytes) {
  return {from.bits + bytes / 16};
}

enum class WgmmaType { bf16, fp16, tf32 };

// An asm statement takes its operands one by one. WGMMA_TENS(t): the numbers of ten of them in its text, 10 t
// to 10 t + 9; WGMMA_8(i): sums i to i + 7.
#define WGMMA_TENS(t) \
  "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define WGMMA_TO_29 WGMMA_TENS() WGMMA_TENS(1) WGMMA_TENS(2)
#define WGMMA_TO_59 WGMMA_TO_29 WGMMA_TENS(3) WGMMA_TENS(4) WGMMA_TENS(5)
#define WGMMA_TO_89 WGMMA_TO_59 WGMMA_TENS(6) WGMMA_TENS(7) WGMMA_TENS(8)
#define WGMMA_TO_119 WGMMA_TO_89 WGMMA_TENS(9) WGMMA_TENS(10) WGMMA_TENS(11)
#define WGMMA_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_8(i) WGMMA_4(i), WGMMA_4(i + 4)
#define WGMMA_32(i) WGMMA_8(i), WGMMA_8(i + 8), WGMMA_8(i + 16), WGMMA_8(i + 24)

// The statement, with A from shared memory or from registers. Behind the sums, __VA_ARGS__, come operands
// number x0, x1 ...: A, B, whether D is added to, and which are MN-major, which TF32 does not say.
#define WGMMA_SHARED(n, kind, orders, sums, x0, x1, x2, ...)                                           \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #x2 ", 0; wgmma.mma_async.sync.aligned.m64n" #n kind \
               " {" sums "}, %" #x0 ", %" #x1 ", p, 1, 1" orders "; }"                                 \
               : __VA_ARGS__                                                                           \
               : "l"(a.bits), "l"(b.bits), "r"(adds), "n"(A == Major::MN), "n"(B == Major::MN))
#define WGMMA_REGISTERS(n, kind, orders, sums, x0, x1, x2, x3, x4, x5, ...)                            \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #x5 ", 0; wgmma.mma_async.sync.aligned.m64n" #n kind \
               " {" sums "}, {%" #x0 ",%" #x1 ",%" #x2 ",%" #x3 "}, %" #x4 ", p, 1, 1" orders "; }"    \
               : __VA_ARGS__                                                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"(adds), "n"(B == Major::MN))

// The instructions with N = n columns.
#define WGMMA_OF(n, sums, x0, x1, x2, x3, x4, x5, x6, ...)                                                  \
  template <WgmmaType TYPE, Major A, Major B>                                                               \
  __device__ __forceinline__ void wgmma(float (&d)[n / 2], MatrixDescriptor a, MatrixDescriptor b,          \
                                        int adds) {                                                         \
    if constexpr (TYPE == WgmmaType::bf16) {                                                                \
      WGMMA_SHARED(n, "k16.f32.bf16.bf16", ", %" #x3 ", %" #x4, sums, x0, x1, x2, __VA_ARGS__);             \
    } else if constexpr (TYPE == WgmmaType::fp16) {                                                         \
      WGMMA_SHARED(n, "k16.f32.f16.f16", ", %" #x3 ", %" #x4, sums, x0, x1, x2, __VA_ARGS__);               \
    } else {                                                                                                \
      WGMMA_SHARED(n, "k8.f32.tf32.tf32", "", sums, x0, x1, x2, __VA_ARGS__);                               \
    }                                                                                                       \
  }                                                                                                         \
  template <WgmmaType TYPE, Major B>                                                                        \
  __device__ __forceinline__ void wgmma(float (&d)[n / 2], const std::uint32_t (&a)[4], MatrixDescriptor b, \
                                        int adds) {                                                         \
    if constexpr (TYPE == WgmmaType::bf16) {                                                                \
      WGMMA_REGISTERS(n, "k16.f32.bf16.bf16", ", %" #x6, sums, x0, x1, x2, x3, x4, x5, __VA_ARGS__);        \
    } else if constexpr (TYPE == WgmmaType::fp16) {                                                         \
      WGMMA_REGISTERS(n, "k16.f32.f16.f16", ", %" #x6, sums, x0, x1, x2, x3, x4, x5, __VA_ARGS__);          \
    } else {                                                                                                \
      WGMMA_REGISTERS(n, "k8.f32.tf32.tf32", "", sums, x0, x1, x2, x3, x4, x5, __VA_ARGS__);                \
    }                                                                                                       \
  }

#if HAVE_WGMMA
WGMMA_OF(8, "%0,%1,%2,%3", 4, 5, 6, 7, 8, 9, 10, WGMMA_4(0))
WGMMA_OF(16, "%0,%1,%2,%3,%4,%5,%6,%7", 8, 9, 10, 11, 12, 13, 14, WGMMA_8(0))
WGMMA_OF(32, WGMMA_TENS() "%10,%11,%12,%13,%14,%15", 16, 17, 18, 19, 20, 21, 22, WGMMA_8(0), WGMMA_8(8))
WGMMA_OF(64, WGMMA_TO_29 "%30,%31", 32, 33, 34, 35, 36, 37, 38, WGMMA_32(0))
WGMMA_OF(128, WGMMA_TO_59 "%60,%61,%62,%63", 64, 65, 66, 67, 68, 69, 70, WGMMA_32(0), WGMMA_32(32))
WGMMA_OF(192, WGMMA_TO_89 "%90,%91,%92,%93,%94,%95", 96, 97, 98, 99, 100, 101, 102, WGMMA_32(0), WGMMA_32(32),
         WGMMA_32(64))
WGMMA_OF(256, WGMMA_TO_119 "%120,%121,%122,%123,%124,%125,%126,%127", 128, 129, 130, 131, 132, 133, 134,
         WGMMA_32(0), WGMMA_32(32), WGMMA_32(64), WGMMA_32(96))
#endif

#undef WGMMA_OF
#undef WGMMA_REGISTERS
#undef WGMMA_SHARED
#undef WGMMA_32
#undef WGMMA_8
#undef WGMMA_4
#undef WGMMA_TO_119
#undef WGMMA_TO_89
#undef WGMMA_TO_59
#undef WGMMA_TO_29
#undef WGMMA_TENS

#if HAVE_WGMMA
#define WGMMA(...) wgmma<__VA_ARGS__>(d, a, b, adds)
#else
#define WGMMA(...) __trap()
#endif

// D[64][N] = A * B, plus D if it `adds`; N = 2 * SUMS columns: 8, 16, 32, 64, 128, 192 or 256. In each of the
// three types A comes from shared memory, or from registers, in which each warp has 16 rows as mma.sync's
// lanes have them (mma.hpp: four registers of mma_bf16, or of mma_tf32).
template <Major A = Major::K, Major B = Major::K, int SUMS>
__device__ __forceinline__ void wgmma_bf16(float (&d)[SUMS], MatrixDescriptor a, MatrixDescriptor b,
                                           bool adds = true) {
  WGMMA(WgmmaType::bf16, A, B);
}
template <Major B = Major::K, int SUMS>
__device__ __forceinline__ void wgmma_bf16(float (&d)[SUMS], const std::uint32_t (&a)[4], MatrixDescriptor b,
                                           bool adds = true) {
  WGMMA(WgmmaType::bf16, B);
}
template <Major A = Major::K, Major B = Major::K, int SUMS>
__device__ __forceinline__ void wgmma_fp16(float (&d)[SUMS], MatrixDescriptor a, MatrixDescriptor b,
                                           bool adds = true) {
  WGMMA(WgmmaType::fp16, A, B);
}
template <Major B = Major::K, int SUMS>
__device__ __forceinline__ void wgmma_fp16(float (&d)[SUMS], const std::uint32_t (&a)[4], MatrixDescriptor b,
                                           bool adds = true) {
  WGMMA(WgmmaType::fp16, B);
}
// TF32: both operands K-major. Of a float 13 bits are ignored.
template <int SUMS>
__device__ __forceinline__ void wgmma_tf32(float (&d)[SUMS], MatrixDescriptor a, MatrixDescriptor b,
                                           bool adds = true) {
  WGMMA(WgmmaType::tf32, Major::K, Major::K);
}
template <int SUMS>
__device__ __forceinline__ void wgmma_tf32(float (&d)[SUMS], const std::uint32_t (&a)[4], MatrixDescriptor b,
                                           bool adds = true) {
  WGMMA(WgmmaType::tf32, Major::K);
}
#undef WGMMA

}  // namespace on_gpu

// Before the first wgmma, and whenever threads have touched its registers since: orders those accesses before
// the wgmma that follow. By all four warps.
__device__ __forceinline__ void wgmma_fence() {
#if HAVE_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Closes a group: the wgmma that this warp has begun since the last one.
__device__ __forceinline__ void wgmma_commit() {
#if HAVE_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// The compiler does not know that wgmma is asynchronous: what it does with these sums it does behind here.
template <int SUMS>
__device__ __forceinline__ void wgmma_hold(float (&d)[SUMS]) {
#pragma unroll
  for (int i = 0; i < SUMS; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int TILES, int SUMS>
__device__ __forceinline__ void wgmma_hold(float (&d)[TILES][SUMS]) {
#pragma unroll
  for (int i = 0; i < TILES; ++i) wgmma_hold(d[i]);
}

// Waits until all groups but the latest PENDING are done, after which their sums, to be named here if they
// are to be used then, are complete, and what they read may be overwritten: by whoever synchronises with any
// thread of the warpgroup from here on.
template <int PENDING, typename... Sums>
__device__ __forceinline__ void wgmma_wait(Sums&... sums) {
#if HAVE_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
  (wgmma_hold(sums), ...);
#endif
}

#else

#include "common/cpu_device/wgmma.hpp"

#endif
