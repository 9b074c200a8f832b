#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define HARNESS_BOTH_RANDOM __host__ __device__
#else
#define HARNESS_BOTH_RANDOM
#endif

namespace harness {

// Element number `index` of the random matrix `seed`: uniform in [-1, 1), a multiple of 2^-23. A function of
// its arguments (splitmix64's mixing steps, Steele, Lea and Flood 2014), so that host and GPU agree.
HARNESS_BOTH_RANDOM inline float uniform(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(static_cast<std::int32_t>(x >> 40) - (1 << 23)) * 0x1p-23f;
}

}  // namespace harness
