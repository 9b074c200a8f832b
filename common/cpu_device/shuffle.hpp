#pragma once

// The CPU device's __shfl_*_sync and __reduce_*_sync (compute capability 8.0 and newer): lanes of a warp
// exchange values, or combine them and all get the result. Neither orders memory accesses: CUDA does not
// promise it.

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

// A lane's operand of a sum, a minimum or a maximum, and then the result: the bits of an int or an unsigned.
struct Reduction {
  enum class Kind : std::uint8_t { add, min, max } kind;
  bool is_signed;
  std::uint32_t value;
};

void reduce(Reduction& operand, unsigned mask, int line);

template <typename T>
inline __attribute__((always_inline)) T shuffled(Shuffle::Kind kind, unsigned mask, T value, int by,
                                                 int width, int line) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Shuffle operand{kind, by, width, std::bit_cast<Bits>(value)};
  shuffle(operand, mask, line);
  return std::bit_cast<T>(static_cast<Bits>(operand.result));
}

template <typename T>
inline __attribute__((always_inline)) T reduced(Reduction::Kind kind, unsigned mask, T value, int line) {
  Reduction operand{kind, std::is_signed_v<T>, static_cast<std::uint32_t>(value)};
  reduce(operand, mask, line);
  return static_cast<T>(operand.value);
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

#define CPU_DEVICE_REDUCE(name, kind, T)                                                              \
  inline __attribute__((always_inline)) T name(unsigned mask, T value, int line = __builtin_LINE()) { \
    return cpu_device::reduced(cpu_device::Reduction::Kind::kind, mask, value, line);                 \
  }

CPU_DEVICE_REDUCE(__reduce_add_sync, add, int)
CPU_DEVICE_REDUCE(__reduce_add_sync, add, unsigned)
CPU_DEVICE_REDUCE(__reduce_min_sync, min, int)
CPU_DEVICE_REDUCE(__reduce_min_sync, min, unsigned)
CPU_DEVICE_REDUCE(__reduce_max_sync, max, int)
CPU_DEVICE_REDUCE(__reduce_max_sync, max, unsigned)

#undef CPU_DEVICE_REDUCE
