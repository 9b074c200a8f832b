#pragma once

#include <cstdint>

#include "common/host_device.hpp"

// IEEE half precision: a sign, 5 bits of exponent, 10 of the significand; from 2^-14 to 65504, below that
// multiples of 2^-24. A type of the project's own, as cuda_fp16.h is none for the CPU device; in memory the
// two are the same.
struct fp16 {
  std::uint16_t bits;

  fp16() = default;
  // Rounds to nearest, ties to even; 65520 and more becomes infinite, a NaN 0x7fff, as on a GPU.
  HOST_DEVICE explicit fp16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const std::uint32_t whole = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = whole >> 16 & 0x8000, magnitude = whole & 0x7fffffff;
    std::uint32_t rounded;
    if (magnitude > 0x7f800000) {
      bits = 0x7fff;
      return;
    } else if (magnitude >= 0x38800000) {  // 2^-14: the exponent's bias is 15, not 127, and 13 bits go
      rounded = (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
      if (rounded > 0x7c00) rounded = 0x7c00;
    } else {  // from 1/2 to 1 a float is a multiple of 2^-24
      const float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
      rounded = __builtin_bit_cast(std::uint32_t, sum) - 0x3f000000;
    }
    bits = static_cast<std::uint16_t>(sign | rounded);
#endif
  }
  // Exact.
  HOST_DEVICE operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ffu;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t biased = exponent == 31 ? 255 : exponent + 112;
    return __builtin_bit_cast(float, sign | biased << 23 | fraction << 13);
#endif
  }
};
static_assert(sizeof(fp16) == 2);

// Two neighbours, rounded, in one register, `low` the first in memory. On a GPU one instruction.
HOST_DEVICE std::uint32_t pack_fp16(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return std::uint32_t{fp16(low).bits} | std::uint32_t{fp16(high).bits} << 16;
#endif
}

// Its first and its second number.
HOST_DEVICE float first_fp16(std::uint32_t pair) {
  fp16 number;
  number.bits = static_cast<std::uint16_t>(pair);
  return number;
}
HOST_DEVICE float second_fp16(std::uint32_t pair) { return first_fp16(pair >> 16); }
