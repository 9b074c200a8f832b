// What a launch owes a kernel and a warpgroup its warps: __launch_bounds__ and setmaxnreg.

#include "tests/unit/device_test.hpp"

namespace {

class Promises : public BothBuilds {};
INSTANTIATE_TEST_SUITE_P(, Promises, testing::Values("plain", "observed"), name_of_build);

// ---- __launch_bounds__ -----------------------------------------------------------------------------------

TEST_P(Promises, AsManyThreadsAsTheBoundsAllow) {
  for (const unsigned threads : {1u, 63u, 64u}) run("bounded", 1, threads);
  run("bounded", 1, {8, 8});
  EXPECT_EQ(y[63], 1.0f);
  run("bounded_by_size", 1, 192);
  EXPECT_EQ(y[191], 2.0f);
  run("unbounded", 1, 1024);
  EXPECT_EQ(y[1023], 3.0f);
}

TEST_P(Promises, MoreThreadsThanTheBoundsAllow) {
  const auto refusal = [&](const std::string& name, dim3 block) -> std::string {
    try {
      run(name, 1, block);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("bounded", 65),
            "launch: a block has 65 threads, more than the 64 that the kernel's __launch_bounds__ allows");
  EXPECT_THAT(refusal("bounded", {8, 8, 2}), HasSubstr("a block has 128 threads, more than the 64"));
  EXPECT_THAT(refusal("bounded_by_size", 193), HasSubstr("more than the 192"));
}

// ---- setmaxnreg ------------------------------------------------------------------------------------------

TEST_P(Promises, OneWarpgroupHandsOnRegisters) {
  for (const int n : {0, 1}) run("hand_on_registers", 3, 384, n);
  EXPECT_EQ(y[383], 1.0f);
}

TEST_P(Promises, TheWarpsOfAGroupNeedNotMeet) {
  run("warp_by_warp", 1, 256);
  EXPECT_EQ(y[255], 1.0f);
}

TEST_P(Promises, AWholeWarpgroupGivesUpRegisters) { run("some_warps", 2, 256, 4); }

TEST_P(Promises, OnlySomeWarpsOfAGroupGiveUpRegisters) {
  run("some_warps", 1, 256, 7);
  expect(FaultKind::register_misuse, 224,
         "comes to warpgroup_reg_dealloc (24) with its warp, but the warp of thread (128,0,0), of the same "
         "four, does not; all four warps of a warpgroup must");
}

TEST_P(Promises, TheWarpsOfAGroupWantDifferentNumbers) {
  run("different_numbers", 1, 256);
  expect(FaultKind::register_misuse, 0,
         "but the warp of thread (32,0,0), of the same four, comes to "
         "warpgroup_reg_dealloc (32) at ");
}

TEST_P(Promises, MoreRegistersThanWereGivenUp) {
  run("too_many_registers", 1, 384);
  expect(FaultKind::deadlock, 352,
         "waits here for 240 registers for each thread of its warp, which has 168; of those that other warps "
         "of the block have given up 40 are left for each of its threads");
}

TEST_P(Promises, TheWrongDirection) {
  run("wrong_direction", 1, 384, 0);
  expect(FaultKind::register_misuse, 0, "gives up all but 176 registers per thread, but has no more than 168",
         "keeps_more");
  run("wrong_direction", 1, 384, 1);
  expect(FaultKind::register_misuse, 0, "takes up to 160 registers per thread, but has 168 already",
         "takes_less");
}

TEST_P(Promises, OneLaneDoesNotCome) {
  run("one_lane_late", 1, 128);
  expect(FaultKind::missing_lane, 1, "thread (0,0,0) at warpgroup_reg_dealloc, which has left the kernel");
}

}  // namespace
