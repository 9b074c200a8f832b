// The CPU device observes memory accesses: what is reported, where it says it was, and what is not reported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "tests/unit/cpu_kernels.hpp"
#include "tests/unit/device_buffer.hpp"

namespace {

using cpu_device::Access;
using cpu_device::Fault;
using cpu_device::FaultKind;
using cpu_device::Space;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Kernels& kernels = observed_kernels;

// The line of cpu_kernels.cpp with the comment "here: NAME", as "tests/unit/cpu_kernels.cpp:123".
std::string here(const std::string& name) {
  std::ifstream file(PROJECT_ROOT "/tests/unit/cpu_kernels.cpp");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with("// here: " + name)) return "tests/unit/cpu_kernels.cpp:" + std::to_string(number);
  }
  return "no line is marked with " + name;
}

std::string to_string(const dim3& index) {
  return std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z);
}

// What a test says about a fault: "out-of-bounds access to global memory at FILE:LINE in KERNEL, block 0,0,0
// thread 1,0,0".
std::string summary(const Fault& fault) {
  return std::string(cpu_device::to_string(fault.kind)) + " at " + fault.where + " in " + fault.kernel +
         ", block " + to_string(fault.block) + " thread " + to_string(fault.thread);
}
std::string summary(FaultKind kind, const std::string& mark, const std::string& kernel,
                    const std::string& block, const std::string& thread) {
  return std::string(cpu_device::to_string(kind)) + " at " + here(mark) + " in " + kernel + ", block " +
         block + " thread " + thread;
}

std::vector<std::string> summaries() {
  std::vector<std::string> texts;
  for (const Fault& fault : cpu_device::take_faults()) texts.push_back(summary(fault));
  return texts;
}

cpu_device::MatrixView view(const char* name, float* data, std::int64_t rows, std::int64_t cols,
                            std::int64_t ld, bool readable = true, bool writable = true) {
  return {name, data, rows, cols, ld, 1, rows * ld, readable, writable};
}

class Check : public testing::Test {
 protected:
  Check() {
    cpu_device::set_checking(true);
    std::fill_n(x.data(), x.size(), 1.0f);
    std::fill_n(y.data(), y.size(), 1.0f);
  }
  ~Check() override {
    cpu_device::set_listener(nullptr);
    for (const Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  void run(Kernel kernel, dim3 grid, dim3 block, int n, std::size_t shared_bytes = 0) {
    launch(kernel, grid, block, shared_bytes, x.data(), y.data(), n);
  }

  DeviceBuffer x{1024}, y{1024};
};

// ---- Accesses
// -------------------------------------------------------------------------------------------------

class Recorder : public cpu_device::AccessListener {
 public:
  void on_access(const Access& access) override {
    const std::lock_guard lock(mutex_);
    accesses_.push_back(access);
  }

  // The accesses by place, in the order of the places: "FILE:LINE read 4 bytes of global memory x 64".
  std::vector<std::string> counts() const {
    std::map<std::string, int> count;
    for (const Access& access : accesses_) ++count[text(access)];
    std::vector<std::string> texts;
    for (const auto& [text, times] : count) texts.push_back(text + " x " + std::to_string(times));
    return texts;
  }
  const std::vector<Access>& accesses() const { return accesses_; }

  static std::string text(const Access& access) {
    static std::map<const void*, cpu_device::SourceLocation> places;
    const auto [found, is_new] = places.try_emplace(access.pc);
    if (is_new) found->second = cpu_device::source_locations({access.pc})[0];
    const cpu_device::SourceLocation& place = found->second;
    return place.file + ":" + std::to_string(place.line) + " " + (access.write ? "write " : "read ") +
           std::to_string(access.bytes) + " bytes of " +
           (access.space == Space::global ? "global" : "shared") + " memory";
  }

 private:
  std::mutex mutex_;
  std::vector<Access> accesses_;
};

class Observe : public Check {
 protected:
  Observe() { cpu_device::set_listener(&recorder); }
  Recorder recorder;
};

TEST_F(Observe, ScalarLoadAndStore) {
  run(kernels.copy_float, dim3(2), dim3(48), 0);
  EXPECT_THAT(recorder.counts(), ElementsAre(here("load") + " read 4 bytes of global memory x 96",
                                             here("store") + " write 4 bytes of global memory x 96"));
  std::set<std::pair<std::uint64_t, std::uint32_t>> loads;  // each thread has one
  for (const Access& access : recorder.accesses()) {
    const std::uint64_t element = access.block * 48 + access.thread;
    EXPECT_EQ(access.address,
              reinterpret_cast<std::uintptr_t>((access.write ? y.data() : x.data()) + element));
    if (!access.write) loads.emplace(access.block, access.thread);
  }
  EXPECT_EQ(loads.size(), 96u);
}

TEST_F(Observe, ThreadsAreNumberedXFirst) {
  run(kernels.write_at, dim3(3, 2), dim3(4, 3, 2), 0);
  ASSERT_EQ(recorder.accesses().size(), 1u);
  EXPECT_EQ(recorder.accesses()[0].block, 5u);
  EXPECT_EQ(recorder.accesses()[0].thread, 23u);
}

TEST_F(Observe, Float4IsOneAccess) {
  run(kernels.sum_float4, dim3(1), dim3(32), 0);
  const std::vector<std::string> counts = recorder.counts();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0], here("load_float4") + " read 16 bytes of global memory x 32");
  EXPECT_THAT(counts[1], HasSubstr(" write 4 bytes of global memory x 32"));
  for (const Access& access : recorder.accesses()) {
    if (access.write) continue;
    EXPECT_EQ(access.address, reinterpret_cast<std::uintptr_t>(x.data() + 4 * access.thread));
  }
}

TEST_F(Observe, LoadsOfWhatIsReadOnly) {
  std::iota(x.data(), x.data() + 128, 1.0f);
  run(kernels.load_read_only, dim3(1), dim3(32), 0);
  EXPECT_THAT(recorder.counts(), ElementsAre(here("ldg_float4") + " read 16 bytes of global memory x 32",
                                             here("ldg_float") + " read 4 bytes of global memory x 32",
                                             here("ldg_float") + " write 4 bytes of global memory x 32"));
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y[i], (4 * i + 1) * 2 + (i + 1));
}

TEST_F(Observe, Float4CopyIsOneLoadAndOneStore) {
  run(kernels.copy_float4, dim3(1), dim3(64), 32);
  EXPECT_THAT(recorder.counts(), ElementsAre(here("copy_float4") + " read 16 bytes of global memory x 32",
                                             here("copy_float4") + " write 16 bytes of global memory x 32"));
}

TEST_F(Observe, Float2) {
  run(kernels.copy_float2, dim3(1), dim3(32), 32);
  std::vector<std::string> counts = recorder.counts();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_THAT(counts[0], HasSubstr(" read 8 bytes of global memory x 32"));
  EXPECT_THAT(counts[1], HasSubstr(" write 8 bytes of global memory x 32"));
}

TEST_F(Observe, SharedMemoryByOffset) {
  run(kernels.through_shared, dim3(1), dim3(64), 64);
  const std::vector<std::string> counts = recorder.counts();
  EXPECT_THAT(counts, ElementsAre(here("shared_store") + " write 4 bytes of shared memory x 64",
                                  here("shared_load") + " read 4 bytes of shared memory x 64",
                                  here("shared_load") + " write 4 bytes of global memory x 64"));
  std::map<std::uint32_t, std::uintptr_t> stores, loads;
  for (const Access& access : recorder.accesses()) {
    if (access.space == Space::shared) (access.write ? stores : loads)[access.thread] = access.address;
  }
  for (std::uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(stores[t], stores[0] + 4 * t);
    EXPECT_EQ(loads[t], stores[63 - t]);
  }
  EXPECT_EQ(stores[0] % 64, 0u);  // as aligned as the variable, or banks would be wrong
}

TEST_F(Observe, Float4ToSharedMemory) {
  run(kernels.float4_to_shared, dim3(1), dim3(32), 128);
  std::map<std::string, int> kinds;
  for (const Access& access : recorder.accesses()) {
    const std::string text = Recorder::text(access);
    ++kinds[text.substr(text.find(' ') + 1)];
  }
  EXPECT_THAT(kinds, ElementsAre(std::pair("read 16 bytes of global memory", 32),
                                 std::pair("read 4 bytes of shared memory", 32),
                                 std::pair("write 16 bytes of shared memory", 32),
                                 std::pair("write 4 bytes of global memory", 32)));
}

TEST_F(Observe, NothingWhenCheckingIsOff) {
  cpu_device::set_checking(false);
  run(kernels.copy_float, dim3(1), dim3(32), 0);
  EXPECT_THAT(recorder.accesses(), IsEmpty());
}

TEST_F(Observe, NothingFromThePlainBuild) {
  run(plain_kernels.copy_float, dim3(1), dim3(32), 0);
  EXPECT_THAT(recorder.accesses(), IsEmpty());
}

TEST_F(Observe, SourceLocations) {
  run(kernels.copy_float, dim3(1), dim3(1), 0);
  ASSERT_EQ(recorder.accesses().size(), 2u);
  const int nowhere = 0;
  const auto places =
      cpu_device::source_locations({recorder.accesses()[1].pc, &nowhere, recorder.accesses()[0].pc});
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].function, "copy_float");
  EXPECT_EQ(places[0].file + ":" + std::to_string(places[0].line), here("store"));
  EXPECT_EQ(places[1].line, 0);
  EXPECT_EQ(places[2].function, "copy_float");
  EXPECT_EQ(places[2].file + ":" + std::to_string(places[2].line), here("load"));
  EXPECT_TRUE(cpu_device::source_locations({}).empty());
}

// ---- Faults: bad addresses
// --------------------------------------------------------------------------------------

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
    EXPECT_EQ(faults[0].detail, "index " + std::to_string(index) + " in an array of type 'float [16]'");
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

// ---- Faults: races
// ------------------------------------------------------------------------------------------------ The other
// thread is in the same warp (1, 31) or in another (32, 63), and runs later than thread 0.

class Race : public Check, public testing::WithParamInterface<int> {
 protected:
  // Of a block of 64 x 1 threads.
  std::string thread() const { return std::to_string(GetParam()) + ",0,0"; }
  void expect(FaultKind kind, const std::string& name, const std::string& detail) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(summary(faults[0]), summary(kind, name, name, "0,0,0", thread()));
    EXPECT_THAT(faults[0].detail, HasSubstr(detail));
  }
};
INSTANTIATE_TEST_SUITE_P(, Race, testing::Values(1, 31, 32, 63), testing::PrintToStringParamName());

TEST_P(Race, SharedWriteThenRead) {
  run(kernels.shared_write_then_read, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_write_then_read", "which thread (0,0,0) wrote at tests/unit/");
}

TEST_P(Race, SharedReadThenWrite) {
  run(kernels.shared_read_then_write, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_read_then_write", "which thread (0,0,0) read at tests/unit/");
}

TEST_P(Race, SharedWriteTwice) {
  run(kernels.shared_write_twice, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_write_twice", "which thread (0,0,0) wrote at tests/unit/");
}

TEST_P(Race, SharedLatestReaderWrites) {
  run(kernels.shared_readers_then_last_writes, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_readers_then_last_writes", "which thread (0,0,0) read at ");
}

TEST_P(Race, WarpBarrierOrdersOneWarpOnly) {
  run(kernels.syncwarp_between_warps, dim3(1), dim3(64), GetParam());
  if (GetParam() < 32) {
    EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  } else {
    expect(FaultKind::race_shared, "syncwarp_between_warps", "no barrier stands between");
  }
}

TEST_P(Race, GlobalWriteThenRead) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.global_write_then_read, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_global, "global_write_then_read",
         "reads C[0][0], which thread (0,0,0) of block (0,0,0) wrote");
}

TEST_P(Race, GlobalReadThenWrite) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.global_read_then_write, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_global, "global_read_then_write",
         "writes C[0][0], which thread (0,0,0) of block (0,0,0) read");
}

TEST_P(Race, GlobalWriteTwice) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.global_write_twice, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_global, "global_write_twice",
         "writes C[0][0], which thread (0,0,0) of block (0,0,0) wrote");
}

// Two blocks, in whatever order they run: which of the two is reported depends on it.
TEST_F(Check, RacesBetweenBlocks) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  for (const Kernel kernel :
       {kernels.global_write_then_read, kernels.global_read_then_write, kernels.global_write_twice}) {
    for (int i = 0; i < 20; ++i) {
      run(kernel, dim3(5), dim3(32), 0);
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_GE(faults.size(), 1u);
      for (const Fault& fault : faults) EXPECT_EQ(fault.kind, FaultKind::race_global);
    }
  }
}

// y[i] += y[i + 1]: the thread that writes an element has read it last, the other before it.
TEST_F(Check, GlobalLatestReaderWrites) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run(kernels.global_add_neighbour, dim3(1), dim3(64), 64);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]), summary(FaultKind::race_global, "global_add_neighbour",
                                        "global_add_neighbour", "0,0,0", "1,0,0"));
  EXPECT_EQ(faults[0].times, 63u);
}

// The same across blocks of one thread.
TEST_F(Check, GlobalLatestReaderWritesInOtherBlocks) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run(kernels.global_add_neighbour, dim3(64), dim3(1), 64);
  for (const Fault& fault : cpu_device::take_faults()) {
    EXPECT_EQ(fault.kind, FaultKind::race_global);
    EXPECT_EQ(fault.kernel, "global_add_neighbour");
    if (fault.where == here("global_add_neighbour")) return;
  }
  ADD_FAILURE() << "no race at the store";
}

// ---- Faults: barriers
// ---------------------------------------------------------------------------------------------

TEST_F(Check, ExitBeforeBarrier) {
  run(kernels.one_leaves_before_barrier, dim3(1), dim3(8, 8), 9);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]), summary(FaultKind::exit_before_barrier, "one_leaves_before_barrier",
                                        "one_leaves_before_barrier", "0,0,0", "0,0,0"));
  EXPECT_THAT(faults[0].detail, HasSubstr("thread (1,1,0), which has left the kernel"));
}

TEST_F(Check, DivergentBarrier) {
  for (const int n : {7, 32}) {  // inside a warp, between two
    run(kernels.two_barriers, dim3(1), dim3(64), n);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(summary(faults[0]), summary(FaultKind::divergent_barrier, "second_barrier", "two_barriers",
                                          "0,0,0", std::to_string(n) + ",0,0"));
    EXPECT_THAT(faults[0].detail, HasSubstr("thread (0,0,0) waits at " + here("first_barrier")));
  }
  for (const int n : {0, 64}) run(kernels.two_barriers, dim3(1), dim3(64), n);  // everybody at one of them
}

TEST_F(Check, Deadlock) {
  run(kernels.barriers_of_two_kinds, dim3(1), dim3(32), 11);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]),
            summary(FaultKind::deadlock, "block_barrier", "barriers_of_two_kinds", "0,0,0", "11,0,0"));
  EXPECT_THAT(faults[0].detail,
              HasSubstr("thread (0,0,0) waits at one of another kind (" + here("warp_barrier") + ")"));
}

// Without --check, a barrier that can never open ends the launch too, and is reported.
TEST_F(Check, BarriersInThePlainBuild) {
  cpu_device::set_checking(false);
  for (const auto& [kernel, kind] :
       {std::pair{plain_kernels.one_leaves_before_barrier, FaultKind::exit_before_barrier},
        {plain_kernels.two_barriers, FaultKind::divergent_barrier},
        {plain_kernels.barriers_of_two_kinds, FaultKind::deadlock}}) {
    run(kernel, dim3(3), dim3(32), 5);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_GE(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, kind);
  }
}

// ---- Asynchronous copies: what arrives, and when ---------------------------------------------------------

class AsyncCopy : public Check {
 protected:
  AsyncCopy() { std::iota(x.data(), x.data() + x.size(), 1.0f); }
  // The first elements of y; not_arrived: any NaN.
  void expect_y(const std::vector<float>& expected) const {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(y[i])) << "element " << i << " is " << y[i];
      } else {
        EXPECT_EQ(y[i], expected[i]) << "element " << i;
      }
    }
  }
  static constexpr float not_arrived = std::numeric_limits<float>::quiet_NaN();
};

// Groups arrive in order, no sooner than they are waited for, with what is in x at that moment.
TEST_F(AsyncCopy, ArrivesWhenWaitedFor) {
  cpu_device::set_checking(false);
  run(plain_kernels.async_copy_steps, dim3(1), dim3(1), 0);
  expect_y({not_arrived, not_arrived, not_arrived, not_arrived,  // before any wait
            not_arrived, not_arrived, not_arrived, not_arrived,  // all four groups may be under way
            11.0f,       not_arrived, not_arrived, not_arrived,  // three
            11.0f,       2.0f,        3.0f,        not_arrived,  // one
            11.0f,       2.0f,        3.0f,        4.0f});       // none
}

TEST_F(AsyncCopy, WhatIsInNoGroupIsNotWaitedFor) {
  cpu_device::set_checking(false);
  run(plain_kernels.async_copy_not_committed, dim3(1), dim3(1), 0);
  expect_y({1.0f, not_arrived, 1.0f, 2.0f});
}

// What the block before has not waited for is no concern of this one.
TEST_F(AsyncCopy, EveryBlockStartsAfresh) {
  run(kernels.async_copy_left_behind, dim3(64), dim3(1), 0);
  std::vector<float> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  expect_y(numbers);
}

// Nothing is read, and the address may be anything.
TEST_F(AsyncCopy, ZerosInsteadOfACopy) {
  const std::vector<float> expected = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  for (const bool checked : {false, true}) {
    cpu_device::set_checking(checked);
    const Kernels& built = checked ? observed_kernels : plain_kernels;
    for (const int n : {0, 1, 1021, 1024, 100000, -1}) {
      std::fill_n(y.data(), y.size(), 2.0f);
      run(built.async_copy_zeros, dim3(1), dim3(1), n);
      expect_y(expected);
    }
    std::fill_n(y.data(), y.size(), 2.0f);
    launch(built.async_copy_zeros, dim3(1), dim3(1), 0, nullptr, y.data(), 0);
    expect_y(expected);
  }
}

TEST_F(AsyncCopy, IsAReadAndAWriteOfItsSize) {
  Recorder recorder;
  cpu_device::set_listener(&recorder);
  run(kernels.async_copy_from, dim3(1), dim3(1), 8);
  EXPECT_THAT(recorder.counts(),
              ElementsAre(here("async_copy_from") + " read 16 bytes of global memory x 1",
                          here("async_copy_from") + " write 16 bytes of shared memory x 1"));
  ASSERT_EQ(recorder.accesses().size(), 2u);
  EXPECT_EQ(recorder.accesses()[0].address, reinterpret_cast<std::uintptr_t>(x.data() + 8));
}

// ---- Asynchronous copies: faults -------------------------------------------------------------------------

// Thread 0 copies; what it does with its own copy before it waits is wrong, too.
TEST_F(AsyncCopy, ReadByItsOwnThreadBeforeTheWait) {
  for (const auto& [kernel, name] :
       {std::pair{kernels.async_read_before_wait, std::string("async_read_before_wait")},
        {kernels.async_read_of_second_copy, "async_read_of_second_copy"},
        {kernels.async_overwrite_pending, "async_overwrite_pending"},
        {kernels.async_copy_onto_pending, "async_copy_onto_pending"}}) {
    run(kernel, dim3(1), dim3(64), 0);
    EXPECT_THAT(summaries(),
                ElementsAre(summary(FaultKind::async_not_arrived, name, name, "0,0,0", "0,0,0")));
  }
}

// Waiting is enough for the thread that asked.
TEST_F(AsyncCopy, ItsOwnThreadNeedsNoBarrier) {
  run(kernels.async_read_without_barrier, dim3(3), dim3(64), 0);
  run(kernels.async_barrier_before_wait, dim3(3), dim3(64), 0);
  run(kernels.async_copy_onto_read, dim3(3), dim3(64), 0);
}

TEST_P(Race, AsyncReadBeforeTheWait) {
  run(kernels.async_read_before_wait, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_read_before_wait",
         "to which the asynchronous copy started at " + here("thread_0_copies") +
             " by thread (0,0,0) has not been waited for");
}

TEST_P(Race, AsyncReadOfTheSecondOfTwoCopies) {
  run(kernels.async_read_of_second_copy, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_read_of_second_copy", "slots + 4 bytes");
}

TEST_P(Race, AsyncReadWithoutABarrier) {
  run(kernels.async_read_without_barrier, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "async_read_without_barrier",
         "which thread (0,0,0) wrote at " + here("thread_0_copies") + "; no barrier stands between");
}

TEST_P(Race, AsyncBarrierBeforeTheWait) {
  run(kernels.async_barrier_before_wait, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "async_barrier_before_wait",
         "which thread (0,0,0) wrote at " + here("thread_0_copies") + "; no barrier stands between");
}

TEST_P(Race, AsyncDestinationOverwritten) {
  run(kernels.async_overwrite_pending, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_overwrite_pending", "writes slots");
}

TEST_P(Race, AsyncTwoCopiesToOnePlace) {
  run(kernels.async_copy_onto_pending, dim3(1), dim3(64), GetParam());
  expect(FaultKind::async_not_arrived, "async_copy_onto_pending", "writes slots");
}

TEST_P(Race, AsyncCopyWhereAnotherReads) {
  run(kernels.async_copy_onto_read, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "async_copy_onto_read", "which thread (0,0,0) read at ");
}

// With and without --check.
TEST_F(AsyncCopy, Misaligned) {
  for (const bool checked : {true, false}) {
    cpu_device::set_checking(checked);
    const Kernels& built = checked ? observed_kernels : plain_kernels;
    for (const auto& [kernel, name] : {std::pair{built.async_copy_from, std::string("async_copy_from")},
                                       {built.async_copy_to, "async_copy_to"}}) {
      run(kernel, dim3(2), dim3(2), 4, 64);
      EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
      for (const int offset : {1, 2, 3}) {
        run(kernel, dim3(2), dim3(2), offset, 64);
        const std::vector<Fault> faults = cpu_device::take_faults();
        ASSERT_EQ(faults.size(), 1u) << name;
        EXPECT_EQ(faults[0].kind, FaultKind::misaligned);
        EXPECT_EQ(faults[0].kernel, name);
        EXPECT_EQ(to_string(faults[0].block) + " " + to_string(faults[0].thread), "1,0,0 1,0,0");
        EXPECT_EQ(faults[0].times, 1u);
        if (checked) {  // the plain build knows no lines
          EXPECT_EQ(faults[0].where, here(name));
        }
      }
    }
  }
}

TEST_F(AsyncCopy, SourceOutOfBounds) {
  run(kernels.async_copy_from, dim3(1), dim3(2), 1020);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.async_copy_from, dim3(1), dim3(2), 1024);
  EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::out_of_bounds_global, "async_copy_from",
                                               "async_copy_from", "0,0,0", "1,0,0")));
  launch(kernels.async_copy_from, dim3(1), dim3(2), 0, nullptr, y.data(), 0);
  EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::host_pointer, "async_copy_from", "async_copy_from",
                                               "0,0,0", "1,0,0")));
}

// Two of the four elements are the row's last, the others lie between the rows.
TEST_F(AsyncCopy, SourcePartlyOutsideOfAMatrix) {
  cpu_device::describe(view("A", x.data(), 4, 6, 8, true, false));
  run(kernels.async_copy_from, dim3(1), dim3(2), 8);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  run(kernels.async_copy_from, dim3(1), dim3(2), 12);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]),
            summary(FaultKind::out_of_bounds_global, "async_copy_from", "async_copy_from", "0,0,0", "1,0,0"));
  EXPECT_EQ(faults[0].detail, "reads A[1][6], but A is 4 x 6");
}

TEST_F(AsyncCopy, DestinationOutOfBounds) {
  run(kernels.async_copy_to, dim3(1), dim3(2), 12, 64);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  for (const std::size_t bytes : {48u, 56u}) {
    run(kernels.async_copy_to, dim3(1), dim3(2), 12, bytes);
    EXPECT_THAT(summaries(), ElementsAre(summary(FaultKind::out_of_bounds_shared, "async_copy_to",
                                                 "async_copy_to", "0,0,0", "1,0,0")));
  }
}

// ---- Asynchronous copies: no false alarms ----------------------------------------------------------------

TEST_F(AsyncCopy, DoubleBuffering) {
  cpu_device::describe(view("A", x.data(), 32, 32, 32, true, false));
  for (const int n : {32, 64}) {
    std::fill_n(y.data(), y.size(), 0.0f);
    run(kernels.async_double_buffer, dim3(1), dim3(n), n);
    for (int i = 0; i < 1024; ++i) ASSERT_EQ(y[i], x[i / n * n + n - 1 - i % n]) << n << " " << i;
  }
}

TEST_F(AsyncCopy, ExchangeInsideAWarp) {
  run(kernels.async_warp_exchange, dim3(1), dim3(64), 5);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], x[t / 32 * 32 + (t + 5) % 32]);
}

// ---- Reports
// -------------------------------------------------------------------------------------------------------

TEST_F(Check, AFaultDoesNotSpoilTheNextLaunch) {
  run(kernels.one_leaves_before_barrier, dim3(1), dim3(1024), 9);
  EXPECT_EQ(cpu_device::take_faults().size(), 1u);
  run(kernels.block_exchange, dim3(1), dim3(1024), 2);
  EXPECT_EQ(y.values(), std::vector<float>(1024, 2.0f));
}

TEST_F(Check, FaultsAreHandedOutOnce) {
  run(kernels.one_leaves_before_barrier, dim3(1), dim3(32), 9);
  EXPECT_EQ(cpu_device::take_faults().size(), 1u);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
}

TEST_F(Check, NothingIsCheckedWhenCheckingIsOff) {
  cpu_device::set_checking(false);
  cpu_device::describe(view("A", y.data(), 4, 8, 8, true, false));
  run(kernels.write_at, dim3(1), dim3(1), 9);
  run(kernels.shared_write_then_read, dim3(1), dim3(64), 1);
}

// ---- No false alarms: the fixture fails on any fault
// ------------------------------------------------------------

TEST_F(Check, BarriersSeparateReadsFromWrites) { run(kernels.read_barrier_write, dim3(7), dim3(64), 64); }

TEST_F(Check, ExchangeInsideAWarp) {
  run(kernels.warp_exchange, dim3(1), dim3(256), 3);
  EXPECT_EQ(y[0], 3.0f);
  EXPECT_EQ(y[255], 10.0f);
}

TEST_F(Check, ExchangeInsideABlock) {
  run(kernels.block_exchange, dim3(4), dim3(256), 5);
  EXPECT_EQ(y.values(), std::vector<float>(1024, 5.0f));
}

TEST_F(Check, AThreadMayDoWhatItLikesWithItsOwn) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32, false));
  run(kernels.write_own_element, dim3(16), dim3(64), 3);
  EXPECT_EQ(y.values(), std::vector<float>(1024, 6.0f));
}

TEST_F(Check, LanesMayLeaveBeforeAWarpBarrier) { run(kernels.lanes_leave_early, dim3(1), dim3(64), 20); }

TEST_F(Check, InPlaceWithABarrier) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run(kernels.add_neighbour_after_barrier, dim3(1), dim3(64), 64);
  EXPECT_EQ(y[63], 2.0f);
}

TEST_F(Check, TwoLaunchesAreOrdered) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.write_at, dim3(2), dim3(32), 5);
  run(kernels.write_at, dim3(1), dim3(1), 5);
  launch(kernels.read_at, dim3(1), dim3(1), 0, y.data(), x.data(), 5);
}

TEST_F(Check, BlocksMayReadTheSame) {
  cpu_device::describe(view("A", x.data(), 32, 32, 32, true, false));
  cpu_device::describe(view("C", y.data(), 32, 32, 32, false, true));
  run(kernels.copy_float, dim3(8), dim3(128), 0);
  run(kernels.copy_float4, dim3(8), dim3(128), 256);
  EXPECT_EQ(y.values(), x.values());
}

}  // namespace
