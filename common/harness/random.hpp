#pragma once

#include <cstdint>

#include "common/host_device.hpp"

namespace harness {

// Element `index` of the random matrix `seed`: uniform in [-1, 1), a multiple of 2^-23. A pure function of
// its arguments (the mixing steps of splitmix64, Steele, Lea and Flood 2014), so that host and GPU agree.
HOST_DEVICE float uniform(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(static_cast<std::int32_t>(x >> 40) - (1 << 23)) * 0x1p-23f;
}

// The same, and zeros for seed 0, truncated to that many bits of significand: exact in a type that has them,
// and still in [-1, 1).
HOST_DEVICE float uniform(std::uint64_t seed, std::uint64_t index, int significand_bits) {
  if (seed == 0) return 0.0f;
  const auto bits = __builtin_bit_cast(std::uint32_t, uniform(seed, index));
  return __builtin_bit_cast(float, bits & ~0u << (24 - significand_bits));
}

}  // namespace harness
