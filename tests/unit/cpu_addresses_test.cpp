// Faults: bad addresses, and reads of what nobody has written.

#include "tests/unit/cpu_check.hpp"

namespace {

TEST_F(Check, HostPointer) {
  float on_the_stack = 0;
  launch(kernels.write_at, dim3(2, 2), dim3(8, 2), 0, nullptr, &on_the_stack, 0);
  EXPECT_THAT(summaries(),
              ElementsAre(summary(FaultKind::host_pointer, "write_at", "write_at", "1,1,0", "7,1,0")));
  EXPECT_EQ(on_the_stack, 0.0f);  // the launch ended before the access
}

TEST_F(Check, NullPointer) {
  launch(kernels.read_at, dim3(1), dim3(1), 0, nullptr, y.data(), 3);
  EXPECT_THAT(summaries(),
              ElementsAre(summary(FaultKind::host_pointer, "read_at", "read_at", "0,0,0", "0,0,0")));
}

TEST_F(Check, BehindAnAllocation) {
  run(kernels.write_at, dim3(1), dim3(2), 1024);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]),
            summary(FaultKind::out_of_bounds_global, "write_at", "write_at", "0,0,0", "1,0,0"));
  EXPECT_EQ(faults[0].detail, "writes 0 bytes past an allocation of 4096 bytes");
  EXPECT_EQ(describe(faults[0]), "out-of-bounds access to global memory: " + here("write_at") +
                                     ": kernel write_at, block (0,0,0) thread (1,0,0) writes 0 bytes past an "
                                     "allocation of 4096 bytes");
}

TEST_F(Check, BeforeAnAllocation) {
  run(kernels.read_at, dim3(1), dim3(1), -1);
  EXPECT_THAT(summaries(),
              ElementsAre(summary(FaultKind::out_of_bounds_global, "read_at", "read_at", "0,0,0", "0,0,0")));
}

// Elements of an allocation that belong to no matrix are out of bounds too.
TEST_F(Check, OutsideOfAMatrix) {
  cpu_device::describe(view("C", y.data() + 64, 10, 20, 32));
  struct Row {
    int element;
    const char* detail;  // nullptr: inside
  };
  for (const auto& [element, detail] :
       {Row{64, nullptr}, Row{64 + 32 * 9 + 19, nullptr}, Row{64 + 20, "writes C[0][20], but C is 10 x 20"},
        Row{64 + 32 * 3 + 31, "writes C[3][31], but C is 10 x 20"},
        Row{63, "writes 4 bytes before C[0][0]; C is 10 x 20"},
        Row{64 + 32 * 9 + 20, "writes C[9][20], but C is 10 x 20"},
        Row{64 + 32 * 10, "writes 48 bytes past the end of C; C is 10 x 20"}}) {
    run(kernels.write_at, dim3(1), dim3(1), element);
    const std::vector<Fault> faults = cpu_device::take_faults();
    if (detail == nullptr) {
      EXPECT_THAT(faults, IsEmpty()) << element;
      continue;
    }
    ASSERT_EQ(faults.size(), 1u) << element;
    EXPECT_EQ(faults[0].kind, FaultKind::out_of_bounds_global) << element;
    EXPECT_EQ(faults[0].detail, detail);
  }
}

TEST_F(Check, RightBehindAMatrix) {
  cpu_device::describe(view("C", y.data() + 64, 10, 20, 20));
  run(kernels.write_at, dim3(1), dim3(1), 64 + 20 * 10);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].detail, "writes right behind the end of C; C is 10 x 20");
}

TEST_F(Check, SecondMatrixOfABatch) {
  cpu_device::describe({"C", y.data(), 4, 5, 8, 3, 40, true, true});
  run(kernels.write_at, dim3(1), dim3(1), 40 + 8 + 4);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.write_at, dim3(1), dim3(1), 40 + 8 + 5);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].detail, "writes C[1][5] of matrix 1, but C is 4 x 5");
}

TEST_F(Check, WriteToReadOnlyMatrix) {
  cpu_device::describe(view("A", y.data(), 4, 8, 8, true, false));
  run(kernels.write_at, dim3(1), dim3(3), 9);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]), summary(FaultKind::read_only, "write_at", "write_at", "0,0,0", "2,0,0"));
  EXPECT_EQ(faults[0].detail, "writes A[1][1]");
}

TEST_F(Check, ReadOfUninitialisedGlobalMemory) {
  cpu_device::describe(view("C", x.data(), 4, 8, 8, false, true));
  run(kernels.read_at, dim3(1), dim3(3), 9);
  EXPECT_THAT(summaries(),
              ElementsAre(summary(FaultKind::uninitialised_global, "read_at", "read_at", "0,0,0", "2,0,0")));
  // After the kernel has written it, it may be read.
  launch(kernels.write_at, dim3(1), dim3(1), 0, nullptr, x.data(), 9);
  run(kernels.read_at, dim3(1), dim3(3), 9);
}

TEST_F(Check, OutOfBoundsOfStaticSharedMemory) {
  run(kernels.write_static_shared_at, dim3(1), dim3(2), 3);
  EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::out_of_bounds_shared, "write_static_shared_at",
                                               "write_static_shared_at", "0,0,0", "1,0,0")));
}

TEST_F(Check, OutOfBoundsOfDynamicSharedMemory) {
  run(kernels.write_dynamic_shared_at, dim3(2), dim3(2), 15, 16 * sizeof(float));
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.write_dynamic_shared_at, dim3(2), dim3(2), 16, 16 * sizeof(float));
  EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::out_of_bounds_shared, "write_dynamic_shared_at",
                                               "write_dynamic_shared_at", "1,0,0", "1,0,0")));
}

// Past the end of an array lies the next one: only the index tells.
TEST_F(Check, ArrayIndex) {
  run(kernels.index_static_shared, dim3(1), dim3(2), 15);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  for (const int index : {16, -1}) {
    run(kernels.index_static_shared, dim3(1), dim3(2), index);
    std::vector<Fault> faults = cpu_device::take_faults();
    std::erase_if(faults, [](const Fault& fault) { return fault.kind != FaultKind::array_index; });
    ASSERT_EQ(faults.size(), 1u) << index;
    EXPECT_EQ(summary(faults[0]), summary(FaultKind::array_index, "index_static_shared",
                                          "index_static_shared", "0,0,0", "1,0,0"));
    EXPECT_EQ(faults[0].detail, "uses index " + std::to_string(index) + " of an array of type 'float [16]'");
  }
}

TEST_F(Check, MisalignedVector) {
  run(kernels.misaligned_float4, dim3(1), dim3(2), 4);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  for (const int offset : {1, 2, 3}) {
    run(kernels.misaligned_float4, dim3(1), dim3(2), offset);
    EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::misaligned, "misaligned_float4",
                                                 "misaligned_float4", "0,0,0", "1,0,0")));
  }
}

TEST_F(Check, MisalignedScalar) {
  run(kernels.misaligned_float, dim3(1), dim3(2), 2);
  EXPECT_THAT(summaries(),
              ElementsAre(summary(FaultKind::misaligned, "bytes", "misaligned_float", "0,0,0", "1,0,0")));
}

// Without --check, vectors are looked at all the same: x86 would take any address.
TEST_F(Check, MisalignedVectorInThePlainBuild) {
  cpu_device::set_checking(false);
  run(plain_kernels.misaligned_float4, dim3(1), dim3(2), 1);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::misaligned);
  EXPECT_EQ(faults[0].kernel, "misaligned_float4");
  EXPECT_EQ(to_string(faults[0].thread), "1,0,0");
}

TEST_F(Check, ReadOfUninitialisedSharedMemory) {
  run(kernels.read_unwritten_shared, dim3(1), dim3(8, 8), 64);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.read_unwritten_shared, dim3(1), dim3(8, 8), 61);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]), summary(FaultKind::uninitialised_shared, "read_unwritten_shared",
                                        "read_unwritten_shared", "0,0,0", "5,7,0"));
  EXPECT_EQ(faults[0].times, 3u);
  EXPECT_THAT(faults[0].detail, HasSubstr("slots + 244 bytes"));
  EXPECT_THAT(describe(faults[0]), HasSubstr("(and 2 more at this line)"));
}

// What the block before wrote is not there any more.
TEST_F(Check, SharedMemoryOfTheBlockBefore) {
  run(kernels.read_unwritten_shared, dim3(1), dim3(32), 32);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.read_unwritten_shared, dim3(1), dim3(32), 0);
  EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::uninitialised_shared, "read_unwritten_shared",
                                               "read_unwritten_shared", "0,0,0", "0,0,0")));
}

// What is behind "reads", of float number n.
class DynamicShared : public Check {
 protected:
  std::string read_at(Kernel kernel, const std::string& name, int n, std::size_t bytes) {
    run(kernel, dim3(2), dim3(3), n, bytes);
    const std::vector<Fault> faults = cpu_device::take_faults();
    if (faults.size() != 1) return std::to_string(faults.size()) + " faults";
    EXPECT_EQ(summary(faults[0]), summary(FaultKind::uninitialised_shared, name, name, "1,0,0", "2,0,0"));
    const std::string reads = "reads ", unwritten = ", which no thread of this block has written";
    EXPECT_TRUE(faults[0].detail.starts_with(reads) && faults[0].detail.ends_with(unwritten));
    return faults[0].detail.substr(reads.size(), faults[0].detail.size() - reads.size() - unwritten.size());
  }
};

TEST_F(DynamicShared, NamesMembers) {
  const auto at = [&](int n) { return read_at(kernels.read_dynamic_tiles, "read_dynamic_tiles", n, 192); };
  EXPECT_EQ(at(0), "DynamicTiles::A + 0 bytes");
  EXPECT_EQ(at(31), "DynamicTiles::A + 124 bytes");
  EXPECT_EQ(at(32), "DynamicTiles::B + 0 bytes");
  EXPECT_EQ(at(34), "DynamicTiles::B + 8 bytes");
  EXPECT_EQ(at(35), "dynamic shared memory + 140 bytes");  // between two members
  EXPECT_EQ(at(40), "DynamicTiles::C + 0 bytes");          // as it is aligned
  EXPECT_EQ(at(42), "dynamic shared memory + 168 bytes");
}

TEST_F(DynamicShared, NamesArraysOfStructs) {
  const auto at = [&](int n) { return read_at(kernels.read_dynamic_ring, "read_dynamic_ring", n, 304); };
  EXPECT_EQ(at(0), "DynamicRing::stages[0][0].A + 0 bytes");
  EXPECT_EQ(at(8), "DynamicRing::stages[0][0].B + 0 bytes");
  EXPECT_EQ(at(12), "DynamicRing::stages[0][1].A + 0 bytes");
  EXPECT_EQ(at(3 * 12 - 1), "DynamicRing::stages[0][2].B + 12 bytes");
  EXPECT_EQ(at(3 * 12), "DynamicRing::stages[1][0].A + 0 bytes");
  EXPECT_EQ(at(6 * 12 - 1), "DynamicRing::stages[1][2].B + 12 bytes");
  EXPECT_EQ(at(6 * 12 + 3), "DynamicRing::full + 12 bytes");
  const auto in = [&](int n) { return read_at(kernels.read_dynamic_array, "read_dynamic_array", n, 384); };
  EXPECT_EQ(in(33), "DynamicTiles[0]::B + 4 bytes");
  EXPECT_EQ(in(48 + 33), "DynamicTiles[1]::B + 4 bytes");
}

// What one launch calls it is not what the next does.
TEST_F(DynamicShared, NamesEndWithTheLaunch) {
  EXPECT_EQ(read_at(kernels.read_dynamic_tiles, "read_dynamic_tiles", 1, 192), "DynamicTiles::A + 4 bytes");
  run(kernels.reverse_in_dynamic_shared, dim3(1), dim3(1), 2, 8);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0].detail, HasSubstr("reads dynamic shared memory + 4 bytes"));
}

TEST_F(DynamicShared, IsAlignedAsItsTypeIs) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    std::fill_n(y.data(), y.size(), -1.0f);
    run(checked ? kernels.align_dynamic_shared : plain_kernels.align_dynamic_shared, dim3(64), dim3(1), 0,
        1024);
    for (int block = 0; block < 64; ++block) EXPECT_EQ(y[block], 0.0f) << block;
  }
}

// With and without --check.
TEST_F(DynamicShared, IsNotAlignedBehindVariables) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    run(checked ? kernels.align_beside_static_shared : plain_kernels.align_beside_static_shared, dim3(1),
        dim3(1), 0, 1024);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, FaultKind::misaligned);
    EXPECT_EQ(faults[0].kernel, "align_beside_static_shared");
    if (checked) {  // the plain build knows no lines
      EXPECT_EQ(faults[0].where, here("align_beside_static_shared"));
    }
    EXPECT_EQ(faults[0].detail,
              "wants its dynamic shared memory at a multiple of 1024 bytes, but the kernel's __shared__ "
              "variables, such as beside, lie before it");
    EXPECT_EQ(y[0], 1.0f);  // the launch has ended
  }
}

}  // namespace
