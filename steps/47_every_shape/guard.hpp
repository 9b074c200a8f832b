#pragma once

// The guard's criteria: K is short, too few products matter, operands have lost bits, or, in `strict`, too
// many are zero.

#include "common/step.hpp"
#include "steps/47_every_shape/hi_lo.hpp"

// In an unnamed namespace, as the kernel is: a program holds all this for both devices.
namespace {

// With fewer terms, FP32 summation may round so seldom that hi and lo, which lose up to 2^-22 of an operand,
// are less accurate. A few large terms among many small ones are no such case: there, too, it rounds at every
// term.
constexpr int SHORTEST = 96;       // K
constexpr float LEAST_TERMS = 16;  // products that an element needs
static_assert(DENSE * DENSE / COUNTED_K >= LEAST_TERMS && SHORTEST >= COUNTED_K);
constexpr float LEAST_SHOWN = 16;  // its magnitude, scaled, for each lossy operand

// Products that are not zero of an element for whose sum FP32's bound, u |A||B| for each, is not below that
// of three products: 8u for what hi and lo lose and for lo * lo; in each k-tile of 64 terms four times 10u
// for cutting off; u for each k-tile and the small sums, 10/8192 u for each term of these; 2.1u for lossy
// operands (LEAST_SHOWN). Together less than 52u + K u / 59.
__host__ __device__ constexpr int least_proved(int K) { return 53 + K / 59; }

// The largest counts of lossy elements, zeros and sparse blocks, and the largest magnitude of an exponent,
// each in any of several lines. Added up for rows and columns: bounds for every element of C.
struct Most {
  unsigned lossy, zeros, sparse;
  int exponent;
};
__device__ __forceinline__ Most operator+(const Most& rows, const Most& cols) {
  return {rows.lossy + cols.lossy, rows.zeros + cols.zeros, rows.sparse + cols.sparse,
          rows.exponent + cols.exponent};
}
template <int LINES>
__device__ __forceinline__ Most most_of(const Line (&lines)[LINES]) {
  Most most{};
  for (int i = threadIdx.x % 32; i < LINES; i += 32) {
    const Line line = lines[i];
    most = {max(most.lossy, line.lossy), max(most.zeros, line.zeros), max(most.sparse, line.sparse),
            max(most.exponent, abs(line.exponent))};
  }
  return {__reduce_max_sync(~0u, most.lossy), __reduce_max_sync(~0u, most.zeros),
          __reduce_max_sync(~0u, most.sparse), __reduce_max_sync(~0u, most.exponent)};
}

}  // namespace
