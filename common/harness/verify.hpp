#pragma once

// What counts as a right answer. Plain inline functions, so that the CPU device and the GPU judge alike.

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "common/gemm.hpp"
#include "common/harness/precision.hpp"
#include "common/host_device.hpp"

namespace harness {

// The result of comparing a whole C.
struct Verdict {
  double max_error = 0;             // largest |c - reference|
  double max_relative_error = 0;    // largest |c - reference| / (|alpha| |A||B| + |beta C|)
  double max_error_over_bound = 0;  // infinite if an element is NaN and should not be
  std::int64_t wrong = 0;           // elements with an error above the bound
  std::int64_t first_wrong = -1;    // (matrix * M + row) * N + col
  // Sums over the elements, p being an element of alpha * A * B: of (c - reference) p, and of p^2.
  double error_along_product = 0, product_squared = 0;

  // The fraction by which the product is too large overall; negative: too small.
  double bias() const { return product_squared > 0 ? error_along_product / product_squared : 0; }
};

// The factor tol(K) of the bound |c - reference| <= tol * (|alpha| |A||B| + |beta C|). The reference is
// computed from the inputs as they are in memory. So there are two sources of error: rounding A and B, with a
// relative error of at most e in each element (TF32: 2^-11; 0 if the kernel uses the inputs as they are), and
// accumulation, with at most u in each operation.
//
// For any data: K products and sums, alpha, beta and the last sum each round once, in any order of summation;
// the usual gamma_n = n u / (1 - n u), e.g. Higham, Accuracy and Stability of Numerical Algorithms, section
// 3.1. No correct kernel exceeds it, but at large K it forgives a forgotten tile. A term passes through its
// product, up to K - 1 sums, and those three; one operation fewer if products are exact. A tensor core makes
// a little more than one error per term; see precision.hpp. Rounding A and B turns a product ab into at most
// ab (1 + e)^2: an error of 2 e + e^2 of |a||b|, in addition to that of the accumulation. This holds for
// elements that are normal in the narrower type: TF32 has the range of float, but an element below 2^-126 is
// rounded to a multiple of 2^-136, and one above 2^128 - 2^116 may become infinite.
inline double tolerance_any_data(int k, const Arithmetic& arithmetic) {
  const double n = arithmetic.losses_per_term * k + (arithmetic.exact_products ? 3.0 : 4.0);
  const double nu = n * arithmetic.unit_roundoff;
  if (nu >= 1) return INFINITY;
  const double accumulation = nu / (1 - nu);
  const double operands = (2 + arithmetic.operand_error) * arithmetic.operand_error;
  return operands + accumulation + operands * accumulation;
}

// For the harness's own random data: rounding errors are then independent, grow with the square root of K,
// and stay below lambda * sqrt(K) * u; at lambda = 4 the probability of exceeding this is negligible (Higham
// and Mary, A new approach to probabilistic rounding error analysis, 2019). Never above the other bound.
// Errors that all go towards zero, as when sums are truncated, are not independent; but a sum of k random
// terms is about sqrt(k) / 3 and errs by at most u times that, so K of them, each erring by half as much on
// average, err by u * K^1.5 / 9. The bound is 4 sqrt(K) u times the sum of |a||b|, about K / 4: nine times as
// much.
//
// Rounding A and B to nearest adds an error of up to 2 e |a||b| per term, independently and as often up as
// down. It is uniform within half a unit in the last place around zero: the error of a term has a variance of
// at most (2 e)^2 (ab)^2 / 6, and that of a sum of K terms, with the harness's mean (ab)^2 = 1 / 9, a
// standard deviation of at most 2 e sqrt(K) / 7.3. The bound allows 4 * 2 e / sqrt(K) times the sum of
// |a||b|, about K / 4, which is 2 e sqrt(K), seven times as much; sums of uniform variables have no heavier
// tails than a normal distribution. If K is below 16, the bound for any data is the sharper one. If operands
// are truncated (e is twice as large then), c also shrinks by up to 0.65 e; for the largest of 10^9 elements,
// 6.2 sqrt(K) / 3, that is 1.4 e sqrt(K) of the 2 e sqrt(K).
inline double tolerance_random_data(int k, const Arithmetic& arithmetic) {
  const double any_data = tolerance_any_data(k, arithmetic);
  const double root = std::sqrt(static_cast<double>(k));
  const double accumulation = (4 * root + 4) * arithmetic.unit_roundoff;
  const double operands = 4 * 2 * arithmetic.operand_error / root;  // 0 / 0 at K = 0, which fmin ignores
  return std::fmin(accumulation + operands, any_data);
}

// A step that truncates its operands where it should round them errs only a little more in any one element,
// but in the same direction in all of them: each term shrinks. This shows in the bias, the slope of the error
// over the product.
//
// With a uniform in [-1, 1), and e half a unit in the last place of numbers at 1, truncation takes half a
// unit in its own last place from an element a on average. The mean of |a| times that loss is the sum over
// the binades [2^-j-1, 2^-j) of 2^-j-1 * 0.75 * 2^-j * e * 2^-j-1 = 3/14 e; divided by the mean a^2 = 1/3, it
// is the fraction by which truncating A or B makes a product smaller; truncating both, twice as much.
inline double bias_of_cutting_one_operand_off(const Arithmetic& arithmetic) {
  return 9.0 / 14 * arithmetic.operand_error;
}

// The largest |bias| of a kernel that rounds A and B to nearest, for the harness's own random data; infinite
// if a bias tells nothing: operands are not rounded, or there are so few elements or so many terms that
// truncated operands would not stand out.
//
// The sum of (c - reference) p is a sum of independent rounding errors, each with a factor: for an element of
// A, a row of p times the row of B that the element is multiplied with. A rounding error has a variance of
// e^2 / 21, a 12th of the square of the unit in the last place: the sum over the binades of 2^-j-1 (2 e
// 2^-j-1)^2 / 12. The squares of p B^T sum up to M N K (N + K) / 27, those of A^T p to M N K (M + K) / 27,
// and those of p to M N K / 9. Hence the standard deviation of the bias, of which eight are allowed. Added to
// these is what the accumulator truncates: for each term half a unit, u / 2, of a sum that (in its square) is
// on average half as large as at the end. If beta is large, the rounding of beta * C adds to the deviation,
// with at most one unit in the last place of beta in each element; and if alpha is so small that products
// come near the smallest normal number, what is lost there is not rounding.
inline double bias_limit(const GemmOf<void>& g, const Arithmetic& arithmetic) {
  const double m = g.M, n = g.N, k = g.K;
  // One A or B for a whole batch errs alike in all its products.
  const bool shared = g.strideA == 0 || g.strideB == 0;
  const double products = m * n * k * (shared ? std::fmin(g.batch, 1) : g.batch);
  if (!arithmetic.rounds_operands || products == 0 || std::fabs(g.alpha) < 0x1p-100) return INFINITY;
  const double operands = arithmetic.operand_error * std::sqrt((m + n + 2 * k) / (7 * products));
  const double old_c = 0x1p-23 * std::fabs(g.beta) / std::fabs(g.alpha) / std::sqrt(products / 9);
  const double deviation = std::hypot(operands, old_c);
  const double accumulator = k * arithmetic.unit_roundoff / 4;
  const double limit = 8 * deviation + accumulator;
  const double cut_off = 2 * bias_of_cutting_one_operand_off(arithmetic);
  return limit + 8 * deviation <= cut_off ? limit : INFINITY;
}

// What the rounding errors of an element are proportional to, in double.
struct Magnitude {
  double sum;    // sum |a| |b|, before alpha
  double alpha;  // |alpha|
  double old;    // |beta * c0|
  HOST_DEVICE double total() const { return alpha * sum + old; }
};

// error / bound of one element: above 1 is wrong, infinite if a NaN or an infinity is wrong. reference =
// alpha * sum a b + beta * c0, in double.
HOST_DEVICE double error_over_bound(float c, double reference, const Magnitude& magnitude, double tolerance) {
  if (std::isnan(reference)) return std::isnan(c) ? 0 : INFINITY;
  if (std::isinf(reference)) return c == reference ? 0 : INFINITY;
  // May overflow on the way, in any order of summation: not judged.
  if (magnitude.sum > FLT_MAX || magnitude.total() > FLT_MAX) return 0;
  if (std::isnan(c) || std::isinf(c)) return INFINITY;
  // Below the smallest normal number errors are absolute: that of the sum, scaled by alpha, and that of the
  // result.
  const double bound = tolerance * magnitude.total() + (magnitude.alpha + 1) * FLT_MIN;
  const double error = c - reference;
  return (error < 0 ? -error : error) / bound;
}

}  // namespace harness
