// Launches that overlap, as if they did, and non-coherent loads of what is written meanwhile.

#include "tests/unit/device_test.hpp"

namespace {

class Overlap : public Check {
 protected:
  Overlap() {
    for (const auto& [name, buffer] : {std::pair("x", &x), std::pair("y", &y), std::pair("z", &z)}) {
      std::fill_n(buffer->data(), buffer->size(), 0.0f);
      cpu_device::describe(view(name, buffer->data(), 1, 2048, 2048));
    }
  }
  void first(const std::string& name, float* in, float* out, int n) { go(false, name, in, out, n); }
  void next(const std::string& name, float* in, float* out, int n) { go(true, name, in, out, n); }
  void expect_conflict(const Who& who, const std::string& detail, const std::string& mark = "") {
    const Fault fault = expect(FaultKind::launch_overlap, who, detail, mark);
    EXPECT_EQ(fault.times, 128u);
  }
  DeviceBuffer z{2048};

 private:
  void go(bool overlaps, const std::string& name, float* in, float* out, int n) {
    run_as<Kernel>(name, {.grid = 2, .block = 64, .overlaps_previous = overlaps}, in, out, n);
  }
};

// ---- No false alarms --------------------------------------------------------------------------------------

TEST_F(Overlap, WithoutOverlapNobodyNeedsToWait) {
  first("add_one", x.data(), y.data(), 1);
  first("add_one", y.data(), z.data(), 0);
  first("add_one", z.data(), y.data(), 0);
  EXPECT_EQ(y[127], 3.0f);
}

TEST_F(Overlap, WaitingBeforeItReads) {
  first("add_one", x.data(), y.data(), 1);
  next("add_one", y.data(), z.data(), 3);
  next("add_one", z.data(), y.data(), 2);
  EXPECT_EQ(y[127], 3.0f);
}

TEST_F(Overlap, WhatTheLaunchBeforeLeavesAlone) {
  first("add_one", z.data(), y.data(), 1);
  next("prefetch", x.data(), y.data(), 0);
  EXPECT_EQ(y[0], 1.0f);
}

TEST_F(Overlap, BothOnlyRead) {
  first("add_one", x.data(), y.data(), 1);
  next("add_one", x.data(), z.data(), 0);
}

TEST_F(Overlap, AtomicOperationsOfBoth) {
  first("add_atomically_early", x.data(), y.data(), 0);
  next("add_atomically_early", x.data(), y.data(), 0);
  EXPECT_EQ(y[0], 256.0f);
}

TEST_F(Overlap, OneThreadWaitsAndABarrierFollows) {
  first("add_one", x.data(), y.data(), 1);
  next("one_waits", y.data(), z.data(), 0);
}

TEST_F(Overlap, WaitingForALaunchThatHasWaited) {
  for (const int when : {2, 4}) {
    first("add_one", x.data(), y.data(), 1);
    next("add_one", x.data(), x.data() + 1024, when);
    next("add_one", y.data(), z.data(), 2);
  }
}

TEST_F(Overlap, TheOneBeforeHadWaitedBeforeItLetThisOneBegin) {
  first("add_one", x.data(), y.data(), 1);
  next("only_waits", x.data(), y.data(), 0);
  next("add_one", y.data(), z.data(), 0);
}

// ---- Conflicts -------------------------------------------------------------------------------------------

TEST_F(Overlap, ReadsWithoutWaiting) {
  first("add_one", x.data(), y.data(), 0);
  next("add_one", y.data(), z.data(), 4);
  expect_conflict(
      {{0, 0, 0}, {0, 0, 0}},
      "reads y[0][0], which thread (0,0,0) of block (0,0,0) of the launch before, add_one, writes at " +
          here("add_one") + "; nothing has waited for that launch (wait_for_previous_launch())");
}

TEST_F(Overlap, SaysWhereTheNextOneMayBegin) {
  first("add_one", x.data(), y.data(), 1);
  next("add_one", y.data(), z.data(), 0);
  expect_conflict({{0, 0, 0}, {0, 0, 0}}, "), which lets the next one begin at " + here("lets_next_begin"));
}

TEST_F(Overlap, WritesWhatTheLaunchBeforeReads) {
  first("add_one", x.data(), y.data(), 0);
  next("add_one", z.data(), x.data(), 0);
  expect_conflict({{0, 0, 0}, {0, 0, 0}},
                  "writes x[0][0], which thread (0,0,0) of block (0,0,0) of the launch before, "
                  "add_one, reads at ");
}

TEST_F(Overlap, WritesWhatTheLaunchBeforeWrites) {
  first("add_one", x.data(), y.data(), 0);
  next("add_one", z.data(), y.data(), 0);
  expect_conflict({{0, 0, 0}, {0, 0, 0}}, "writes y[0][0], which");
}

TEST_F(Overlap, OneThreadWaitsAndNothingOrdersTheOthers) {
  first("add_one", x.data(), y.data(), 1);
  next("one_waits", y.data(), z.data(), 64);
  const Fault fault = expect(FaultKind::launch_overlap, {{0, 0, 0}, {1, 0, 0}}, "reads y[0][1]");
  EXPECT_EQ(fault.times, 126u);
}

TEST_F(Overlap, AtomicAndOrdinary) {
  first("add_atomically_early", x.data(), y.data(), 0);
  next("add_one", y.data(), z.data(), 0);
  const Fault fault = expect(FaultKind::launch_overlap, {{0, 0, 0}, {0, 0, 0}}, "reads y[0][0]");
  EXPECT_EQ(fault.times, 1u);
}

// The second launch has not waited for the first, and so waiting for the second says nothing about it.
TEST_F(Overlap, TheLaunchBetweenHasNotWaited) {
  first("add_one", x.data(), y.data(), 1);
  next("add_one", x.data(), x.data() + 1024, 1);
  next("add_one", y.data(), z.data(), 2);
  expect_conflict({{0, 0, 0}, {0, 0, 0}},
                  "of an earlier launch, add_one, writes at " + here("add_one") +
                      "; the launch that this one has waited for did not wait for that one");
}

// It has waited, but only after it had let the next one begin.
TEST_F(Overlap, TheLaunchBetweenLetThisOneBeginFirst) {
  first("add_one", x.data(), y.data(), 1);
  next("add_one", x.data(), x.data() + 1024, 3);
  next("add_one", y.data(), z.data(), 0);
  expect_conflict({{0, 0, 0}, {0, 0, 0}}, "of an earlier launch, add_one, writes at ");
}

TEST_F(Overlap, FreeingMemoryWaits) {
  first("add_one", x.data(), y.data(), 1);
  cpu_device::release(cpu_device::allocate(4));
  next("add_one", y.data(), z.data(), 0);
}

// ---- Non-coherent loads ----------------------------------------------------------------------------------

TEST_F(Overlap, NoncoherentLoadOfWhatAnEarlierLaunchWrote) {
  first("add_one", x.data(), y.data(), 0);
  first("load_noncoherent", y.data(), z.data(), 0);
  EXPECT_EQ(z[127], 1.0f);
  first("load_noncoherent", z.data(), y.data(), 0);
}

TEST_F(Overlap, NoncoherentLoadBesideWhatIsWritten) { first("load_beside", x.data(), y.data(), 0); }

TEST_F(Overlap, NoncoherentLoadOfWhatWasWritten) {
  first("write_then_load", x.data(), y.data(), 0);
  const Fault fault =
      expect(FaultKind::noncoherent_load, {{0, 0, 0}, {0, 0, 0}},
             "reads y[0][63] by a non-coherent load (__ldg), which thread (63,0,0) of block (0,0,0) "
             "writes in the same launch at " +
                 here("written_before"));
  EXPECT_EQ(fault.times, 128u);
}

TEST_F(Overlap, NoncoherentLoadOfWhatIsWrittenLater) {
  first("load_then_write", x.data(), y.data(), 0);
  const Fault fault =
      expect(FaultKind::noncoherent_load, {{0, 0, 0}, {0, 0, 0}},
             "writes y[0][0], which thread (0,0,0) of block (0,0,0) reads by a non-coherent load "
             "(__ldg) in the same launch at " +
                 here("loaded_before"));
  EXPECT_EQ(fault.times, 128u);
}

TEST_F(Overlap, NoncoherentLoadOfAVector) {
  run("load_vector", 1, 64);
  expect(FaultKind::noncoherent_load, 0, "x[0][3] by a non-coherent load (__ldg), which thread (63,0,0)");
}

// A wait orders the launches, but not a load that may be made before it.
TEST_F(Overlap, NoncoherentLoadOfWhatAnOverlappingLaunchWrote) {
  first("add_one", x.data(), y.data(), 1);
  next("load_noncoherent", y.data(), z.data(), 1);
  const Fault fault = expect(FaultKind::noncoherent_load, {{0, 0, 0}, {0, 0, 0}},
                             "y[0][0] by a non-coherent load (__ldg), which thread (0,0,0) of block (0,0,0) "
                             "of the launch before, add_one, "
                             "wrote at " +
                                 here("add_one"));
  EXPECT_EQ(fault.times, 128u);
}

}  // namespace
