// Blocks that exchange data: by flags, by atomic operations and fences; races between them, and waiting that
// never ends. What is reported must not depend on how many cores there are, so the tests run things often.

#include <cmath>

#include "common/cuda/workspace.hpp"
#include "tests/unit/cpu_check.hpp"

namespace {

struct Grid : Check {
  void run(GridKernel kernel, unsigned blocks, unsigned threads, int n = 0) {
    launch(kernel, dim3(blocks), dim3(threads), 0, flags, data, y.data(), n);
  }
  // The only fault, by a thread of `block` at the line with the mark; returns what it says.
  std::string only(FaultKind kind, const std::string& mark, const std::string& block,
                   const std::string& thread) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    if (faults.size() != 1) {
      for (const Fault& fault : faults) ADD_FAILURE() << describe(fault);
      return "no fault";
    }
    EXPECT_EQ(std::string(cpu_device::to_string(kind)) + " at " + here(mark) + ", block " + block +
                  " thread " + thread,
              std::string(cpu_device::to_string(faults[0].kind)) + " at " + faults[0].where + ", block " +
                  to_string(faults[0].block) + " thread " + to_string(faults[0].thread))
        << faults[0].detail;
    return faults[0].detail;
  }
  // Whether all flags are as before the first launch.
  bool flags_are_clear() {
    return std::all_of(flags, flags + 64, [](unsigned flag) { return flag == 0; });
  }

  // It holds something from the start.
  void describe_data() { cpu_device::describe({"partial", data, 1, 64, 64, 1, 64, true, true, 4, true}); }

  const GridKernels& kernels = observed_grid_kernels;
  Workspace<unsigned> ready{"ready", Fill::zero};
  Workspace<float> partial{"partial"};
  unsigned* flags = ready.at_least(64);
  float* data = partial.at_least(4096);
};
constexpr int often = 20;

// ---- Right ones, by both builds
// ----------------------------------------------------------------------------

TEST_F(Grid, OrderPassesFromBlockToBlock) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    for (const unsigned blocks : {1u, 2u, 5u, 60u}) {
      run((checked ? kernels : plain_grid_kernels).chain_of_blocks, blocks, 64);
      for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], static_cast<float>(blocks));
      EXPECT_TRUE(flags_are_clear());
    }
  }
}

TEST_F(Grid, ThreadsWaitForDifferentFlags) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    run((checked ? kernels : plain_grid_kernels).wait_for_many, 41, 64);
    for (int t = 0; t < 40; ++t) EXPECT_EQ(y[t], static_cast<float>(t + 1));
    EXPECT_TRUE(flags_are_clear());
  }
}

TEST_F(Grid, AFlagInsideABlock) {
  for (const unsigned threads : {2u, 33u}) run(kernels.flag_inside_a_block, 20, threads);
  EXPECT_EQ(y[19], 19.0f);
}

TEST_F(Grid, WhatWasReadMayBeOverwritten) {
  std::fill_n(data, 64, 3.0f);
  describe_data();
  for (int i = 0; i < often; ++i) run(kernels.write_after_read, 2, 64);
  EXPECT_EQ(data[0], 7.0f);
}

TEST_F(Grid, FencesAroundAtomicOperationsOrder) {
  for (int i = 0; i < often; ++i) {
    run(kernels.last_block_sums, 30, 32);
    EXPECT_EQ(y[0], 960.0f);
    EXPECT_TRUE(flags_are_clear());
  }
}

TEST_F(Grid, AtomicOperationsDoNotRace) {
  std::fill_n(data, 3, 4.0f);
  describe_data();
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    run((checked ? kernels : plain_grid_kernels).add_atomically, 50, 64, -1);
  }
  EXPECT_EQ(flags[0], 6400u);
  EXPECT_EQ(static_cast<int>(flags[1]), -12800);
  EXPECT_EQ(flags[2], 5u);
  EXPECT_EQ(data[0], 1604.0f);
  EXPECT_EQ(data[1], 1604.0f);
  EXPECT_EQ(y[0], 9.0f);
  EXPECT_EQ(y[1], 5.0f);
}

// ---- Wrong ones
// ---------------------------------------------------------------------------------------------

TEST_F(Grid, HandOverWithEverythingItNeeds) {
  for (int i = 0; i < often; ++i) run(kernels.hand_over, 5, 64);
  EXPECT_EQ(y[0], 63.0f);
}

// The thread that has set the flag knows only what it wrote itself.
TEST_F(Grid, AFlagSetWithoutABarrierBefore) {
  for (int i = 0; i < often; ++i) {
    run(kernels.hand_over, 3, 64, 1);
    EXPECT_THAT(only(FaultKind::race_global, "hand_over", "2,0,0", "0,0,0"),
                HasSubstr("reads partial[63], which thread (63,0,0) of block (0,0,0) wrote"));
  }
}

// Thread 0 alone has waited.
TEST_F(Grid, NoBarrierBehindWaiting) {
  for (int i = 0; i < often; ++i) {
    run(kernels.hand_over, 3, 64, 2);
    for (const Fault& fault : cpu_device::take_faults()) {
      EXPECT_NE(fault.thread.x, 0u);
      if (fault.kind == FaultKind::uninitialised_global) continue;  // if it comes before the first block
      EXPECT_EQ(fault.kind, FaultKind::race_global);
      EXPECT_EQ(fault.where, here("hand_over"));
      EXPECT_EQ(fault.times, 63u);
    }
  }
}

TEST_F(Grid, NoWaiting) {
  for (int i = 0; i < often; ++i) {
    run(kernels.hand_over, 3, 64, 4);
    int races = 0;
    for (const Fault& fault : cpu_device::take_faults()) {
      if (fault.kind == FaultKind::uninitialised_global) continue;  // if it comes before the first block
      if (fault.kind == FaultKind::race_global) {
        ++races;
        EXPECT_EQ(fault.where, here("hand_over"));
        EXPECT_EQ(fault.times, 64u);
      } else {
        EXPECT_EQ(fault.kind, FaultKind::flag_misuse);  // nobody waits for it
      }
    }
    EXPECT_EQ(races, 1);
  }
}

TEST_F(Grid, WritingBehindTheFlag) {
  for (int i = 0; i < often; ++i) {
    run(kernels.hand_over, 3, 64, 8);
    EXPECT_THAT(only(FaultKind::race_global, "hand_over", "2,0,0", "0,0,0"),
                HasSubstr("which thread (63,0,0) of block (0,0,0) wrote"));
  }
}

// Also where the other block happens to run on another core.
TEST_F(Grid, WaitingForALaterBlockIsADeadlock) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    for (int i = 0; i < often; ++i) {
      run((checked ? kernels : plain_grid_kernels).wait_for_later_block, 3, 64, i % 2);
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_EQ(faults.size(), 1u);
      EXPECT_EQ(faults[0].kind, FaultKind::deadlock);
      EXPECT_EQ(faults[0].block.x, static_cast<unsigned>(i % 2));
      EXPECT_THAT(faults[0].detail,
                  HasSubstr("waits here for the flag ready[2], which neither this block nor "
                            "one before it has set (a block behind it may begin only when "
                            "this one ends), while thread (1,0,0) waits at "));
      if (checked) {
        EXPECT_EQ(faults[0].where, here("wait_for_later_block"));
        EXPECT_THAT(faults[0].detail, HasSubstr(here("meanwhile") + " for all threads of the block"));
      }
      EXPECT_TRUE(flags_are_clear());
    }
  }
}

TEST_F(Grid, WaitingForNobody) {
  run(kernels.wait_for_later_block, 3, 1, -1);
  EXPECT_THAT(only(FaultKind::deadlock, "wait_for_later_block", "0,0,0", "0,0,0"),
              HasSubstr("the flag ready[2]"));
}

TEST_F(Grid, LanesWaitForOneThatWaitsForABlock) {
  describe_data();
  for (const int n : {0, 5}) {
    run(kernels.shuffle_while_waiting, 1, 32, n);
    EXPECT_THAT(only(FaultKind::deadlock, "shuffle_while_waiting", "0,0,0", std::to_string(n) + ",0,0"),
                HasSubstr(", while thread (" + std::to_string(n == 0 ? 1 : 0) + ",0,0) waits at"));
  }
}

TEST_F(Grid, AFlagThatIsSetTwice) {
  for (int i = 0; i < often; ++i) {
    run(kernels.set_flag_in_blocks, 3, 1, 2);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(summary(faults[0]),
              summary(FaultKind::flag_misuse, "set_flag_in_blocks", "set_flag_in_blocks", "1,0,0", "0,0,0"));
    EXPECT_EQ(faults[0].detail, "sets the flag ready[1], which thread (0,0,0) of block (0,0,0) has set at " +
                                    here("set_flag_in_blocks") + "; a flag is set once in a launch");
    EXPECT_EQ(faults[0].times, 2u);  // and nobody waits for it
  }
}

TEST_F(Grid, AFlagThatStaysSet) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    run((checked ? kernels : plain_grid_kernels).set_flag_in_blocks, 3, 1, 1);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, FaultKind::flag_misuse);
    EXPECT_EQ(
        faults[0].detail,
        "sets the flag ready[1], for which nobody waits in this launch: the next one would find it set");
    EXPECT_TRUE(flags_are_clear());  // the next one is no victim of this one
  }
}

TEST_F(Grid, AFlagThatIsTakenTwice) {
  run(kernels.wait_twice, 2, 1);
  EXPECT_THAT(only(FaultKind::deadlock, "second_wait", "1,0,0", "0,0,0"),
              HasSubstr("has set since thread (0,0,0) of block (1,0,0) cleared it at " + here("first_wait")));
}

TEST_F(Grid, FlagsLieInZeroedGlobalMemory) {
  run(kernels.set_flag_at, 1, 1, 64);
  EXPECT_THAT(only(FaultKind::out_of_bounds_global, "set_flag_at", "0,0,0", "0,0,0"),
              HasSubstr("right behind the end of ready"));
  auto* unset = reinterpret_cast<unsigned*>(data);
  launch(kernels.wait_for_flag_at, dim3(1), dim3(1), 0, unset, data, y.data(), 5);
  EXPECT_EQ(only(FaultKind::uninitialised_global, "wait_for_flag_at", "0,0,0", "0,0,0"),
            "reads partial[5], which may hold anything");
  launch(kernels.set_flag_at, dim3(1), dim3(1), 0, unset, data, y.data(), 6);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::flag_misuse);
  EXPECT_THAT(faults[0].detail, HasSubstr("a flag that is not set is 0"));
  launch(kernels.set_flag_at, dim3(1), dim3(1), 0, nullptr, data, y.data(), 6);
  EXPECT_EQ(only(FaultKind::host_pointer, "set_flag_at", "0,0,0", "0,0,0"),
            "writes memory that was not allocated on the device");
}

TEST_F(Grid, AtomicOperationsAloneOrderNothing) {
  for (const int n : {1, 2}) {
    for (int i = 0; i < often; ++i) {
      run(kernels.last_block_sums, 8, 32, n);
      const std::vector<Fault> faults = cpu_device::take_faults();
      EXPECT_GE(faults.size(),
                1u);  // by the last block, or by one with a higher number that was not the last
      for (const Fault& fault : faults) EXPECT_EQ(fault.kind, FaultKind::race_global);
      EXPECT_EQ(y[0], 256.0f);
    }
  }
}

TEST_F(Grid, AnAtomicOperationRacesWithAPlainRead) {
  describe_data();
  for (int i = 0; i < often; ++i) {
    run(kernels.add_atomically, 5, 64, 7);
    bool at_the_read = false;
    for (const Fault& fault : cpu_device::take_faults()) {
      EXPECT_EQ(fault.kind, FaultKind::race_global);
      EXPECT_THAT(fault.detail, HasSubstr("partial[0]"));
      at_the_read |= fault.where == here("add_atomically");
    }
    EXPECT_TRUE(at_the_read);
  }
}

TEST_F(Grid, AtomicOperationsOnSharedMemory) {
  run(kernels.add_to_shared, 1, 32);
  EXPECT_THAT(only(FaultKind::unsupported, "add_to_shared", "0,0,0", "0,0,0"),
              HasSubstr("changes shared memory"));
  cpu_device::set_checking(false);
  run(plain_grid_kernels.add_to_shared, 1, 32);
  EXPECT_EQ(y[0], 32.0f);
}

TEST_F(Grid, AtomicOperationsAreAligned) {
  for (const int n : {1, 2}) {
    run(kernels.add_misaligned, 1, 1, n);
    EXPECT_THAT(only(FaultKind::misaligned, "add_misaligned", "0,0,0", "0,0,0"),
                HasSubstr("no multiple of 4"));
  }
}

// ---- What is told to a listener
// ----------------------------------------------------------------------------

TEST_F(Grid, FlagsAndAccessesThatBypassTheCache) {
  std::fill_n(data, 64, 5.0f);
  describe_data();
  Recorder recorder;
  cpu_device::set_listener(&recorder);
  run(kernels.bypass_l1, 1, 4);
  run(kernels.flag_inside_a_block, 1, 2);
  cpu_device::set_listener(nullptr);
  EXPECT_EQ(y.values()[3], 5.0f);
  EXPECT_EQ(y.values()[32 + 15], 5.0f);
  std::vector<std::string> counts = recorder.counts();
  EXPECT_THAT(counts, testing::IsSupersetOf({
                          here("bypass") + " read 4 bytes of global memory x 4",
                          here("bypass") + " write 4 bytes of global memory x 4",
                          here("bypass4") + " read 16 bytes of global memory x 4",
                          here("bypass4") + " write 16 bytes of global memory x 4",
                      }));
  EXPECT_EQ(counts.size(), 4u + 6u);  // of the flag: a read and two writes
}

// ---- Some of the blocks
// -------------------------------------------------------------------------------------

// As the X-ray runs them: what others would have written is missing, and no fault.
TEST_F(Grid, BlocksThatWaitForOthersThatDoNotRun) {
  for (const auto& blocks : std::vector<std::vector<std::uint64_t>>{{3}, {0, 3}, {1, 2, 4}}) {
    cpu_device::select_blocks({{blocks}});
    run(kernels.chain_of_blocks, 5, 64);
    cpu_device::select_blocks(std::nullopt);
    EXPECT_TRUE(flags_are_clear());
  }
}

}  // namespace
