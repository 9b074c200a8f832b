// All orders of small pipelines on the CPU device.

#include "tests/unit/device_test.hpp"

namespace {

class AllOrders : public Check {
 protected:
  // Until there is no further one; keeps the faults of the shortest bad schedule.
  cpu_device::OrdersRun run_all(const std::string& name, unsigned threads, int n) {
    cpu_device::explore_orders(true);
    cpu_device::OrdersRun orders;
    faults.clear();
    do {
      run(name, 1, threads, n);
      const std::vector<Fault> now = cpu_device::take_faults();
      orders = cpu_device::next_order(false);
      if (orders.best) faults = now;
    } while (orders.more);
    cpu_device::explore_orders(false);
    EXPECT_TRUE(orders.all);
    return orders;
  }
  void expect_fault(FaultKind kind, const std::string& mark, const std::string& detail) {
    ASSERT_FALSE(faults.empty());
    EXPECT_EQ(faults[0].kind, kind);
    EXPECT_EQ(faults[0].where, here(mark));
    EXPECT_THAT(faults[0].detail, HasSubstr(detail));
  }
  std::vector<Fault> faults;
};

TEST_F(AllOrders, OfARightPipelineAreOne) {
  const auto orders = run_all("ring", 96, 0);
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(orders.schedules, 1u);
  EXPECT_EQ(orders.steps, 24u);
  EXPECT_GT(orders.commuting, 10u);
}

TEST_F(AllOrders, ShowAStageThatIsRefilledForOneConsumerOfTwo) {
  const auto orders = run_all("ring", 96, 1);
  expect_fault(FaultKind::race_shared, "ring_read", "tiles[0][0]");
  EXPECT_THAT(orders.table.back(), HasSubstr("passes its wait at full[0]: phase 0 is over"));
}

TEST_F(AllOrders, ShowAnArrivalBeforeTheLastRead) {
  const auto orders = run_all("ring", 96, 2);
  expect_fault(FaultKind::race_shared, "ring_fill", "tiles[0][1]");
  EXPECT_THAT(orders.table.back(), HasSubstr("thread (0,0,0)"));
}

TEST_F(AllOrders, ShowAStageThatIsRefilledTooEarly) {
  run_all("ring", 96, 3);
  expect_fault(FaultKind::race_shared, "ring_fill", "tiles[1]");
}

TEST_F(AllOrders, ShowThatAnotherMayComeFirst) {
  auto orders = run_all("first_come", 96, 1);
  EXPECT_GT(orders.schedules, orders.bad);
  EXPECT_EQ(orders.table.size(), 2u);
  expect_fault(FaultKind::deadlock, "first_come", "waits here for phase 2 of the mbarrier written");
  ASSERT_GT(faults[0].table.size(), 2u);  // who waits for whom, beside who has done what
  EXPECT_THAT(faults[0].table[1], HasSubstr("for phase 2 of the mbarrier written"));
  orders = run_all("first_come", 96, 2);
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(orders.schedules, 1u);
}

TEST_F(AllOrders, ShowThatWarpsOfTwoPairsMayMeet) {
  auto orders = run_all("pairs", 128, 1);
  EXPECT_GT(orders.schedules, orders.bad);
  expect_fault(FaultKind::race_shared, "pairs", "");
  EXPECT_EQ(orders.table.size(), 1u);  // one line of warps that come to the barrier
  orders = run_all("pairs", 128, 2);
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(orders.schedules, 1u);
}

TEST_F(AllOrders, ShowAParityThatIsRightOnlyIfNobodyRunsAhead) {
  auto orders = run_all("unanswered_signals", 64, 2);
  expect_fault(FaultKind::deadlock, "signals", "waits here for phase 2 of the mbarrier go");
  EXPECT_EQ(orders.bad, 1u);
  EXPECT_EQ(orders.schedules, 2u);
  EXPECT_THAT(orders.table, ElementsAre(HasSubstr("arrives at go: phase 0 is over"),
                                        HasSubstr("arrives at go: phase 1 is over")));
  run_all("unanswered_signals", 64, 1);
  EXPECT_THAT(faults, IsEmpty());
  orders = run_all("answered_signals", 64, 4);
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(orders.schedules, 1u);
}

}  // namespace
