// Asynchronous copies: what arrives and when, what is reported, and what is not. Their races are in
// cpu_order_test.cpp.

#include <cmath>
#include <limits>

#include "tests/unit/device_test.hpp"

namespace {

constexpr float not_arrived = std::numeric_limits<float>::quiet_NaN();

// The first elements of y; not_arrived: any NaN.
void expect_values(const DeviceBuffer& y, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(y[i]) : y[i] == expected[i])
        << "element " << i << " is " << y[i] << ", not " << expected[i];
  }
}

// Groups arrive in order, no sooner than they are waited for, with what is in x at that moment.
TEST_P(BothBuilds, AsyncCopyArrivesWhenWaitedFor) {
  cpu_device::set_checking(false);
  run("async_copy_steps", 1, 1);
  expect_values(y, {not_arrived, not_arrived, not_arrived, not_arrived,  // before any wait
                    not_arrived, not_arrived, not_arrived, not_arrived,  // all four groups may be under way
                    11.0f,       not_arrived, not_arrived, not_arrived,  // three
                    11.0f,       2.0f,        3.0f,        not_arrived,  // one
                    11.0f,       2.0f,        3.0f,        4.0f});       // none
}

TEST_P(BothBuilds, AsyncCopyInNoGroupIsNotWaitedFor) {
  cpu_device::set_checking(false);
  run("async_copy_not_committed", 1, 1);
  expect_values(y, {1.0f, not_arrived, 1.0f, 2.0f});
}

// A copy that the previous block left behind does not matter to this one.
TEST_P(BothBuilds, AsyncCopiesStartAfreshInEveryBlock) {
  run("async_copy_left_behind", 64, 1);
  for (int block = 0; block < 64; ++block) EXPECT_EQ(y[block], block);
}

// Nothing is read, so any address will do.
TEST_P(BothBuilds, ZerosInsteadOfAnAsyncCopy) {
  for (const int n : {0, 1, 2045, 2048, 100000, -1}) {
    std::fill_n(y.data(), y.size(), 2.0f);
    run("async_copy_zeros", 1, 1, n);
    expect_values(y, {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  }
  run_on(nullptr, y.data(), "async_copy_zeros", 1, 1, 0);
}

TEST_F(Check, AsyncCopyIsAReadAndAWriteOfItsSize) {
  const Recorder& recorder = record();
  run("async_copy_from", 1, 1, 8);
  EXPECT_THAT(recorder.counts(),
              ElementsAre(here("async_copy_from") + " read 16 bytes of global memory x 1",
                          here("async_copy_from") + " write 16 bytes of shared memory x 1"));
  ASSERT_EQ(recorder.accesses.size(), 2u);
  EXPECT_EQ(recorder.accesses[0].address, reinterpret_cast<std::uintptr_t>(x.data() + 8));
}

// ---- Faults ----------------------------------------------------------------------------------------------

// Before it waits, the thread that asked for the copy must not use it either.
TEST_F(Check, AsyncCopyUsedByItsOwnThreadBeforeTheWait) {
  for (const char* kernel : {"async_read_before_wait", "async_read_of_second_copy", "async_overwrite_pending",
                             "async_copy_onto_pending"}) {
    run(kernel, 1, 64);
    expect(FaultKind::async_not_arrived, 0,
           "to which the asynchronous copy started at " + here("thread_0_copies") +
               " by thread (0,0,0) has not been waited for");
  }
}

// Waiting is enough for the thread that asked.
TEST_F(Check, AsyncCopyNeedsNoBarrierForItsOwnThread) {
  for (const char* kernel :
       {"async_read_without_barrier", "async_barrier_before_wait", "async_copy_onto_read"}) {
    run(kernel, 3, 64);
  }
}

TEST_P(BothBuilds, AsyncCopyMisaligned) {
  for (const char* kernel : {"async_copy_from", "async_copy_to"}) {
    run(kernel, 2, 2, 4, 64);
    expect_none();
    for (const int offset : {1, 2, 3}) {
      run(kernel, 2, 2, offset, 64);
      EXPECT_EQ(expect(FaultKind::misaligned, last()).times, 1u);
    }
  }
}

TEST_F(Check, AsyncCopySourceOutOfBounds) {
  run("async_copy_from", 1, 2, 2044);
  expect_none();
  run("async_copy_from", 1, 2, 2048);
  expect(FaultKind::out_of_bounds_global, 1);
  run_on(nullptr, y.data(), "async_copy_from", 1, 2, 0);
  expect(FaultKind::host_pointer, 1);
  cpu_device::describe(view("A", x.data(), 4, 6, 8, true, false));
  run("async_copy_from", 1, 2, 8);
  expect_none();
  run("async_copy_from", 1, 2, 12);  // the row's last two elements, and two between the rows
  expect(FaultKind::out_of_bounds_global, 1, "reads A[1][6], but A is 4 x 6");
}

TEST_F(Check, AsyncCopyDestinationOutOfBounds) {
  run("async_copy_to", 1, 2, 12, 64);
  expect_none();
  for (const std::size_t bytes : {48u, 56u}) {
    run("async_copy_to", 1, 2, 12, bytes);
    expect(FaultKind::out_of_bounds_shared, 1);
  }
}

// ---- No false alarms -------------------------------------------------------------------------------------

TEST_P(BothBuilds, AsyncDoubleBuffering) {
  cpu_device::describe(view("A", x.data(), 32, 32, 32, true, false));
  for (const int n : {32, 64}) {
    run("async_double_buffer", 1, n, n);
    for (int i = 0; i < 1024; ++i) ASSERT_EQ(y[i], x[i / n * n + n - 1 - i % n]) << n << " " << i;
  }
}

TEST_P(BothBuilds, AsyncExchangeInsideAWarp) {
  run("async_warp_exchange", 1, 64, 5);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], x[t / 32 * 32 + (t + 5) % 32]);
}

}  // namespace
