// What the threads of a warp do together, and barriers of some threads: shuffles, warp-wide operations, named
// barriers; what they order, and what is said of those that do not come.

#include <cmath>
#include <string>

#include "tests/unit/sync_check.hpp"

namespace {

INSTANTIATE_TEST_SUITE_P(, Sync,
                         testing::Values(Build{"plain", &plain_sync_kernels}
#ifdef HAVE_OBSERVED
                                         ,
                                         Build{"observed", &observed_sync_kernels}
#endif
                                         ),
                         [](const auto& info) { return info.param.name; });

// CUDA C++ Programming Guide, "Warp Shuffle Functions".
TEST_P(Sync, Shuffles) {
  for (const Kernel kernel : {kernels.shuffle_floats, kernels.shuffle_ints, kernels.shuffle_doubles}) {
    for (const int width : {32, 16, 8, 2, 1}) {
      for (const int by : {0, 1, 3, 7, 16, 31}) {
        run(kernel, 32, width * 100 + by);
        for (int lane = 0; lane < 32; ++lane) {
          const int begin = lane / width * width, in_group = lane - begin;
          const auto value = [](int source) { return static_cast<float>(source + 1); };
          ASSERT_EQ(y[lane], value(begin + by % width));
          ASSERT_EQ(y[32 + lane], value(in_group >= by ? lane - by : lane));
          ASSERT_EQ(y[64 + lane], value(in_group + by < width ? lane + by : lane));
          ASSERT_EQ(y[96 + lane], value((lane ^ by) < begin + width ? lane ^ by : lane))
              << width << " " << by;
        }
      }
    }
  }
}

TEST_P(Sync, ShuffleOfSomeLanes) {
  for (const int n : {1, 5, 31}) {
    run(kernels.shuffle_in_part, 32, n);
    for (int lane = 0; lane < n; ++lane) EXPECT_EQ(y[lane], x[(lane + 1) % n]);
  }
}

TEST_P(Sync, FourWarpsDoSomethingAtOnce) {
  run(kernels.sums_of_warpgroups, 256, -1);
  const float first = 128 * 129 / 2, second = 256 * 257 / 2 - first;
  for (int t = 0; t < 256; ++t) ASSERT_EQ(y[t], 128 * (t < 128 ? first : second));
}

TEST_P(Sync, HalvesOfAWarpSynchroniseApart) {
  run(kernels.halves_of_a_warp, 64, 9);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], t / 16 % 2 == 0 ? 1.0f : 9.0f);
}

TEST_P(Sync, NamedBarriersOrderAChain) {
  for (const unsigned warps : {2u, 5u, 15u}) {
    run(kernels.chain_of_named_barriers, warps * 32, 4);
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(y[lane], static_cast<float>(4 * warps)) << warps;
  }
}

TEST_P(Sync, WarpsComeToNamedBarriersAsAWhole) {
  for (const int n : {32, 20, 1}) {
    run(kernels.named_barrier_without_some, 64, n);
    for (int t = 0; t < 64; ++t) {
      if (t % 32 >= n) continue;
      ASSERT_EQ(y[t], x[t ^ 32]);
    }
  }
  run(kernels.named_barrier_without_some, 33, 1);
  EXPECT_EQ(y[0], x[32]);
  run(kernels.named_barrier_twice, 64);
  EXPECT_EQ(y[63], 1.0f);
}

#ifdef HAVE_OBSERVED

// ---- What is wrong ---------------------------------------------------------------------------------------

TEST_F(SyncFault, LaneMissingFromAShuffle) {
  run(kernels.shuffle_without_source, 32, 7);
  expect(FaultKind::missing_lane, "shuffle_without_source", 6,
         "takes at __shfl_down_sync the value of " + name(7) + ", which has left the kernel");
  EXPECT_TRUE(std::isnan(y[6]));
  run(kernels.shuffle_without_source, 20, 40);
  expect(FaultKind::missing_lane, "shuffle_without_source", 19, "the value of lane 20, which does not exist");
}

TEST_F(SyncFault, LaneElsewhereThanAtAShuffle) {
  for (const int n : {0, 9, 31}) {
    run(kernels.shuffle_elsewhere, 64, n);
    expect(FaultKind::missing_lane, "shuffle_elsewhere", n == 0 ? 1 : 0,
           "waits here for " + name(n) + " at __shfl_xor_sync, which waits at " + here("elsewhere"));
  }
}

TEST_F(SyncFault, ThreadMissingFromAWarpgroup) {
  for (const int n : {5, 77}) {
    run(kernels.sums_of_warpgroups, 128, n);
    expect(FaultKind::missing_lane, "sums_of_warpgroups", 0,
           "waits here for " + name(n) + " at sum_of_warpgroup, which has left the kernel");
  }
  run(kernels.sums_of_warpgroups, 64, -1);
  expect(FaultKind::missing_lane, "sums_of_warpgroups", 0,
         "thread number 64 at sum_of_warpgroup, which does not exist");
}

// Each lane of a warp-wide load answers for its own address.
TEST_F(SyncFault, RaceWithAWarpWideLoad) {
  for (const int n : {0, 31, 40}) {
    run(kernels.loads_of_warps, 64, n);
    expect(FaultKind::race_shared, "loads_of_warps", static_cast<unsigned>(n ^ 1),
           "which " + name(n) + " wrote");
  }
}

TEST_F(SyncFault, MaskWithoutTheLaneItself) {
  run(kernels.syncwarp_without_itself, 32, 3);
  expect(FaultKind::missing_lane, "syncwarp_without_itself", 3, "leaves it out itself");
}

TEST_F(SyncFault, BarriersOfHalvesDoNotOrderThem) {
  for (const int n : {1, 15}) run(kernels.across_halves, 64, n);
  for (const int n : {16, 31, 32}) {
    run(kernels.across_halves, 64, n);
    expect(FaultKind::race_shared, "across_halves", static_cast<unsigned>(n), "which " + name(0) + " wrote");
  }
}

TEST_F(SyncFault, AShuffleOrdersNoMemory) {
  run(kernels.shuffle_is_no_barrier, 32, 1);
  expect(FaultKind::race_shared, "shuffle_is_no_barrier", 0, "which " + name(1) + " wrote");
}

TEST_F(SyncFault, WhoOnlyArrivesHasSeenNothing) {
  run(kernels.arrive_is_no_wait, 64);
  expect(FaultKind::race_shared, "arrive_is_no_wait", 40, "which " + name(0) + " wrote");
}

TEST_F(SyncFault, NamedBarriers) {
  for (const int n : {0, 16}) {
    run(kernels.named_barrier_number, 64, n);
    expect(FaultKind::barrier_misuse, "named_barrier_number", 0, "barrier " + std::to_string(n));
  }
  run(kernels.named_barrier_number, 32, 1);
  expect(FaultKind::deadlock, "named_barrier_number", 0, "barrier 1, to which 32 of 64 threads have come");
  for (const int n : {0, 48}) {
    run(kernels.named_barrier_count, 64, n);
    expect(FaultKind::barrier_misuse, "named_barrier_count", 0, "warps come as a whole");
  }
  run(kernels.named_barrier_too_few, 64);
  expect(FaultKind::deadlock, "named_barrier_too_few", 0, "barrier 3, to which 32 of 64 threads have come");
  run(kernels.named_barrier_half_a_warp, 64);
  expect(FaultKind::deadlock, "named_barrier_half_a_warp", 0, "barrier 3 together with " + name(16));
}

TEST_F(SyncFault, WarpWideLoadIsToldAsOneRequest) {
  Requests requests;
  cpu_device::set_listener(&requests);
  run(kernels.loads_of_warps, 64, -1);
  ASSERT_EQ(requests.all.size(), 2u);
  for (unsigned warp = 0; warp < 2; ++warp) {
    EXPECT_EQ(requests.all[warp].warp, warp);
    EXPECT_EQ(requests.all[warp].active, 0xffffffff);
    EXPECT_EQ(requests.all[warp].addresses[6], requests.all[warp].addresses[7] + 4);
  }
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], x[t ^ 1]);
}

#endif

}  // namespace
