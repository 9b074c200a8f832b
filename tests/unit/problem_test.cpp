#include "common/harness/problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "common/harness/error.hpp"

namespace {

using harness::AnyGemm;
using harness::checked;
using harness::Extent;
using harness::Input;
using harness::InputError;
using harness::Layout;
using harness::Problem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

// The message with which checked() refuses the problem, or "accepted".
std::string refusal(const Problem& problem) {
  try {
    checked(problem);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

Problem shape(std::int64_t m, std::int64_t n, std::int64_t k) { return {.m = m, .n = n, .k = k}; }

TEST(Problem, FillsInDenseLeadingDimensions) {
  const Problem rows = checked(shape(35, 79, 19));
  EXPECT_EQ(rows.lda, 19);
  EXPECT_EQ(rows.ldb, 79);
  EXPECT_EQ(rows.ldc, 79);
  Problem p = shape(35, 79, 19);
  p.layout = Layout::column_major;
  const Problem cols = checked(p);
  EXPECT_EQ(cols.lda, 35);
  EXPECT_EQ(cols.ldb, 19);
  EXPECT_EQ(cols.ldc, 35);
}

TEST(Problem, KeepsGivenLeadingDimensions) {
  Problem p = shape(3, 4, 5);
  p.lda = 5;  // the smallest
  p.ldb = 7;
  p.ldc = 1000;
  p = checked(p);
  EXPECT_EQ(p.lda, 5);
  EXPECT_EQ(p.ldb, 7);
  EXPECT_EQ(p.ldc, 1000);
}

TEST(Problem, EmptyMatricesAreFine) {
  for (const Problem& p : {shape(0, 5, 7), shape(5, 0, 7), shape(5, 7, 0), shape(0, 0, 0)}) {
    const Problem c = checked(p);
    EXPECT_GE(c.lda, 1);
    EXPECT_GE(c.ldb, 1);
    EXPECT_GE(c.ldc, 1);
  }
  Problem p = shape(5, 5, 5);
  p.batch = 0;
  EXPECT_EQ(refusal(p), "accepted");
}

TEST(Problem, NegativeSizes) {
  EXPECT_THAT(refusal(shape(-1, 2, 3)), AllOf(HasSubstr("--m is -1"), HasSubstr("negative")));
  EXPECT_THAT(refusal(shape(2, -7, 3)), AllOf(HasSubstr("--n is -7"), HasSubstr("negative")));
  EXPECT_THAT(refusal(shape(2, 3, -huge - 1)),
              AllOf(HasSubstr("--k is -2^63 or less"), HasSubstr("negative")));
  Problem p = shape(2, 3, 4);
  p.batch = -2;
  EXPECT_THAT(refusal(p), HasSubstr("--batch is -2"));
}

TEST(Problem, SizesBeyondTheLimit) {
  constexpr std::int64_t limit = harness::max_dimension;
  EXPECT_EQ(refusal(shape(limit, 1, 1)), "accepted");
  EXPECT_EQ(refusal(shape(1, limit, 1)), "accepted");
  EXPECT_EQ(refusal(shape(1, 1, limit)), "accepted");
  EXPECT_THAT(refusal(shape(limit + 1, 1, 1)), AllOf(HasSubstr("--m"), HasSubstr("too large")));
  EXPECT_THAT(refusal(shape(1, huge, 1)), AllOf(HasSubstr("--n"), HasSubstr("too large")));
  EXPECT_THAT(refusal(shape(1, 1, std::int64_t{1} << 31)), AllOf(HasSubstr("--k"), HasSubstr("too large")));
  Problem p = shape(1, 1, 1);
  p.batch = harness::max_batch;
  EXPECT_EQ(refusal(p), "accepted");
  ++p.batch;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("--batch"), HasSubstr("too large")));
}

// The command line makes the largest number of anything larger, which nobody typed.
TEST(Problem, NumbersBeyond64Bits) {
  EXPECT_THAT(refusal(shape(1, huge, 1)),
              AllOf(HasSubstr("--n is 2^63 - 1 or more"), HasSubstr("too large")));
  Problem p = shape(1, 1, 1);
  p.lda = huge;
  EXPECT_THAT(refusal(p), HasSubstr("2^63 - 1 or more"));
}

TEST(Problem, SizesInBytesThatDoNotFit) {
  Problem p = shape(harness::max_dimension, 1, harness::max_dimension);
  EXPECT_THAT(refusal(p), HasSubstr("address space"));  // 2^60 elements
  p = shape(1, 1, 1);
  p.lda = huge;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("address space"), HasSubstr("--lda")));
  p = shape(3, 1, 1);
  p.ldc = huge / 2;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("address space"), HasSubstr("--ldc")));
  p = shape(1 << 20, 1, 1 << 20);
  EXPECT_EQ(refusal(p), "accepted");  // 2^40
  p.batch = 1 << 19;                  // 2^59
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("address space"), HasSubstr("524288 times")));
}

TEST(Problem, LeadingDimensionsTooSmall) {
  Problem p = shape(4, 5, 6);
  p.lda = 5;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("--lda is 5"), HasSubstr("at least 6")));
  p = shape(4, 5, 6);
  p.ldb = 4;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("--ldb is 4"), HasSubstr("at least 5")));
  p = shape(4, 5, 6);
  p.ldc = -1;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("--ldc is -1"), HasSubstr("negative")));
  p = shape(4, 5, 6);
  p.layout = Layout::column_major;
  p.lda = 3;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("--lda is 3"), HasSubstr("at least 4")));
  p.lda = 4;
  p.ldb = 5;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("--ldb is 5"), HasSubstr("at least 6")));
  p.ldb = 6;
  p.ldc = 3;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("--ldc is 3"), HasSubstr("at least 4")));
}

TEST(Problem, RowMajorForTheSteps) {
  Problem p = shape(35, 79, 19);
  p.batch = 3;
  p.lda = 23;
  p.ldb = 83;
  p.ldc = 97;
  p.alpha = 2.0f;
  p.beta = -0.5f;
  const AnyGemm g = harness::to_row_major(checked(p), Input::fp32);
  EXPECT_EQ(g.M, 35);
  EXPECT_EQ(g.N, 79);
  EXPECT_EQ(g.K, 19);
  EXPECT_EQ(g.batch, 3);
  EXPECT_EQ(g.alpha, 2.0f);
  EXPECT_EQ(g.beta, -0.5f);
  EXPECT_EQ(g.lda, 23);
  EXPECT_EQ(g.ldb, 83);
  EXPECT_EQ(g.ldc, 97);
  EXPECT_EQ(g.strideA, 35 * 23);
  EXPECT_EQ(g.strideB, 19 * 83);
  EXPECT_EQ(g.strideC, 35 * 97);
  EXPECT_EQ(g.A, nullptr);
  EXPECT_EQ(g.B, nullptr);
  EXPECT_EQ(g.C, nullptr);
}

// Column-major: the kernel's A is the user's B, and the kernel's M is the user's n.
TEST(Problem, ColumnMajorExchangesTheOperands) {
  Problem p = shape(35, 79, 19);
  p.layout = Layout::column_major;
  p.batch = 2;
  p.lda = 36;
  p.ldb = 20;
  p.ldc = 40;
  const AnyGemm g = harness::to_row_major(checked(p), Input::fp32);
  EXPECT_EQ(g.M, 79);
  EXPECT_EQ(g.N, 35);
  EXPECT_EQ(g.K, 19);
  EXPECT_EQ(g.batch, 2);
  EXPECT_EQ(g.lda, 20);
  EXPECT_EQ(g.ldb, 36);
  EXPECT_EQ(g.ldc, 40);
  EXPECT_EQ(g.strideA, 79 * 20);
  EXPECT_EQ(g.strideB, 19 * 36);
  EXPECT_EQ(g.strideC, 79 * 40);
}

TEST(Problem, StridesBeyond32Bits) {
  const AnyGemm g = harness::to_row_major(checked(shape(1 << 20, 1 << 18, 1 << 19)), Input::fp32);
  EXPECT_EQ(g.strideA, std::int64_t{1} << 39);
  EXPECT_EQ(g.strideB, std::int64_t{1} << 37);
  EXPECT_EQ(g.strideC, std::int64_t{1} << 38);
}

TEST(Problem, Extents) {
  Problem p = shape(35, 79, 19);
  p.batch = 3;
  p.ldb = 83;
  const AnyGemm g = harness::to_row_major(checked(p), Input::fp32);
  const auto expect = [](const Extent& e, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
    EXPECT_EQ(e.rows, rows);
    EXPECT_EQ(e.cols, cols);
    EXPECT_EQ(e.leading_dimension, ld);
    EXPECT_EQ(e.batch, 3);
    EXPECT_EQ(e.stride, rows * ld);
    EXPECT_EQ(e.elements(), static_cast<std::size_t>(3 * rows * ld));
  };
  expect(harness::extent_a(g), 35, 19, 19);
  expect(harness::extent_b(g), 19, 79, 83);
  expect(harness::extent_c(g), 35, 79, 79);
}

TEST(Problem, Text) {
  EXPECT_EQ(to_string(checked(shape(35, 79, 19))), "35 x 79 x 19");
  EXPECT_EQ(to_string(checked(shape(0, 0, 0))), "0 x 0 x 0");
  Problem p = shape(4, 5, 6);
  p.batch = 3;
  p.lda = 7;
  p.ldb = 5;  // as usual
  p.ldc = 9;
  p.alpha = -0.5f;
  p.beta = 2.0f;
  EXPECT_EQ(to_string(checked(p)), "4 x 5 x 6 batch 3 lda 7 ldc 9 alpha -0.5 beta 2");
  p = shape(4, 5, 6);
  p.layout = Layout::column_major;
  EXPECT_EQ(to_string(checked(p)), "4 x 5 x 6 col");
  p.lda = 6;
  EXPECT_EQ(to_string(checked(p)), "4 x 5 x 6 lda 6 col");
}

}  // namespace
