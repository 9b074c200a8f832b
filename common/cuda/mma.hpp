#pragma once

// Products of small matrices by the tensor cores, by all 32 lanes of a warp at once (mma.sync, compute
// capability 8.0 and newer): D = A * B + D, the accumulator in float. Each lane holds a part of each matrix
// in its registers, a fragment; below, g = lane / 4 and t = lane % 4, and common/cuda/fragments.hpp has the
// same as functions. PTX ISA, "Warp Level Matrix Instructions: mma".
//
// The sums are not those of FP32 arithmetic: experiments/tensor_core_arithmetic says what was measured.

#include <cstdint>

#include "common/bf16.hpp"

// Whether the operands of mma_tf32() may have more bits than TF32 has. The tensor core ignores
// those: it cuts them off, an error of up to 2^-10 of the element, always towards zero, where rounding leaves
// up to 2^-11 in either direction. That is seldom intended, so the CPU device reports a fault unless the
// kernel says that it is.
enum class Unrounded { fault, cut_off };

// Two neighbours of a BF16 fragment in one register, `low` the one with the even number.
HOST_DEVICE std::uint32_t pack_bf16(bf16 low, bf16 high) {
  return std::uint32_t{low.bits} | std::uint32_t{high.bits} << 16;
}

#ifdef __CUDACC__

// As with cp.async (async_copy.hpp): what is compiled for older GPUs, too, does not use it there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define HAVE_MMA 0
#else
#define HAVE_MMA 1
#endif

// The TF32 number nearest to x, ties away from zero, as the bits of a float whose lower 13 bits are zero. Too
// large becomes infinite. PTX ISA, "cvt" (.rna.tf32.f32).
__device__ __forceinline__ std::uint32_t to_tf32(float x) {
#if HAVE_MMA
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#else
  __trap();
  return 0;
#endif
}

// D[16][8] += A[16][8] * B[8][8] in TF32 (mma.sync.m16n8k8, A row-major and B column-major by its name, which
// says nothing about memory). Operands are bits as to_tf32() gives them.
//   a[0], a[1], a[2], a[3]   A[g][t], A[g+8][t], A[g][t+4], A[g+8][t+4]
//   b[0], b[1]               B[t][g], B[t+4][g]
//   d[0], d[1], d[2], d[3]   D[g][2t], D[g][2t+1], D[g+8][2t], D[g+8][2t+1]
template <Unrounded UNROUNDED = Unrounded::fault>
__device__ __forceinline__ void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
#if HAVE_MMA
  // Volatile keeps it out of branches that not all lanes take.
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}

// D[16][8] += A[16][16] * B[16][8] in BF16 (mma.sync.m16n8k16). Each register holds two neighbours, of A in a
// row and of B in a column, the first in its lower half; a register is named here by the first.
//   a[0], a[1], a[2], a[3]   A[g][2t], A[g+8][2t], A[g][2t+8], A[g+8][2t+8]
//   b[0], b[1]               B[2t][g], B[2t+8][g]
//   d[0], d[1], d[2], d[3]   D[g][2t], D[g][2t+1], D[g+8][2t], D[g+8][2t+1]
__device__ __forceinline__ void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
#if HAVE_MMA
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}

#else

#include "common/cpu_device/mma.hpp"

#endif
