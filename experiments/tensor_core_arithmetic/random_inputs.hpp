#pragma once

// Random inputs in families, and the models that come nearest to what a GPU makes of them.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "experiments/tensor_core_arithmetic/mma_once.hpp"

namespace tensor_core_arithmetic {

struct Family {
  const char* name;
  int spread;        // exponents of A and B lie in [centre - spread / 2, centre + spread / 2]
  int c_from, c_to;  // exponents of C
  int centre = 0;
  enum { plain, cancelling, positive, zeros, unrounded, specials } kind = plain;
};

inline const std::vector<Family> families{
    {"spread_0", 0, 0, 3},
    {"spread_2", 2, -2, 4},
    {"spread_6", 6, -6, 8},
    {"spread_12", 12, -12, 14},
    {"spread_30", 30, -30, 32},
    {"c_large", 4, 8, 34},
    {"c_small", 4, -36, -4},
    {"cancelling", 6, -30, 4, 0, Family::cancelling},
    {"positive", 1, 0, 6, 0, Family::positive},
    {"zeros", 0, -110, -10, 0, Family::zeros},
    {"unrounded", 6, -6, 8, 0, Family::unrounded},
    {"tiny", 24, -160, -120, -68},
    {"tiniest", 20, -170, -140, -75},
    {"huge", 6, 118, 127, 62},
    {"specials", 12, -12, 14, 0, Family::specials},
};
// FP16's exponents are -24 to 15.
inline const std::vector<Family> families_of_fp16{
    {"spread_0", 0, 0, 3},
    {"spread_2", 2, -2, 4},
    {"spread_6", 6, -6, 8},
    {"spread_12", 12, -12, 14},
    {"spread_28", 28, -28, 32},
    {"c_large", 4, 8, 34},
    {"c_small", 4, -36, -4},
    {"cancelling", 6, -30, 4, 0, Family::cancelling},
    {"positive", 1, 0, 6, 0, Family::positive},
    {"zeros", 0, -30, 10, 0, Family::zeros},
    {"subnormal", 8, -60, -28, -19},
    {"some_subnormal", 16, -50, -10, -14},
    {"c_tiny", 6, -160, -110, -20},
    {"huge", 6, 18, 36, 12},
    {"specials", 12, -12, 14, 0, Family::specials},
};
inline const std::vector<Family>& families_of(const Type& type) {
  return type.operand == OperandType::fp16 ? families_of_fp16 : families;
}
// An instruction has 128 elements, or 512.
constexpr std::size_t mmas_of_family(const Type& type) { return type.by_warpgroup ? 80 : 1550; }
constexpr std::size_t sampled_of_family(const Type& type) { return type.by_warpgroup ? 280 : 320; }

inline Operands draw(const Type& type, const Family& family, unsigned seed) {
  const int M = type.M;
  const bool fp16 = type.operand == OperandType::fp16;
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return static_cast<int>(random() % limit); };
  // A random number with this exponent, subnormal or zero where that is too small for a float.
  const auto number = [&](int exponent, Bits mask) {
    const float magnitude = 1.0f + static_cast<float>(random() >> 41) * 0x1p-23f;
    const Bits bits = bits_of(std::ldexp(magnitude, exponent)) & mask;
    return family.kind != Family::positive && (random() & 1) != 0 ? bits | 0x80000000 : bits;
  };
  const Bits mask = family.kind == Family::unrounded ? ~0u : type.mask;
  // Half of A is zero, and what it would be multiplied by is often larger than all others: if a zero had an
  // exponent, that of its product would be the largest.
  const auto a_of_zeros = [&]() -> Bits {
    return random() & 1 ? static_cast<Bits>(random() & 1) << 31
                        : number((fp16 ? -14 : -126) + below(14), mask);
  };
  const auto b_of_zeros = [&] {
    return below(10) == 0 ? 0 : number(fp16 ? below(16) : 20 + below(108), mask);
  };
  const auto operand = [&]() -> Bits {
    if (family.kind == Family::specials && below(100) < 2) {
      return (random() & 1 ? 0x7f800000u : 0xff800000u) | (below(3) == 0 ? 0x00410000u : 0u);
    }
    return number(family.centre - family.spread / 2 + below(family.spread + 1), mask);
  };
  Operands o;
  for (std::size_t mma = 0; mma < mmas_of_family(type); ++mma) {
    std::vector<Bits> a(static_cast<std::size_t>(M * type.K)), b(static_cast<std::size_t>(type.K * N));
    const bool zeros = family.kind == Family::zeros;
    for (Bits& bits : a) bits = zeros ? a_of_zeros() : operand();
    for (Bits& bits : b) bits = zeros ? b_of_zeros() : operand();
    if (family.kind == Family::cancelling) {  // most products have an opposite somewhere
      std::vector<int> order(type.K);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (int pair = 0; pair + 1 < type.K / 2; ++pair) {
        const int k = order[2 * pair], other = order[2 * pair + 1];
        for (int row = 0; row < M; ++row) a[row * type.K + other] = a[row * type.K + k] ^ 0x80000000;
        for (int col = 0; col < N; ++col) b[other * N + col] = b[k * N + col];
      }
    }
    if (fp16) {
      for (Bits& bits : a) bits = fitted(type, bits);
      for (Bits& bits : b) bits = fitted(type, bits);
    }
    o.a.insert(o.a.end(), a.begin(), a.end());
    o.b.insert(o.b.end(), b.begin(), b.end());
    for (int i = 0; i < M * N; ++i) {
      const bool zero = family.kind == Family::zeros && below(10) < 3;
      o.c.push_back(zero ? 0 : number(family.c_from + below(family.c_to - family.c_from + 1), ~0u));
    }
  }
  return o;
}

// All models that are tried: of FP16 each with its subnormal numbers' exponent that of the smallest normal
// number, and with their own.
inline std::vector<TensorCoreArithmetic> all_models(const Type& type) {
  using Rounding = TensorCoreArithmetic::Rounding;
  std::vector<TensorCoreArithmetic> models;
  for (int products = type.K; products >= 2; products /= 2) {
    for (int bits = 23; bits <= 30; ++bits) {
      for (Rounding terms : {Rounding::to_zero, Rounding::down, Rounding::to_nearest}) {
        for (Rounding result : {Rounding::to_zero, Rounding::to_nearest}) {
          for (int more = 0; more < 16; ++more) {
            models.push_back({products, bits, terms, result, (more & 1) == 0, (more & 2) != 0,
                              (more & 4) != 0, (more & 8) == 0 ? -133 : -1000});
            if (type.operand != OperandType::fp16) continue;
            models.push_back(models.back());
            models.back().least_factor_exponent = -14;
          }
        }
      }
    }
  }
  return models;
}

inline const char* name_of(TensorCoreArithmetic::Rounding rounding) {
  using Rounding = TensorCoreArithmetic::Rounding;
  return rounding == Rounding::to_zero ? "to_zero" : rounding == Rounding::down ? "down" : "to_nearest";
}

inline json to_json(const TensorCoreArithmetic& m) {
  return {{"products", m.products},
          {"fraction_bits", m.fraction_bits},
          {"terms", name_of(m.terms)},
          {"result", name_of(m.result)},
          {"c_with_products", m.c_with_products},
          {"normalised_products", m.normalised_products},
          {"zeros_have_exponents", m.zeros_have_exponents},
          {"least_exponent", m.least_exponent},
          {"least_factor_exponent", m.least_factor_exponent}};
}

// The elements of all random mma's, the sampled ones, and the models that come nearest: by how many families
// they give wholly, bit for bit, and then by how many elements they get wrong.
inline json run_random(const Type& type) {
  const int M = type.M;
  const std::size_t mmas_of_family = tensor_core_arithmetic::mmas_of_family(type);
  struct Drawn {
    const Family* family;
    Operands operands;
    std::vector<Bits> d;
  };
  std::vector<Drawn> all;
  json samples = json::array();
  unsigned seed = 1;
  std::size_t other_forms = 0;  // elements that other forms of the instruction do not give
  for (const Family& family : families_of(type)) {
    if (family.kind == Family::unrounded && type.K != 8) continue;
    Drawn drawn{&family, draw(type, family, seed++), {}};
    drawn.d = run(drawn.operands, type);
    if (type.by_warpgroup) other_forms += different_in_other_forms(drawn.operands, type, drawn.d);
    std::mt19937 random(seed);
    for (std::size_t n = 0; n < sampled_of_family(type); ++n) {
      const std::size_t mma = random() % mmas_of_family;
      const int at = static_cast<int>(random() % (M * N));
      const Element e = element(drawn.operands, type, mma, at / N, at % N);
      samples.push_back({family.name, hex(e.a, type), hex(e.b, type), hex(e.c),
                         hex(drawn.d[mma * M * N + static_cast<std::size_t>(at)])});
    }
    all.push_back(std::move(drawn));
  }
  const std::size_t of_family = mmas_of_family * M * N;
  // How many of the first `elements` a model gets wrong, up to `enough`; `some`: the first of them.
  const auto wrong = [&](const TensorCoreArithmetic& model, const Drawn& drawn, std::size_t elements,
                         std::size_t enough, json* some = nullptr) {
    constexpr std::size_t to_show = 3;
    std::size_t found = 0;
    for (std::size_t n = 0; n < elements && found < enough; ++n) {
      const Element e = element(drawn.operands, type, n / (M * N), static_cast<int>(n % (M * N)) / N,
                                static_cast<int>(n % N));
      if (bits_of(e.by(model, type.mask)) == drawn.d[n]) continue;
      if (some != nullptr && found < to_show) {
        some->push_back({drawn.family->name, hex(e.a, type), hex(e.b, type), hex(e.c), hex(drawn.d[n])});
      }
      ++found;
    }
    return found;
  };
  struct Ranked {
    TensorCoreArithmetic model;
    std::size_t families = 0, wrong = 0;
    json by_family, some = json::array();  // some: as a sample is
  };
  // By some of the elements first, the nearest then by all.
  std::vector<Ranked> ranked;
  for (const TensorCoreArithmetic& model : all_models(type)) {
    Ranked r{.model = model, .by_family = {}};
    for (const Drawn& drawn : all) {
      r.wrong += wrong(model, drawn, 100, 100);
      r.families += wrong(model, drawn, 2000, 1) == 0;
    }
    ranked.push_back(std::move(r));
  }
  const auto nearer = [](const Ranked& x, const Ranked& y) {
    return x.families != y.families ? x.families > y.families : x.wrong < y.wrong;
  };
  std::stable_sort(ranked.begin(), ranked.end(), nearer);
  ranked.resize(12);
  for (Ranked& r : ranked) {
    r.families = r.wrong = 0;
    for (const Drawn& drawn : all) {
      const std::size_t found = wrong(r.model, drawn, of_family, of_family, &r.some);
      r.by_family[drawn.family->name] = found;
      r.wrong += found;
      r.families += found == 0;
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), nearer);
  json models = json::array();
  for (const Ranked& r : ranked) {
    json row{{"model", to_json(r.model)},
             {"families_right", r.families},
             {"wrong", r.wrong},
             {"wrong_by_family", r.by_family},
             {"some_wrong", r.some}};
    std::printf("%s: %zu of %zu families, %zu of %zu elements wrong: %s\n", type.name, r.families, all.size(),
                r.wrong, of_family * all.size(), to_json(r.model).dump().c_str());
    models.push_back(std::move(row));
  }
  json result{{"mmas", mmas_of_family * all.size()},       {"elements", of_family * all.size()},
              {"columns", {"family", "a", "b", "c", "d"}}, {"samples", std::move(samples)},
              {"models_tried", all_models(type).size()},   {"nearest_models", std::move(models)}};
  if (type.by_warpgroup) result["different_in_other_forms"] = other_forms;
  return result;
}

}  // namespace tensor_core_arithmetic
