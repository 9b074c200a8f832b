// Asynchronous copies: what arrives and when, what is reported, and what is not.

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/unit/cpu_check.hpp"

namespace {

// ---- Asynchronous copies: what arrives, and when ---------------------------------------------------------

class AsyncCopy : public Check {
 protected:
  AsyncCopy() { std::iota(x.data(), x.data() + x.size(), 1.0f); }
  // The first elements of y; not_arrived: any NaN.
  void expect_y(const std::vector<float>& expected) const {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(y[i])) << "element " << i << " is " << y[i];
      } else {
        EXPECT_EQ(y[i], expected[i]) << "element " << i;
      }
    }
  }
  static constexpr float not_arrived = std::numeric_limits<float>::quiet_NaN();
};

// Groups arrive in order, no sooner than they are waited for, with what is in x at that moment.
TEST_F(AsyncCopy, ArrivesWhenWaitedFor) {
  cpu_device::set_checking(false);
  run(plain_kernels.async_copy_steps, dim3(1), dim3(1), 0);
  expect_y({not_arrived, not_arrived, not_arrived, not_arrived,  // before any wait
            not_arrived, not_arrived, not_arrived, not_arrived,  // all four groups may be under way
            11.0f,       not_arrived, not_arrived, not_arrived,  // three
            11.0f,       2.0f,        3.0f,        not_arrived,  // one
            11.0f,       2.0f,        3.0f,        4.0f});       // none
}

TEST_F(AsyncCopy, WhatIsInNoGroupIsNotWaitedFor) {
  cpu_device::set_checking(false);
  run(plain_kernels.async_copy_not_committed, dim3(1), dim3(1), 0);
  expect_y({1.0f, not_arrived, 1.0f, 2.0f});
}

// What the block before has not waited for is no concern of this one.
TEST_F(AsyncCopy, EveryBlockStartsAfresh) {
  run(kernels.async_copy_left_behind, dim3(64), dim3(1), 0);
  std::vector<float> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  expect_y(numbers);
}

// Nothing is read, and the address may be anything.
TEST_F(AsyncCopy, ZerosInsteadOfACopy) {
  const std::vector<float> expected = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  for (const bool checked : {false, true}) {
    cpu_device::set_checking(checked);
    const Kernels& built = checked ? observed_kernels : plain_kernels;
    for (const int n : {0, 1, 1021, 1024, 100000, -1}) {
      std::fill_n(y.data(), y.size(), 2.0f);
      run(built.async_copy_zeros, dim3(1), dim3(1), n);
      expect_y(expected);
    }
    std::fill_n(y.data(), y.size(), 2.0f);
    launch(built.async_copy_zeros, dim3(1), dim3(1), 0, nullptr, y.data(), 0);
    expect_y(expected);
  }
}

TEST_F(AsyncCopy, IsAReadAndAWriteOfItsSize) {
  Recorder recorder;
  cpu_device::set_listener(&recorder);
  run(kernels.async_copy_from, dim3(1), dim3(1), 8);
  EXPECT_THAT(recorder.counts(),
              ElementsAre(here("async_copy_from") + " read 16 bytes of global memory x 1",
                          here("async_copy_from") + " write 16 bytes of shared memory x 1"));
  ASSERT_EQ(recorder.accesses().size(), 2u);
  EXPECT_EQ(recorder.accesses()[0].address, reinterpret_cast<std::uintptr_t>(x.data() + 8));
}

// ---- Asynchronous copies: faults -------------------------------------------------------------------------

// Thread 0 copies; what it does with its own copy before it waits is wrong, too.
TEST_F(AsyncCopy, ReadByItsOwnThreadBeforeTheWait) {
  for (const auto& [kernel, name] :
       {std::pair{kernels.async_read_before_wait, std::string("async_read_before_wait")},
        {kernels.async_read_of_second_copy, "async_read_of_second_copy"},
        {kernels.async_overwrite_pending, "async_overwrite_pending"},
        {kernels.async_copy_onto_pending, "async_copy_onto_pending"}}) {
    run(kernel, dim3(1), dim3(64), 0);
    EXPECT_THAT(summaries(),
                ElementsAre(summary(FaultKind::async_not_arrived, name, name, "0,0,0", "0,0,0")));
  }
}

// Waiting is enough for the thread that asked.
TEST_F(AsyncCopy, ItsOwnThreadNeedsNoBarrier) {
  run(kernels.async_read_without_barrier, dim3(3), dim3(64), 0);
  run(kernels.async_barrier_before_wait, dim3(3), dim3(64), 0);
  run(kernels.async_copy_onto_read, dim3(3), dim3(64), 0);
}

TEST_P(Race, AsyncReadBeforeTheWait) {
  run(kernels.async_read_before_wait, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_read_before_wait",
         "to which the asynchronous copy started at " + here("thread_0_copies") +
             " by thread (0,0,0) has not been waited for");
}

TEST_P(Race, AsyncReadOfTheSecondOfTwoCopies) {
  run(kernels.async_read_of_second_copy, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_read_of_second_copy", "slots + 4 bytes");
}

TEST_P(Race, AsyncReadWithoutABarrier) {
  run(kernels.async_read_without_barrier, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "async_read_without_barrier",
         "which thread (0,0,0) wrote at " + here("thread_0_copies") + "; no barrier stands between");
}

TEST_P(Race, AsyncBarrierBeforeTheWait) {
  run(kernels.async_barrier_before_wait, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "async_barrier_before_wait",
         "which thread (0,0,0) wrote at " + here("thread_0_copies") + "; no barrier stands between");
}

TEST_P(Race, AsyncDestinationOverwritten) {
  run(kernels.async_overwrite_pending, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_overwrite_pending", "writes slots");
}

TEST_P(Race, AsyncTwoCopiesToOnePlace) {
  run(kernels.async_copy_onto_pending, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_copy_onto_pending", "writes slots");
}

TEST_P(Race, AsyncCopyWhereAnotherReads) {
  run(kernels.async_copy_onto_read, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "async_copy_onto_read", "which thread (0,0,0) read at ");
}

// With and without --check.
TEST_F(AsyncCopy, Misaligned) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    const Kernels& built = checked ? observed_kernels : plain_kernels;
    for (const auto& [kernel, name] : {std::pair{built.async_copy_from, std::string("async_copy_from")},
                                       {built.async_copy_to, "async_copy_to"}}) {
      run(kernel, dim3(2), dim3(2), 4, 64);
      EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
      for (const int offset : {1, 2, 3}) {
        run(kernel, dim3(2), dim3(2), offset, 64);
        const std::vector<Fault> faults = cpu_device::take_faults();
        ASSERT_EQ(faults.size(), 1u) << name;
        EXPECT_EQ(faults[0].kind, FaultKind::misaligned);
        EXPECT_EQ(faults[0].kernel, name);
        EXPECT_EQ(to_string(faults[0].block) + " " + to_string(faults[0].thread), "1,0,0 1,0,0");
        EXPECT_EQ(faults[0].times, 1u);
        if (checked) {  // the plain build knows no lines
          EXPECT_EQ(faults[0].where, here(name));
        }
      }
    }
  }
}

TEST_F(AsyncCopy, SourceOutOfBounds) {
  run(kernels.async_copy_from, dim3(1), dim3(2), 1020);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.async_copy_from, dim3(1), dim3(2), 1024);
  EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::out_of_bounds_global, "async_copy_from",
                                               "async_copy_from", "0,0,0", "1,0,0")));
  launch(kernels.async_copy_from, dim3(1), dim3(2), 0, nullptr, y.data(), 0);
  EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::host_pointer, "async_copy_from", "async_copy_from",
                                               "0,0,0", "1,0,0")));
}

// Two of the four elements are the row's last, the others lie between the rows.
TEST_F(AsyncCopy, SourcePartlyOutsideOfAMatrix) {
  cpu_device::describe(view("A", x.data(), 4, 6, 8, true, false));
  run(kernels.async_copy_from, dim3(1), dim3(2), 8);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.async_copy_from, dim3(1), dim3(2), 12);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]),
            summary(FaultKind::out_of_bounds_global, "async_copy_from", "async_copy_from", "0,0,0", "1,0,0"));
  EXPECT_EQ(faults[0].detail, "reads A[1][6], but A is 4 x 6");
}

TEST_F(AsyncCopy, DestinationOutOfBounds) {
  run(kernels.async_copy_to, dim3(1), dim3(2), 12, 64);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  for (const std::size_t bytes : {48u, 56u}) {
    run(kernels.async_copy_to, dim3(1), dim3(2), 12, bytes);
    EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::out_of_bounds_shared, "async_copy_to",
                                                 "async_copy_to", "0,0,0", "1,0,0")));
  }
}

// ---- Asynchronous copies: no false alarms ----------------------------------------------------------------

TEST_F(AsyncCopy, DoubleBuffering) {
  cpu_device::describe(view("A", x.data(), 32, 32, 32, true, false));
  for (const int n : {32, 64}) {
    std::fill_n(y.data(), y.size(), 0.0f);
    run(kernels.async_double_buffer, dim3(1), dim3(n), n);
    for (int i = 0; i < 1024; ++i) ASSERT_EQ(y[i], x[i / n * n + n - 1 - i % n]) << n << " " << i;
  }
}

TEST_F(AsyncCopy, ExchangeInsideAWarp) {
  run(kernels.async_warp_exchange, dim3(1), dim3(64), 5);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], x[t / 32 * 32 + (t + 5) % 32]);
}

}  // namespace
