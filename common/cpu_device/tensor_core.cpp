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

Factor factor(const TensorCoreArithmetic& model, std::uint32_t bits) {
  const int exponent = std::max(exponent_of(bits), model.least_factor_exponent);
  const std::int64_t significand = significand_of(bits) >> 13;
  return {static_cast<std::int32_t>(significand >> (exponent - exponent_of(bits))), exponent};
}

float step(const TensorCoreArithmetic& model, const Factor* a, const Factor* b, float c, bool with_c) {
  std::array<Term, max_terms + 1> terms;
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

// A row of A, or a column of B. Plain arrays, as checks of their indices keep loops from becoming vector
// instructions.
struct Row {
  std::uint32_t bits[max_terms];  // of floats
  double values[max_terms];
  std::int16_t exponents[max_terms];
  bool finite, zero;  // all of them
};

// Makes rows of an operand. The type is fixed, so that this takes little time beside the products of a small
// instruction.
template <OperandType TYPE>
struct Unpacking {
  Unpacking(const TensorCoreArithmetic& model, int K, const Operand& operand)
      : operand(operand), least_exponent(model.least_factor_exponent) {
    for (int k = 0; k < K; ++k) offsets[k] = operand.first + operand.terms.offset(k);
  }

  [[gnu::always_inline]] void row(int number, Row& to, int K) const {
    constexpr int never_the_largest = -1000;
    const std::ptrdiff_t row = operand.rows.offset(number);
    for (int k = 0; k < K; ++k) to.bits[k] = float_bits(TYPE, operand.bits_at(TYPE, row + offsets[k]));
    bool finite = true, zero = true;
    for (int k = 0; k < K; ++k) {
      const std::uint32_t bits = to.bits[k];
      to.values[k] = std::bit_cast<float>(bits);
      to.exponents[k] = static_cast<std::int16_t>(
          is_zero(bits) ? never_the_largest : std::max(exponent_of(bits), least_exponent));
      finite &= is_finite(bits);
      zero &= is_zero(bits);
    }
    to.finite = finite;
    to.zero = zero;
  }

  const Operand& operand;
  int least_exponent;
  std::array<std::ptrdiff_t, max_terms> offsets;
};

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Rounded towards zero; infinite from 2^128 on.
float cut_to_float(double x) {
  if (std::fabs(x) < 0x1p-126) return static_cast<float>(std::trunc(x * 0x1p149) * 0x1p-149) + 0.0f;
  constexpr std::uint64_t float_has = ~std::uint64_t{0} << (52 - 23);
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & float_has));
}

// Inlined, for a model and numbers of terms that the compiler knows.
[[gnu::always_inline]] inline float one_step(const TensorCoreArithmetic& model, const Row& a, const Row& b,
                                             int first, float d) {
  const double* x = a.values + first;
  const double* y = b.values + first;
  std::int16_t of_products = -2000;
  for (int k = 0; k < model.products; ++k) {
    of_products = std::max<std::int16_t>(of_products, a.exponents[first + k] + b.exponents[first + k]);
  }
  int largest = std::max<int>(model.least_exponent, of_products);
  if (d != 0) largest = std::max(largest, exponent_of(std::bit_cast<std::uint32_t>(d)));
  const double scale = power_of_two(model.fraction_bits - largest);
  std::int64_t sum = static_cast<std::int32_t>(d * scale);
  for (int k = 0; k < model.products; k += at_once) {
    std::int32_t part = 0;
    for (int i = k; i < k + at_once; ++i) part += static_cast<std::int32_t>(x[i] * y[i] * scale);
    sum += part;
  }
  return cut_to_float(static_cast<double>(sum) * power_of_two(largest - model.fraction_bits));
}

float all_steps(const TensorCoreArithmetic& model, const Row& a, const Row& b, int K, float d) {
  for (int first = 0; first < K && std::isfinite(d); first += model.products) {
    d = one_step(model, a, b, first, d);
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
  std::array<Factor, max_terms> x, y;
  const auto unpack = [&](std::uint32_t bits) { return factor(model, bits); };
  std::ranges::transform(a, x.begin(), unpack);
  std::ranges::transform(b, y.begin(), unpack);
  return all_steps(model, x.data(), y.data(), static_cast<int>(a.size()), c);
}

// OWN: by the type's own model, with as many terms as a step of it has.
template <OperandType TYPE, bool OWN>
static void multiply_rows(const TensorCoreArithmetic& any_model, int M, int N, int any_K, const Operand& a,
                          const Operand& b, float* d) {
  constexpr int at_a_time = 64;  // rows of A
  constexpr TensorCoreArithmetic own = arithmetic_of(TYPE);
  const TensorCoreArithmetic& model = OWN ? own : any_model;
  const int K = OWN ? own.products : any_K;
  const bool in_double = fits_double(model);
  const auto size = static_cast<std::size_t>(K);
  const Unpacking<TYPE> of_a(model, K, a), of_b(model, K, b);
  Row x[at_a_time];
  Row y;
  for (int first = 0; first < M; first += at_a_time) {
    const int rows = std::min(at_a_time, M - first);
    for (int i = 0; i < rows; ++i) of_a.row(first + i, x[i], K);
    for (int j = 0; j < N; ++j) {
      of_b.row(j, y, K);
      for (int i = 0; i < rows; ++i) {
        float& element = d[static_cast<std::ptrdiff_t>(first + i) * N + j];
        if (!(in_double && x[i].finite && y.finite && std::isfinite(element))) {
          element = multiply_add(model, {x[i].bits, size}, {y.bits, size}, element);
        } else if constexpr (OWN) {
          // Tiles beyond the edges of a matrix have many zeros. No bit of a float is cut off, but -0 becomes
          // 0.
          static_assert(own.fraction_bits >= 23 && own.least_exponent - own.fraction_bits <= -149);
          element = x[i].zero || y.zero ? element + 0.0f : one_step(own, x[i], y, 0, element);
        } else {
          element = all_steps(model, x[i], y, K, element);
        }
      }
    }
  }
}

template <OperandType TYPE>
static void multiply_rows(const TensorCoreArithmetic& model, int M, int N, int K, const Operand& a,
                          const Operand& b, float* d) {
  const bool own = model == arithmetic_of(TYPE) && K == model.products;
  (own ? multiply_rows<TYPE, true> : multiply_rows<TYPE, false>)(model, M, N, K, a, b, d);
}

void multiply_add(const TensorCoreArithmetic& model, OperandType type, int M, int N, int K, const Operand& a,
                  const Operand& b, float* d) {
  switch (type) {
    case OperandType::tf32:
      return multiply_rows<OperandType::tf32>(model, M, N, K, a, b, d);
    case OperandType::bf16:
      return multiply_rows<OperandType::bf16>(model, M, N, K, a, b, d);
    case OperandType::fp16:
      return multiply_rows<OperandType::fp16>(model, M, N, K, a, b, d);
  }
}

}  // namespace cpu_device
