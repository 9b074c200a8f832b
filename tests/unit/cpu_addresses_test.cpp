// Faults: bad addresses, and reads of what nobody has written.

#include "tests/unit/device_test.hpp"

namespace {

TEST_F(Check, HostPointer) {
  float on_the_stack = 0;
  run_on(nullptr, &on_the_stack, "write_at", dim3(2, 2), dim3(8, 2), 0);
  expect(FaultKind::host_pointer, last());
  EXPECT_EQ(on_the_stack, 0.0f);  // the launch ended before the access
  run_on(nullptr, y.data(), "read_at", 1, 1, 3);
  expect(FaultKind::host_pointer, last());
}

TEST_F(Check, OutsideOfAnAllocation) {
  run("write_at", 1, 2, 2048);
  const Fault fault =
      expect(FaultKind::out_of_bounds_global, 1, "writes 0 bytes past an allocation of 8192 bytes");
  EXPECT_EQ(describe(fault), "out-of-bounds access to global memory: " + here("write_at") +
                                 ": kernel write_at, block (0,0,0) thread (1,0,0) " + fault.detail);
  run("read_at", 1, 1, -1);
  expect(FaultKind::out_of_bounds_global, 0);
}

// Elements of an allocation that belong to no matrix are out of bounds.
TEST_F(Check, OutsideOfAMatrix) {
  struct Case {
    std::int64_t ld;
    int element;  // from the matrix's first one on
    const char* detail;
  };
  for (const auto& [ld, element, detail] : std::vector<Case>{
           {32, 20, "writes C[0][20], but C is 10 x 20"},
           {32, 32 * 3 + 31, "writes C[3][31], but C is 10 x 20"},
           {32, -1, "writes 4 bytes before C[0][0]; C is 10 x 20"},
           {32, 32 * 9 + 20, "writes C[9][20], but C is 10 x 20"},
           {32, 32 * 10, "writes 48 bytes past the end of C; C is 10 x 20"},
           {20, 20 * 10, "writes right behind the end of C; C is 10 x 20"},
       }) {
    cpu_device::describe(view("C", y.data() + 64, 10, 20, ld));
    run("write_at", 1, 1, 64);
    run("write_at", 1, 1, static_cast<int>(64 + ld * 9 + 19));
    expect_none();
    run("write_at", 1, 1, 64 + element);
    EXPECT_EQ(expect(FaultKind::out_of_bounds_global, 0).detail, detail);
  }
}

TEST_F(Check, SecondMatrixOfABatch) {
  cpu_device::describe({"C", y.data(), 4, 5, 8, 3, 40, true, true});
  run("write_at", 1, 1, 40 + 8 + 4);
  expect_none();
  run("write_at", 1, 1, 40 + 8 + 5);
  expect(FaultKind::out_of_bounds_global, 0, "writes C[1][5] of matrix 1, but C is 4 x 5");
  run("write_at", 1, 1, 40 + 8 * 4 + 1);
  expect(FaultKind::out_of_bounds_global, 0, "writes 16 bytes past the end of matrix 1 of C; C is 4 x 5");
  run("write_at", 1, 1, 2 * 40 + 8 * 4);
  expect(FaultKind::out_of_bounds_global, 0, "writes 12 bytes past the end of C; C is 4 x 5");
}

// The first rows of three matrices, then the second rows.
TEST_F(Check, MatricesWhoseRowsTakeTurns) {
  cpu_device::describe({"C", y.data(), 4, 5, 20, 3, 6, true, true});
  run("write_at", 1, 1, 2 * 20 + 6 + 4);
  expect_none();
  run("write_at", 1, 1, 2 * 20 + 6 + 5);
  expect(FaultKind::out_of_bounds_global, 0, "writes C[2][5] of matrix 1, but C is 4 x 5");
  run("write_at", 1, 1, 4 * 20);
  expect(FaultKind::out_of_bounds_global, 0, "writes 12 bytes past the end of C; C is 4 x 5");
}

TEST_F(Check, WriteToReadOnlyMatrix) {
  cpu_device::describe(view("A", y.data(), 4, 8, 8, true, false));
  run("write_at", 1, 3, 9);
  expect(FaultKind::read_only, 2, "writes A[1][1]");
}

TEST_F(Check, ReadOfUninitialisedGlobalMemory) {
  cpu_device::describe(view("C", x.data(), 4, 8, 8, false, true));
  run("read_at", 1, 3, 9);
  expect(FaultKind::uninitialised_global, 2);
  // Once a kernel has written it, it may be read.
  run_on(nullptr, x.data(), "write_at", 1, 1, 9);
  run("read_at", 1, 3, 9);
}

TEST_F(Check, OutOfBoundsOfSharedMemory) {
  run("write_static_shared_at", 1, 2, 3);
  expect(FaultKind::out_of_bounds_shared, 1);
  run("write_dynamic_shared_at", 2, 2, 15, 16 * sizeof(float));
  expect_none();
  run("write_dynamic_shared_at", 2, 2, 16, 16 * sizeof(float));
  expect(FaultKind::out_of_bounds_shared, last());
}

// The next array begins where this one ends, so only the index is wrong.
TEST_F(Check, ArrayIndex) {
  run("index_static_shared", 1, 2, 15);
  expect_none();
  for (const int index : {16, -1}) {
    run("index_static_shared", 1, 2, index);
    std::vector<Fault> faults = cpu_device::take_faults();
    std::erase_if(faults, [](const Fault& fault) { return fault.kind != FaultKind::array_index; });
    ASSERT_EQ(faults.size(), 1u) << index;
    EXPECT_EQ(faults[0].where, here("index_static_shared"));
    EXPECT_EQ(faults[0].thread.x, 1u);
    EXPECT_EQ(faults[0].detail, "uses index " + std::to_string(index) + " of an array of type 'float [16]'");
  }
}

// The plain build checks vectors as well: x86 would take any address.
TEST_P(BothBuilds, MisalignedVector) {
  run("misaligned_float4", 1, 2, 4);
  expect_none();
  for (const int offset : {1, 2, 3}) {
    run("misaligned_float4", 1, 2, offset);
    expect(FaultKind::misaligned, 1);
  }
}

TEST_F(Check, MisalignedScalar) {
  run("misaligned_float", 1, 2, 2);
  expect(FaultKind::misaligned, 1);
}

TEST_F(Check, ReadOfUninitialisedSharedMemory) {
  run("read_unwritten_shared", 1, dim3(8, 8), 64);
  expect_none();
  run("read_unwritten_shared", 1, dim3(8, 8), 61);
  const Fault fault =
      expect(FaultKind::uninitialised_shared, {{0, 0, 0}, {5, 7, 0}}, "reads slots[61], which");
  EXPECT_EQ(fault.times, 3u);
  EXPECT_THAT(describe(fault), HasSubstr("(and 2 more at this line)"));
  run("read_unwritten_shared", 1, 1);  // what the previous block wrote is gone
  expect(FaultKind::uninitialised_shared, 0);
}

class NamesInShared : public Check {
 protected:
  // What the report calls float number n of `bytes` bytes of dynamic shared memory.
  std::string name_of(int n, const std::string& kernel, std::size_t bytes, const std::string& mark = "") {
    run(kernel, 2, 3, n, bytes);
    const std::string reads = "reads ", unwritten = ", which no thread of this block has written";
    const std::string detail = expect(FaultKind::uninitialised_shared, last(), reads, mark).detail;
    EXPECT_TRUE(detail.starts_with(reads) && detail.ends_with(unwritten)) << detail;
    return detail.substr(reads.size(), detail.size() - reads.size() - unwritten.size());
  }
  // Of a __shared__ variable.
  std::string name_of(int n, const std::string& kernel) { return name_of(n, kernel, 0, "unwritten"); }
};

TEST_F(NamesInShared, OfVariables) {
  EXPECT_EQ(name_of(0, "read_static_scalar"), "alone");
  const auto at = [&](int n) { return name_of(n, "read_static_tiles"); };
  EXPECT_EQ(at(0), "tiles.A[0][0]");
  EXPECT_EQ(at(5), "tiles.A[1][2]");
  EXPECT_EQ(at(7), "tiles.stages[0].sum + 4 bytes");
  EXPECT_EQ(at(9), "tiles.stages[0].parts[1][0]");
  EXPECT_EQ(at(10), "tiles.stages[1].sum");
  EXPECT_EQ(at(13), "tiles.stages[1].parts[1][0]");
  EXPECT_EQ(at(14), "tiles.last");
  EXPECT_EQ(at(15), "tiles + 60 bytes");  // behind the last member
}

TEST_F(NamesInShared, OfVariablesWithOneNameAndSize) {
#ifdef __x86_64__
  EXPECT_EQ(name_of(64, "read_static_rows"), "table[2][4]");
  EXPECT_EQ(name_of(64, "read_static_columns"), "table[5][1][0]");
#else  // GCC does not say where a variable lies
  EXPECT_EQ(name_of(64, "read_static_rows"), "table + 256 bytes");
  EXPECT_EQ(name_of(64, "read_static_columns"), "table + 256 bytes");
#endif
}

TEST_F(NamesInShared, OfMembers) {
  const auto at = [&](int n) { return name_of(n, "read_dynamic_tiles", 192); };
  EXPECT_EQ(at(0), "DynamicTiles::A[0][0]");
  EXPECT_EQ(at(31), "DynamicTiles::A[3][7]");
  EXPECT_EQ(at(32), "DynamicTiles::B[0]");
  EXPECT_EQ(at(34), "DynamicTiles::B[2]");
  EXPECT_EQ(at(35), "dynamic shared memory + 140 bytes");  // between two members
  EXPECT_EQ(at(40), "DynamicTiles::C[0]");                 // as it is aligned
  EXPECT_EQ(at(42), "dynamic shared memory + 168 bytes");
}

TEST_F(NamesInShared, OfArraysOfStructs) {
  const auto at = [&](int n) { return name_of(n, "read_dynamic_ring", 304); };
  EXPECT_EQ(at(0), "DynamicRing::stages[0][0].A[0]");
  EXPECT_EQ(at(8), "DynamicRing::stages[0][0].B[0]");
  EXPECT_EQ(at(12), "DynamicRing::stages[0][1].A[0]");
  EXPECT_EQ(at(3 * 12 - 1), "DynamicRing::stages[0][2].B[3]");
  EXPECT_EQ(at(3 * 12), "DynamicRing::stages[1][0].A[0]");
  EXPECT_EQ(at(6 * 12 - 1), "DynamicRing::stages[1][2].B[3]");
  EXPECT_EQ(at(6 * 12 + 3), "DynamicRing::full[1] + 4 bytes");
  EXPECT_EQ(name_of(33, "read_dynamic_array", 384), "DynamicTiles[0]::B[1]");
  EXPECT_EQ(name_of(48 + 33, "read_dynamic_array", 384), "DynamicTiles[1]::B[1]");
}

// The next launch does not see the names of the one before.
TEST_F(NamesInShared, EndWithTheLaunch) {
  EXPECT_EQ(name_of(1, "read_dynamic_tiles", 192), "DynamicTiles::A[0][1]");
  run("reverse_in_dynamic_shared", 1, 1, 2, 8);
  expect(FaultKind::uninitialised_shared, 0, "reads dynamic shared memory + 4 bytes");
}

TEST_P(BothBuilds, DynamicSharedMemoryIsAlignedAsItsTypeIsAndNoMore) {
  const auto beyond_2048 = [&](const std::string& kernel) {
    run(kernel, 64, 1, 0, 1024);
    const std::vector<float> all = y.values();
    EXPECT_EQ(std::count(all.begin(), all.begin() + 64, all[0]), 64) << kernel;
    return all[0];
  };
  EXPECT_EQ(beyond_2048("align_dynamic_shared<1>"), 16.0f);
  EXPECT_EQ(beyond_2048("align_dynamic_shared<16>"), 16.0f);
  EXPECT_EQ(beyond_2048("align_dynamic_shared<128>"), 128.0f);
  EXPECT_EQ(beyond_2048("align_dynamic_shared<1024>"), 1024.0f);
}

TEST_P(BothBuilds, TheFirstUseOfDynamicSharedMemoryDecidesHowItIsAligned) {
  run("align_less_afterwards", 2, 1, 0, 1024);
  EXPECT_EQ(y[1], 3.0f);
  run("align_more_afterwards", 2, 1, 0, 1024);
  expect(FaultKind::misaligned, Who({1, 0, 0}, {0, 0, 0}),
         "wants its dynamic shared memory at a multiple of 128 bytes, after the block has used it with a "
         "smaller "
         "alignment",
         "align_twice");
}

TEST_P(BothBuilds, DynamicSharedMemoryIsNotAlignedBehindVariables) {
  run("align_beside_static_shared", 1, 1, 0, 1024);
  expect(FaultKind::misaligned, 0,
         "wants its dynamic shared memory at a multiple of 1024 bytes, but the kernel's __shared__ "
         "variables, such as beside, lie before it");
  EXPECT_EQ(y[0], -1.0f);  // the launch has ended
}

}  // namespace
