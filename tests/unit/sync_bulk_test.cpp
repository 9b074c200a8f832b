// Bulk copies: when they come, what they must not meet, and what is told of them.

#include <cmath>

#include "tests/unit/sync_check.hpp"

namespace {

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

#ifdef HAVE_OBSERVED

// ---- What is wrong ---------------------------------------------------------------------------------------

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

#endif

}  // namespace
