#pragma once

// The CPU device's __shfl_sync and relatives: lanes of a warp exchange values. They do not order memory
// accesses, as CUDA does not promise that they do.

#include <bit>
#include <cstdint>
#include <type_traits>

namespace cpu_device {

// What a lane contributes and receives. 4-byte values are in the lower half.
struct Shuffle {
  enum class Kind : std::uint8_t { index, up, down, exclusive_or } kind;
  int by;  // the lane, or how far away it is
  int width;
  std::uint64_t value;
  std::uint64_t result = 0;
};

void shuffle(Shuffle& operand, unsigned mask, int line);

template <typename T>
inline __attribute__((always_inline)) T shuffled(Shuffle::Kind kind, unsigned mask, T value, int by,
                                                 int width, int line) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Shuffle operand{kind, by, width, std::bit_cast<Bits>(value)};
  shuffle(operand, mask, line);
  return std::bit_cast<T>(static_cast<Bits>(operand.result));
}

}  // namespace cpu_device

#define CPU_DEVICE_SHUFFLE(name, kind, Lane, by)                                                           \
  template <typename T>                                                                                    \
  inline __attribute__((always_inline)) T name(unsigned mask, T value, Lane by, int width = 32,            \
                                               int line = __builtin_LINE()) {                              \
    return cpu_device::shuffled(cpu_device::Shuffle::Kind::kind, mask, value, static_cast<int>(by), width, \
                                line);                                                                     \
  }

CPU_DEVICE_SHUFFLE(__shfl_sync, index, int, lane)
CPU_DEVICE_SHUFFLE(__shfl_up_sync, up, unsigned, delta)
CPU_DEVICE_SHUFFLE(__shfl_down_sync, down, unsigned, delta)
CPU_DEVICE_SHUFFLE(__shfl_xor_sync, exclusive_or, int, lane_mask)

#undef CPU_DEVICE_SHUFFLE
