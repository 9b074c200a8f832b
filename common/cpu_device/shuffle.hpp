#pragma once

// The CPU device's __shfl_sync and __reduce_max_sync and their relatives: lanes of a warp exchange values, or
// each gets the result of all. They do not order memory accesses, as CUDA does not promise that they do.

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

// What a lane contributes to a sum or an extreme of all, and what comes out: the bits of an int or an
// unsigned.
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
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
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

#define CPU_DEVICE_REDUCE(name, kind)                                                                 \
  template <typename T>                                                                               \
  inline __attribute__((always_inline)) T name(unsigned mask, T value, int line = __builtin_LINE()) { \
    return cpu_device::reduced(cpu_device::Reduction::Kind::kind, mask, value, line);                 \
  }

CPU_DEVICE_REDUCE(__reduce_add_sync, add)
CPU_DEVICE_REDUCE(__reduce_min_sync, min)
CPU_DEVICE_REDUCE(__reduce_max_sync, max)

#undef CPU_DEVICE_REDUCE
