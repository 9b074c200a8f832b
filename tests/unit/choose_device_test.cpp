// What a program says whose step has no code for any GPU that the build is for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/harness/needs.hpp"
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
  harness::Step newer{"newer", {}, step, {}, "sm_80+"};
  newer.gpu_built_for = "sm_75";
  const Said asked = run(newer, "gpu");
  EXPECT_EQ(asked.status, 3);
  EXPECT_EQ(asked.err,
            "error: no GPU: this step needs compute capability 8.0 or newer, and this build is for sm_75 "
            "only; use --device cpu\n");
  const Said left_open = run(newer, "auto");
  EXPECT_EQ(left_open.status, 0);
  EXPECT_EQ(left_open.err, "");
  EXPECT_THAT(left_open.out, testing::StartsWith("newer on the CPU device"));
  EXPECT_THAT(left_open.out, testing::HasSubstr("(no GPU: this step needs compute capability 8.0 or newer, "
                                                "and this build is for sm_75 only)"));
}

TEST(ChooseDevice, KnowsWhichGpusHaveWhatAStepNeeds) {
  const auto gpus = [](const char* needs) {
    std::string found;
    for (const int capability : {75, 80, 89, 90, 100, 120}) {
      if (harness::runs_on(needs, capability)) found += harness::dotted(capability) + " ";
    }
    return found;
  };
  EXPECT_EQ(gpus(""), "7.5 8.0 8.9 9.0 10.0 12.0 ");
  EXPECT_EQ(gpus("sm_80+"), "8.0 8.9 9.0 10.0 12.0 ");
  EXPECT_EQ(gpus("sm_90a"), "9.0 ");
  EXPECT_EQ(gpus("sm_90a, sm_100+"), "9.0 10.0 12.0 ");
  EXPECT_EQ(harness::in_words("sm_90a"), "sm_90a, compute capability 9.0 and no other");
  EXPECT_EQ(harness::in_words("sm_90a, sm_100+"), "compute capability 9.0 or 10.0 or newer");
}

TEST(ChooseDevice, SaysThatThereIsNoCuda) {
  const Said said = run({"step", {}, step, {}, ""}, "gpu");
  EXPECT_EQ(said.status, 3);
  EXPECT_EQ(said.err, "error: no GPU: this program was built without CUDA; use --device cpu\n");
}

void too_large(const Gemm&) { throw TooLittleShared(196736, 101376); }

TEST(ChooseDevice, SaysThatABlockDoesNotFitOnTheGpu) {
  const Said said = run({"step", {}, too_large, {}, ""}, "cpu", "8");
  EXPECT_EQ(said.status, 3);
  EXPECT_EQ(
      said.err,
      "error: a block of this kernel takes 196736 bytes of shared memory, and this GPU gives it 101376 at "
      "most; use --device cpu\n");
}

}  // namespace
