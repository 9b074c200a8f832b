#pragma once

#include <cstdint>

#include "common/host_device.hpp"

// bfloat16: the upper half of a float, which is its sign, its 8 bits of exponent and 7 of its significand. A
// type of the project's own, as cuda_bf16.h is none for the CPU device; in memory the two are the same.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  // Rounds to nearest, ties to even; too large becomes infinite, a NaN stays a NaN.
  HOST_DEVICE explicit bf16(float value) {
    const std::uint32_t whole = __builtin_bit_cast(std::uint32_t, value);
    if ((whole & 0x7fffffff) > 0x7f800000) {
      bits =
          static_cast<std::uint16_t>(whole >> 16 | 0x40);  // quiet: the upper half alone could be an infinity
    } else {
      bits = static_cast<std::uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16);
    }
  }
  // Exact.
  HOST_DEVICE operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(bf16) == 2);
