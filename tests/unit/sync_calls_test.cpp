// Which threads meet: at a barrier those that come by the same calls, in an operation with a mask those that
// give the same mask, wherever they are; and nobody waits for threads that have left.

#include "tests/unit/device_test.hpp"

namespace {

TEST_P(BothBuilds, TheSameCallsByAll) {
  for (const int n : {0, 1, 9, 32, 64}) run("barriers_in_turn", 1, 64, n);
  for (const int n : {0, 64}) {
    for (const char* kernel : {"one_barrier_two_calls", "one_barrier_two_real_calls"}) {
      run(kernel, 1, 64, n);
      for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], n == 64 ? 1.0f : 2.0f);
    }
  }
}

TEST_P(BothBuilds, TheSameMaskInTwoBranches) {
  for (const int n : {0, 1, 9, 32}) {
    run("meet_from_two_branches", 1, 32, n);
    for (int lane = 0; lane < 32; ++lane) {
      const int other = lane ^ 1;
      const float value = other < n ? x[other] : -x[other];
      EXPECT_EQ(y[lane], value);
      EXPECT_EQ(y[32 + lane], value);
    }
  }
}

TEST_P(BothBuilds, WarpsComeToANamedBarrierByDifferentCalls) {
  for (const int n : {0, 32, 64}) {
    run("named_barrier_two_calls", 1, 64, n);
    for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], static_cast<float>(t ^ 32));
  }
}

TEST_P(BothBuilds, NobodyWaitsForThreadsThatHaveLeft) {
  for (const int n : {1, 31, 32, 33, 127, 128}) {
    run("some_leave_before_barriers", 2, 128, n);
    for (int t = 0; t < n; ++t) EXPECT_EQ(y[t], x[(t + 3) % n]);
  }
  for (const unsigned threads : {32u, 64u, 70u}) {
    run("one_leaves_late", 1, threads, 3);
    for (unsigned t = 0; t + 1 < threads; ++t) EXPECT_EQ(y[t], x[(t + 1) % (threads - 1)]);
  }
}

// ---- Faults ----------------------------------------------------------------------------------------------

TEST_F(Check, OneBarrierByTwoCalls) {
  for (const int n : {7, 32}) {
    run("one_barrier_two_calls", 1, 64, n);
    Fault fault = expect(FaultKind::divergent_barrier, n, "waits here, called at " + here("second_fill"),
                         "barrier_in_fill");
    EXPECT_THAT(fault.detail, HasSubstr("thread (0,0,0) waits at " + here("barrier_in_fill") +
                                        ", called at " + here("first_fill") + ";"));
    run("one_barrier_two_real_calls", 1, 64, n);
    fault = expect(FaultKind::divergent_barrier, n, "waits here, called at " + here("second_real_fill"),
                   "barrier_in_fill_by_call");
    EXPECT_THAT(fault.detail, HasSubstr(", called at " + here("first_real_fill") + ";"));
  }
}

TEST_F(Check, TwoMasks) {
  run("meet_with_two_masks", 1, 32, 9);
  expect(FaultKind::missing_lane, 0,
         "waits here for " + thread_name(9) + " at __shfl_sync, which waits at " + here("larger_mask") +
             " for " + thread_name(0) + " at __shfl_sync, with the mask 0xffffffff, not 0x0000ffff",
         "smaller_mask");
}

TEST_F(Check, ShuffleFromALaneThatTheMaskLeavesOut) {
  for (const unsigned threads : {32u, 5u}) {  // it is gone, or never was
    run("shuffle_from_outside", 1, threads, 5);
    expect(FaultKind::missing_lane, 4, "which the mask 0x0000001f leaves out");
  }
}

TEST_F(Check, MmaByTwoCalls) {
  for (const int n : {0, 32}) run("mma_from_two_branches", 1, 32, n);
  expect_none();
  run("mma_from_two_branches", 1, 32, 9);
  const Fault fault = expect(FaultKind::missing_lane, 0,
                             "waits here for " + thread_name(9) + " at mma_bf16, which waits at " +
                                 here("mma_in_multiply") + ", called at " + here("second_multiply"),
                             "mma_in_multiply");
  EXPECT_THAT(fault.detail, HasSubstr("this one waits at " + here("mma_in_multiply") + ", called at " +
                                      here("first_multiply")));
}

TEST_F(Check, LanesOfAWarpComeToANamedBarrierByTwoCalls) {
  run("named_barrier_two_calls", 1, 64, 9);
  expect(FaultKind::divergent_barrier, 9,
         thread_name(0) + " of its warp came to it at " + here("first_named"), "second_named");
}

TEST_F(Check, WhatSomebodyWroteWhoLeft) {
  run("leaves_after_writing", 1, 64, 64);
  expect_none();
  run("leaves_after_writing", 1, 64, 9);
  expect(FaultKind::race_shared, 8, "which " + thread_name(9) + " wrote at " + here("wrote_and_left"));
}

}  // namespace
