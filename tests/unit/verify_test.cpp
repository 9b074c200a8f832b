// The checker must reject what is wrong and accept whatever a correct kernel may compute.

#include "common/harness/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/harness/random.hpp"
#include "common/harness/reference_cpu.hpp"

namespace {

using harness::Precision;
using harness::Verdict;
using harness::verify_on_host;

double tolerance_any_data(int k, Precision precision = Precision::fp32) {
  return harness::tolerance_any_data(k, harness::traits(precision).arithmetic);
}
double tolerance_random_data(int k, Precision precision = Precision::fp32) {
  return harness::tolerance_random_data(k, harness::traits(precision).arithmetic);
}

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

// As where alpha is 1 and beta is 0.
double error_over_bound(float c, double reference, double magnitude, double tolerance) {
  return harness::error_over_bound(c, reference, {magnitude, 1, 0}, tolerance);
}

// ---- One element
// ------------------------------------------------------------------------------------------------

TEST(ErrorOverBound, IsTheErrorInUnitsOfTheBound) {
  EXPECT_EQ(error_over_bound(3.0f, 3.0, 8.0, 0.25), 0);
  EXPECT_NEAR(error_over_bound(4.0f, 3.0, 8.0, 0.25), 0.5, 1e-12);
  EXPECT_NEAR(error_over_bound(2.0f, 3.0, 8.0, 0.25), 0.5, 1e-12);
  EXPECT_NEAR(error_over_bound(-7.0f, 3.0, 8.0, 0.25), 5, 1e-12);
}

TEST(ErrorOverBound, NanIsWrongUnlessTheReferenceIs) {
  EXPECT_EQ(error_over_bound(nan, 1.0, 1.0, 1.0), inf);
  EXPECT_EQ(error_over_bound(nan, 0.0, 0.0, 1.0), inf);
  EXPECT_EQ(error_over_bound(nan, inf, inf, 1.0), inf);
  EXPECT_EQ(error_over_bound(nan, nan, nan, 1.0), 0);
  EXPECT_EQ(error_over_bound(1.0f, nan, nan, 1.0), inf);
  EXPECT_EQ(error_over_bound(inf, nan, nan, 1.0), inf);
}

TEST(ErrorOverBound, InfinitiesMustAgreeInSign) {
  EXPECT_EQ(error_over_bound(inf, inf, inf, 1.0), 0);
  EXPECT_EQ(error_over_bound(-inf, -inf, inf, 1.0), 0);
  EXPECT_EQ(error_over_bound(inf, -inf, inf, 1.0), inf);
  EXPECT_EQ(error_over_bound(FLT_MAX, inf, inf, 1.0), inf);
  EXPECT_EQ(error_over_bound(inf, 1.0, 1.0, 1.0), inf);
  EXPECT_EQ(error_over_bound(-inf, FLT_MAX, FLT_MAX, 1.0), inf);
}

// Partial sums may overflow where the result does not: any value may come out.
TEST(ErrorOverBound, PossibleOverflowIsNotJudged) {
  const double beyond = 2.0 * FLT_MAX;
  for (const float c : {inf, nan, 5.0f}) EXPECT_EQ(error_over_bound(c, 1.0, beyond, 1e-6), 0);
  EXPECT_EQ(error_over_bound(inf, beyond, beyond, 1e-6), 0);
}

// Below the smallest normal number precision is lost, or everything (flush to zero).
TEST(ErrorOverBound, SubnormalResultsMayBeFlushed) {
  EXPECT_LE(error_over_bound(0.0f, FLT_MIN / 2, FLT_MIN / 2, 1e-7), 1);
  EXPECT_LE(error_over_bound(0.0f, 0.0, 0.0, 0.0), 0);
  EXPECT_GT(error_over_bound(4 * FLT_MIN, 0.0, 0.0, 0.0), 1);
}

TEST(ErrorOverBound, ScalesWithAlphaAndTheOldC) {
  EXPECT_NEAR(harness::error_over_bound(4.0f, 3.0, {8, 2, 0}, 0.25), 0.25, 1e-12);
  EXPECT_NEAR(harness::error_over_bound(4.0f, 3.0, {8, 0.5, 4}, 0.25), 0.5, 1e-12);
  EXPECT_NEAR(harness::error_over_bound(4.0f, 3.0, {0, 1, 8}, 0.25), 0.5, 1e-12);
}

// The sum may overflow before a small alpha makes it fit: any value may come out.
TEST(ErrorOverBound, PossibleOverflowBeforeAlphaIsNotJudged) {
  for (const float c : {inf, nan, 5.0f})
    EXPECT_EQ(harness::error_over_bound(c, 1.0, {1e50, 1e-30, 0}, 1e-6), 0);
  EXPECT_EQ(harness::error_over_bound(nan, 1.0, {1e38, 1e-30, 0}, 1e-6), inf);
}

// The sum may vanish before a large alpha brings it back.
TEST(ErrorOverBound, UnderflowBeforeAlphaIsForgiven) {
  EXPECT_LE(harness::error_over_bound(0.0f, 1e-12, {1e-50, 1e38, 0}, 1e-6), 1);
  EXPECT_GT(harness::error_over_bound(0.0f, 10.0, {1e-37, 1e38, 0}, 1e-6), 1);
}

TEST(Tolerance, GrowsWithK) {
  for (const int k : {0, 1, 2, 100, 4096, 1 << 20}) {
    EXPECT_LT(tolerance_any_data(k), tolerance_any_data(k + 1));
    EXPECT_LE(tolerance_random_data(k), tolerance_random_data(k + 1));
    EXPECT_LE(tolerance_random_data(k), tolerance_any_data(k));
    EXPECT_GT(tolerance_random_data(k), 0x1p-23);  // alpha * sum + beta * c rounds three times by 2^-24
  }
  EXPECT_NEAR(tolerance_any_data(1000), 1004 * 0x1p-24, 1e-8);
  // With the harness's own data a forgotten tile must show, even at a large K.
  EXPECT_LT(tolerance_random_data(4096), 20e-6);
}

// ---- A whole product
// --------------------------------------------------------------------------------------------

// A product with matrices of its own. C is not filled in.
template <typename T>
struct ProductOf {
  ProductOf(int M, int N, int K, int batch = 1, int pad = 0) {
    gemm.M = M;
    gemm.N = N;
    gemm.K = K;
    gemm.batch = batch;
    gemm.alpha = 1;
    gemm.lda = K + pad;
    gemm.ldb = gemm.ldc = N + pad;
    gemm.strideA = gemm.lda * M + pad;
    gemm.strideB = gemm.ldb * K + pad;
    gemm.strideC = gemm.ldc * M + pad;
    // What lies outside of the matrices spoils every result that it gets into.
    a.assign(gemm.strideA * batch + 1, T(nan));
    b.assign(gemm.strideB * batch + 1, T(nan));
    c.assign(gemm.strideC * batch + 1, nan);
    c0.assign(gemm.strideC * batch + 1, nan);
    fill(a, M, K, gemm.lda, gemm.strideA, 1);
    fill(b, K, N, gemm.ldb, gemm.strideB, 2);
    fill(c0, M, N, gemm.ldc, gemm.strideC, 3);
    gemm.A = a.data();
    gemm.B = b.data();
    gemm.C = c.data();
  }
  ProductOf(const ProductOf&) = delete;

  template <typename E>
  void fill(std::vector<E>& to, int rows, int cols, std::int64_t ld, std::int64_t stride,
            std::uint64_t seed) {
    std::uint64_t index = 0;
    for (int matrix = 0; matrix < gemm.batch; ++matrix) {
      for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) {
          to[matrix * stride + row * ld + col] =
              E(harness::uniform(seed, index++, harness::traits(harness::input_of<E>).significand_bits));
        }
      }
    }
  }

  float& at(int matrix, int row, int col) { return c[matrix * gemm.strideC + row * gemm.ldc + col]; }

  // Fills in C with `sum(terms)`, in which terms[k] = a[k] and b[k].
  using Sum = std::function<float(const std::vector<float>& a, const std::vector<float>& b)>;
  void compute(const Sum& sum) {
    std::vector<float> row_a(gemm.K), col_b(gemm.K);
    for (int matrix = 0; matrix < gemm.batch; ++matrix) {
      for (int row = 0; row < gemm.M; ++row) {
        for (int col = 0; col < gemm.N; ++col) {
          for (int k = 0; k < gemm.K; ++k) {
            row_a[k] = a[matrix * gemm.strideA + row * gemm.lda + k];
            col_b[k] = b[matrix * gemm.strideB + k * gemm.ldb + col];
          }
          const float product = gemm.alpha * sum(row_a, col_b);
          at(matrix, row, col) = gemm.beta == 0
                                     ? product
                                     : product + gemm.beta * c0[matrix * gemm.strideC + row * gemm.ldc + col];
        }
      }
    }
  }

  Verdict verify(double tolerance) const {
    return verify_on_host(gemm, gemm.beta == 0 ? nullptr : c0.data(), tolerance);
  }
  Verdict verify() const {
    return verify(tolerance_random_data(gemm.K, harness::usual_precision(harness::input_of<T>)));
  }

  GemmOf<T> gemm{};
  std::vector<T> a, b;
  std::vector<float> c, c0;
};
using Product = ProductOf<float>;

float forwards(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}
float backwards(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t k = a.size(); k-- > 0;) sum += a[k] * b[k];
  return sum;
}
float fused(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum = std::fmaf(a[k], b[k], sum);
  return sum;
}
// Eight sums side by side, as with split K.
float split(const std::vector<float>& a, const std::vector<float>& b) {
  float sums[8] = {};
  for (std::size_t k = 0; k < a.size(); ++k) sums[k % 8] += a[k] * b[k];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
const Product::Sum orders[] = {forwards, backwards, fused, split};

// [1 2 3] [1 0]   [10 11]
// [4 5 6] [0 1] = [22 23]  for C = 2 A B - C0, C0 = [-2 -1; 0 3]: [22 31; 44 55]... written out below.
//         [3 3]
TEST(VerifyOnHost, SmallCaseByHand) {
  const float a[] = {1, 2, 3, nan,  //
                     4, 5, 6, nan};
  const float b[] = {1, 0, nan, nan, nan,  //
                     0, 1, nan, nan, nan,  //
                     3, 3, nan, nan, nan};
  const float c0[] = {-2, -1, nan,  //
                      0,  3,  nan};
  float c[] = {2 * 10 + 2, 2 * 11 + 1, nan,  //
               2 * 22 - 0, 2 * 23 - 3, nan};
  const Gemm gemm{.M = 2,
                  .N = 2,
                  .K = 3,
                  .batch = 1,
                  .alpha = 2,
                  .A = a,
                  .lda = 4,
                  .strideA = 8,
                  .B = b,
                  .ldb = 5,
                  .strideB = 15,
                  .beta = -1,
                  .C = c,
                  .ldc = 3,
                  .strideC = 6};
  Verdict verdict = verify_on_host(gemm, c0, 1e-7);
  EXPECT_EQ(verdict.wrong, 0);
  EXPECT_EQ(verdict.first_wrong, -1);
  EXPECT_EQ(verdict.max_error, 0);
  EXPECT_EQ(verdict.max_error_over_bound, 0);

  c[4] += 0.5f;
  verdict = verify_on_host(gemm, c0, 1e-2);
  EXPECT_EQ(verdict.max_error, 0.5);
  EXPECT_NEAR(verdict.max_error_over_bound, 0.5 / (1e-2 * (2 * 23 + 3)), 1e-6);
  EXPECT_EQ(verdict.wrong, 1);
  EXPECT_EQ(verdict.first_wrong, 3);
}

TEST(VerifyOnHost, AcceptsAnyOrderOfSummation) {
  for (const auto& order : orders) {
    Product p(24, 24, 4096);
    p.compute(order);
    const Verdict verdict = p.verify();
    EXPECT_EQ(verdict.wrong, 0) << verdict.max_error_over_bound;
    EXPECT_GT(verdict.max_error, 0);
  }
}

// Nothing cancels, and all sums grow: the worst case for the statistical bound.
TEST(VerifyOnHost, AcceptsPositiveData) {
  for (const auto& order : orders) {
    Product p(24, 24, 4096);
    for (float& value : p.a) value = std::fabs(value);
    for (float& value : p.b) value = std::fabs(value);
    p.compute(order);
    EXPECT_EQ(p.verify(tolerance_any_data(4096)).wrong, 0);
  }
}

// All roundings go the same way here: 1 + 4095 times a little less than half a unit in the last place.
TEST(VerifyOnHost, AcceptsTheWorstRoundingErrors) {
  Product p(1, 1, 4096);
  std::fill_n(p.a.begin(), 4096, 0x1.fp-25f);
  std::fill_n(p.b.begin(), 4096, 1.0f);
  p.a[0] = 1.0f;
  p.compute(forwards);
  EXPECT_EQ(p.at(0, 0, 0), 1.0f);
  EXPECT_EQ(p.verify(tolerance_any_data(4096)).wrong, 0);
  EXPECT_EQ(p.verify(tolerance_random_data(4096)).wrong, 1);  // much sharper
}

TEST(VerifyOnHost, AlphaBetaBatchAndLeadingDimensions) {
  for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {2.0f, 1.0f}, {-0.5f, -0.5f}, {0.0f, 2.0f}}) {
    Product p(7, 9, 30, 3, 5);
    p.gemm.alpha = alpha;
    p.gemm.beta = beta;
    p.compute(forwards);
    EXPECT_EQ(p.verify().wrong, 0) << alpha << " " << beta;

    // A slip of each factor shows.
    p.gemm.alpha = alpha + 1;
    EXPECT_EQ(p.verify().wrong, 3 * 7 * 9) << alpha << " " << beta;
    p.gemm.alpha = alpha;
    p.gemm.beta = beta + 1;
    EXPECT_EQ(p.verify().wrong, 3 * 7 * 9) << alpha << " " << beta;
    p.gemm.beta = beta;
    // The last element of the last matrix, and the first of the second.
    p.at(2, 6, 8) += 0.01f;
    EXPECT_EQ(p.verify().wrong, 1);
    EXPECT_EQ(p.verify().first_wrong, 3 * 7 * 9 - 1);
    p.at(1, 0, 0) += 0.01f;
    EXPECT_EQ(p.verify().wrong, 2);
    EXPECT_EQ(p.verify().first_wrong, 7 * 9);
  }
}

TEST(VerifyOnHost, BetaZeroDoesNotReadTheOldC) {
  Product p(4, 4, 4);
  p.compute(forwards);
  EXPECT_EQ(verify_on_host(p.gemm, nullptr, tolerance_random_data(4)).wrong, 0);
}

TEST(VerifyOnHost, FindsASingleWrongElement) {
  for (const auto& [row, col] : {std::pair{0, 0}, {0, 23}, {11, 5}, {23, 0}, {23, 23}}) {
    Product p(24, 24, 4096);
    p.compute(split);
    p.at(0, row, col) += 0.1f;
    const Verdict verdict = p.verify();
    EXPECT_EQ(verdict.wrong, 1);
    EXPECT_EQ(verdict.first_wrong, row * 24 + col);
    EXPECT_NEAR(verdict.max_error, 0.1, 0.01);
  }
}

TEST(VerifyOnHost, FindsNanAndInfinity) {
  for (const float bad : {nan, inf, -inf}) {
    Product p(5, 6, 7);
    p.compute(forwards);
    p.at(0, 4, 5) = bad;
    const Verdict verdict = p.verify(1e30);  // however tolerant
    EXPECT_EQ(verdict.wrong, 1);
    EXPECT_EQ(verdict.first_wrong, 29);
    EXPECT_EQ(verdict.max_error_over_bound, inf);
  }
}

TEST(VerifyOnHost, NanInTheInputBelongsInTheOutput) {
  Product p(3, 3, 3);
  p.a[1] = nan;  // row 0
  p.compute(forwards);
  EXPECT_TRUE(std::isnan(p.at(0, 0, 2)));
  EXPECT_EQ(p.verify().wrong, 0);
  p.at(0, 0, 2) = 1.0f;
  EXPECT_EQ(p.verify().wrong, 1);
}

TEST(VerifyOnHost, FindsAMissingLastTerm) {
  Product p(24, 24, 4096);
  p.compute([](std::vector<float> a, const std::vector<float>& b) {
    a.back() = 0;
    return split(a, b);
  });
  EXPECT_GT(p.verify().wrong, 24 * 24 * 3 / 4);  // a few terms are too small to matter
}

TEST(VerifyOnHost, FindsReducedPrecision) {
  Product p(24, 24, 4096);
  const auto tf32 = [](float value) { return std::ldexp(std::rint(std::ldexp(value, 10)), -10); };
  p.compute([&](std::vector<float> a, std::vector<float> b) {
    for (float& value : a) value = tf32(value);
    for (float& value : b) value = tf32(value);
    return split(a, b);
  });
  EXPECT_GT(p.verify().wrong, 0);
}

// What a correct kernel computes where alpha and the matrices are extreme, but not the result.
TEST(VerifyOnHost, AcceptsExtremeScales) {
  const std::pair<float, float> scales[] = {
      {1e25f, 1e-30f}, {1e-25f, 1e38f}, {1e-20f, 1e38f}, {1e18f, 1e-36f}};
  for (const auto& [scale, alpha] : scales) {
    Product p(5, 6, 70);
    p.gemm.alpha = alpha;
    for (float& value : p.a) value *= scale;
    for (float& value : p.b) value *= scale;
    p.compute(forwards);
    const Verdict verdict = p.verify();
    EXPECT_EQ(verdict.wrong, 0) << scale << " " << alpha << " " << verdict.max_error_over_bound;
  }
}

TEST(VerifyOnHost, EmptyProducts) {
  for (const auto& [m, n, batch] : {std::tuple{0, 4, 1}, {4, 0, 1}, {4, 4, 0}, {0, 0, 0}}) {
    Product p(m, n, 3, batch);
    const Verdict verdict = p.verify();
    EXPECT_EQ(verdict.wrong, 0);
    EXPECT_EQ(verdict.first_wrong, -1);
  }
  Product no_terms(2, 2, 0);
  no_terms.compute(forwards);
  EXPECT_EQ(no_terms.verify().wrong, 0);
  no_terms.at(0, 1, 1) = 1e-30f;
  EXPECT_EQ(no_terms.verify().wrong, 1);
}

// ---- BF16 inputs
// --------------------------------------------------------------------------------------------------

using ProductBf16 = ProductOf<bf16>;
using Terms = std::vector<float>;

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

// With numbers that all go one way the errors do, too: the bound for any data has to hold.
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

// ---- Operands rounded to TF32
// -----------------------------------------------------------------------------------

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

// More precision than was promised is no mistake.
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

TEST(VerifyTf32, BoundsAreThoseOfOperandsAndAccumulator) {
  const double any = tolerance_any_data(64, Precision::tf32);
  EXPECT_NEAR(any, 0x1p-10 + (80 + 3) * 0x1p-23, 1e-6);
  EXPECT_EQ(tolerance_random_data(4, Precision::tf32), tolerance_any_data(4, Precision::tf32));
  EXPECT_NEAR(tolerance_random_data(4096, Precision::tf32), 0x1p-14 + 260 * 0x1p-23, 1e-8);
  EXPECT_EQ(tolerance_random_data(0, Precision::tf32), tolerance_any_data(0, Precision::tf32));
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::tf32_cut_off, Precision::bf16}) {
    EXPECT_EQ(tolerance_any_data(1 << 30, precision), inf);  // K u above 1 bounds nothing
    EXPECT_LT(tolerance_random_data(1 << 30, precision), 0.02);
  }
}

}  // namespace
