// What threads write beside asynchronous copies: fences between the two, and sources that change too early.

#include "tests/unit/device_test.hpp"

namespace {

class Proxies : public BothBuilds {
 protected:
  void describe_x() { cpu_device::describe({"X", x.data(), 1, 256, 256, 1, 256, true, true, 4, true}); }
};
class ProxyFault : public Proxies {};
INSTANTIATE_TEST_SUITE_P(, Proxies, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, ProxyFault, testing::Values("observed"), name_of_build);

// ---- No false alarms --------------------------------------------------------------------------------------

TEST_P(Proxies, AFenceByWhoeverStandsBetween) {
  for (const int n : {0, 1, 2}) {
    run("copy_over_writes", 1, 64, n);
    EXPECT_EQ(y[9], x[9]);
  }
}

TEST_P(Proxies, TheFenceOfMbarrierFenceInit) {
  run("copy_over_writes_before_init", 1, 64);
  EXPECT_EQ(y[9], x[9]);
}

TEST_P(Proxies, AStoreOfWhatCpAsyncBrought) {
  for (const int n : {0, 3}) {
    run("store_what_was_copied", 1, 64, n);
    EXPECT_EQ(y[9], x[9]);
  }
}

TEST_P(Proxies, CopiesOverWhatWasOnlyRead) {
  run("copy_over_reads", 1, 64, 3);
  EXPECT_EQ(y[1], x[1] + x[65] + x[129]);
}

TEST_P(Proxies, PackedAndFenced) {
  describe_x();
  run("pack_and_copy", 1, 64, 0);
  EXPECT_EQ(y[3], x[60]);
}

TEST_P(Proxies, WhatACopyHasReadMayChange) {
  describe_x();
  run("bulk_source_written_again", 1, 64, 0);
  run("async_source_written_again", 1, 64, 0);
  run("async_copy_abandoned", 2, 64);
  EXPECT_EQ(y[63], 1.0f);
}

// ---- Faults -----------------------------------------------------------------------------------------------

TEST_P(ProxyFault, ACopyOverWritesWithoutAFence) {
  for (const int n : {3, 4, 5}) {
    run("copy_over_writes", 1, 64, n);
    const Fault fault = expect(FaultKind::missing_proxy_fence, 63, "; no fence_async_proxy() stands between");
    EXPECT_THAT(fault.detail,
                HasSubstr("has a copy overwrite slots[" + std::to_string(n == 5) + "], which thread (" +
                          std::to_string(n == 5) + ",0,0) wrote at " + here("written_before_copy")));
  }
}

TEST_P(ProxyFault, AStoreOfWhatCpAsyncBroughtWithoutAFence) {
  for (const int n : {1, 2}) {
    run("store_what_was_copied", 1, 64, n);
    const Fault fault = expect(FaultKind::missing_proxy_fence, 63, "; no fence_async_proxy() stands between");
    EXPECT_THAT(fault.detail, HasSubstr("has a store read slots[0], which thread (0,0,0) had copied by "
                                        "cp.async at " +
                                        here("copied_before_store")));
  }
}

TEST_P(ProxyFault, PackedWithoutAFence) {
  describe_x();
  for (const int n : {1, 2}) {
    run("pack_and_copy", 1, 64, n);
    expect(FaultKind::missing_proxy_fence, 0,
           "has a copy read X[64], which thread (0,0,0) of block (0,0,0) wrote at " + here("packed") +
               "; no fence_async_proxy_global() stands between");
  }
}

TEST_P(ProxyFault, ASourceThatChangesTooEarly) {
  describe_x();
  for (const auto& [n, thread, mark] :
       {std::tuple{1, 0, "bulk_written_by_requester"}, {2, 40, "bulk_written_behind_barrier"}}) {
    run("bulk_source_written_again", 1, 64, n);
    expect(FaultKind::race_global, thread,
           "writes X[2], which a copy that thread (0,0,0) of block (0,0,0) asked for at " +
               here("bulk_source") + " has yet to read: nobody has waited for it",
           mark);
  }
  run("async_source_written_again", 1, 64, 1);
  expect(FaultKind::race_global, 0, "asked for at " + here("async_source") + " has yet to read",
         "async_written_by_requester");
  run("async_source_written_again", 1, 64, 2);
  expect(FaultKind::race_global, 5, "a copy that thread (6,0,0) of block (0,0,0) asked for",
         "async_written_by_another");
}

}  // namespace
