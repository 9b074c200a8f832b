// Atomic operations on shared memory: what they do, and what they race with.

#include <numeric>

#include "tests/unit/device_test.hpp"

namespace {

TEST_P(BothBuilds, HistogramInSharedMemory) {
  for (const int n : {1, 7, 32}) {
    run("histogram", 1, 250, n);
    for (int bin = 0; bin < n; ++bin) EXPECT_EQ(y[bin], static_cast<float>((250 - bin + n - 1) / n));
  }
}

TEST_P(BothBuilds, ReductionsInSharedMemory) {
  run("reductions", 1, 96);
  EXPECT_EQ(y[0], std::accumulate(x.data(), x.data() + 96, 0.0f));
  EXPECT_EQ(y[1], 95.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_EQ(y[3], 96.0f);
  EXPECT_EQ(y[4], 5.0f);
  EXPECT_EQ(y[5], 9.0f);
  for (int ticket = 0; ticket < 96; ++ticket) EXPECT_EQ(y[8 + ticket], 1.0f);
}

TEST_F(Check, AReadBesideAtomicOperations) {
  run("read_beside_atomics", 1, 64, 40);
  std::vector<std::string> places;
  for (const Fault& fault : cpu_device::take_faults()) {
    EXPECT_EQ(fault.kind, FaultKind::race_shared);
    places.push_back(fault.where);
  }
  // The read, after the atomic operations of threads before it, and those of threads after it.
  EXPECT_THAT(places, ElementsAre(here("read_beside_atomics"), here("atomics_beside_a_read")));
}

TEST_F(Check, AWriteBeforeAtomicOperations) {
  run("zeroed_for_a_warp", 1, 32);
  expect_none();
  run("zeroed_for_a_warp", 1, 64);
  expect(FaultKind::race_shared, 32,
         "changes atomically sum, which " + thread_name(0) + " wrote at " + here("zero_for_a_warp"));
}

TEST_F(Check, AnOlderAtomicOperationIsNotForgotten) {
  run("ordered_after_the_last", 1, 64, 0);
  expect_none();
  run("ordered_after_the_last", 1, 64, 1);
  expect(FaultKind::race_shared, 40,
         "reads sum, which " + thread_name(0) + " changed atomically at " + here("older_atomic"));
}

TEST_F(Check, AnAtomicOperationReads) {
  run("add_to_unwritten", 1, 1);
  expect(FaultKind::uninitialised_shared, 0, "reads sum");
}

}  // namespace
