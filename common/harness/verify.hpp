#pragma once

// What counts as a right answer. Plain inline functions: the CPU device and the GPU judge alike.

#include <cfloat>
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define HARNESS_BOTH __host__ __device__
#else
#define HARNESS_BOTH
#endif

namespace harness {

// The result of comparing a whole C.
struct Verdict {
  double max_error = 0;             // largest |c - reference|
  double max_error_over_bound = 0;  // infinite if an element is NaN and should not be
  std::int64_t wrong = 0;           // elements with an error above the bound
  std::int64_t first_wrong = -1;    // (matrix * M + row) * N + col
};

constexpr double unit_roundoff = 0x1p-24;  // of float

// The factor tol(K) of the bound |c - reference| <= tol * (|alpha| |A||B| + |beta C|).
//
// For data of any kind: K products and sums, alpha, beta and the last sum each round once, in any order of
// summation; the usual gamma_n = n u / (1 - n u), e.g. Higham, Accuracy and Stability of Numerical
// Algorithms, section 3.1. No correct kernel exceeds it, but at large K it forgives a forgotten tile.
inline double tolerance_any_data(int k) {
  const double n = k + 4.0;
  return n * unit_roundoff / (1 - n * unit_roundoff);
}

// For the harness's own random data: rounding errors are then independent, grow with the square root of K,
// and stay below lambda * sqrt(K) * u with a probability that leaves no room for luck at lambda = 4 (Higham
// and Mary, A new approach to probabilistic rounding error analysis, 2019). Never above the other.
inline double tolerance_random_data(int k) {
  const double statistical = (4 * std::sqrt(static_cast<double>(k)) + 4) * unit_roundoff;
  return std::fmin(statistical, tolerance_any_data(k));
}

// What the rounding errors of an element scale with, in double.
struct Magnitude {
  double sum;    // sum |a| |b|, before alpha
  double alpha;  // |alpha|
  double old;    // |beta * c0|
  HARNESS_BOTH double total() const { return alpha * sum + old; }
};

// error / bound of one element; above 1 is wrong, infinite if a NaN or an infinity is wrong.
// reference = alpha * sum a b + beta * c0, in double.
HARNESS_BOTH inline double error_over_bound(float c, double reference, const Magnitude& magnitude,
                                            double tolerance) {
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
