#pragma once

// The CPU device's mma.sync; common/cuda/mma.hpp says what the functions mean. The last lane of the warp to
// arrive assembles the matrices from all lanes' fragments and multiplies them. Sums are those of a tensor
// core (tensor_core.hpp), not of FP32 arithmetic.

#include <cstdint>

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

// One lane's operands: four registers of A, two of B and four of D.
void mma_tf32(float* d, const std::uint32_t* a, const std::uint32_t* b, bool unrounded, int line);
void mma_bf16(float* d, const std::uint32_t* a, const std::uint32_t* b, int line);

}  // namespace cpu_device

// Does what nvcc 13.0's machine code for cvt.rna.tf32.f32 does: a NaN or an infinity is truncated, not
// rounded.
__forceinline__ std::uint32_t to_tf32(float x) {
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  if ((bits & 0x7fffffff) < 0x7f800000) bits += 0x1000;
  return bits & 0xffffe000;
}

template <Unrounded UNROUNDED = Unrounded::fault>
__forceinline__ void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              int line = __builtin_LINE()) {
  cpu_device::mma_tf32(d, a, b, UNROUNDED == Unrounded::cut_off, line);
}

__forceinline__ void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              int line = __builtin_LINE()) {
  cpu_device::mma_bf16(d, a, b, line);
}
