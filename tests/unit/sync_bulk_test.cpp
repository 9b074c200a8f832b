// Bulk copies: when they come, what they must not meet, and what is told of them.

#include <cmath>

#include "tests/unit/device_test.hpp"

namespace {

// A copy arrives only when somebody waits for it, with what its source holds then.
TEST_P(BothBuilds, BulkCopiesComeInOrderAndLate) {
  cpu_device::set_checking(false);  // looking at what has not come is a fault
  run("bulk_order", 1, 1);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[3]));
  EXPECT_EQ(y[2], 1.0f);
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_EQ(y[5], 15.0f);
}

TEST_P(BothBuilds, BulkCopyAndABarrierForAll) {
  run("bulk_after_syncthreads", 1, 256, 8);
  for (int i = 0; i < 2048; ++i) ASSERT_EQ(y[i], x[i / 256 * 256 + 255 - i % 256]);
}

TEST_P(BothBuilds, LanesCopyARowEach) {
  for (const int n : {128, 256}) {  // 512 bytes, 1 KiB
    run("bulk_rows_by_lanes", 1, 32 + 96, n);
    for (int t = 0; t < 96; ++t) {
      float sum = 0;
      for (int tile = 0; tile < 5; ++tile) {
        for (int i = 0; i < n; ++i) sum += x[4 * tile + 16 * (t % 32) + i];
      }
      EXPECT_EQ(y[t], sum) << t;
    }
  }
}

TEST_P(BothBuilds, AsyncCopiesArriveAtAnMbarrier) {
  run("copies_arrive", 1, 64);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], x[63 - t]);
}

// ---- Faults ----------------------------------------------------------------------------------------------

TEST_F(Check, BulkCopyMisaligned) {
  for (const auto& [n, detail] : {std::pair{1, "to an address"}, {10, "from"}, {100, "20 bytes"}}) {
    run("bulk_misaligned", 1, 1, n);
    expect(FaultKind::misaligned, 0, detail);
  }
}

TEST_F(Check, BulkCopyOutOfBounds) {
  run("bulk_outside", 1, 1, 4);
  expect(FaultKind::out_of_bounds_shared, 0, "writes 64 bytes");
  run("bulk_outside", 1, 1, 2036 * 100);
  expect(FaultKind::out_of_bounds_global, 0, "reads 0 bytes past");
  cpu_device::describe(view("A", x.data(), 1, 18, 18, true, false));
  run("bulk_outside", 1, 1, 400);
  expect(FaultKind::out_of_bounds_global, 0, "reads right behind the end of A");
}

TEST_F(Check, BulkCopyOntoWhatIsRead) {
  for (const int n : {0, 40, 62}) {
    run("bulk_overwrites", 1, 64, n);
    expect(FaultKind::race_shared, 63,
           "which " + thread_name(n) + " read at " + here("bulk_overwrites_reader"));
  }
}

TEST_F(Check, BulkCopyForWhichAnotherWaited) {
  for (const int n : {1, 31, 32, 63}) {
    run("bulk_starter_reads_first", 1, 64, n);
    expect(FaultKind::async_not_arrived, n,
           "started at " + here("bulk_waited_for") + " by thread (0,0,0) has not been waited for");
  }
}

TEST_F(Check, SourceOfABulkCopyOverwritten) {
  cpu_device::describe(view("C", x.data(), 1, 64, 64));
  run("bulk_source_overwritten", 1, 64, 1);
  expect_none();
  run("bulk_source_overwritten", 1, 64, 0);
  expect(FaultKind::race_global, 1);
}

TEST_F(Check, BulkCopyIsToldAsOneRequest) {
  const Recorder& recorder = record();
  run("bulk_after_syncthreads", 1, 256, 2);
  ASSERT_EQ(recorder.requests.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const cpu_device::CollectiveRequest& request = recorder.requests[i];
    EXPECT_EQ(request.operation, cpu_device::Operation::copy);
    EXPECT_EQ(request.space, i % 2 == 0 ? Space::global : Space::shared);
    EXPECT_EQ(request.bytes, 1024u);
    EXPECT_EQ(request.active, 0u);  // it has no lanes
    EXPECT_EQ(request.warp, 0u);
    if (i % 2 == 0) {
      EXPECT_EQ(request.addresses[0], reinterpret_cast<std::uintptr_t>(x.data() + i / 2 * 256));
    }
  }
}

}  // namespace
