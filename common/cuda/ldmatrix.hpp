#pragma once

// Loads fragments of 8x8 matrices of 16-bit elements from shared memory, by all 32 lanes of a warp at once
// (ldmatrix, compute capability 7.5 and newer). A matrix lies in eight rows of 16 bytes each, anywhere at
// multiples of 16 bytes; the lanes say where. PTX ISA, "Warp Level Matrix Instructions: ldmatrix".
//
// COUNT matrices (1, 2 or 4), one to a register: `row`, of lane i, is the address of row i % 8 of matrix
// number i / 8. Lanes 8 * COUNT and up give addresses, too, which are ignored. After it a lane holds of
// matrix m, with g = lane / 4 and t = lane % 4:
//   ldmatrix         r[m] = elements [g][2t] (lower half) and [g][2t+1]
//   ldmatrix_trans   r[m] = elements [2t][g] (lower half) and [2t+1][g]
// Of 32-bit elements, such as TF32, a row has four: r[m] is element [g][t], as mma_tf32() wants a[m]; .trans
// would tear them apart.

#include <cstdint>

#ifdef __CUDACC__

// An older GPU than 8.0 is not supported here either: see async_copy.hpp.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define HAVE_LDMATRIX 0
#else
#define HAVE_LDMATRIX 1
#endif

template <int COUNT>
__device__ __forceinline__ void ldmatrix(std::uint32_t (&r)[COUNT], const void* row) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4);
#if HAVE_LDMATRIX
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (COUNT == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (COUNT == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
#else
  __trap();
#endif
}

template <int COUNT>
__device__ __forceinline__ void ldmatrix_trans(std::uint32_t (&r)[COUNT], const void* row) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4);
#if HAVE_LDMATRIX
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (COUNT == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (COUNT == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
#else
  __trap();
#endif
}

#else

#include "common/cpu_device/ldmatrix.hpp"

#endif
