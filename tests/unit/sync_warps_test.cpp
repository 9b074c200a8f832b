// What the threads of a warp do together, and barriers of some threads: shuffles, warp-wide operations, named
// barriers; what they order, and what is reported if some do not come.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "common/cpu_device/cluster.hpp"
#include "tests/unit/device_test.hpp"

namespace {

using cpu_device::Rendezvous;

void add_up(cpu_device::Block&, Rendezvous& r) {
  float sum = 0.0f;
  for (unsigned i = 0; i < 128; ++i) sum += *static_cast<float*>(r.operand(i));
  for (unsigned i = 0; i < 128; ++i) *static_cast<float*>(r.operand(i)) = sum;
}
const cpu_device::Collective sum_of_warpgroup{"sum_of_warpgroup", true, false, add_up};

}  // namespace

void warpgroup_sum(float* operand, int line);  // see sync_kernels_warps.cpp
void warpgroup_sum(float* operand, int line) {
  cpu_device::meet(sum_of_warpgroup, 4, 0xffffffff, operand, line, __builtin_return_address(0));
}

namespace {

INSTANTIATE_TEST_SUITE_P(, BothBuilds, testing::Values("plain", "observed"), name_of_build);

// CUDA C++ Programming Guide, "Warp Shuffle Functions".
TEST_P(BothBuilds, Shuffles) {
  for (const char* kernel : {"shuffle_floats", "shuffle_ints", "shuffle_doubles"}) {
    for (const int width : {32, 16, 8, 2, 1}) {
      for (const int by : {0, 1, 3, 7, 16, 31}) {
        run(kernel, 1, 32, width * 100 + by);
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

TEST_P(BothBuilds, ShuffleOfSomeLanes) {
  for (const int n : {1, 5, 31}) {
    run("shuffle_in_part", 1, 32, n);
    for (int lane = 0; lane < n; ++lane) EXPECT_EQ(y[lane], x[(lane + 1) % n]);
  }
}

// CUDA C++ Programming Guide, "Warp Reduce Functions".
TEST_P(BothBuilds, Reductions) {
  const auto bits = [&](int i) { return std::bit_cast<std::uint32_t>(y[i]); };
  for (const int n : {0, 7, 40}) {
    for (const bool is_signed : {true, false}) {
      run(is_signed ? "reduce_ints" : "reduce_unsigneds", 1, 32, n);
      for (int lane = 0; lane < 32; ++lane) {
        std::int64_t sum = 0, least = INT64_MAX, largest = INT64_MIN;
        for (int other = lane % 2; other < 32; other += 2) {
          const int value = other + 1 - n;
          const std::int64_t number = is_signed ? value : std::int64_t{static_cast<std::uint32_t>(value)};
          sum += number;
          least = std::min(least, number);
          largest = std::max(largest, number);
        }
        ASSERT_EQ(bits(lane), static_cast<std::uint32_t>(sum)) << n << " " << is_signed;
        ASSERT_EQ(bits(32 + lane), static_cast<std::uint32_t>(least)) << n << " " << is_signed;
        ASSERT_EQ(bits(64 + lane), static_cast<std::uint32_t>(largest)) << n << " " << is_signed;
      }
    }
  }
}

// PTX ISA, "redux.sync": of all lanes that have not left the kernel.
TEST_P(BothBuilds, ReductionWithoutSomeLanes) {
  run("reduce_without_lane", 1, 32, 31);
  EXPECT_EQ(y[0], x[30]);
  run("reduce_without_lane", 1, 20, 40);
  EXPECT_EQ(y[19], x[19]);
}

TEST_P(BothBuilds, FourWarpsDoSomethingAtOnce) {
  run("sums_of_warpgroups", 1, 256, -1);
  const float first = 128 * 129 / 2, second = 256 * 257 / 2 - first;
  for (int t = 0; t < 256; ++t) ASSERT_EQ(y[t], 128 * (t < 128 ? first : second));
}

TEST_P(BothBuilds, HalvesOfAWarpSynchroniseApart) {
  run("halves_of_a_warp", 1, 64, 9);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], t / 16 % 2 == 0 ? 1.0f : 9.0f);
}

TEST_P(BothBuilds, NamedBarriersOrderAChain) {
  for (const unsigned warps : {2u, 5u, 15u}) {
    run("chain_of_named_barriers", 1, warps * 32, 4);
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(y[lane], static_cast<float>(4 * warps)) << warps;
  }
}

TEST_P(BothBuilds, WarpsComeToNamedBarriersAsAWhole) {
  for (const int n : {32, 20, 1}) {
    run("named_barrier_without_some", 1, 64, n);
    for (int t = 0; t < 64; ++t) {
      if (t % 32 >= n) continue;
      ASSERT_EQ(y[t], x[t ^ 32]);
    }
  }
  run("named_barrier_without_some", 1, 33, 1);
  EXPECT_EQ(y[0], x[32]);
  run("named_barrier_twice", 1, 64);
  EXPECT_EQ(y[63], 1.0f);
}

// ---- Faults ----------------------------------------------------------------------------------------------

TEST_F(Check, LaneMissingFromAShuffle) {
  run("shuffle_without_source", 1, 32, 7);
  expect(FaultKind::missing_lane, 6,
         "takes at __shfl_down_sync the value of " + thread_name(7) + ", which has left the kernel");
  EXPECT_TRUE(std::isnan(y[6]));
  run("shuffle_without_source", 1, 20, 40);
  expect(FaultKind::missing_lane, 19, "the value of lane 20, which does not exist");
}

TEST_F(Check, ReductionsOfDifferentTypes) {
  run("reduce_mixed", 1, 32, 9);
  expect(FaultKind::missing_lane, 0,
         "waits here for " + thread_name(9) + " at __reduce_min_sync(int), which waits at " +
             here("reduce_unsigned"));
}

TEST_F(Check, LaneElsewhereThanAtAShuffle) {
  for (const int n : {0, 9, 31}) {
    run("shuffle_elsewhere", 1, 64, n);
    expect(
        FaultKind::missing_lane, n == 0 ? 1 : 0,
        "waits here for " + thread_name(n) + " at __shfl_xor_sync, which waits at " + here("lane_elsewhere"));
  }
}

TEST_F(Check, ThreadMissingFromAWarpgroup) {
  for (const int n : {5, 77}) {
    run("sums_of_warpgroups", 1, 128, n);
    expect(FaultKind::missing_lane, 0,
           "waits here for " + thread_name(n) + " at sum_of_warpgroup, which has left the kernel");
  }
  run("sums_of_warpgroups", 1, 64, -1);
  expect(FaultKind::missing_lane, 0, "thread number 64 at sum_of_warpgroup, which does not exist");
}

TEST_F(Check, MaskWithoutTheLaneItself) {
  run("syncwarp_without_itself", 1, 32, 3);
  expect(FaultKind::missing_lane, 3, "leaves it out itself");
}

TEST_F(Check, BarriersOfHalvesDoNotOrderThem) {
  for (const int n : {1, 15}) run("across_halves", 1, 64, n);
  expect_none();
  for (const int n : {16, 31, 32}) {
    run("across_halves", 1, 64, n);
    expect(FaultKind::race_shared, n, "which " + thread_name(0) + " wrote");
  }
}

TEST_F(Check, AShuffleOrdersNoMemory) {
  run("shuffle_is_no_barrier", 1, 32, 1);
  expect(FaultKind::race_shared, 0, "which " + thread_name(1) + " wrote");
}

TEST_F(Check, ArrivingWithoutWaitingOrdersNothing) {
  run("arrive_is_no_wait", 1, 64);
  expect(FaultKind::race_shared, 40, "which " + thread_name(0) + " wrote");
}

TEST_F(Check, NamedBarriers) {
  for (const int n : {0, 16}) {
    run("named_barrier_number", 1, 64, n);
    expect(FaultKind::barrier_misuse, 0, "barrier " + std::to_string(n));
  }
  run("named_barrier_number", 1, 32, 1);
  expect(FaultKind::deadlock, 0, "barrier 1, to which 32 of 64 threads have come");
  for (const int n : {0, 48}) {
    run("named_barrier_count", 1, 64, n);
    expect(FaultKind::barrier_misuse, 0, "warps come as a whole");
  }
  run("named_barrier_half_a_warp", 1, 64);
  expect(FaultKind::deadlock, 0, "barrier 3 together with " + thread_name(16));
}

}  // namespace
