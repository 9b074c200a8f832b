// The CPU device runs kernels as a GPU does. Every test runs with the plain and with the observed build.

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>

#include "tests/unit/device_test.hpp"

namespace {

INSTANTIATE_TEST_SUITE_P(, BothBuilds, testing::Values("plain", "observed"), name_of_build);

class Indices : public BothBuilds {
 protected:
  // Every thread of the grid has run once and has seen its own indices.
  void expect_all(dim3 grid, dim3 block) {
    const std::size_t threads = std::size_t{block.x} * block.y * block.z,
                      blocks = std::size_t{grid.x} * grid.y * grid.z;
    DeviceBuffer counts(threads * blocks), seen(12 * threads * blocks);
    std::memset(counts.data(), 0, counts.size() * sizeof(float));
    run_on(counts.data(), seen.data(), "record_indices", grid, block, 0);
    const auto* count = reinterpret_cast<const unsigned*>(counts.data());
    const auto* index = reinterpret_cast<const unsigned*>(seen.data());
    for (std::size_t i = 0; i < threads * blocks; ++i) {
      ASSERT_EQ(count[i], 1u) << "thread " << i;
      const std::size_t t = i % threads, b = i / threads;
      const std::vector<std::size_t> expected{t % block.x,
                                              t / block.x % block.y,
                                              t / block.x / block.y,  // threadIdx
                                              b % grid.x,
                                              b / grid.x % grid.y,
                                              b / grid.x / grid.y,  // blockIdx
                                              block.x,
                                              block.y,
                                              block.z,  //
                                              grid.x,
                                              grid.y,
                                              grid.z};
      ASSERT_EQ(std::vector<std::size_t>(index + 12 * i, index + 12 * (i + 1)), expected) << "thread " << i;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, Indices, testing::Values("plain", "observed"), name_of_build);

TEST_P(Indices, OfEveryShape) {
  expect_all(dim3(1), dim3(1));
  expect_all(dim3(7), dim3(45));
  expect_all(dim3(3, 5), dim3(32, 4));
  expect_all(dim3(2, 3, 4), dim3(5, 3, 2));
  expect_all(dim3(3), dim3(1024));
  expect_all(dim3(1), dim3(4, 4, 64));
  expect_all(dim3(100, 30), dim3(2));
}

TEST_P(Indices, OfLaunchAfterLaunch) {
  for (unsigned i = 0; i < 50; ++i) expect_all(dim3(2), dim3(64 + i));
}

TEST_P(BothBuilds, EmptyGridIsNoWork) {
  for (const dim3 grid : {dim3(0, 1, 1), dim3(1, 0, 1), dim3(1, 1, 0), dim3(0, 0, 0)}) {
    run_on(nullptr, nullptr, "write_at", grid, dim3(1), 0);  // would crash
  }
}

TEST_P(BothBuilds, BlockBarrierOrders) {
  for (const auto& [grid, block, rounds] :
       {std::tuple{dim3(9), dim3(200), 7}, {dim3(2), dim3(8, 4, 4), 3}, {dim3(4), dim3(256), 5}}) {
    run("block_exchange", grid, block, rounds);
    const unsigned threads = grid.x * block.x * block.y * block.z;
    for (unsigned t = 0; t < threads; ++t) ASSERT_EQ(y[t], static_cast<float>(rounds)) << t;
  }
}

TEST_P(BothBuilds, WarpBarrierOrders) {
  run("warp_exchange", 1, 256, 3);
  for (int t = 0; t < 256; ++t) EXPECT_EQ(y[t], static_cast<float>(3 + t / 32)) << t;
}

TEST_P(BothBuilds, DynamicSharedMemory) {
  run("reverse_in_dynamic_shared", 1, 96, 96, 96 * sizeof(float));
  for (int t = 0; t < 96; ++t) EXPECT_EQ(y[t], x[95 - t]);
}

TEST_P(BothBuilds, CopiesVectors) {
  for (const auto& [name, width] : {std::pair{"copy_float4", 4}, {"copy_float2", 2}}) {
    std::fill_n(y.data(), y.size(), -1.0f);
    run(name, 8, 64, 1000 / width);
    for (int i = 0; i < 1004; ++i) ASSERT_EQ(y[i], i < 1000 ? x[i] : -1.0f) << name;
  }
}

// Every block finds NaN in all of its shared memory, whatever the previous block left there.
TEST_P(BothBuilds, SharedMemoryIsFreshInEveryBlock) {
  cpu_device::set_checking(false);  // the observed build would rightly complain
  run("look_before_writing", 20, 32, 0, 32 * sizeof(float));
  for (int i = 0; i < 20 * 32; ++i) ASSERT_TRUE(std::isnan(x[i]) && std::isnan(y[i])) << i;
}

// The host finds nothing that a kernel has left there, to the last byte.
TEST_P(BothBuilds, SharedMemoryIsNotForTheHost) {
  run("fill_shared", 1, 1);
  SharedOfHelpers seen;
  kernel<void (*)(SharedOfHelpers*)>("shared_of_helpers")(&seen);
  EXPECT_TRUE(std::isnan(seen.helper[0]) && std::isnan(seen.helper[1]) && std::isnan(seen.beside));
  for (const unsigned char byte : seen.bytes) EXPECT_NE(byte, 7);
}

TEST_P(BothBuilds, BlocksRunOnSeveralCores) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  std::fill_n(x.data(), 2, 0.0f);
  cpu_device::set_checking(false);  // what the blocks do is a race
  run("meet", 2, 1, 2);
}

TEST_P(BothBuilds, RecursionThatFitsTheStack) {
  run("recurse", 1, 64, 100);
  EXPECT_EQ(y[0], 5051.0f);
}

TEST(Memory, IsAlignedAsOnAGpu) {
  for (const std::size_t bytes : {0, 1, 255, 257, 100000}) {
    void* pointer = cpu_device::allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 256, 0u) << bytes;
    cpu_device::release(pointer);
  }
  cpu_device::release(nullptr);
}

TEST(Memory, ThrowsWhenThereIsNone) {
  EXPECT_THROW(cpu_device::allocate(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_THROW(cpu_device::allocate(~std::size_t{0}), std::bad_alloc);
}

TEST(Memory, ViewsMustLieInsideOneAllocation) {
  const DeviceBuffer x(64);
  float host = 0;
  EXPECT_THROW(cpu_device::describe(view("X", &host, 1, 1, 1)), std::invalid_argument);
  EXPECT_THROW(cpu_device::describe(view("X", x.data(), 8, 9, 9)), std::invalid_argument);
  EXPECT_THROW(cpu_device::describe(view("X", x.data() + 1, 8, 8, 8)), std::invalid_argument);
  EXPECT_NO_THROW(cpu_device::describe(view("X", x.data(), 8, 8, 8)));
  EXPECT_NO_THROW(cpu_device::describe(view("X", x.data() + 1, 8, 7, 8)));  // ends with the memory
}

// ---- Crashes ----------------------------------------------------------------------------------------------

class CrashDeathTest : public DeviceTest {
 protected:
  CrashDeathTest() : DeviceTest("plain") { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(CrashDeathTest, StackOverflowIsOneLine) {
  EXPECT_EXIT(
      run("recurse", dim3(3, 2), dim3(8, 4), 1 << 30), testing::ExitedWithCode(1),
      "^error: stack overflow in the kernel, block \\(2,1,0\\) thread \\(7,3,0\\), address 0x[0-9a-f]+; "
      "run with --check to see the line\n$");
}

TEST_F(CrashDeathTest, WildAccessIsOneLine) {
  EXPECT_EXIT(
      run_on(nullptr, nullptr, "write_at", dim3(1), dim3(8, 4), 4), testing::ExitedWithCode(1),
      "^error: invalid memory access in the kernel, block \\(0,0,0\\) thread \\(7,3,0\\), address 0x10; "
      "run with --check to see the line\n$");
}

// Unchecked, too, nothing outside of device memory is written.
TEST_F(CrashDeathTest, AWriteBesideAnAllocationNamesIt) {
  const DeviceBuffer packed(1024);
  cpu_device::describe(view("packed", packed.data(), 1, 1024, 1024));
  const std::string in_kernel = "^error: invalid memory access in the kernel[^\n]*, address 0x[0-9a-f]+, ";
  const std::string check = "; run with --check to see the line\n$";
  const auto write_at = [&](int n) { run_on(nullptr, packed.data(), "write_at", dim3(1), dim3(8, 4), n); };
  EXPECT_EXIT(write_at(1024), testing::ExitedWithCode(1),
              in_kernel + "right behind the end of packed" + check);
  EXPECT_EXIT(write_at(3000), testing::ExitedWithCode(1),
              in_kernel + "7904 bytes past the end of packed" + check);
  EXPECT_EXIT(write_at(-8), testing::ExitedWithCode(1),
              in_kernel + "32 bytes before the beginning of packed" + check);
}

// Where the guard page is not next to it, as memory is aligned.
TEST_F(CrashDeathTest, AWriteJustBesideAnAllocationIsSeenAfterTheLaunch) {
  const DeviceBuffer packed(700);
  cpu_device::describe(view("packed", packed.data(), 1, 700, 700));
  const auto write_at = [&](int n) { run_on(nullptr, packed.data(), "write_at", dim3(1), dim3(8, 4), n); };
  write_at(0);
  write_at(699);
  EXPECT_EXIT(write_at(700), testing::ExitedWithCode(1),
              "^error: a kernel has written past the end of packed; run with --check to see the line\n$");
  EXPECT_EXIT(
      write_at(-1), testing::ExitedWithCode(1),
      "^error: a kernel has written before the beginning of packed; run with --check to see the line\n$");
}

TEST_F(CrashDeathTest, OtherSignalsAreOneLine) {
  const std::string who =
      " in the kernel, block \\(0,0,0\\) thread \\(7,3,0\\); run with --check to see the line\n$";
  const char* const what[] = {"integer division by zero", "illegal instruction", "abort"};
  for (int n = 0; n < 3; ++n) {
    EXPECT_EXIT(run("end_by_signal", dim3(1), dim3(8, 4), n), testing::ExitedWithCode(1),
                std::string("^error: ") + what[n] + who);
  }
  EXPECT_EXIT(
      {
        run("end_by_signal", dim3(1), dim3(8, 4), 3);
        std::abort();
      },
      testing::ExitedWithCode(1), "^error: the program was aborted outside any kernel");
}

TEST_F(CrashDeathTest, CrashCallsTheHook) {
  EXPECT_EXIT(
      {
        cpu_device::crash_hook = [] { static_cast<void>(!write(STDERR_FILENO, "hook\n", 5)); };
        run_on(nullptr, nullptr, "write_at", dim3(1), dim3(8, 4), 4);
      },
      testing::ExitedWithCode(1), "^hook\nerror: invalid memory access in the kernel[^\n]*\n$");
}

}  // namespace
