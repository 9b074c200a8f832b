// Blocks that exchange data: by flags, by atomic operations and fences; races between them, and waits that
// never end. What is reported must not depend on how many cores there are, so the tests run things often.

#include "common/cuda/workspace.hpp"
#include "tests/unit/device_test.hpp"

namespace {

class Grid : public BothBuilds {
 protected:
  void run(const std::string& name, unsigned blocks, unsigned threads, int n = 0) {
    run_with(flags, name, blocks, threads, n);
  }
  void run_with(unsigned* other_flags, const std::string& name, unsigned blocks, unsigned threads, int n) {
    run_as<GridKernel>(name, {.grid = blocks, .block = threads}, other_flags, data, y.data(), n);
  }
  static Who in_block(unsigned block, unsigned thread = 0) { return {{block, 0, 0}, {thread, 0, 0}}; }
  // Whether all flags are as before the first launch.
  bool flags_are_clear() {
    return std::all_of(flags, flags + 64, [](unsigned flag) { return flag == 0; });
  }

  // It holds something from the start.
  void describe_data() { cpu_device::describe({"partial", data, 1, 64, 64, 1, 64, true, true, 4, true}); }

  Workspace<unsigned> ready{"ready", Fill::zero};
  Workspace<float> partial{"partial"};
  unsigned* flags = ready.at_least(64);
  float* data = partial.at_least(4096);
};
class GridFault : public Grid {};  // by the observed build only
INSTANTIATE_TEST_SUITE_P(, Grid, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, GridFault, testing::Values("observed"), name_of_build);
constexpr int often = 20;

// ---- No false alarms --------------------------------------------------------------------------------------

TEST_P(Grid, OrderPassesFromBlockToBlock) {
  for (const unsigned blocks : {1u, 2u, 5u, 60u}) {
    run("chain_of_blocks", blocks, 64);
    for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], static_cast<float>(blocks));
    EXPECT_TRUE(flags_are_clear());
  }
}

TEST_P(Grid, ThreadsWaitForDifferentFlags) {
  run("wait_for_many", 41, 64);
  for (int t = 0; t < 40; ++t) EXPECT_EQ(y[t], static_cast<float>(t + 1));
  EXPECT_TRUE(flags_are_clear());
}

TEST_P(Grid, AFlagInsideABlock) {
  for (const unsigned threads : {2u, 33u}) run("flag_inside_a_block", 20, threads);
  EXPECT_EQ(y[19], 19.0f);
}

TEST_P(Grid, WhatWasReadMayBeOverwritten) {
  std::fill_n(data, 64, 3.0f);
  describe_data();
  for (int i = 0; i < often; ++i) run("write_after_read", 2, 64);
  EXPECT_EQ(data[0], 7.0f);
}

TEST_P(Grid, FencesAroundAtomicOperationsOrder) {
  for (int i = 0; i < often; ++i) {
    run("last_block_sums", 30, 32, i % 2 == 0 ? 0 : 3);
    EXPECT_EQ(y[0], 960.0f);
    EXPECT_TRUE(flags_are_clear());
  }
}

TEST_P(Grid, AtomicOperationsDoNotRace) {
  std::fill_n(data, 3, 4.0f);
  describe_data();
  run("add_atomically", 50, 64, -1);
  EXPECT_EQ(flags[0], 3200u);
  EXPECT_EQ(static_cast<int>(flags[1]), -6400);
  EXPECT_EQ(flags[2], 5u);
  EXPECT_EQ(data[0], 804.0f);
  EXPECT_EQ(data[1], 804.0f);
  EXPECT_EQ(data[2], 9.0f);
  EXPECT_EQ(y[0], 4.0f);
  EXPECT_EQ(y[1], 0.0f);
}

TEST_P(Grid, HandOverWithEverythingItNeeds) {
  for (int i = 0; i < often; ++i) run("hand_over", 5, 64);
  EXPECT_EQ(y[0], 63.0f);
}

// ---- Faults -----------------------------------------------------------------------------------------------

// The thread that sets the flag vouches only for what it wrote itself, and before.
TEST_P(GridFault, AFlagSetTooEarly) {
  for (const int n : {1, 8}) {
    for (int i = 0; i < often; ++i) {
      run("hand_over", 3, 64, n);
      expect(FaultKind::race_global, in_block(2),
             "reads partial[63], which thread (63,0,0) of block (0,0,0) wrote");
    }
  }
}

// The last block's atomic operation may come on either side of the store.
TEST_P(GridFault, ACounterThatIsMadeZeroTooEarly) {
  for (int i = 0; i < often; ++i) {
    std::fill_n(flags, 1, 0u);
    run("last_block_sums", 8, 32, 4);
    std::vector<Fault> faults = cpu_device::take_faults();
    std::erase_if(faults, [&](const Fault& fault) { return fault.kind != FaultKind::race_global; });
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_THAT(faults[0].where, testing::AnyOf(here("ticket_beside_reset"), here("reset_beside_ticket")));
  }
}

// n: 2: there is no barrier behind waiting, so that thread 0 alone has waited; 4: there is no wait at all.
TEST_P(GridFault, NotEverybodyHasWaited) {
  for (const int n : {2, 4}) {
    for (int i = 0; i < often; ++i) {
      run("hand_over", 3, 64, n);
      std::vector<Fault> faults = cpu_device::take_faults();
      std::erase_if(faults, [&](const Fault& fault) {
        return fault.kind == FaultKind::uninitialised_global ||   // if it comes before the first block
               (n == 4 && fault.kind == FaultKind::flag_misuse);  // nobody waits for it
      });
      ASSERT_EQ(faults.size(), 1u);
      EXPECT_EQ(faults[0].kind, FaultKind::race_global);
      EXPECT_EQ(faults[0].where, here("hand_over"));
      EXPECT_EQ(faults[0].times, n == 2 ? 63u : 64u);
    }
  }
}

// Even if the other block happens to run on another core.
TEST_P(Grid, WaitingForALaterBlockIsADeadlock) {
  for (int i = 0; i < often; ++i) {
    run("wait_for_later_block", 3, 64, i % 2);
    const Fault fault = expect(FaultKind::deadlock, in_block(i % 2),
                               "waits here for the flag ready[2], which neither this block nor one before it "
                               "has set (a block behind it may begin only when this one ends), while thread "
                               "(1,0,0) waits at ");
    if (checked()) {
      EXPECT_THAT(fault.detail, HasSubstr(here("meanwhile") + " for all threads of the block"));
    }
    EXPECT_TRUE(flags_are_clear());
  }
}

TEST_P(Grid, WaitingForNobody) {
  run("wait_for_later_block", 3, 1, -1);
  expect(FaultKind::deadlock, 0, "the flag ready[2]");
}

TEST_P(Grid, LanesWaitForOneThatWaitsForABlock) {
  describe_data();
  for (const int n : {0, 5}) {
    run("shuffle_while_waiting", 1, 32, n);
    expect(FaultKind::deadlock, n, ", while " + thread_name(n == 0 ? 1 : 0) + " waits at");
  }
}

TEST_P(GridFault, AFlagThatIsSetTwice) {
  for (int i = 0; i < often; ++i) {
    run("set_flag_in_blocks", 3, 1, 2);
    const Fault fault = expect(FaultKind::flag_misuse, in_block(1),
                               "sets the flag ready[1], which thread (0,0,0) of block (0,0,0) has set at " +
                                   here("set_flag_in_blocks") + "; a flag is set once in a launch");
    EXPECT_EQ(fault.times, 2u);  // and nobody waits for it
  }
}

TEST_P(Grid, AFlagThatStaysSet) {
  run("set_flag_in_blocks", 3, 1, 1);
  expect(FaultKind::flag_misuse, 0,
         "sets the flag ready[1], for which nobody waits in this launch: the next one would find it set");
  EXPECT_TRUE(flags_are_clear());  // or the next launch would suffer
}

TEST_P(GridFault, AFlagThatIsTakenTwice) {
  run("wait_twice", 2, 1);
  expect(FaultKind::deadlock, in_block(1),
         "has set since thread (0,0,0) of block (1,0,0) cleared it at " + here("first_wait"), "second_wait");
}

TEST_P(GridFault, FlagsLieInZeroedGlobalMemory) {
  run("set_flag_at", 1, 1, 64);
  expect(FaultKind::out_of_bounds_global, 0, "right behind the end of ready");
  auto* unset = reinterpret_cast<unsigned*>(data);
  run_with(unset, "wait_for_flag_at", 1, 1, 5);
  expect(FaultKind::uninitialised_global, 0, "reads partial[5], which may hold anything");
  run_with(unset, "set_flag_at", 1, 1, 6);
  expect(FaultKind::flag_misuse, 0, "a flag that is not set is 0");
  run_with(nullptr, "set_flag_at", 1, 1, 6);
  expect(FaultKind::host_pointer, 0, "writes memory that was not allocated on the device");
}

TEST_P(GridFault, AtomicOperationsAloneOrderNothing) {
  for (const int n : {1, 2}) {
    for (int i = 0; i < often; ++i) {
      run("last_block_sums", 8, 32, n);
      const std::vector<Fault> faults = cpu_device::take_faults();
      EXPECT_GE(faults.size(), 1u);  // by the last block, or a block with a higher number that was not last
      for (const Fault& fault : faults) EXPECT_EQ(fault.kind, FaultKind::race_global);
      EXPECT_EQ(y[0], 256.0f);
    }
  }
}

TEST_P(GridFault, AnAtomicOperationRacesWithAPlainRead) {
  describe_data();
  for (int i = 0; i < often; ++i) {
    run("add_atomically", 5, 64, 7);
    bool at_the_read = false;
    for (const Fault& fault : cpu_device::take_faults()) {
      EXPECT_EQ(fault.kind, FaultKind::race_global);
      EXPECT_THAT(fault.detail, HasSubstr("partial[0]"));
      at_the_read |= fault.where == here("add_atomically");
    }
    EXPECT_TRUE(at_the_read);
  }
}

TEST_P(GridFault, AtomicOperationsAreAligned) {
  for (const int n : {1, 2}) {
    run("add_misaligned", 1, 1, n);
    expect(FaultKind::misaligned, 0, "no multiple of 4");
  }
}

// ---- What a listener is told ------------------------------------------------------------------------------

TEST_P(GridFault, FlagsAndAccessesThatBypassTheCache) {
  std::fill_n(data, 64, 5.0f);
  describe_data();
  const Recorder& recorder = record();
  run("bypass_l1", 1, 4);
  run("flag_inside_a_block", 1, 2);
  EXPECT_EQ(y[3], 5.0f);
  EXPECT_EQ(y[32 + 15], 5.0f);
  const std::vector<std::string> counts = recorder.counts();
  EXPECT_THAT(counts, testing::IsSupersetOf({
                          here("bypass") + " read 4 bytes of global memory x 4",
                          here("bypass") + " write 4 bytes of global memory x 4",
                          here("bypass4") + " read 16 bytes of global memory x 4",
                          here("bypass4") + " write 16 bytes of global memory x 4",
                      }));
  EXPECT_EQ(counts.size(), 4u + 6u);  // of the flag: a read and two writes
}

// ---- Some of the blocks -----------------------------------------------------------------------------------

// As the X-ray runs them. What the other blocks would have written is missing, which is no fault.
TEST_P(Grid, BlocksThatWaitForOthersThatDoNotRun) {
  for (const auto& blocks : std::vector<std::vector<std::uint64_t>>{{3}, {0, 3}, {1, 2, 4}}) {
    cpu_device::select_blocks({{blocks}});
    run("chain_of_blocks", 5, 64);
    cpu_device::select_blocks(std::nullopt);
    EXPECT_TRUE(flags_are_clear());
  }
}

}  // namespace
