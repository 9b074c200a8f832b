// The arithmetic of the tensor cores: what the model's parameters mean, and that the model gives what a GPU
// gave.

#include "common/cpu_device/tensor_core.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/stored_operand.hpp"

namespace {

using Rounding = TensorCoreArithmetic::Rounding;

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(TensorCore, KeepsSoManyBits) {
  for (int bits = 23; bits <= 30; ++bits) {
    const TensorCoreArithmetic model{.fraction_bits = bits};
    const float kept = std::ldexp(1.0f, -bits), lost = kept / 2;
    EXPECT_EQ(sum_of(model, {{1, 1}, {kept, 1}, {-1, 1}}, 0), kept);
    EXPECT_EQ(sum_of(model, {{1, 1}, {lost, 1}, {-1, 1}}, 0), 0);
    EXPECT_EQ(sum_of(model, {{1, 1}, {lost, 1}, {lost, 1}, {-1, 1}}, 0), 0);  // each for itself
    EXPECT_EQ(sum_of(model, {{1, 1}, {-1, 1}}, kept), kept);
    EXPECT_EQ(sum_of(model, {{1, 1}, {-1, 1}}, lost), 0);
    EXPECT_EQ(sum_of(model, {{lost, 1}, {-1, 1}}, 1), 0);
    // 1.5 * 1.5 has the exponent 0 by its factors and 1 by itself.
    EXPECT_EQ(sum_of(model, {{1.5, 1.5}, {kept, 1}, {-1.5, 1.5}}, 0), kept);
    const TensorCoreArithmetic normalised{.fraction_bits = bits, .normalised_products = true};
    EXPECT_EQ(sum_of(normalised, {{1.5, 1.5}, {kept, 1}, {-1.5, 1.5}}, 0), 0);
  }
}

TEST(TensorCore, CutsAndRounds) {
  const float one = 0x1p-25f;  // the last bit that is kept
  for (const float sign : {1.0f, -1.0f}) {
    const auto rest = [&](Rounding terms, float part) {
      const TensorCoreArithmetic model{.fraction_bits = 25, .terms = terms};
      return sign * sum_of(model, {{1, 1}, {sign * part * one, 1}, {-1, 1}}, 0) / one;
    };
    for (const float part : {0.25f, 0.5f, 0.75f, 1.25f, 1.5f, 1.75f}) {
      EXPECT_EQ(rest(Rounding::to_zero, part), std::trunc(part));
      EXPECT_EQ(rest(Rounding::down, part), sign > 0 ? std::floor(part) : std::ceil(part));
      EXPECT_EQ(rest(Rounding::to_nearest, part), std::nearbyint(part));
    }
    // Of the sum: 1 + 3 * 2^-25 lies between two floats, nearer to the upper.
    const auto result = [&](Rounding rounding) {
      const TensorCoreArithmetic model{.fraction_bits = 25, .result = rounding};
      return sign * sum_of(model, {{sign * 3 * one, 1}}, sign);
    };
    EXPECT_EQ(result(Rounding::to_zero), 1.0f);
    EXPECT_EQ(result(Rounding::to_nearest), 1 + 0x1p-23f);
    EXPECT_EQ(result(Rounding::down), sign > 0 ? 1.0f : 1 + 0x1p-23f);
  }
}

TEST(TensorCore, AddsStepByStep) {
  const std::vector<std::pair<float, float>> pair_first{{0x1p40f, 1}, {-0x1p40f, 1}, {0, 0}, {0, 0}, {1, 1}};
  const std::vector<std::pair<float, float>> pair_apart{{0x1p40f, 1}, {0, 0}, {0, 0}, {0, 0},
                                                        {1, 1},       {0, 0}, {0, 0}, {-0x1p40f, 1}};
  EXPECT_EQ(sum_of({.products = 8}, pair_first, 0), 0);
  EXPECT_EQ(sum_of({.products = 4}, pair_first, 0), 1);
  EXPECT_EQ(sum_of({.products = 4}, pair_apart, 0), 0);
  EXPECT_EQ(sum_of({.products = 8, .c_with_products = true}, {{0x1p40f, 1}, {-0x1p40f, 1}}, 1), 0);
  EXPECT_EQ(sum_of({.products = 8, .c_with_products = false}, {{0x1p40f, 1}, {-0x1p40f, 1}}, 1), 1);
}

TEST(TensorCore, CThatIsAddedAfterwardsIsRoundedOnce) {
  const auto add = [](Rounding rounding, float x, float y) {
    return sum_of({.result = rounding, .c_with_products = false}, {{x, 1}}, y);
  };
  EXPECT_EQ(add(Rounding::to_zero, 0x1p-24f, 1), 1);
  EXPECT_EQ(add(Rounding::to_zero, -0x1p-30f, 1), 1 - 0x1p-24f);
  EXPECT_EQ(add(Rounding::to_zero, 0x1p-60f, -1), -1 + 0x1p-24f);
  EXPECT_EQ(add(Rounding::to_zero, -0x1p-60f, 1), 1 - 0x1p-24f);
  EXPECT_EQ(add(Rounding::down, -0x1p-60f, -1), -1 - 0x1p-23f);
  EXPECT_EQ(add(Rounding::to_nearest, 0x1.8p-24f, 1), 1 + 0x1p-23f);
}

TEST(TensorCore, Zeros) {
  EXPECT_EQ(sum_of({}, {{0, 0x1p60f}}, 1), 1);
  EXPECT_EQ(sum_of({.zeros_have_exponents = true}, {{0, 0x1p60f}}, 1), 1);
  // 2^-126 * 2^127 = 2: 2^-27 is below what is kept beside it.
  EXPECT_EQ(sum_of({}, {{0, 0x1p127f}}, 0x1p-27f), 0x1p-27f);
  EXPECT_EQ(sum_of({.zeros_have_exponents = true}, {{0, 0x1p127f}}, 0x1p-27f), 0);
  EXPECT_FALSE(std::signbit(sum_of({}, {{1, 1}, {-1, 1}}, -0.0f)));
}

TEST(TensorCore, SmallAndLarge) {
  EXPECT_EQ(sum_of({}, {{0x1p-70f, 0x1p-79f}}, 0), 0x1p-149f);
  EXPECT_EQ(sum_of({}, {{0x1p-70f, 0x1p-80f}}, 0), 0);
  EXPECT_EQ(sum_of({}, {{0x1p-70f, 0x1p-80f}, {0x1p-70f, 0x1p-80f}}, 0x1p-149f), 0x1p-148f);
  EXPECT_EQ(sum_of({}, {{0x1p-133f, 0x1p100f}}, 0), 0x1p-33f);  // a subnormal operand
  EXPECT_EQ(sum_of({}, {{0x1p64f, 0x1p64f}}, 0), infinity);
  EXPECT_EQ(sum_of({}, {{0x1p64f, 0x1p64f}, {-0x1p64f, 0x1p64f}}, 1), 0);  // no overflow on the way
  EXPECT_EQ(sum_of({}, {{-0x1p64f, 0x1p64f}}, 0x1p127f), -0x1p127f);
  EXPECT_EQ(sum_of({}, {{infinity, 1}, {-0x1p64f, 0x1p64f}}, 0), infinity);
}

// Four times 2^-151 and three terms that cancel: 2^-149, if those are kept, or lost, all three.
TEST(TensorCore, TermsThatAreAllTiny) {
  const auto sum = [](int least, int exponent) {
    const float one = std::ldexp(1.0f, -151 + 70), tiny = std::ldexp(1.0f, exponent + 70);
    const std::vector<std::pair<float, float>> products{
        {0x1p-70f, one},   {0x1p-70f, one},      {0x1p-70f, one},     {0x1p-70f, one},
        {-0x1p-70f, tiny}, {0x1p-70f, tiny / 2}, {0x1p-70f, tiny / 2}};
    return sum_of({.fraction_bits = 25, .least_exponent = least}, products, 0);
  };
  for (int exponent = -152; exponent >= -175; --exponent) {
    EXPECT_EQ(sum(-133, exponent), exponent == -158 ? 0 : 0x1p-149f) << exponent;
    EXPECT_EQ(sum(-1000, exponent), 0x1p-149f) << exponent;
  }
}

TEST(TensorCore, NoNumbers) {
  const auto bits = [](const std::vector<std::pair<float, float>>& products, float c) {
    return std::bit_cast<Bits>(sum_of({}, products, c));
  };
  EXPECT_EQ(bits({{infinity, 1}, {-infinity, 1}}, 0), cpu_device::canonical_nan);
  EXPECT_EQ(bits({{infinity, 1}}, -infinity), cpu_device::canonical_nan);
  EXPECT_EQ(bits({{infinity, 0}}, 0), cpu_device::canonical_nan);
  EXPECT_EQ(bits({{1, 1}}, std::bit_cast<float>(0xffc12345)), cpu_device::canonical_nan);
  EXPECT_EQ(bits({{std::bit_cast<float>(0x7fa00000), 1}}, infinity), cpu_device::canonical_nan);
}

// Where nothing is cut off, every model gives the exact sum; and a matrix is nothing but its elements.
TEST(TensorCore, ExactSumsAndMatrices) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const int K = round % 2 == 0 ? 8 : 16;
    const TensorCoreArithmetic model{.products = K / (1 + round % 3 / 2), .fraction_bits = 23 + round % 8};
    const bool exact = round % 5 < 3;
    std::vector<Bits> a(static_cast<std::size_t>(16 * K)), b(static_cast<std::size_t>(8 * K));
    std::vector<float> c(16 * 8);
    const auto draw = [&](int limit) {
      const float integer = static_cast<float>(static_cast<int>(random() % (2 * limit + 1)) - limit);
      return exact ? integer : std::ldexp(integer, static_cast<int>(random() % 30) - 15);
    };
    for (Bits& bits : a) bits = std::bit_cast<Bits>(draw(100));
    for (Bits& bits : b) bits = std::bit_cast<Bits>(draw(100));
    for (float& value : c) value = draw(1000);
    if (round % 7 == 0) a[3] = std::bit_cast<Bits>(infinity);
    std::vector<float> d = c;
    multiply_add(model, OperandType::tf32, 16, 8, K, rows_of(OperandType::tf32, a.data(), K),
                 rows_of(OperandType::tf32, b.data(), K), d.data());
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        const std::span row(a.data() + i * K, static_cast<std::size_t>(K));
        const std::span col(b.data() + j * K, static_cast<std::size_t>(K));
        const float old = c[static_cast<std::size_t>(i * 8 + j)],
                    got = d[static_cast<std::size_t>(i * 8 + j)];
        ASSERT_EQ(std::bit_cast<Bits>(got), std::bit_cast<Bits>(multiply_add(model, row, col, old)));
        double sum = old;
        for (std::size_t k = 0; k < row.size(); ++k) {
          sum += double{std::bit_cast<float>(row[k])} * std::bit_cast<float>(col[k]);
        }
        if (exact && std::isfinite(sum)) {
          ASSERT_EQ(got, sum);
        }
      }
    }
  }
}

// A matrix by a GPU's own model, which is computed in double, is its elements, whatever the bits.
TEST(TensorCore, MatricesOfAnyBits) {
  std::mt19937_64 random(9);
  for (const OperandType type : all_types) {
    const TensorCoreArithmetic& model = cpu_device::arithmetic_of(type);
    const int K = model.products;
    const bool fp16 = type == OperandType::fp16;
    const int exponents = fp16 ? 31 : 255, fraction = fp16 ? 10 : type == OperandType::bf16 ? 7 : 23;
    std::size_t subnormal = 0, infinities = 0, cut = 0;
    for (int round = 0; round < 10000; ++round) {
      // Exponents around a centre, so that some products cancel, some are lost, and some are too large.
      const auto draw = [&](int centre, int spread, int all, int bits_below) -> Bits {
        const int exponent =
            std::clamp(centre + static_cast<int>(random() % (2 * spread + 1)) - spread, 0, all - 1);
        const Bits below = static_cast<Bits>(random()) & ((Bits{1} << bits_below) - 1);
        const Bits sign = static_cast<Bits>(random() % 2) << (all == 31 ? 15 : bits_below + 8);
        return random() % 9 == 0 ? 0 : sign | static_cast<Bits>(exponent) << bits_below | below;
      };
      const int a_centre = static_cast<int>(random() % exponents),
                b_centre = static_cast<int>(random() % exponents);
      const int spread = 1 + static_cast<int>(random() % 30);
      const auto size = static_cast<std::size_t>(2 * K);
      Stored a(type, size), b(type, size);
      for (std::size_t i = 0; i < size; ++i) {
        a.set(i, draw(a_centre, spread, exponents, fraction));
        b.set(i, draw(b_centre, spread, exponents, fraction));
      }
      const Bits sign = type == OperandType::tf32 ? 0x80000000 : 0x8000;
      for (std::size_t k = 0; k < size / 2; k += 2) {
        if (random() % 2 == 0) a.set(k + 1, a.get(k) ^ sign), b.set(k + 1, b.get(k));
      }
      const auto k_size = static_cast<std::size_t>(K);
      for (std::size_t k = 0; k < k_size; ++k) {  // a row of zeros, or a column
        if (round % 8 == 0) a.set(k, random() % 2 == 0 ? 0 : sign);
        if (round % 8 == 1) b.set(k_size + k, random() % 2 == 0 ? 0 : sign);
      }
      const int c_centre = a_centre + b_centre + (fp16 ? 127 - 2 * 15 : -127);
      float d[4], c[4];
      for (float& value : c) value = std::bit_cast<float>(draw(c_centre, 2 * spread, 255, 23));
      if (round % 3 == 0) c[1] = -0.0f;
      std::copy(std::begin(c), std::end(c), d);
      multiply_add(model, type, 2, 2, K, rows_of(type, a.data(), K), rows_of(type, b.data(), K), d);
      for (int i = 0; i < 4; ++i) {
        const float one = multiply_add(model, a.floats(i / 2, K), b.floats(i % 2, K), c[i]);
        ASSERT_EQ(std::bit_cast<Bits>(d[i]), std::bit_cast<Bits>(one));
        subnormal += one != 0 && std::fabs(one) < 0x1p-126f;
        infinities += std::isinf(one);
        cut += one != c[i];
      }
    }
    EXPECT_GT(cut, 10000u);
    if (fp16) continue;  // its products are neither so small nor so large
    EXPECT_GT(subnormal, 50u);
    EXPECT_GT(infinities, 50u);
  }
}

// ---- What a GPU gave -------------------------------------------------------------------------------------

// experiments/tensor_core_arithmetic recorded operands and results, which must be the CPU device's, bit for
// bit.
class Calibration : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Calibration, testing::Values("tensor_core_arithmetic", "wgmma_arithmetic"));

TEST_P(Calibration, GivesWhatTheGpuGave) {
  std::ifstream file(std::string(PROJECT_ROOT "/docs/evidence/h200/") + GetParam() + ".json");
  if (!file) GTEST_SKIP() << "nothing has been recorded on a GPU yet";
  const nlohmann::json record = nlohmann::json::parse(file);
  const auto number = [](const std::string& text) {
    return static_cast<Bits>(std::stoul(text, nullptr, 16));
  };
  for (const auto& [type, part] : record.at("types").items()) {
    const bool tf32 = type.ends_with("tf32");
    const OperandType operand_type = tf32                     ? OperandType::tf32
                                     : type.ends_with("fp16") ? OperandType::fp16
                                                              : OperandType::bf16;
    const TensorCoreArithmetic& model = cpu_device::arithmetic_of(operand_type);
    const auto operands = [&](const std::string& text) {
      std::vector<Bits> all;
      const std::size_t digits = tf32 ? 8 : 4;
      for (std::size_t at = 0; at < text.size(); at += digits) {
        all.push_back(number(text.substr(at, digits)));
      }
      return all;
    };
    const auto expect = [&](const std::string& what, const nlohmann::json& a, const nlohmann::json& b,
                            const nlohmann::json& c, const nlohmann::json& d) {
      const std::vector<Bits> x = operands(a), y = operands(b);
      const int K = static_cast<int>(x.size());
      Stored row(operand_type, x.size()), col(operand_type, y.size());
      for (std::size_t k = 0; k < x.size(); ++k) row.set(k, x[k]), col.set(k, y[k]);
      float matrix = std::bit_cast<float>(number(c));
      const float got = multiply_add(model, row.floats(0, K), col.floats(0, K), matrix);
      multiply_add(model, operand_type, 1, 1, K, rows_of(operand_type, row.data(), K),
                   rows_of(operand_type, col.data(), K), &matrix);
      for (const float result : {got, matrix}) {
        EXPECT_EQ(std::bit_cast<Bits>(result), number(d))
            << type << " " << what << " " << a << " " << b << " " << c;
      }
    };
    EXPECT_GT(part.at("cases").size(), 100u);
    for (const nlohmann::json& row : part.at("cases")) {
      expect(row.at("case"), row.at("a"), row.at("b"), row.at("c"), row.at("d"));
    }
    const nlohmann::json& samples = part.at("random").at("samples");
    EXPECT_GT(samples.size(), 3900u);
    for (const nlohmann::json& row : samples) expect(row[0], row[1], row[2], row[3], row[4]);
  }
}

}  // namespace
