#pragma once

// What counts as a right answer. Plain inline functions: the CPU device and the GPU judge alike.

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "common/harness/input.hpp"
#include "common/host_device.hpp"

namespace harness {

// The result of comparing a whole C.
struct Verdict {
  double max_error = 0;             // largest |c - reference|
  double max_error_over_bound = 0;  // infinite if an element is NaN and should not be
  std::int64_t wrong = 0;           // elements with an error above the bound
  std::int64_t first_wrong = -1;    // (matrix * M + row) * N + col
};

// The factor tol(K) of the bound |c - reference| <= tol * (|alpha| |A||B| + |beta C|). The reference is
// computed of the inputs as they are in memory, so it is the accumulation alone that errs, with a relative
// error of at most u in each operation.
//
// For data of any kind: K products and sums, alpha, beta and the last sum each round once, in any order of
// summation; the usual gamma_n = n u / (1 - n u), e.g. Higham, Accuracy and Stability of Numerical
// Algorithms, section 3.1. No correct kernel exceeds it, but at large K it forgives a forgotten tile.
// A term goes through its product, up to K - 1 sums, and those three; through one operation less where
// products are exact, as those of two BF16 numbers are in float: 8 + 8 bits of significand make 16.
inline double tolerance_any_data(int k, const Accumulation& accumulation) {
  const double n = k + (accumulation.exact_products ? 3.0 : 4.0);
  return n * accumulation.unit_roundoff / (1 - n * accumulation.unit_roundoff);
}

// For the harness's own random data: rounding errors are then independent, grow with the square root of K,
// and stay below lambda * sqrt(K) * u with a probability that leaves no room for luck at lambda = 4 (Higham
// and Mary, A new approach to probabilistic rounding error analysis, 2019). Never above the other.
// Errors that all go towards zero, as where sums are cut off, are not independent; but a sum of k random
// terms is about sqrt(k) / 3 and errs by at most u times that, so K of them, each on average half as much,
// err by u * K^1.5 / 9. The bound is 4 sqrt(K) u times the sum of |a||b|, about K / 4: nine times as much.
inline double tolerance_random_data(int k, const Accumulation& accumulation) {
  const double statistical = (4 * std::sqrt(static_cast<double>(k)) + 4) * accumulation.unit_roundoff;
  return std::fmin(statistical, tolerance_any_data(k, accumulation));
}

// What the rounding errors of an element scale with, in double.
struct Magnitude {
  double sum;    // sum |a| |b|, before alpha
  double alpha;  // |alpha|
  double old;    // |beta * c0|
  HOST_DEVICE double total() const { return alpha * sum + old; }
};

// error / bound of one element; above 1 is wrong, infinite if a NaN or an infinity is wrong.
// reference = alpha * sum a b + beta * c0, in double.
HOST_DEVICE double error_over_bound(float c, double reference, const Magnitude& magnitude, double tolerance) {
  if (std::isnan(reference)) return std::isnan(c) ? 0 : INFINITY;
  if (std::isinf(reference)) return c == reference ? 0 : INFINITY;
  // May overflow on the way, whatever the order: not judged.
  if (magnitude.sum > FLT_MAX || magnitude.total() > FLT_MAX) return 0;
  if (std::isnan(c) || std::isinf(c)) return INFINITY;
  // Below the smallest normal number the error is absolute: that of the sum, which alpha scales, and that of
  // the result.
  const double bound = tolerance * magnitude.total() + (magnitude.alpha + 1) * FLT_MIN;
  const double error = c - reference;
  return (error < 0 ? -error : error) / bound;
}

}  // namespace harness
