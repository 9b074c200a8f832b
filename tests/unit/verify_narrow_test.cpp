// The checker where operands are narrower than the sums: BF16 inputs, and floats rounded to TF32.

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/harness/verify.hpp"
#include "tests/unit/verify_product.hpp"

namespace {

using ProductBf16 = ProductOf<bf16>;

TEST(VerifyBf16, AcceptsSumsInFloatInAnyOrder) {
  for (const int k : {1, 2, 17, 1000, 8192}) {
    for (const Product::Sum& order : orders) {
      ProductBf16 p(9, 7, k, 1, 3);
      p.compute(order);
      EXPECT_EQ(p.verify().wrong, 0) << k;
      EXPECT_LT(p.verify().max_error_over_bound, 0.25) << k;
    }
  }
}

// A tensor core cuts off where the FP32 units round.
TEST(VerifyBf16, AcceptsSumsThatAreCutOff) {
  for (const int k : {1, 2, 17, 1000, 8192}) {
    ProductBf16 p(9, 7, k);
    p.compute([](const Terms& a, const Terms& b) {
      float sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double exact = double{sum} + double{a[i]} * b[i];
        sum = static_cast<float>(exact);
        if (std::fabs(sum) > std::fabs(exact)) sum = std::nextafter(sum, 0.0f);
      }
      return sum;
    });
    EXPECT_EQ(p.verify().wrong, 0) << k;
    EXPECT_EQ(p.verify(tolerance_any_data(k, Precision::bf16)).wrong, 0) << k;
  }
}

// Where all numbers have one sign, so have the errors: the bound for any data has to hold.
TEST(VerifyBf16, AcceptsAnyDataWithinItsBound) {
  ProductBf16 p(1, 1, 8192);
  for (bf16& value : p.a) value = bf16(0x1.fep-1f);
  for (bf16& value : p.b) value = bf16(0x1.fcp-1f);
  p.compute(forwards);
  EXPECT_EQ(p.verify(tolerance_any_data(8192, Precision::bf16)).wrong, 0);
}

TEST(VerifyBf16, FindsASumThatIsRounded) {
  for (const int k : {2, 17, 1000, 8192}) {
    for (const bool any_data : {false, true}) {
      if (any_data && k > 1000) continue;  // that bound forgives as much
      const auto expect_found = [&](const char* what, const Product::Sum& sum) {
        ProductBf16 p(24, 24, k);
        p.compute(sum);
        const double tolerance =
            any_data ? tolerance_any_data(k, Precision::bf16) : tolerance_random_data(k, Precision::bf16);
        EXPECT_GT(p.verify(tolerance).wrong, 24) << what << " " << k << " " << any_data;
      };
      expect_found("the accumulator", [](const Terms& a, const Terms& b) {
        bf16 sum(0.0f);
        for (std::size_t i = 0; i < a.size(); ++i) sum = bf16(sum + a[i] * b[i]);
        return static_cast<float>(sum);
      });
      expect_found("the result",
                   [](const Terms& a, const Terms& b) { return static_cast<float>(bf16(forwards(a, b))); });
      if (k <= 1000) {
        expect_found("the products", [](const Terms& a, const Terms& b) {
          float sum = 0;
          for (std::size_t i = 0; i < a.size(); ++i) sum += bf16(a[i] * b[i]);
          return sum;
        });
      }
    }
  }
}

TEST(VerifyBf16, FindsAMissingTile) {
  ProductBf16 p(24, 24, 4096);
  p.compute([](Terms a, const Terms& b) {
    for (std::size_t k = 4096 - 16; k < 4096; ++k) a[k] = 0;
    return split(a, b);
  });
  EXPECT_GT(p.verify().wrong, 24 * 24 * 9 / 10);
}

TEST(VerifyBf16, FindsASingleWrongElement) {
  ProductBf16 p(5, 6, 300, 2, 1);
  p.compute(split);
  EXPECT_EQ(p.verify().wrong, 0);
  p.at(1, 4, 5) += 0.01f;
  EXPECT_EQ(p.verify().wrong, 1);
  EXPECT_EQ(p.verify().first_wrong, 59);
}

float rounded_to_tf32(float value) {  // to the nearest, ties away from zero
  return __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, value) + 0x1000) & ~0x1fffu);
}
float cut_off_to_tf32(float value) {
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, value) & ~0x1fffu);
}
float as_it_is(float value) { return value; }

using Operand = float (*)(float);
// The sum of what becomes of the operands, cut off as by a tensor core that adds four terms at once.
Product::Sum tf32(Operand of_a, Operand of_b) {
  return [=](const Terms& a, const Terms& b) {
    float sum = 0;
    for (std::size_t k = 0; k < a.size(); k += 4) {
      double exact = sum;
      for (std::size_t i = k; i < std::min(k + 4, a.size()); ++i) exact += double{of_a(a[i])} * of_b(b[i]);
      sum = static_cast<float>(exact);
      if (std::fabs(sum) > std::fabs(exact)) sum = std::nextafter(sum, 0.0f);
    }
    return sum;
  };
}

struct Judgement {
  Verdict verdict;
  double limit;
  bool biased() const { return std::fabs(verdict.bias()) > limit; }
};
Judgement judge_tf32(const Product& p) {
  GemmOf<void> g{};
  g.M = p.gemm.M, g.N = p.gemm.N, g.K = p.gemm.K, g.batch = p.gemm.batch, g.alpha = p.gemm.alpha;
  g.beta = p.gemm.beta;
  return {p.verify(tolerance_random_data(g.K, Precision::tf32)),
          harness::bias_limit(g, harness::traits(Precision::tf32).arithmetic)};
}

struct Shape {
  int m, n, k;
};
constexpr Shape tf32_shapes[] = {{1, 1, 1},    {1, 1, 1000},   {35, 79, 19}, {3, 211, 70}, {16, 16, 16},
                                 {64, 48, 64}, {24, 24, 4096}, {5, 3, 2053}, {1, 300, 8},  {90, 70, 300}};

TEST(VerifyTf32, AcceptsRoundedOperands) {
  for (const auto& [m, n, k] : tf32_shapes) {
    Product p(m, n, k, 2, 3);
    p.gemm.alpha = -0.5f;
    p.gemm.beta = 2;
    p.compute(tf32(rounded_to_tf32, rounded_to_tf32));
    const Judgement judgement = judge_tf32(p);
    EXPECT_EQ(judgement.verdict.wrong, 0) << m << " " << n << " " << k;
    EXPECT_FALSE(judgement.biased()) << m << " " << n << " " << k << " " << judgement.verdict.bias();
    EXPECT_EQ(p.verify(tolerance_any_data(k, Precision::tf32)).wrong, 0);
    EXPECT_GT(p.verify(tolerance_random_data(k)).wrong, 0) << "as FP32";
  }
}

// More precision than promised is fine.
TEST(VerifyTf32, AcceptsOperandsAsTheyAre) {
  Product p(64, 64, 512);
  p.compute(tf32(as_it_is, as_it_is));
  EXPECT_EQ(judge_tf32(p).verdict.wrong, 0);
  EXPECT_FALSE(judge_tf32(p).biased());
}

// Where all elements lie just above half of a unit, all errors are as large as they get, and of the same
// sign.
TEST(VerifyTf32, AcceptsTheWorstRounding) {
  Product p(1, 1, 4096);
  std::fill_n(p.a.begin(), 4096, 1 + 0x1p-11f);
  std::fill_n(p.b.begin(), 4096, 1 + 0x1p-11f);
  p.compute(tf32(rounded_to_tf32, rounded_to_tf32));
  const Verdict verdict = p.verify(tolerance_any_data(4096, Precision::tf32));
  EXPECT_EQ(verdict.wrong, 0);
  EXPECT_NEAR(verdict.max_relative_error, 0x1p-10, 0x1p-19);
  EXPECT_EQ(p.verify(tolerance_random_data(4096, Precision::tf32)).wrong, 1);
}

TEST(VerifyTf32, BiasTellsWhichOperandsAreCutOff) {
  const double one = harness::bias_of_cutting_one_operand_off(harness::traits(Precision::tf32).arithmetic);
  for (const auto& [m, n, k] : {Shape{32, 32, 32}, {128, 8, 512}, {90, 70, 300}, {40, 40, 2048}}) {
    Product p(m, n, k);
    p.compute(tf32(cut_off_to_tf32, rounded_to_tf32));
    EXPECT_TRUE(judge_tf32(p).biased());
    EXPECT_NEAR(judge_tf32(p).verdict.bias(), -one, one / 3) << m << " " << n << " " << k;
    p.compute(tf32(rounded_to_tf32, cut_off_to_tf32));
    EXPECT_TRUE(judge_tf32(p).biased());
    EXPECT_NEAR(judge_tf32(p).verdict.bias(), -one, one / 3) << m << " " << n << " " << k;
    p.compute(tf32(cut_off_to_tf32, cut_off_to_tf32));
    EXPECT_TRUE(judge_tf32(p).biased());
    EXPECT_NEAR(judge_tf32(p).verdict.bias(), -2 * one, one / 3) << m << " " << n << " " << k;
    // A library may.
    EXPECT_EQ(p.verify(tolerance_random_data(k, Precision::tf32_cut_off)).wrong, 0);
    EXPECT_EQ(p.verify(tolerance_any_data(k, Precision::tf32_cut_off)).wrong, 0);
  }
}

// The deviation that the limit is made of, from many products: neither too small nor so large that it hides
// much.
TEST(VerifyTf32, BiasOfRoundingIsAsPredicted) {
  const auto spread = [](int m, int n, int k, int batch) {
    double squares = 0;
    Product p(m, n, k, batch);
    p.compute(tf32(rounded_to_tf32, rounded_to_tf32));
    for (int matrix = 0; matrix < batch; ++matrix) {  // each by itself
      Gemm one = p.gemm;
      one.batch = 1;
      one.A += matrix * one.strideA;
      one.B += matrix * one.strideB;
      one.C += matrix * one.strideC;
      const double bias = verify_on_host(one, nullptr, 1).bias();
      squares += bias * bias;
    }
    GemmOf<void> g{};
    g.M = m, g.N = n, g.K = k, g.batch = 1, g.alpha = 1;
    return 8 * std::sqrt(squares / batch) /
           harness::bias_limit(g, harness::traits(Precision::tf32).arithmetic);
  };
  EXPECT_NEAR(spread(32, 32, 32, 60), 1, 0.3);
  EXPECT_NEAR(spread(64, 16, 40, 60), 1, 0.3);
}

TEST(VerifyTf32, BiasIsNotJudgedWhereItTellsNothing) {
  const auto limit = [](int m, int n, int k, Precision precision, float alpha = 1) {
    GemmOf<void> g{};
    g.M = m, g.N = n, g.K = k, g.batch = 1, g.alpha = alpha;
    return harness::bias_limit(g, harness::traits(precision).arithmetic);
  };
  EXPECT_LT(limit(16, 16, 16, Precision::tf32), 2e-4);
  EXPECT_LT(limit(4096, 4096, 4096, Precision::tf32), 1.5e-4);
  EXPECT_LT(limit(16384, 16384, 16384, Precision::tf32), 5e-4);
  EXPECT_EQ(limit(1, 1, 1000, Precision::tf32), inf);       // one element
  EXPECT_EQ(limit(512, 512, 65536, Precision::tf32), inf);  // what the sums lose may be as much
  EXPECT_EQ(limit(64, 64, 64, Precision::tf32, 0), inf);
  EXPECT_EQ(limit(64, 64, 64, Precision::tf32, 1e-38f), inf);
  EXPECT_EQ(limit(64, 0, 64, Precision::tf32), inf);
  EXPECT_EQ(limit(64, 64, 64, Precision::tf32_cut_off), inf);
  EXPECT_EQ(limit(64, 64, 64, Precision::fp32), inf);
  EXPECT_EQ(limit(64, 64, 64, Precision::bf16), inf);
}

// Rounding beta * C says nothing about A and B, however large it is.
TEST(VerifyTf32, BiasAllowsForALargeBeta) {
  int judged = 0;
  for (const float beta : {1.0f, 100.0f, 1e4f, 1e6f, 1e10f}) {
    for (const float alpha : {1.0f, 0x1p-10f, -0x1p-99f}) {
      Product p(48, 40, 64);
      p.gemm.alpha = alpha;
      p.gemm.beta = beta;
      p.compute(tf32(rounded_to_tf32, rounded_to_tf32));
      const Judgement judgement = judge_tf32(p);
      EXPECT_EQ(judgement.verdict.wrong, 0) << alpha << " " << beta;
      EXPECT_FALSE(judgement.biased()) << alpha << " " << beta << " " << judgement.verdict.bias();
      judged += judgement.limit < inf;
    }
  }
  EXPECT_GE(judged, 4);
  EXPECT_LT(judged, 10);
}

TEST(VerifyTf32, FindsAMissingTermAndASingleWrongElement) {
  Product p(24, 24, 4096);
  p.compute([](Terms a, const Terms& b) {
    a.back() = 0;
    return tf32(rounded_to_tf32, rounded_to_tf32)(a, b);
  });
  EXPECT_GT(judge_tf32(p).verdict.wrong, 24 * 24 / 2);
  p.compute(tf32(rounded_to_tf32, rounded_to_tf32));
  EXPECT_EQ(judge_tf32(p).verdict.wrong, 0);
  p.at(0, 11, 5) += 0.2f;
  EXPECT_EQ(judge_tf32(p).verdict.wrong, 1);
  EXPECT_EQ(judge_tf32(p).verdict.first_wrong, 11 * 24 + 5);
}

TEST(VerifyTf32, FindsLessPrecision) {
  for (const int k : {17, 256, 4096}) {
    Product p(24, 24, k);
    const auto bf16_of = [](float value) { return static_cast<float>(bf16(value)); };
    p.compute(tf32(bf16_of, bf16_of));
    EXPECT_GT(judge_tf32(p).verdict.wrong, 12) << k;
  }
}

TEST(VerifyFp16x3, BoundsAreThoseOfPartsAndAccumulator) {
  EXPECT_NEAR(tolerance_any_data(64, Precision::fp16x3), 0x1p-21 + (3 * 72 + 3) * 0x1p-23, 1e-9);
  EXPECT_NEAR(tolerance_random_data(4096, Precision::fp16x3), 0x1p-25 + 260 * 0x1p-23, 1e-9);
  EXPECT_EQ(tolerance_any_data(64, Precision::fp32_emulated), tolerance_any_data(64, Precision::fp32));
}

TEST(VerifyTf32, BoundsAreThoseOfOperandsAndAccumulator) {
  const double any = tolerance_any_data(64, Precision::tf32);
  EXPECT_NEAR(any, 0x1p-10 + (80 + 3) * 0x1p-23, 1e-6);
  EXPECT_EQ(tolerance_random_data(4, Precision::tf32), tolerance_any_data(4, Precision::tf32));
  EXPECT_NEAR(tolerance_random_data(4096, Precision::tf32), 0x1p-14 + 260 * 0x1p-23, 1e-8);
  EXPECT_EQ(tolerance_random_data(0, Precision::tf32), tolerance_any_data(0, Precision::tf32));
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::tf32_cut_off,
                                    Precision::bf16, Precision::fp16x3, Precision::fp32_emulated}) {
    EXPECT_EQ(tolerance_any_data(1 << 30, precision), inf);  // K u above 1 bounds nothing
    EXPECT_LT(tolerance_random_data(1 << 30, precision), 0.02);
  }
}

}  // namespace
