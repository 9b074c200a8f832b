#pragma once

// Chosen inputs: each asks one thing.

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tensor_core_arithmetic/mma_once.hpp"

namespace tensor_core_arithmetic {

struct Case {
  std::string name;
  Element element;
};

inline std::vector<Case> cases_of(const Type& type) {
  std::vector<Case> cases;
  // Products in the order given, the others zero. A product is x * y.
  using Pairs = std::vector<std::pair<float, float>>;
  const auto ask_bits = [&](std::string name, const std::vector<std::pair<Bits, Bits>>& products, Bits c) {
    Element e{std::vector<Bits>(type.K, 0), std::vector<Bits>(type.K, 0), c};
    for (std::size_t k = 0; k < products.size(); ++k) {
      const auto& [x, y] = products[k];
      // FP16 has few exponents: what it cannot have is not asked.
      if (type.operand == OperandType::fp16 && (fitted(type, x) != x || fitted(type, y) != y)) return;
      e.a[k] = x;
      e.b[k] = y;
    }
    cases.push_back({std::move(name), std::move(e)});
  };
  const auto ask = [&](std::string name, const Pairs& products, float c) {
    std::vector<std::pair<Bits, Bits>> as_bits;
    for (const auto& [x, y] : products) as_bits.emplace_back(bits_of(x), bits_of(y));
    ask_bits(std::move(name), as_bits, bits_of(c));
  };
  const float almost_two = 2.0f - std::ldexp(1.0f, -type.fraction_bits);
  // x * 2^-j as a product.
  const auto scaled = [&](float x, int j) {
    const int of_x = type.operand == OperandType::fp16 ? 12 : j;
    return std::pair{std::ldexp(x, -of_x), std::ldexp(1.0f, of_x - j)};
  };
  for (int j = 18; j <= 36; ++j) {
    const std::string n = std::to_string(j);
    const float small = std::ldexp(1.0f, -j);
    const auto term = scaled(1, j), negative = scaled(-1, j);
    // 2^-j beside a 1 that is cancelled: is it kept? As a product, as C, and beside a C of 1.
    ask("product_kept_" + n, {{1, 1}, {-1, 1}, term}, 0);
    ask("c_kept_" + n, {{1, 1}, {-1, 1}}, small);
    ask("kept_beside_c_" + n, {{-1, 1}, term}, 1);
    // Beside 1.5 * 1.5 = 2.25, whose exponent is 0 by its factors and 1 by itself.
    ask("kept_beside_2.25_" + n, {{1.5, 1.5}, {-1.5, 1.5}, term}, 0);
    // Almost 2^(1-j), and its negative: cut, rounded to nearest, or down?
    ask("rest_" + n, {{1, 1}, {-1, 1}, scaled(almost_two, j)}, 0);
    ask("negative_rest_" + n, {{1, 1}, {-1, 1}, scaled(-almost_two, j)}, 0);
    ask("c_rest_" + n, {{1, 1}, {-1, 1}}, almost_two * small);
    // Many that are each too small, together not: with all sums exact, 3 * 2^-j.
    ask("three_" + n, {{1, 1}, {-1, 1}, term, term, term}, 0);
    // The result's own rounding: 1 + 2^-j, and with an odd last bit.
    ask("result_" + n, {term}, 1);
    ask("result_three_" + n, {term, term, term}, 1);
    ask("negative_result_three_" + n, {negative, negative, negative}, -1);
    ask("result_odd_" + n, {term, term, term}, 1 + 0x1p-23f);
    // A zero whose partner is large: does its exponent count?
    ask("zero_times_" + n, {{0, std::ldexp(1.0f, j)}, {1, 1}}, 0x1p-10f);
    ask("zero_times_c_" + n, {{0, std::ldexp(1.0f, j)}}, 1);
  }
  // Bits above: so many products of nearly 4, with what lies below.
  for (int count = 1; count <= type.K; count *= 2) {
    const std::string n = std::to_string(count);
    ask("carry_" + n, Pairs(count, {almost_two, almost_two}), 0);
    ask("carry_c_" + n, Pairs(count, {almost_two, almost_two}), 0x1.fffffep1f);
  }
  // Subnormal numbers.
  const float smallest = 0x1p-149f, least_normal = 0x1p-126f;
  ask("subnormal_a", {{least_normal / 4, 0x1p100f}}, 0);
  ask("subnormal_c", {}, smallest);
  ask("subnormal_c_large_product", {{0x1p-70f, 0x1p-60f}}, 0x1p-140f);
  for (int j = 145; j <= 155; ++j) {
    ask("subnormal_result_" + std::to_string(j), {{std::ldexp(1.0f, -70), std::ldexp(1.0f, 70 - j)}}, 0);
    ask("subnormal_sum_" + std::to_string(j),
        {{std::ldexp(1.0f, -70), std::ldexp(1.0f, 70 - j)},
         {std::ldexp(1.0f, -70), std::ldexp(1.0f, 70 - j)}},
        smallest);
  }
  // Terms that are all tiny, and exactly 2^-149 together. It is 2^-149 if all are kept, and also if the last
  // four are all lost; 0 where the first of these is kept, and those of half its size are not.
  for (int j = 1; j <= 30; ++j) {
    const auto term = [](float sign, int exponent) {
      return std::pair{sign * 0x1p-70f, std::ldexp(1.0f, exponent + 70)};
    };
    const auto large = term(1, -151), half = term(1, -151 - j);
    ask("tiny_terms_" + std::to_string(150 + j), {large, large, large, large, term(-1, -150 - j), half, half},
        0);
  }
  // Subnormal FP16: 2^-24 with the exponent -24, or with that of the smallest normal number, -14?
  if (type.operand == OperandType::fp16) {
    for (int j = 36; j <= 52; ++j) {
      ask("subnormal_factor_" + std::to_string(j), {{0x1p-24f, 1}, {-0x1p-24f, 1}}, std::ldexp(1.0f, -j));
      ask("subnormal_factors_" + std::to_string(j), {{0x1p-24f, 0x1p-20f}, {-0x1p-24f, 0x1p-20f}},
          std::ldexp(1.0f, -j));
    }
  }
  // Zeros and their signs.
  ask("zero", {}, 0);
  ask("negative_zero_c", {}, -0.0f);
  ask("negative_zeros", Pairs(type.K, {-0.0f, 1.0f}), -0.0f);
  ask("exact_cancellation", {{1, 1}, {-1, 1}}, 0);
  ask("exact_cancellation_negative_c", {{-1, 1}}, 1);
  ask("negative_underflow", {{-0x1p-100f, 0x1p-100f}}, 0);
  // Too large, infinite, no number.
  const float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  ask("overflow", {{0x1p64f, 0x1p64f}}, 0);
  ask("overflow_negative", {{-0x1p64f, 0x1p64f}}, 0);
  ask("overflow_cancelled", {{0x1p64f, 0x1p64f}, {-0x1p64f, 0x1p64f}}, 1);
  ask(
      "overflow_cancelled_late",
      [&] {
        Pairs p(type.K, {0, 0});
        p.front() = {0x1p64f, 0x1p64f};
        p.back() = {-0x1p64f, 0x1p64f};
        return p;
      }(),
      1);
  ask("largest_plus_half", {{0x1p52f, 0x1p51f}}, largest);
  ask("largest_plus_quarter", {{0x1p51f, 0x1p51f}}, largest);
  ask("infinity", {{infinity, 1}}, 0);
  ask("infinity_c", {{1, 1}}, -infinity);
  ask("infinities_cancel", {{infinity, 1}, {-infinity, 1}}, 0);
  ask("infinity_overflow", {{infinity, 1}, {-0x1p64f, 0x1p64f}}, 0);
  ask("infinity_times_zero", {{infinity, 0}}, 0);
  ask_bits("nan", {{0x7fc00000, bits_of(1)}}, 0);
  ask_bits("nan_negative_payload", {{0xffe10000, bits_of(1)}}, 0);
  ask_bits("nan_c", {}, 0x7fc12345);
  ask_bits("nan_c_signalling", {}, 0x7f812345);
  if (type.K == 8) {
    // More bits than TF32 has: all below cut off, or rounded?
    ask_bits("unrounded", {{bits_of(1) | 0x1fff, bits_of(1)}}, 0);
    ask_bits("unrounded_b", {{bits_of(1), bits_of(-1) | 0x1fff}}, 0);
    ask_bits("unrounded_zero", {{0x00001fff, bits_of(0x1p100f)}}, 0);
    ask_bits("nan_in_cut_bits", {{0x7f800001, bits_of(1)}}, 0);
  }
  return cases;
}

inline json run_cases(const Type& type, const TensorCoreArithmetic& model) {
  const int M = type.M;
  const std::vector<Case> cases = cases_of(type);
  Operands o;
  for (const Case& c : cases) {  // in element (0, 0), all others zero
    o.a.insert(o.a.end(), c.element.a.begin(), c.element.a.end());
    o.a.resize(o.a.size() + static_cast<std::size_t>((M - 1) * type.K));
    for (Bits bits : c.element.b) {
      o.b.push_back(bits);
      o.b.resize(o.b.size() + N - 1);
    }
    o.c.push_back(c.element.c);
    o.c.resize(o.c.size() + M * N - 1);
  }
  const std::vector<Bits> d = run(o, type);
  json rows = json::array();
  int different = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Element& e = cases[i].element;
    const Bits got = d[i * M * N], expected = bits_of(e.by(model, type.mask));
    different += got != expected;
    rows.push_back({{"case", cases[i].name},
                    {"a", hex(e.a, type)},
                    {"b", hex(e.b, type)},
                    {"c", hex(e.c)},
                    {"d", hex(got)}});
    if (got != expected) {
      std::printf("  %s %-28s %s (%.9g), by the model %s (%.9g)\n", type.name, cases[i].name.c_str(),
                  hex(got).c_str(), std::bit_cast<float>(got), hex(expected).c_str(),
                  std::bit_cast<float>(expected));
    }
  }
  std::printf("%s: %zu chosen inputs, %d other than by the model\n", type.name, cases.size(), different);
  return rows;
}

// A pair of 2^40 and -2^40 (FP16: 2^30 and -2^30) at products 0 and j, and a 1 at product s (column K: at C):
// whether the 1 survives, as only one that is added after both have met in a sum does. Rows j = 1 ... K-1,
// columns s = 0
// ... K.
inline json run_order(const Type& type) {
  const int M = type.M;
  const auto [large, factor] =
      type.operand == OperandType::fp16 ? std::pair{0x1p15f, 0x1p15f} : std::pair{0x1p40f, 1.0f};
  Operands o;
  for (int j = 1; j < type.K; ++j) {
    for (int s = 0; s <= type.K; ++s) {
      std::vector<Bits> a(static_cast<std::size_t>(M * type.K)), b(static_cast<std::size_t>(type.K * N));
      std::vector<Bits> c(M * N);
      a[0] = bits_of(large);
      a[j] = bits_of(-large);
      if (s < type.K && s != 0 && s != j) a[s] = bits_of(1);
      for (int k = 0; k < type.K; ++k) b[k * N] = bits_of(k == 0 || k == j ? factor : 1);
      if (s == type.K) c[0] = bits_of(1);
      o.a.insert(o.a.end(), a.begin(), a.end());
      o.b.insert(o.b.end(), b.begin(), b.end());
      o.c.insert(o.c.end(), c.begin(), c.end());
    }
  }
  const std::vector<Bits> d = run(o, type);
  json rows = json::array();
  std::size_t at = 0;
  for (int j = 1; j < type.K; ++j) {
    std::string row;
    for (int s = 0; s <= type.K; ++s) {
      const float got = std::bit_cast<float>(d[at++ * M * N]);
      row += s == 0 || s == j ? '-' : got == 1 ? '1' : got == 0 ? '0' : '?';
    }
    rows.push_back(row);
  }
  return rows;
}

// Small integers, so that every sum is exact: whether the maps of the fragments are right.
inline bool maps_are_right(const Type& type) {
  const int M = type.M;
  std::mt19937 random(1);
  Operands o;
  constexpr int mmas = 64;
  const auto fill = [&](std::vector<Bits>& to, int count) {
    for (int i = 0; i < count; ++i) to.push_back(bits_of(static_cast<float>(int(random() % 255) - 127)));
  };
  fill(o.a, mmas * M * type.K);
  fill(o.b, mmas * type.K * N);
  fill(o.c, mmas * M * N);
  const std::vector<Bits> d = run(o, type);
  for (std::size_t mma = 0; mma < mmas; ++mma) {
    for (int i = 0; i < M * N; ++i) {
      const Element e = element(o, type, mma, i / N, i % N);
      float sum = std::bit_cast<float>(e.c);
      for (int k = 0; k < type.K; ++k) sum += std::bit_cast<float>(e.a[k]) * std::bit_cast<float>(e.b[k]);
      if (std::bit_cast<float>(d[mma * M * N + i]) != sum) return false;
    }
  }
  return true;
}

}  // namespace tensor_core_arithmetic
