// What a program says whose step has no code for any GPU that the build is for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/harness/run.hpp"
#include "common/too_little_shared.hpp"

namespace {

void step(const Gemm& g) {
  for (std::int64_t i = 0; i < g.M * g.N; ++i) g.C[i] = 0;
}

struct Said {
  int status;
  std::string out, err;
};

Said run(const harness::Step& step, const char* device, const char* size = "0") {
  const char* arguments[] = {"run", "--size", size, "--device", device};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = harness::run(step, 5, arguments);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(ChooseDevice, NamesWhatTheStepNeedsAndWhatTheBuildIsFor) {
  harness::Step newer{"newer", {}, step, {}, 80};
  newer.gpu_built_for = "sm_75";
  const Said asked = run(newer, "gpu");
  EXPECT_EQ(asked.status, 3);
  EXPECT_EQ(asked.err,
            "error: no GPU: this step needs compute capability 8.0, and this build is for sm_75 only; "
            "use --device cpu\n");
  const Said left_open = run(newer, "auto");
  EXPECT_EQ(left_open.status, 0);
  EXPECT_EQ(left_open.err, "");
  EXPECT_THAT(left_open.out, testing::StartsWith("newer on the CPU device"));
  EXPECT_THAT(left_open.out, testing::HasSubstr("(no GPU: this step needs compute capability 8.0, and this "
                                                "build is for sm_75 only)"));
}

TEST(ChooseDevice, SaysThatThereIsNoCuda) {
  const Said said = run({"step", {}, step, {}, 0}, "gpu");
  EXPECT_EQ(said.status, 3);
  EXPECT_EQ(said.err, "error: no GPU: this program was built without CUDA; use --device cpu\n");
}

void too_large(const Gemm&) { throw TooLittleShared(196736, 101376); }

TEST(ChooseDevice, SaysThatABlockDoesNotFitOnTheGpu) {
  const Said said = run({"step", {}, too_large, {}, 0}, "cpu", "8");
  EXPECT_EQ(said.status, 3);
  EXPECT_EQ(
      said.err,
      "error: a block of this kernel takes 196736 bytes of shared memory, and this GPU gives it 101376 at "
      "most; use --device cpu\n");
}

}  // namespace
