// memcpy() and memset() in kernels are seen like other accesses.

#include "tests/unit/device_test.hpp"

namespace {

class Bytes : public BothBuilds {
 protected:
  void describe_x() { cpu_device::describe(view("X", x.data(), 1, 1024, 1024, true, false)); }
};
class BytesFault : public Bytes {};
INSTANTIATE_TEST_SUITE_P(, Bytes, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, BytesFault, testing::Values("observed"), name_of_build);

TEST_P(Bytes, CopiesAndZeros) {
  describe_x();
  run("rows_by_memcpy", 1, 8);
  EXPECT_EQ(y[0], x[42]);
  EXPECT_EQ(y[47], x[5]);
  run("zeros_by_memset", 1, 64);
  EXPECT_EQ(y[63], 2.0f);
}

TEST_P(Bytes, StructsThatAreAlignedToTheirMembers) {
  describe_x();
  run("structs_in_between", 1, 32);
  EXPECT_EQ(y[1], x[1 + 31 * 4]);
  EXPECT_EQ(y[129 + 31 * 16 + 15], x[16]);
}

TEST_P(BytesFault, ARaceIsCalledThat) {
  describe_x();
  run("rows_by_memcpy", 1, 8, 1);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_FALSE(faults.empty());
  for (const Fault& fault : faults) {
    EXPECT_TRUE(fault.kind == FaultKind::race_shared || fault.kind == FaultKind::uninitialised_shared);
  }
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(),
                          [](const Fault& fault) { return fault.kind == FaultKind::race_shared; }));
}

TEST_P(BytesFault, OutOfBounds) {
  describe_x();
  run("rows_by_memcpy", 1, 8, 2);
  expect(FaultKind::out_of_bounds_global, 7, "reads ");
  run("rows_by_memcpy", 1, 8, 3);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_FALSE(faults.empty());
  EXPECT_TRUE(faults[0].kind == FaultKind::array_index || faults[0].kind == FaultKind::out_of_bounds_shared)
      << describe(faults[0]);
}

TEST_P(BytesFault, AStructThatReachesBeyondTheMatrix) {
  describe_x();
  run("structs_in_between", 1, 32, 1);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].kind, FaultKind::out_of_bounds_global);
  EXPECT_EQ(faults[0].where, here("structs_in_between"));
}

TEST_P(BytesFault, WhatNobodyHasFilled) {
  run("zeros_by_memset", 1, 64, 1);
  expect(FaultKind::uninitialised_shared, 0, "which no thread of this block has written");
}

}  // namespace
