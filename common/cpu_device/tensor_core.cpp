#include "common/cpu_device/tensor_core.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace cpu_device {

namespace {

using Rounding = TensorCoreArithmetic::Rounding;

// significand * 2^(exponent - fraction), where the exponent is what alignment compares.
struct Term {
  std::int64_t significand = 0;  // with its sign
  int exponent = 0;
  int fraction = 0;
};

constexpr int no_exponent = std::numeric_limits<int>::min() / 2;

bool is_nan(std::uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
bool is_infinite(std::uint32_t bits) { return (bits & 0x7fffffff) == 0x7f800000; }
bool is_zero(std::uint32_t bits) { return (bits & 0x7fffffff) == 0; }

// Of a finite float.
int exponent_of(std::uint32_t bits) { return std::max<int>(bits >> 23 & 255, 1) - 127; }
std::int64_t significand_of(std::uint32_t bits) {
  const std::int64_t magnitude = (bits & 0x7fffff) | ((bits >> 23 & 255) != 0 ? 0x800000 : 0);
  return bits >> 31 != 0 ? -magnitude : magnitude;
}

// value * 2^shift, rounded to an integer.
std::int64_t scaled(std::int64_t value, int shift, Rounding rounding) {
  if (shift >= 0) return value << shift;
  const int by = -shift;
  const std::int64_t magnitude = value < 0 ? -value : value;
  if (by > 62) return rounding == Rounding::down && value < 0 ? -1 : 0;
  const std::int64_t whole = magnitude >> by, rest = magnitude & ((std::int64_t{1} << by) - 1);
  std::int64_t result = whole;
  if (rounding == Rounding::down) {
    result += value < 0 && rest != 0;
  } else if (rounding == Rounding::to_nearest) {
    const std::int64_t half = std::int64_t{1} << (by - 1);
    result += rest > half || (rest == half && (whole & 1) != 0);
  }
  return value < 0 ? -result : result;
}

// sum * 2^exponent as a float.
float to_float(std::int64_t sum, int exponent, Rounding rounding) {
  if (sum == 0) return 0.0f;
  const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int leading = 63 - std::countl_zero(magnitude);
  const int last = std::max(exponent + leading - 23, -149);  // the float's last bit has this exponent
  const std::int64_t significand = scaled(sum, exponent - last, rounding);
  return static_cast<float>(std::ldexp(static_cast<double>(significand), last));  // exact, or infinite
}

float step(const TensorCoreArithmetic& model, std::span<const std::uint32_t> a,
           std::span<const std::uint32_t> b, float c, bool with_c) {
  const std::uint32_t c_bits = std::bit_cast<std::uint32_t>(c);
  std::int64_t sum = 0;
  int largest = no_exponent;
  const auto product = [&](std::size_t k) {
    const std::int64_t significand = (significand_of(a[k]) >> 13) * (significand_of(b[k]) >> 13);
    Term term{significand, exponent_of(a[k]) + exponent_of(b[k]), 20};
    if (significand == 0 && !model.zeros_have_exponents) term.exponent = no_exponent;
    if (model.normalised_products && significand != 0) {
      const auto magnitude = static_cast<std::uint64_t>(significand < 0 ? -significand : significand);
      const int more = 63 - std::countl_zero(magnitude) - term.fraction;
      term.exponent += more;
      term.fraction += more;
    }
    return term;
  };
  Term addend{significand_of(c_bits), exponent_of(c_bits), 23};
  if (is_zero(c_bits) && !model.zeros_have_exponents) addend.exponent = no_exponent;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, product(k).exponent);
  if (with_c) largest = std::max(largest, addend.exponent);
  const auto aligned = [&](const Term& term) {
    if (term.significand == 0) return std::int64_t{0};
    return scaled(term.significand, term.exponent - largest + model.fraction_bits - term.fraction,
                  model.terms);
  };
  for (std::size_t k = 0; k < a.size(); ++k) sum += aligned(product(k));
  if (with_c) sum += aligned(addend);
  return to_float(sum, largest - model.fraction_bits, model.result);
}

// The sum of two floats, each wholly kept: rounded once.
float add(float x, float y, Rounding rounding) {
  if (rounding == Rounding::to_nearest) return x + y;
  const double sum = static_cast<double>(x) + static_cast<double>(y);  // nearest; so is its rest, exactly
  const double bigger = std::max(std::fabs(x), std::fabs(y)) == std::fabs(x) ? x : y;
  const double rest = (bigger == x ? y : x) - (sum - bigger);
  float result = static_cast<float>(sum);
  const double error = (sum - static_cast<double>(result)) + rest;  // its sign is right
  const bool too_far = rounding == Rounding::down ? error < 0 : result > 0 ? error < 0 : error > 0;
  if (too_far) {
    result = std::nextafter(result, rounding == Rounding::down || result > 0
                                        ? -std::numeric_limits<float>::infinity()
                                        : std::numeric_limits<float>::infinity());
  }
  return result;
}

// Of what has a NaN or an infinity among its operands; false: it has none.
bool special(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b, std::uint32_t c,
             float& result) {
  bool nan = is_nan(c), positive = false, negative = false;
  const auto infinite = [&](bool sign) { (sign ? negative : positive) = true; };
  if (is_infinite(c)) infinite(c >> 31 != 0);
  for (std::size_t k = 0; k < a.size(); ++k) {
    nan = nan || is_nan(a[k]) || is_nan(b[k]) || (is_infinite(a[k]) && is_zero(b[k])) ||
          (is_zero(a[k]) && is_infinite(b[k]));
    if (is_infinite(a[k]) || is_infinite(b[k])) infinite((a[k] ^ b[k]) >> 31 != 0);
  }
  if (!nan && !positive && !negative) return false;
  const float infinity = std::numeric_limits<float>::infinity();
  result = nan || (positive && negative) ? std::bit_cast<float>(canonical_nan)
           : positive                    ? infinity
                                         : -infinity;
  return true;
}

}  // namespace

float multiply_add(const TensorCoreArithmetic& model, std::span<const std::uint32_t> a,
                   std::span<const std::uint32_t> b, float c) {
  float d = c;
  if (special(a, b, std::bit_cast<std::uint32_t>(c), d)) return d;
  const auto products = static_cast<std::size_t>(model.products);
  for (std::size_t k = 0; k < a.size(); k += products) {
    // An overflow in an earlier step.
    if (!std::isfinite(d)) return d;
    if (model.c_with_products) {
      d = step(model, a.subspan(k, products), b.subspan(k, products), d, true);
    } else {
      d = add(step(model, a.subspan(k, products), b.subspan(k, products), 0.0f, false), d, model.result);
    }
  }
  return d;
}

}  // namespace cpu_device
