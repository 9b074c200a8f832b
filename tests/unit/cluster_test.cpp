// Blocks of a cluster: the barrier, each other's shared memory, arrivals and copies that reach several
// blocks.

#include "tests/unit/device_test.hpp"

namespace {

class InCluster : public BothBuilds {
 protected:
  void run_cluster(const std::string& name, unsigned blocks, unsigned cluster, unsigned threads = 64,
                   int n = 0) {
    run_as<Kernel>(name, {.grid = blocks, .block = threads, .shared_bytes = 1024, .cluster = cluster},
                   x.data(), y.data(), n);
  }
  static Who in_block(unsigned block, unsigned thread = 0) { return {{block, 0, 0}, {thread, 0, 0}}; }
};
class InClusterObserved : public InCluster {};
INSTANTIATE_TEST_SUITE_P(, InCluster, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, InClusterObserved, testing::Values("observed"), name_of_build);

// ---- No false alarms --------------------------------------------------------------------------------------

TEST_P(InCluster, SumsOverAllBlocks) {
  for (const unsigned cluster : {1u, 2u, 4u}) {
    run_cluster("sum_of_cluster", 4, cluster);
    for (unsigned block = 0; block < 4; ++block) {
      float sum = 0;
      for (unsigned i = 0; i < cluster; ++i) sum += x[(block / cluster * cluster + i) * 64 + 7];
      EXPECT_EQ(y[block * 64 + 7], sum) << cluster << ' ' << block;
    }
  }
}

TEST_P(InCluster, ArrivingAndWaitingApart) {
  run_cluster("split_barrier", 4, 4);
  for (unsigned block = 0; block < 4; ++block) {
    EXPECT_EQ(y[block * 64 + 3], 2.0f * x[(block + 3) % 4 * 64 + 3]);
  }
}

TEST_P(InCluster, ThreadsThatHaveLeftAreNotWaitedFor) {
  run_cluster("early_exits", 2, 2);
  EXPECT_EQ(y[64 + 31], x[31]);
}

TEST_P(InCluster, AroundTheRing) {
  run_cluster("ring", 4, 4, 32, 25);
  EXPECT_EQ(y[0], 100.0f);
}

TEST_P(InCluster, ACopyToAllBlocks) {
  for (const unsigned cluster : {1u, 2u, 4u}) {
    run_cluster("multicast", 4, cluster);
    for (unsigned block = 0; block < 4; ++block) EXPECT_EQ(y[block * 64 + 9], x[9]);
  }
}

TEST_P(InCluster, ACopyToAllOtherBlocks) {
  for (const unsigned cluster : {1u, 2u, 4u}) {
    run_cluster("multicast_to_others", 4, cluster);
    for (unsigned block = 0; block < 4; ++block) EXPECT_EQ(y[block * 64 + 9], x[9]);
  }
}

TEST_P(InCluster, AClusterOfOne) {
  run_cluster("alone", 1, 1);
  EXPECT_EQ(y[0], x[63]);
}

// ---- Faults -----------------------------------------------------------------------------------------------

TEST_P(InClusterObserved, NobodyKnowsThatThePeerHasBegun) {
  run_cluster("missing_cluster_barrier", 2, 2, 64, 1);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_GE(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::peer_gone);
  EXPECT_EQ(faults[0].where, here("reads_peer"));
  EXPECT_THAT(faults[0].detail, HasSubstr("reads shared memory of block (1,0,0), which may not have begun"));
}

TEST_P(InClusterObserved, ThePeerMayHaveLeft) {
  run_cluster("missing_cluster_barrier", 2, 2, 64, 2);
  expect(FaultKind::peer_gone, 0,
         "touches shared memory of block (1,0,0), whose threads may have left the kernel by then",
         "reads_peer");
}

TEST_P(InClusterObserved, PeersRace) {
  run_cluster("peers_race", 2, 2);
  expect(FaultKind::race_shared, in_block(1), "which thread (0,0,0) of block (0,0,0) wrote at");
}

TEST_P(InCluster, ADeadlockNamesBothBlocks) {
  run_cluster("one_block_waits", 2, 2, 32);
  expect(
      FaultKind::deadlock, 0,
      "waits here for the cluster barrier, to which 32 of 64 threads have come, and thread (0,0,0) of block "
      "(1,0,0) has not, while thread (0,0,0) of block (1,0,0) waits at");
}

TEST_P(InCluster, BarrierMisuse) {
  run_cluster("arrive_twice", 2, 2, 1);
  expect(FaultKind::barrier_misuse, 0, "arrives at the cluster barrier again");
  run_cluster("wait_without_arrival", 2, 2, 1);
  expect(FaultKind::barrier_misuse, 0, "waits for the cluster barrier without having arrived at it");
}

TEST_P(InCluster, MappingNothing) {
  run_cluster("map_wrongly", 2, 2, 1, 1);
  expect(FaultKind::out_of_bounds_shared, 0, "the block with rank 2 in a cluster of 2", "map_rank");
  run_cluster("map_wrongly", 2, 2, 1, 2);
  expect(FaultKind::out_of_bounds_shared, 0, "maps an address that is not in its shared memory",
         "map_global");
}

TEST_P(InCluster, BytesThatTheOtherBlockDoesNotExpect) {
  run_cluster("multicast_unannounced", 2, 2);
  const Fault fault = cpu_device::take_faults().at(0);
  EXPECT_EQ(fault.kind, FaultKind::deadlock);
  EXPECT_THAT(fault.detail, HasSubstr("came that nobody announced"));
}

TEST_P(InCluster, OtherBlocksMbarriers) {
  run_cluster("others_mbarrier", 2, 2, 1, 1);
  expect(FaultKind::mbarrier_misuse, 0, "only mbarrier_arrive_remote() takes hold", "init_of_other");
  run_cluster("others_mbarrier", 2, 2, 1, 2);
  expect(FaultKind::mbarrier_misuse, 0, "arrives at the mbarrier ", "arrive_at_other");
  run_cluster("others_mbarrier", 2, 2, 1, 3);
  expect(FaultKind::mbarrier_misuse, 0, "an mbarrier that is not in shared memory", "arrive_in_global");
}

TEST_P(InClusterObserved, VariablesOfTheFile) {
  run_cluster("with_variable_of_file", 2, 2, 4);
  expect(FaultKind::out_of_bounds_shared, 0, "uses the __shared__ variable of_the_file[0] in a cluster");
}

TEST_P(InCluster, SharedVariablesAreRefused) {
  EXPECT_THROW(run_cluster("with_shared_variable", 2, 2), std::invalid_argument);
  run_cluster("with_shared_variable", 2, 1);
  EXPECT_EQ(y[5], x[5]);
}

}  // namespace
