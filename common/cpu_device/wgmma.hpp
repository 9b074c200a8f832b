#pragma once

// The CPU device's wgmma; common/cuda/wgmma.hpp says what the functions mean. All 128 threads of a warpgroup
// meet to begin one. It reads its operands at the latest moment that the rules allow, when the first warp
// waits for its group; a thread's sums hold a NaN until its own warp has waited.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/cpu_device/cuda_on_cpu.hpp"
#include "common/cpu_device/operand.hpp"
#include "common/cuda/matrix_descriptor.hpp"

namespace cpu_device {

struct MatrixDescriptor {
  const std::byte* begin;
  Swizzle swizzle;
  unsigned leading, stride;
};
__forceinline__ MatrixDescriptor operator+(MatrixDescriptor from, unsigned bytes) {
  return {from.begin + bytes, from.swizzle, from.leading, from.stride};
}

// What a thread brings.
struct Wgmma {
  const char* name;
  OperandType type;
  int count;  // of its sums: N / 2
  float* sums;
  bool adds;
  const std::uint32_t* registers;  // A, or nullptr: in shared memory
  MatrixDescriptor a, b;
  Major a_major, b_major;
};

void wgmma(const Wgmma& operands, int line);
void wgmma_fence(int line);
void wgmma_commit(int line);
void wgmma_wait(unsigned pending, int line);

}  // namespace cpu_device

using MatrixDescriptor = cpu_device::MatrixDescriptor;

__forceinline__ MatrixDescriptor matrix_descriptor(const void* shared, Swizzle swizzle, unsigned leading,
                                                   unsigned stride) {
  return {static_cast<const std::byte*>(shared), swizzle, leading, stride};
}

template <Major A = Major::K, Major B = Major::K, int SUMS>
__forceinline__ void wgmma_bf16(float (&d)[SUMS], MatrixDescriptor a, MatrixDescriptor b, bool adds = true,
                                int line = __builtin_LINE()) {
  cpu_device::wgmma({"wgmma_bf16", cpu_device::OperandType::bf16, SUMS, d, adds, nullptr, a, b, A, B}, line);
}
template <Major B = Major::K, int SUMS>
__forceinline__ void wgmma_bf16(float (&d)[SUMS], const std::uint32_t (&a)[4], MatrixDescriptor b,
                                bool adds = true, int line = __builtin_LINE()) {
  cpu_device::wgmma({"wgmma_bf16", cpu_device::OperandType::bf16, SUMS, d, adds, a, {}, b, Major::K, B},
                    line);
}
template <Major A = Major::K, Major B = Major::K, int SUMS>
__forceinline__ void wgmma_fp16(float (&d)[SUMS], MatrixDescriptor a, MatrixDescriptor b, bool adds = true,
                                int line = __builtin_LINE()) {
  cpu_device::wgmma({"wgmma_fp16", cpu_device::OperandType::fp16, SUMS, d, adds, nullptr, a, b, A, B}, line);
}
template <Major B = Major::K, int SUMS>
__forceinline__ void wgmma_fp16(float (&d)[SUMS], const std::uint32_t (&a)[4], MatrixDescriptor b,
                                bool adds = true, int line = __builtin_LINE()) {
  cpu_device::wgmma({"wgmma_fp16", cpu_device::OperandType::fp16, SUMS, d, adds, a, {}, b, Major::K, B},
                    line);
}
template <int SUMS>
__forceinline__ void wgmma_tf32(float (&d)[SUMS], MatrixDescriptor a, MatrixDescriptor b, bool adds = true,
                                int line = __builtin_LINE()) {
  cpu_device::wgmma(
      {"wgmma_tf32", cpu_device::OperandType::tf32, SUMS, d, adds, nullptr, a, b, Major::K, Major::K}, line);
}
template <int SUMS>
__forceinline__ void wgmma_tf32(float (&d)[SUMS], const std::uint32_t (&a)[4], MatrixDescriptor b,
                                bool adds = true, int line = __builtin_LINE()) {
  cpu_device::wgmma(
      {"wgmma_tf32", cpu_device::OperandType::tf32, SUMS, d, adds, a, {}, b, Major::K, Major::K}, line);
}

__forceinline__ void wgmma_fence(int line = __builtin_LINE()) { cpu_device::wgmma_fence(line); }
__forceinline__ void wgmma_commit(int line = __builtin_LINE()) { cpu_device::wgmma_commit(line); }
template <int PENDING>
__forceinline__ void wgmma_wait(int line = __builtin_LINE()) {
  cpu_device::wgmma_wait(PENDING, line);
}
template <int PENDING, typename Sums>
  requires std::is_array_v<Sums>
__forceinline__ void wgmma_wait(Sums&, int line = __builtin_LINE()) {
  cpu_device::wgmma_wait(PENDING, line);
}
template <int PENDING, typename Sums, typename MoreSums>
  requires(std::is_array_v<Sums> && std::is_array_v<MoreSums>)
__forceinline__ void wgmma_wait(Sums&, MoreSums&, int line = __builtin_LINE()) {
  cpu_device::wgmma_wait(PENDING, line);
}
