// The checker must reject what is wrong and accept whatever a correct kernel may compute.

#include "common/harness/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/unit/verify_product.hpp"

namespace {

// As where alpha is 1 and beta is 0.
double error_over_bound(float c, double reference, double magnitude, double tolerance) {
  return harness::error_over_bound(c, reference, {magnitude, 1, 0}, tolerance);
}

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

//                 [1 0]
// A B = [1 2 3]   [0 1] = [10 11]        and C = 2 A B - C0
//       [4 5 6]   [3 3]   [22 23]
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

// Alpha and the matrices are extreme, the result is not.
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

}  // namespace
