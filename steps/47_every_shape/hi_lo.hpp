#pragma once

// x * 2^s = hi + lo / 2^11 for each element x of A and B, hi and lo FP16 numbers. A line is a row of A or a
// column of B. s is one for a line, whose largest element it brings into [2^14, 2^15). An element keeps 22
// bits if it is at least 2^-27 times that one; smaller ones, if not zero, are counted as lossy. For each
// block of 64 terms of a line, the elements that matter beside the line's largest are counted, too.
//
// In a line with an infinity or a NaN, these stay as they are in hi, and everything else is its sign or zero:
// the tensor cores' sums of hi * hi are infinite, or NaN, just where FP32 sums are. That takes that no other
// line's hi is zero unless the element is. lo is zero there, and its products are NaNs to be left out.

#include "common/fp16.hpp"
#include "common/step.hpp"

// In an unnamed namespace, as the kernel is: a program holds all this for both devices.
namespace {

constexpr int PARTS = 2;                // hi and lo
constexpr float LO_SCALE = 0x1p11f;     // lo has an exponent range of its own
constexpr int LARGEST = 14;             // exponent of a line's largest element, scaled
constexpr float LEAST_KEPT = 0x1p-13f;  // smaller ones are lossy: hi, or lo with it, may be subnormal
constexpr int COUNTED_K = 64;           // terms whose count is one number
constexpr float COUNTED = 0x1p2f;       // the least magnitude that counts: 2^-12 times the largest, roughly
// A block is sparse if fewer than DENSE of its elements count. If no row and no column has one, each element
// may expect DENSE * DENSE / COUNTED_K products or more that count.
constexpr unsigned DENSE = 32;
constexpr float COUNT_SCALE = 1.0f / 8;  // two counts, scaled, multiply to the count to expect of products
constexpr unsigned SPECIAL = 1u << 30;   // lossy elements, so to speak, of a line with an infinity or a NaN
constexpr float LEAST_FP16 = 0x1p-24f;   // above zero

// What the epilogue needs to know of a line.
struct alignas(16) Line {
  int exponent;  // -s
  unsigned lossy;
  unsigned zeros;   // elements; none if all are, as every sum is then exact
  unsigned sparse;  // blocks of COUNTED_K terms of which few count, but for an incomplete last one
};

namespace splitting {

constexpr int TK = 8;  // neighbouring terms that are split together

// Bits of magnitudes are ordered; those of an infinity and of NaNs come last.
__device__ __forceinline__ bool is_special(unsigned bits) { return bits >= 0x7f800000; }

// s for a line whose largest magnitude has these bits.
__device__ __forceinline__ int scale_for(unsigned bits) {
  const float largest = __uint_as_float(bits);
  if (largest == 0.0f) return 0;
  const bool subnormal = largest < 0x1p-126f;
  const unsigned normal = subnormal ? __float_as_uint(largest * 0x1p24f) : bits;
  return LARGEST - (static_cast<int>(normal >> 23) - 127 - (subnormal ? 24 : 0));
}

// 2^exponent, which is a normal number.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<unsigned>(exponent + 127) << 23);
}

// What hi is in a line with an infinity or a NaN.
__device__ __forceinline__ float stand_in(float x) {
  const bool finite = fabsf(x) < __uint_as_float(0x7f800000);
  return x == 0.0f || !finite ? x : copysignf(1.0f, x);
}

// How many of these FP16 numbers, in pairs, are COUNTED or more in magnitude. The upper byte, without its
// sign, decides: COUNTED's is 0x44, and its lower one is 0.
__device__ __forceinline__ unsigned count_of(const unsigned (&pairs)[TK / 2]) {
  static_assert(COUNTED == 4.0f && TK == 8);
  const auto upper_bytes = [](unsigned a, unsigned b) { return (a >> 8 & 0x007f007f) | (b & 0x7f007f00); };
  constexpr unsigned TO_80 = 0x80808080 - 0x44444444;  // enough to set a byte's uppermost bit
  const unsigned first = upper_bytes(pairs[0], pairs[1]) + TO_80,
                 second = upper_bytes(pairs[2], pairs[3]) + TO_80;
  return __popc((first & 0x80808080) | (second >> 1 & 0x40404040));
}

struct Terms {
  unsigned hi[TK / 2], lo[TK / 2];  // pairs of FP16 numbers
  unsigned lossy, zeros;            // how many are
};
// Splits terms of a line whose largest magnitude has these bits. Only the first `left` exist, which may be
// negative or more than TK; the others are zeros.
__device__ __forceinline__ Terms split_terms(const float (&own)[TK], unsigned largest, int left) {
  const bool special = is_special(largest);
  const int s = special ? 0 : scale_for(largest);
  // 2^s may be too large for a float, if the line lies below 2^-112: two steps.
  const float factor = special ? 0.0f : power_of_two(min(s, 126)), rest = power_of_two(max(s - 126, 0));
  float scaled[TK], smallest = LEAST_KEPT;
#pragma unroll
  for (int e = 0; e < TK; ++e) {
    scaled[e] = own[e] * factor;
    smallest = fminf(smallest, fabsf(scaled[e]));
  }
  Terms terms{};
#pragma unroll
  for (int e = 0; e < TK; e += 2) terms.hi[e / 2] = pack_fp16(scaled[e], scaled[e + 1]);
  // Where all is well, one test suffices.
  if (left > 0 && (special || s > 126 || smallest < LEAST_KEPT)) {
    float taken[TK];  // what hi takes of them
#pragma unroll
    for (int e = 0; e < TK; ++e) {
      scaled[e] = special ? stand_in(own[e]) : own[e] * factor * rest;
      // Not zero unless the element is.
      const float magnitude = fabsf(scaled[e]);
      taken[e] = magnitude < LEAST_FP16 && own[e] != 0.0f ? copysignf(LEAST_FP16, own[e]) : scaled[e];
      terms.lossy += magnitude < LEAST_KEPT && own[e] != 0.0f;
      terms.zeros += own[e] == 0.0f && e < left;
    }
#pragma unroll
    for (int e = 0; e < TK; e += 2) terms.hi[e / 2] = pack_fp16(taken[e], taken[e + 1]);
  }
#pragma unroll
  for (int e = 0; e < TK; e += 2) {
    const float rest0 = scaled[e] - first_fp16(terms.hi[e / 2]),
                rest1 = scaled[e + 1] - second_fp16(terms.hi[e / 2]);
    terms.lo[e / 2] = special ? 0 : pack_fp16(rest0 * LO_SCALE, rest1 * LO_SCALE);
  }
  return terms;
}

}  // namespace splitting

}  // namespace
