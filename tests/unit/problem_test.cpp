#include "common/harness/problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

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
using testing::FieldsAre;
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
  Problem p = shape(35, 79, 19);
  const Problem rows = checked(p);
  EXPECT_THAT(std::tuple(rows.lda, rows.ldb, rows.ldc), FieldsAre(19, 79, 79));
  p.layout = Layout::column_major;
  const Problem cols = checked(p);
  EXPECT_THAT(std::tuple(cols.lda, cols.ldb, cols.ldc), FieldsAre(35, 19, 35));
}

TEST(Problem, KeepsGivenLeadingDimensions) {
  const Problem p = checked({.m = 3, .n = 4, .k = 5, .lda = 5, .ldb = 7, .ldc = 1000});  // 5: the smallest
  EXPECT_THAT(std::tuple(p.lda, p.ldb, p.ldc), FieldsAre(5, 7, 1000));
}

TEST(Problem, EmptyMatricesAreFine) {
  for (const Problem& p : {shape(0, 5, 7),
                           shape(5, 0, 7),
                           shape(5, 7, 0),
                           shape(0, 0, 0),
                           {.m = 5, .n = 5, .k = 5, .batch = 0}}) {
    const Problem c = checked(p);
    EXPECT_GE(std::min({c.lda, c.ldb, c.ldc}), 1);
  }
}

TEST(Problem, AcceptsTheLimits) {
  constexpr std::int64_t limit = harness::max_dimension;
  for (const Problem& p : {shape(limit, 1, 1),
                           shape(1, limit, 1),
                           shape(1, 1, limit),
                           shape(1 << 20, 1, 1 << 20),  // 2^40 elements
                           {.m = 1, .n = 1, .k = 1, .batch = harness::max_batch}}) {
    EXPECT_EQ(refusal(p), "accepted");
  }
}

// The command line makes the largest number of anything larger, which nobody typed.
TEST(Problem, NamesWhatItRefuses) {
  constexpr std::int64_t limit = harness::max_dimension;
  constexpr Layout columns = Layout::column_major;
  struct Case {
    Problem problem;
    const char *what, *why;
  };
  for (const auto& [problem, what, why] : std::vector<Case>{
           {shape(-1, 2, 3), "--m is -1", "negative"},
           {shape(2, -7, 3), "--n is -7", "negative"},
           {shape(2, 3, -huge - 1), "--k is -2^63 or less", "negative"},
           {{.m = 2, .n = 3, .k = 4, .batch = -2}, "--batch is -2", "negative"},
           {shape(limit + 1, 1, 1), "--m", "too large"},
           {shape(1, huge, 1), "--n is 2^63 - 1 or more", "too large"},
           {shape(1, 1, std::int64_t{1} << 31), "--k", "too large"},
           {{.m = 1, .n = 1, .k = 1, .batch = harness::max_batch + 1}, "--batch", "too large"},
           // Sizes in bytes.
           {shape(limit, 1, limit), "", "address space"},  // 2^60 elements
           {{.m = 1, .n = 1, .k = 1, .lda = huge}, "--lda", "address space"},
           {{.m = 1, .n = 1, .k = 1, .lda = huge}, "2^63 - 1 or more", "address space"},
           {{.m = 3, .n = 1, .k = 1, .ldc = huge / 2}, "--ldc", "address space"},
           {{.m = 1 << 20, .n = 1, .k = 1 << 20, .batch = 1 << 19}, "524288 times", "address space"},
           // Leading dimensions.
           {{.m = 4, .n = 5, .k = 6, .lda = 5}, "--lda is 5", "at least 6"},
           {{.m = 4, .n = 5, .k = 6, .ldb = 4}, "--ldb is 4", "at least 5"},
           {{.m = 4, .n = 5, .k = 6, .ldc = -1}, "--ldc is -1", "negative"},
           {{.m = 4, .n = 5, .k = 6, .lda = 3, .layout = columns}, "--lda is 3", "at least 4"},
           {{.m = 4, .n = 5, .k = 6, .lda = 4, .ldb = 5, .layout = columns}, "--ldb is 5", "at least 6"},
           {{.m = 4, .n = 5, .k = 6, .ldc = 3, .layout = columns}, "--ldc is 3", "at least 4"},
           // Strides, at which matrices overlap: of 4 x 6 elements; of rows in turn, 3 x 6 of which do not
           // fit.
           {{.m = 4, .n = 5, .k = 6, .batch = 2, .stride_a = 23}, "--stride-a is 23", "at least 24, or 0"},
           {{.m = 4, .n = 5, .k = 6, .batch = 2, .stride_c = 0}, "--stride-c is 0", "at least 20"},
           {{.m = 4, .n = 5, .k = 6, .batch = 3, .lda = 17, .stride_a = 6}, "--stride-a is 6", "at least 57"},
           {{.m = 4, .n = 5, .k = 6, .batch = 3, .lda = 18, .stride_a = 5}, "--stride-a is 5", "at least 60"},
           {{.m = 4, .n = 5, .k = 6, .batch = 2, .stride_b = -1}, "--stride-b is -1", "negative"},
           {{.m = 4, .n = 5, .k = 6, .batch = 2, .stride_b = huge / 4}, "--stride-b", "address space"},
           {{.m = 4, .n = 5, .k = 6, .offset_a = -1}, "--offset-a is -1", "negative"},
           {{.m = 4, .n = 5, .k = 6, .offset_c = 4096}, "--offset-c is 4096", "4095"},
       }) {
    EXPECT_THAT(refusal(problem), AllOf(HasSubstr(what), HasSubstr(why)));
  }
}

TEST(Problem, RowMajorForTheSteps) {
  const Problem p{
      .m = 35, .n = 79, .k = 19, .batch = 3, .lda = 23, .ldb = 83, .ldc = 97, .alpha = 2, .beta = -0.5f};
  const AnyGemm g = harness::to_row_major(checked(p), Input::fp32);
  EXPECT_THAT(std::tuple(g.M, g.N, g.K, g.batch, g.alpha, g.beta), FieldsAre(35, 79, 19, 3, 2.0f, -0.5f));
  EXPECT_THAT(std::tuple(g.lda, g.ldb, g.ldc), FieldsAre(23, 83, 97));
  EXPECT_THAT(std::tuple(g.strideA, g.strideB, g.strideC), FieldsAre(35 * 23, 19 * 83, 35 * 97));
  EXPECT_TRUE(g.A == nullptr && g.B == nullptr && g.C == nullptr);
}

// Column-major: the kernel's A is the user's B, and the kernel's M is the user's n.
TEST(Problem, ColumnMajorExchangesTheOperands) {
  const Problem p{
      .m = 35, .n = 79, .k = 19, .batch = 2, .lda = 36, .ldb = 20, .ldc = 40, .layout = Layout::column_major};
  const AnyGemm g = harness::to_row_major(checked(p), Input::fp32);
  EXPECT_THAT(std::tuple(g.M, g.N, g.K, g.batch), FieldsAre(79, 35, 19, 2));
  EXPECT_THAT(std::tuple(g.lda, g.ldb, g.ldc), FieldsAre(20, 36, 40));
  EXPECT_THAT(std::tuple(g.strideA, g.strideB, g.strideC), FieldsAre(79 * 20, 19 * 36, 79 * 40));
}

TEST(Problem, AcceptsStridesWithoutOverlap) {
  for (const Problem& p : std::vector<Problem>{
           {.m = 4, .n = 5, .k = 6, .batch = 2, .stride_a = 24, .stride_b = 30, .stride_c = 20},
           {.m = 4, .n = 5, .k = 6, .batch = 2, .lda = 9, .stride_a = 33},  // into the last row's gap
           {.m = 4, .n = 5, .k = 6, .batch = 3, .lda = 18, .stride_a = 6},  // rows in turn
           {.m = 4, .n = 5, .k = 6, .batch = 3, .stride_a = 0, .stride_b = 0},
           {.m = 4, .n = 5, .k = 6, .batch = 1, .stride_c = 0},
           {.m = 0, .n = 5, .k = 6, .batch = 3, .stride_c = 0},
       }) {
    EXPECT_EQ(refusal(p), "accepted") << to_string(p);
  }
}

// In place of addresses there are the offsets in bytes.
TEST(Problem, StridesAndOffsetsForTheSteps) {
  Problem p{.m = 4,
            .n = 5,
            .k = 6,
            .batch = 2,
            .stride_a = 101,
            .stride_b = 102,
            .stride_c = 103,
            .offset_a = 1,
            .offset_b = 2,
            .offset_c = 3};
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  AnyGemm g = harness::to_row_major(checked(p), Input::bf16);
  EXPECT_THAT(std::tuple(g.strideA, g.strideB, g.strideC), FieldsAre(101, 102, 103));
  EXPECT_THAT(std::tuple(address(g.A), address(g.B), address(g.C)), FieldsAre(2, 4, 12));
  p.layout = Layout::column_major;
  g = harness::to_row_major(checked(p), Input::fp32);
  EXPECT_THAT(std::tuple(g.strideA, g.strideB, g.strideC), FieldsAre(102, 101, 103));
  EXPECT_THAT(std::tuple(address(g.A), address(g.B), address(g.C)), FieldsAre(8, 4, 12));
}

TEST(Problem, ExtentOfASharedMatrix) {
  const Problem p{.m = 4, .n = 5, .k = 6, .batch = 3, .stride_a = 0, .stride_b = 40};
  const AnyGemm g = harness::to_row_major(checked(p), Input::fp32);
  EXPECT_EQ(harness::extent_a(g).batch, 1);
  EXPECT_EQ(harness::extent_a(g).elements(), 24u);
  EXPECT_EQ(harness::extent_b(g).batch, 3);
  EXPECT_EQ(harness::extent_b(g).elements(), 2u * 40 + 30);
}

TEST(Problem, StridesBeyond32Bits) {
  const AnyGemm g = harness::to_row_major(checked(shape(1 << 20, 1 << 18, 1 << 19)), Input::fp32);
  EXPECT_EQ(g.strideA, std::int64_t{1} << 39);
  EXPECT_EQ(g.strideB, std::int64_t{1} << 37);
  EXPECT_EQ(g.strideC, std::int64_t{1} << 38);
}

TEST(Problem, Extents) {
  const AnyGemm g =
      harness::to_row_major(checked({.m = 35, .n = 79, .k = 19, .batch = 3, .ldb = 83}), Input::fp32);
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
  // ldb is the usual one.
  EXPECT_EQ(
      to_string(checked(
          {.m = 4, .n = 5, .k = 6, .batch = 3, .lda = 7, .ldb = 5, .ldc = 9, .alpha = -0.5f, .beta = 2})),
      "4 x 5 x 6 batch 3 lda 7 ldc 9 alpha -0.5 beta 2");
  Problem p{.m = 4, .n = 5, .k = 6, .layout = Layout::column_major};
  EXPECT_EQ(to_string(checked(p)), "4 x 5 x 6 col");
  p.lda = 6;
  EXPECT_EQ(to_string(checked(p)), "4 x 5 x 6 lda 6 col");
  const Problem apart{
      .m = 4, .n = 5, .k = 6, .batch = 2, .stride_a = 0, .stride_b = 30, .stride_c = 99, .offset_b = 7};
  EXPECT_EQ(to_string(checked(apart)), "4 x 5 x 6 batch 2 stride-a 0 stride-c 99 offset-b 7");
}

}  // namespace
