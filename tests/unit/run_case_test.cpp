// One problem from matrices to verdict, with steps that go wrong on purpose: each kind of mistake is named,
// whatever the type of the inputs.

#include "common/harness/run_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using harness::Input;
using harness::input_of;
using harness::Problem;
using harness::Request;
using harness::Result;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A step on the host: a product in which each kind of mistake can be made.
struct Mistakes {
  bool dense_a = false, dense_b = false, alpha_twice = false;
  int first_k = 0, missing_k = 0;
  std::int64_t unwritten = -1;
};
Mistakes mistakes;

template <typename T>
void step(const GemmOf<T>& g) {
  for (int matrix = 0; matrix < g.batch; ++matrix) {
    for (int row = 0; row < g.M; ++row) {
      for (int col = 0; col < g.N; ++col) {
        float sum = 0;
        for (int k = mistakes.first_k; k < g.K - mistakes.missing_k; ++k) {
          const T a = g.A[matrix * g.strideA + row * (mistakes.dense_a ? g.K : g.lda) + k];
          const T b = g.B[matrix * g.strideB + k * (mistakes.dense_b ? g.N : g.ldb) + col];
          sum += static_cast<float>(a) * static_cast<float>(b);
        }
        const float alpha = mistakes.alpha_twice ? g.alpha * g.alpha : g.alpha;
        float& c = g.C[matrix * g.strideC + row * g.ldc + col];
        if (row * g.N + col == mistakes.unwritten) continue;
        c = g.beta == 0 ? alpha * sum : alpha * sum + g.beta * c;
      }
    }
  }
}

template <typename T>
class RunCase : public testing::Test {
 protected:
  RunCase() { mistakes = {}; }

  Result run(const Problem& problem) {
    const harness::Step with_mistakes{"step", {}, step<T>, {}};
    Request request;
    request.problem = harness::checked(problem);
    const Result result = harness::run_case(*device, with_mistakes, request, nullptr);
    EXPECT_EQ(result.input, input_of<T>);
    EXPECT_TRUE(result.verified);
    EXPECT_EQ(result.pass, result.complaints.empty());
    return result;
  }
  std::string complaint(const Problem& problem) {
    const Result result = run(problem);
    return result.complaints.size() == 1 ? result.complaints[0] : "";
  }

  std::unique_ptr<harness::Device> device = harness::make_cpu_device(false);
  const Problem plain{.m = 35, .n = 19, .k = 23};
  const Problem padded{
      .m = 35, .n = 19, .k = 23, .batch = 3, .lda = 25, .ldb = 22, .ldc = 21, .alpha = 2, .beta = -1};
};
using Elements = testing::Types<float, bf16>;
TYPED_TEST_SUITE(RunCase, Elements);

TYPED_TEST(RunCase, ARightStepPasses) {
  const Problem apart{.m = 35,
                      .n = 19,
                      .k = 23,
                      .batch = 3,
                      .beta = 2,
                      .stride_a = 900,
                      .stride_b = 0,
                      .stride_c = 666,
                      .offset_a = 1,
                      .offset_b = 2,
                      .offset_c = 3};
  const Problem in_turn{.m = 35, .n = 19, .k = 23, .batch = 2, .lda = 46, .stride_a = 23, .offset_a = 5};
  const Problem far{.m = 3, .n = 4, .k = 5, .ldb = std::int64_t{1} << 30};
  for (const Problem& problem :
       {this->plain, this->padded, apart, in_turn, far, Problem{}, Problem{.m = 1, .n = 1, .k = 1}}) {
    EXPECT_THAT(this->run(problem).complaints, IsEmpty());
  }
}

TYPED_TEST(RunCase, ColumnMajorExchangesTheOperands) {
  Problem problem = this->plain;
  problem.layout = harness::Layout::column_major;
  EXPECT_THAT(this->run(problem).complaints, IsEmpty());
}

TYPED_TEST(RunCase, NamesMistakesWithNumbers) {
  mistakes.alpha_twice = true;
  EXPECT_THAT(this->complaint(this->padded), HasSubstr("alpha applied twice"));
  mistakes = {};
  mistakes.missing_k = 7;
  EXPECT_THAT(this->complaint(this->plain), HasSubstr("stops at k = 16 instead of 23"));
  mistakes = {};
  mistakes.first_k = 1;
  EXPECT_THAT(this->complaint(this->plain), HasSubstr("starts at k = 1"));
}

// Between rows there is poison: this shows that it is one for the type, and where the NaN comes from.
TYPED_TEST(RunCase, NamesWrongLeadingDimensions) {
  mistakes.dense_a = true;
  EXPECT_THAT(this->complaint(this->padded),
              HasSubstr("leading dimension of A of 23 (its row length) instead of 25"));
  mistakes = {};
  mistakes.dense_b = true;
  EXPECT_THAT(this->complaint(this->padded), HasSubstr("NaN from what the kernel must not read"));
}

TYPED_TEST(RunCase, NamesWhatWasNotWritten) {
  mistakes.unwritten = 5 * 19 + 3;
  EXPECT_THAT(this->complaint(this->plain), HasSubstr("first C[5][3] = nan, should be"));
  EXPECT_THAT(this->complaint(this->plain), HasSubstr("the element was never written"));
}

// Elements at odd places too, half a word each in BF16.
TYPED_TEST(RunCase, FindsWritesOutsideOfTheMatrices) {
  static std::int64_t at;
  struct Noted {
    static void run(const GemmOf<TypeParam>& g) {
      step(g);
      const_cast<TypeParam*>(g.A)[at] = TypeParam(1.0f);
    }
  };
  const harness::Step stray{"step", {}, Noted::run, {}};
  Request request;
  request.problem = harness::checked({.m = 5, .n = 4, .k = 3, .lda = 4});
  for (const auto& [place, text] : {std::pair{-1, "first 1 elements before A[0][0]"},
                                    {-4096, "first 4096 elements before A[0][0]"},
                                    {3, "first 3 elements after A[0][0]"},
                                    {20, "first 20 elements after A[0][0]"},
                                    {20 + 4095, "first 4115 elements after A[0][0]"}}) {
    at = place;
    EXPECT_THAT(harness::run_case(*this->device, stray, request, nullptr).complaints,
                ElementsAre(HasSubstr("1 words around A changed, the " + std::string(text))));
  }
}

// ---- Steps in TF32

// What becomes of an element of A, and of B.
using Rounding = float (*)(float);
Rounding of_a, of_b;

void step_tf32(const Gemm& g) {
  std::vector<float> a(static_cast<std::size_t>(g.M * g.lda)), b(static_cast<std::size_t>(g.K * g.ldb));
  for (int matrix = 0; matrix < g.batch; ++matrix) {
    std::transform(g.A + matrix * g.strideA, g.A + matrix * g.strideA + (g.M - 1) * g.lda + g.K, a.begin(),
                   of_a);
    std::transform(g.B + matrix * g.strideB, g.B + matrix * g.strideB + (g.K - 1) * g.ldb + g.N, b.begin(),
                   of_b);
    Gemm one = g;
    one.batch = 1;
    one.A = a.data();
    one.B = b.data();
    one.C += matrix * g.strideC;
    step(one);
  }
}
float rounded(float value) {
  return __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, value) + 0x1000) & ~0x1fffu);
}
float cut_off(float value) {
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, value) & ~0x1fffu);
}

class RunTf32 : public testing::Test {
 protected:
  Result run(Rounding a, Rounding b) {
    mistakes = {};
    return run_with_mistakes(a, b);
  }
  Result run_with_mistakes(Rounding a, Rounding b, harness::Precision said = harness::Precision::tf32) {
    of_a = a;
    of_b = b;
    const harness::Step in_tf32{"step", {}, {step_tf32, said}, {}};
    Request request;
    request.problem = harness::checked({.m = 45, .n = 79, .k = 53, .batch = 3, .alpha = 2, .beta = -1});
    Result result = harness::run_case(*device, in_tf32, request, nullptr);
    EXPECT_EQ(result.input, Input::fp32);
    EXPECT_EQ(result.precision, said);
    EXPECT_EQ(result.bias_limit.has_value(), said == harness::Precision::tf32);
    return result;
  }
  std::unique_ptr<harness::Device> device = harness::make_cpu_device(false);
};

TEST_F(RunTf32, PassesWithRoundedOperands) {
  const Result result = run(rounded, rounded);
  EXPECT_THAT(result.complaints, IsEmpty());
  EXPECT_GT(result.verdict.max_relative_error, 2e-5);
  EXPECT_LT(result.verdict.max_relative_error, 0x1p-10);
}

TEST_F(RunTf32, NamesOperandsThatAreCutOff) {
  EXPECT_THAT(run(cut_off, rounded).complaints, ElementsAre(HasSubstr("fits A or B cut off to TF32")));
  EXPECT_THAT(run(rounded, cut_off).complaints, ElementsAre(HasSubstr("fits A or B cut off to TF32")));
  EXPECT_THAT(run(cut_off, cut_off).complaints, testing::Contains(HasSubstr("fits A and B cut off to TF32")));
}

TEST_F(RunTf32, AStepMaySayThatItCutsOff) {
  mistakes = {};
  const auto said = harness::Precision::tf32_cut_off;
  EXPECT_THAT(run_with_mistakes(cut_off, cut_off, said).complaints, IsEmpty());
  mistakes.missing_k = 1;
  EXPECT_THAT(run_with_mistakes(cut_off, cut_off, said).complaints, testing::SizeIs(1));
}

TEST_F(RunTf32, NamesOtherBiases) {
  EXPECT_THAT(run([](float a) { return 1.0008f * a; }, rounded).complaints,
              testing::Contains(AllOf(HasSubstr("too large as a whole"), Not(HasSubstr("fits A")))));
}

TEST_F(RunTf32, NamesOtherMistakesAsInFp32) {
  mistakes = {};
  mistakes.missing_k = 7;
  EXPECT_THAT(run_with_mistakes(rounded, rounded).complaints,
              ElementsAre(HasSubstr("stops at k = 46 instead of 53")));
}

// Steps in FP32 are not judged by it.
TEST_F(RunTf32, BiasIsAMatterOfTheStepsPrecision) {
  mistakes = {};
  const harness::Step in_fp32{"step", {}, step<float>, {}};
  Request request;
  request.problem = harness::checked({.m = 64, .n = 64, .k = 64});
  const Result result = harness::run_case(*device, in_fp32, request, nullptr);
  EXPECT_TRUE(result.pass);
  EXPECT_FALSE(result.bias_limit.has_value());
  EXPECT_LT(result.verdict.max_relative_error, 0x1p-20);
}

}  // namespace
