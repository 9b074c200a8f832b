// What threads wait for, what orders their memory accesses, and what is said when it does not: shuffles,
// barriers of some threads, mbarriers, bulk copies; parts of words; reports that do not depend on timing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "tests/unit/device_buffer.hpp"
#include "tests/unit/sync_kernels.hpp"

namespace {

using cpu_device::Fault;
using cpu_device::FaultKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Build {
  const char* name;
  const SyncKernels* kernels;
};
void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }

// The line of sync_kernels.cpp with the comment "here: NAME".
std::string here(const std::string& name) {
  std::ifstream file(PROJECT_ROOT "/tests/unit/sync_kernels.cpp");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with("// here: " + name)) return "tests/unit/sync_kernels.cpp:" + std::to_string(number);
  }
  return "no line is marked with " + name;
}

class SyncFixture : public testing::Test {
 protected:
  explicit SyncFixture(bool checked) {
    cpu_device::set_checking(checked);
    std::iota(x.data(), x.data() + x.size(), 1.0f);
    std::fill_n(y.data(), y.size(), -1.0f);
  }
  ~SyncFixture() override {
    cpu_device::set_listener(nullptr);
    for (const Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  void run(Kernel kernel, unsigned threads, int n = 0, unsigned blocks = 1) {
    launch(kernel, dim3(blocks), dim3(threads), 0, x.data(), y.data(), n);
  }
  static cpu_device::MatrixView view(const char* name, float* data, std::int64_t cols, bool writable,
                                     unsigned element_bytes = 4) {
    return {name, data, 1, cols, cols, 1, cols, true, writable, element_bytes};
  }

  DeviceBuffer x{2048}, y{2048};
};

// ---- Right kernels, by both builds -----------------------------------------------------------------------

class Sync : public SyncFixture, public testing::WithParamInterface<Build> {
 protected:
  Sync() : SyncFixture(GetParam().kernels != &plain_sync_kernels) {}
  const SyncKernels& kernels = *GetParam().kernels;
};
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

TEST_P(Sync, PhasesOfAnMbarrier) {
  for (const unsigned threads : {2u, 33u, 256u}) {
    run(kernels.phases, threads, 7);
    EXPECT_EQ(y[0], static_cast<float>(21 * (threads - 1)));
  }
}

TEST_P(Sync, TryWaitComesBack) {
  run(kernels.polls, 1, 5);
  EXPECT_EQ(y[0], 5.0f);
}

TEST_P(Sync, AnMbarrierCanBeInvalidated) {
  run(kernels.invalidated, 64);
  EXPECT_EQ(y[63], 1.0f);
}

// No sooner than somebody waits, and from the source as it is then.
TEST_P(Sync, BulkCopiesComeInOrderAndLate) {
  cpu_device::set_checking(false);  // looking at what has not come is a fault
  run(kernels.bulk_order, 1);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[3]));
  EXPECT_EQ(y[2], 1.0f);
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_EQ(y[5], 15.0f);
}

TEST_P(Sync, BulkCopyAndABarrierForAll) {
  run(kernels.bulk_after_syncthreads, 256, 8);
  for (int i = 0; i < 2048; ++i) ASSERT_EQ(y[i], x[i / 256 * 256 + 255 - i % 256]);
}

TEST_P(Sync, LanesCopyARowEach) {
  for (const int n : {128, 256}) {  // 512 bytes, 1 KiB
    run(kernels.bulk_rows_by_lanes, 32 + 96, n);
    for (int t = 0; t < 96; ++t) {
      float sum = 0;
      for (int tile = 0; tile < 5; ++tile) {
        for (int i = 0; i < n; ++i) sum += x[4 * tile + 16 * (t % 32) + i];
      }
      EXPECT_EQ(y[t], sum) << t;
    }
  }
}

TEST_P(Sync, AsyncCopiesArriveAtAnMbarrier) {
  run(kernels.copies_arrive, 64);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], x[63 - t]);
}

TEST_P(Sync, OrderPassesFromBarrierToBarrier) {
  run(kernels.chain, 64);
  EXPECT_EQ(y[0], 3.0f);
}

TEST_P(Sync, ManyReadersAndTheirArrivals) { run(kernels.many_readers, 1024, -1); }

TEST_P(Sync, NeighboursWriteHalvesAndBytes) {
  run(kernels.halves, 64);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], static_cast<float>(2 * t));
}

TEST_P(Sync, HalvesOfGlobalMemory) {
  cpu_device::describe(view("C", y.data(), 101, true, 2));
  run(kernels.global_halves, 32, 101, 4);
  for (int i = 0; i < 101; ++i) EXPECT_EQ(reinterpret_cast<const std::uint16_t*>(y.data())[i], i);
}

#ifdef HAVE_OBSERVED

// ---- Wrong ones ------------------------------------------------------------------------------------------

class SyncFault : public SyncFixture {
 protected:
  SyncFault() : SyncFixture(true) {}
  // One fault, at the line with the mark, by that thread.
  void expect(FaultKind kind, const std::string& mark, unsigned thread, const std::string& detail) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u) << (faults.size() < 2 ? "" : describe(faults[1]));
    EXPECT_EQ(faults[0].kind, kind) << describe(faults[0]);
    EXPECT_EQ(faults[0].where, here(mark));
    EXPECT_EQ(faults[0].thread.x, thread);
    EXPECT_THAT(faults[0].detail, HasSubstr(detail));
  }
  static std::string name(int thread) { return "thread (" + std::to_string(thread) + ",0,0)"; }
  const SyncKernels& kernels = observed_sync_kernels;
};

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

TEST_F(SyncFault, MisuseOfMbarriers) {
  run(kernels.no_init, 1);
  expect(FaultKind::mbarrier_misuse, "no_init", 0,
         "arrives at the mbarrier barrier + 0 bytes, which has not been");
  run(kernels.init_twice, 32);
  expect(FaultKind::mbarrier_misuse, "init_twice", 0, "in use since tests/unit/sync_kernels.cpp");
  run(kernels.no_fence, 1);
  expect(FaultKind::mbarrier_misuse, "no_fence", 0, "no mbarrier_fence_init()");
  run(kernels.bad_parity, 1, 2);
  expect(FaultKind::mbarrier_misuse, "bad_parity", 0, "parity 2");
  run(kernels.too_many_arrivals, 1);
  expect(FaultKind::mbarrier_misuse, "too_many_arrivals", 0, "has had its 1 arrival and lacks only 16 bytes");
  run(kernels.too_many_bytes, 1, 1);
  expect(FaultKind::mbarrier_misuse, "too_many_bytes", 0, "up to 1048575");
  run(kernels.too_many_bytes, 1, 0);
  run(kernels.overwritten_mbarrier, 1);
  expect(FaultKind::mbarrier_misuse, "overwritten_mbarrier", 0, "written to since");
  run(kernels.hangs_polling, 2);
  expect(FaultKind::deadlock, "hangs_polling", 0,
         "phase 0 of the mbarrier barrier + 0 bytes, which lacks 1 arrival of 2");
}

// Also without --check.
TEST_F(SyncFault, PlainBuild) {
  cpu_device::set_checking(false);
  for (const auto& [kernel, kind] : {std::pair{plain_sync_kernels.no_init, FaultKind::mbarrier_misuse},
                                     {plain_sync_kernels.hangs_polling, FaultKind::deadlock},
                                     {plain_sync_kernels.shuffle_elsewhere, FaultKind::missing_lane},
                                     {plain_sync_kernels.named_barrier_too_few, FaultKind::deadlock}}) {
    run(kernel, 64, 3, 2);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, kind);
    EXPECT_EQ(faults[0].block.x, 0u);
  }
}

TEST_F(SyncFault, InitNeedsABarrier) {
  run(kernels.init_without_barrier, 64, 0);
  for (const int n : {1, 40}) {
    run(kernels.init_without_barrier, 64, n);
    expect(FaultKind::race_shared, "init_without_barrier", static_cast<unsigned>(n),
           "which " + name(0) + " initialised at ");
  }
}

TEST_F(SyncFault, WhatIsWrittenAfterTheArrival) {
  run(kernels.expect_is_no_arrive, 64, 0);
  expect(FaultKind::race_shared, "expect_is_no_arrive", 33, "which " + name(0) + " wrote");
}

TEST_F(SyncFault, AnnouncingBytesOrdersNothing) {
  run(kernels.expect_is_no_arrive, 64, 2);
  expect(FaultKind::race_shared, "expect_is_no_arrive", 33, "which " + name(2) + " wrote");
}

// Each of many readers is remembered.
TEST_F(SyncFault, OneOfManyReadersDoesNotArrive) {
  for (const int n : {1, 31, 33, 63, 200, 255}) {
    run(kernels.many_readers, 256, n);
    expect(FaultKind::race_shared, "many_readers", 0, "which " + name(n) + " read");
  }
}

// ---- Bulk copies -----------------------------------------------------------------------------------------

TEST_F(SyncFault, BulkCopyMisaligned) {
  for (const int n : {1, 10, 100}) {
    run(kernels.bulk_misaligned, 1, n);
    expect(FaultKind::misaligned, "bulk_misaligned", 0,
           n < 10    ? "to an address"
           : n < 100 ? "from"
                     : "20 bytes");
  }
}

TEST_F(SyncFault, BulkCopyOutOfBounds) {
  run(kernels.bulk_outside, 1, 4);
  expect(FaultKind::out_of_bounds_shared, "bulk_outside", 0, "writes 64 bytes");
  run(kernels.bulk_outside, 1, 2036 * 100);
  expect(FaultKind::out_of_bounds_global, "bulk_outside", 0, "reads 0 bytes past");
  cpu_device::describe(view("A", x.data(), 18, false));
  run(kernels.bulk_outside, 1, 400);
  expect(FaultKind::out_of_bounds_global, "bulk_outside", 0, "reads right behind the end of A");
}

TEST_F(SyncFault, BulkCopyOntoWhatIsRead) {
  for (const int n : {0, 40, 62}) {
    run(kernels.bulk_overwrites, 64, n);
    expect(FaultKind::race_shared, "bulk_overwrites", 63,
           "which " + name(n) + " read at " + here("bulk_overwrites_reader"));
  }
}

TEST_F(SyncFault, SourceOfABulkCopyOverwritten) {
  cpu_device::describe(view("C", x.data(), 64, true));
  run(kernels.bulk_source_overwritten, 64, 1);
  run(kernels.bulk_source_overwritten, 64, 0);
  for (const Fault& fault : cpu_device::take_faults()) EXPECT_EQ(fault.kind, FaultKind::race_global);
}

class Requests : public cpu_device::AccessListener {
 public:
  void on_access(const cpu_device::Access&) override {}
  void on_request(const cpu_device::CollectiveRequest& request) override { all.push_back(request); }
  std::vector<cpu_device::CollectiveRequest> all;
};

TEST_F(SyncFault, BulkCopyIsToldAsOneRequest) {
  Requests requests;
  cpu_device::set_listener(&requests);
  run(kernels.bulk_after_syncthreads, 256, 2);
  ASSERT_EQ(requests.all.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    const cpu_device::CollectiveRequest& request = requests.all[static_cast<std::size_t>(i)];
    EXPECT_EQ(request.operation, cpu_device::Operation::copy);
    EXPECT_EQ(request.space, i % 2 == 0 ? cpu_device::Space::global : cpu_device::Space::shared);
    EXPECT_EQ(request.bytes, 1024u);
    EXPECT_EQ(request.active, 0u);  // it has no lanes
    EXPECT_EQ(request.warp, 0u);
    if (i % 2 == 0) {
      EXPECT_EQ(request.addresses[0], reinterpret_cast<std::uintptr_t>(x.data() + i / 2 * 256));
    }
  }
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

// ---- Parts of words --------------------------------------------------------------------------------------

TEST_F(SyncFault, UnwrittenHalf) {
  run(kernels.unwritten_half, 1, 0);
  expect(FaultKind::uninitialised_shared, "unwritten_half", 0, "slots + 2 bytes");
  run(kernels.unwritten_half, 1, 1);
  expect(FaultKind::uninitialised_shared, "unwritten_half", 0, "slots + 0 bytes");
}

TEST_F(SyncFault, RaceOnAHalf) {
  for (const int n : {1, 33}) run(kernels.half_race, 64, n);
  for (const int n : {2, 34}) {
    run(kernels.half_race, 64, n);
    expect(FaultKind::race_shared, "half_race", static_cast<unsigned>(n), "slots + 0 bytes");
  }
}

TEST_F(SyncFault, HalfBehindAMatrix) {
  cpu_device::describe(view("C", y.data(), 101, true, 2));
  run(kernels.global_halves, 32, 102, 4);
  expect(FaultKind::out_of_bounds_global, "global_halves", 5,
         "writes right behind the end of C; C is 1 x 101");
}

// ---- Reports do not depend on timing ---------------------------------------------------------------------

TEST_F(SyncFault, TheLowestBlockComesFirst) {
  cpu_device::describe(view("C", y.data(), 32 * 3, true));
  for (int i = 0; i < 30; ++i) {
    run(kernels.fault_in_blocks, 32, 2, 64);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].block.x, 3u);
    EXPECT_EQ(faults[0].thread.x, 31u);
    EXPECT_EQ(faults[0].times, 61u * 32);
  }
}

TEST_F(SyncFault, BlocksBeforeTheOneThatStopsRunToTheirEnd) {
  cpu_device::describe(view("A", x.data(), 64, false));
  for (int i = 0; i < 30; ++i) {
    for (const int n : {1, 2, 9}) {
      run(kernels.stop_in_blocks, 32, n, 16);
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_EQ(faults.size(), 2u);
      EXPECT_EQ(faults[0].where, here("stop_late"));
      EXPECT_EQ(faults[0].block.x, static_cast<unsigned>(n) - 1);
      EXPECT_EQ(faults[0].times, 32u);
      EXPECT_EQ(faults[1].where, here("stop_in_blocks"));
      EXPECT_EQ(faults[1].block.x, static_cast<unsigned>(n));
      EXPECT_EQ(faults[1].times, 1u);
    }
  }
}

TEST_F(SyncFault, OfTwoBlocksTheLaterIsReported) {
  cpu_device::describe(view("C", y.data(), 64, true));
  for (int i = 0; i < 30; ++i) {
    run(kernels.race_of_blocks, 32, 0, 2);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].block.x, 1u);
    EXPECT_EQ(faults[0].times, 1u);
    EXPECT_THAT(faults[0].detail,
                HasSubstr("writes C[0][0], which thread (0,0,0) of block (0,0,0) wrote in the "
                          "same launch at " +
                          here("race_of_blocks")));
  }
}

#endif

}  // namespace
