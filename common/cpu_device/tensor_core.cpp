#include "common/cpu_device/tensor_core.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace cpu_device {

namespace {

using Rounding = TensorCoreArithmetic::Rounding;

// significand * 2^(exponent - fraction). Alignment compares exponents.
struct Term {
  std::int64_t significand = 0;  // with its sign
  int exponent = 0;
  int fraction = 0;
};

bool is_nan(std::uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
bool is_infinite(std::uint32_t bits) { return (bits & 0x7fffffff) == 0x7f800000; }
bool is_finite(std::uint32_t bits) { return (bits & 0x7f800000) != 0x7f800000; }
bool is_zero(std::uint32_t bits) { return (bits & 0x7fffffff) == 0; }

// Of a finite float.
int exponent_of(std::uint32_t bits) { return std::max<int>(bits >> 23 & 255, 1) - 127; }
std::int64_t significand_of(std::uint32_t bits) {
  const std::int64_t magnitude = (bits & 0x7fffff) | ((bits >> 23 & 255) != 0 ? 0x800000 : 0);
  return bits >> 31 != 0 ? -magnitude : magnitude;
}

// Of a nonzero number.
int leading_bit(std::int64_t value) {
  return 63 - std::countl_zero(static_cast<std::uint64_t>(value < 0 ? -value : value));
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
  const int last =
      std::max(exponent + leading_bit(sum) - 23, -149);  // the float's last bit has this exponent
  const std::int64_t significand = scaled(sum, exponent - last, rounding);
  return static_cast<float>(std::ldexp(static_cast<double>(significand), last));  // exact, or infinite
}

// A finite operand of a product.
struct Factor {
  std::int32_t significand;  // with its sign; 10 bits of fraction
  std::int32_t exponent;
};

Factor factor(std::uint32_t bits) {
  return {static_cast<std::int32_t>(significand_of(bits) >> 13), exponent_of(bits)};
}

constexpr int max_products = 16;

float step(const TensorCoreArithmetic& model, const Factor* a, const Factor* b, float c, bool with_c) {
  std::array<Term, max_products + 1> terms;
  std::size_t count = 0;
  int largest = model.least_exponent;
  const auto take = [&](const Term& term) {
    if (term.significand != 0 || model.zeros_have_exponents) largest = std::max(largest, term.exponent);
    if (term.significand != 0) terms[count++] = term;
  };
  for (int k = 0; k < model.products; ++k) {
    Term term{std::int64_t{a[k].significand} * b[k].significand, a[k].exponent + b[k].exponent, 20};
    if (model.normalised_products && term.significand != 0) {
      const int more = leading_bit(term.significand) - term.fraction;
      term.exponent += more;
      term.fraction += more;
    }
    take(term);
  }
  if (with_c) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(c);
    take({significand_of(bits), exponent_of(bits), 23});
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Term& term = terms[i];
    sum +=
        scaled(term.significand, term.exponent - largest + model.fraction_bits - term.fraction, model.terms);
  }
  return to_float(sum, largest - model.fraction_bits, model.result);
}

// The exact sum of two floats, rounded once.
float add(float x, float y, Rounding rounding) {
  if (rounding == Rounding::to_nearest) return x + y;
  const double sum = static_cast<double>(x) + static_cast<double>(y);  // to nearest; `rest` makes it exact
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

// The result if there is a NaN or an infinity among the operands.
float special(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b, std::uint32_t c) {
  bool nan = is_nan(c), positive = false, negative = false;
  const auto infinite = [&](bool sign) { (sign ? negative : positive) = true; };
  if (is_infinite(c)) infinite(c >> 31 != 0);
  for (std::size_t k = 0; k < a.size(); ++k) {
    nan = nan || is_nan(a[k]) || is_nan(b[k]) || (is_infinite(a[k]) && is_zero(b[k])) ||
          (is_zero(a[k]) && is_infinite(b[k]));
    if (is_infinite(a[k]) || is_infinite(b[k])) infinite((a[k] ^ b[k]) >> 31 != 0);
  }
  if (nan || (positive && negative)) return std::bit_cast<float>(canonical_nan);
  const float infinity = std::numeric_limits<float>::infinity();
  return positive ? infinity : -infinity;
}

// The result for finite operands.
float all_steps(const TensorCoreArithmetic& model, const Factor* a, const Factor* b, int K, float c) {
  float d = c;
  for (int k = 0; k < K; k += model.products) {
    if (!std::isfinite(d)) return d;  // an overflow in an earlier step
    d = model.c_with_products ? step(model, a + k, b + k, d, true)
                              : add(step(model, a + k, b + k, 0.0f, false), d, model.result);
  }
  return d;
}

// ---- In double ------------------------------------------------------------------------------------------
//
// Products of operands are exact in double, and so are their multiples of a power of two. If terms are
// truncated, as on Hopper, converting them to integers does just that. Several times as fast as step().

constexpr int at_once = 8;  // terms, each below 2^27: their sum is an int

bool fits_double(const TensorCoreArithmetic& model) {
  return model.products % at_once == 0 && model.fraction_bits <= 25 && model.terms == Rounding::to_zero &&
         model.result == Rounding::to_zero && model.c_with_products && !model.normalised_products &&
         !model.zeros_have_exponents && model.least_exponent >= -252;
}

struct Row {  // finite operands: a row of A or a column of B
  std::array<double, max_products> values;
  std::array<int, max_products> exponents;
};

Row row_of(std::span<const std::uint32_t> bits) {
  constexpr int never_the_largest = -1000;
  Row row;
  for (std::size_t k = 0; k < bits.size(); ++k) {
    row.values[k] = std::bit_cast<float>(bits[k]);
    row.exponents[k] = is_zero(bits[k]) ? never_the_largest : exponent_of(bits[k]);
  }
  return row;
}

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Rounded towards zero; infinite from 2^128 on.
float cut_to_float(double x) {
  if (std::fabs(x) < 0x1p-126) return static_cast<float>(std::trunc(x * 0x1p149) * 0x1p-149) + 0.0f;
  constexpr std::uint64_t float_has = ~std::uint64_t{0} << (52 - 23);
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & float_has));
}

float all_steps(const TensorCoreArithmetic& model, const Row& a, const Row& b, int K, float d) {
  for (int first = 0; first < K && std::isfinite(d); first += model.products) {
    int largest = model.least_exponent;
    if (d != 0) largest = std::max(largest, exponent_of(std::bit_cast<std::uint32_t>(d)));
    const int end = first + model.products;
    for (int k = first; k < end; ++k) largest = std::max(largest, a.exponents[k] + b.exponents[k]);
    const double scale = power_of_two(model.fraction_bits - largest);
    std::int64_t sum = static_cast<std::int32_t>(d * scale);
    for (int k = first; k < end; k += at_once) {
      std::int32_t part = 0;
      for (int i = k; i < k + at_once; ++i) {
        part += static_cast<std::int32_t>(a.values[i] * b.values[i] * scale);
      }
      sum += part;
    }
    d = cut_to_float(static_cast<double>(sum) * power_of_two(largest - model.fraction_bits));
  }
  return d;
}

}  // namespace

float multiply_add(const TensorCoreArithmetic& model, std::span<const std::uint32_t> a,
                   std::span<const std::uint32_t> b, float c) {
  const std::uint32_t c_bits = std::bit_cast<std::uint32_t>(c);
  if (!is_finite(c_bits) || !std::ranges::all_of(a, is_finite) || !std::ranges::all_of(b, is_finite)) {
    return special(a, b, c_bits);
  }
  std::array<Factor, max_products> x, y;
  std::ranges::transform(a, x.begin(), factor);
  std::ranges::transform(b, y.begin(), factor);
  return all_steps(model, x.data(), y.data(), static_cast<int>(a.size()), c);
}

void multiply_add(const TensorCoreArithmetic& model, int M, int N, int K, const std::uint32_t* a,
                  const std::uint32_t* b, float* d) {
  constexpr int max_rows = 16;
  const auto size = static_cast<std::size_t>(K);
  const bool in_double = fits_double(model);
  // Unpacked once for all of D.
  std::array<Row, max_rows> x, y;
  std::array<bool, max_rows> x_fits, y_fits;
  const auto unpack = [&](const std::uint32_t* from, int rows, auto& to, auto& fits) {
    for (int i = 0; i < rows; ++i) {
      const std::span row(from + i * K, size);
      fits[i] = in_double && std::ranges::all_of(row, is_finite);
      if (fits[i]) to[i] = row_of(row);
    }
  };
  unpack(a, M, x, x_fits);
  unpack(b, N, y, y_fits);
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      float& element = d[i * N + j];
      element = x_fits[i] && y_fits[j] && std::isfinite(element)
                    ? all_steps(model, x[i], y[j], K, element)
                    : multiply_add(model, {a + i * K, size}, {b + j * K, size}, element);
    }
  }
}

}  // namespace cpu_device
