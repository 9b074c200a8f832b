// The CPU device runs kernels as a GPU does. Every test is done with the plain and the observed build.

#include "common/cpu_device/cpu_device.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/cpu_kernels.hpp"
#include "tests/unit/device_buffer.hpp"

namespace {

struct Build {
  const char* name;
  const Kernels* kernels;
};
void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }

class CpuDevice : public testing::TestWithParam<Build> {
 protected:
  CpuDevice() { cpu_device::set_checking(kernels_ != &plain_kernels); }
  ~CpuDevice() override {
    for (const cpu_device::Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  const Kernels* kernels_ = GetParam().kernels;

  // Every thread of the grid has run once and has seen its own indices.
  void expect_all_indices(dim3 grid, dim3 block) {
    const std::size_t threads = std::size_t{block.x} * block.y * block.z,
                      blocks = std::size_t{grid.x} * grid.y * grid.z;
    DeviceBuffer counts(threads * blocks), seen(12 * threads * blocks);
    std::memset(counts.data(), 0, counts.size() * sizeof(float));
    launch(kernels_->record_indices, grid, block, 0, counts.data(), seen.data(), 0);
    const auto* count = reinterpret_cast<const unsigned*>(counts.data());
    const auto* index = reinterpret_cast<const unsigned*>(seen.data());
    for (std::size_t i = 0; i < threads * blocks; ++i) {
      ASSERT_EQ(count[i], 1u) << "thread " << i;
      const std::size_t t = i % threads, b = i / threads;
      const std::vector<std::size_t> expected{t % block.x,
                                              t / block.x % block.y,
                                              t / block.x / block.y,
                                              b % grid.x,
                                              b / grid.x % grid.y,
                                              b / grid.x / grid.y,
                                              block.x,
                                              block.y,
                                              block.z,
                                              grid.x,
                                              grid.y,
                                              grid.z};
      ASSERT_EQ(std::vector<std::size_t>(index + 12 * i, index + 12 * (i + 1)), expected) << "thread " << i;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, CpuDevice,
                         testing::Values(Build{"plain", &plain_kernels}
#ifdef HAVE_OBSERVED
                                         ,
                                         Build{"observed", &observed_kernels}
#endif
                                         ),
                         [](const auto& info) { return info.param.name; });

TEST_P(CpuDevice, RunsEveryThreadOnceIn1D) { expect_all_indices(dim3(7), dim3(45)); }
TEST_P(CpuDevice, RunsEveryThreadOnceIn2D) { expect_all_indices(dim3(3, 5), dim3(32, 4)); }
TEST_P(CpuDevice, RunsEveryThreadOnceIn3D) { expect_all_indices(dim3(2, 3, 4), dim3(5, 3, 2)); }
TEST_P(CpuDevice, RunsOneThread) { expect_all_indices(dim3(1), dim3(1)); }
TEST_P(CpuDevice, RunsTheLargestBlocks) {
  expect_all_indices(dim3(3), dim3(1024));
  expect_all_indices(dim3(1), dim3(4, 4, 64));
}
TEST_P(CpuDevice, RunsManyBlocks) { expect_all_indices(dim3(100, 30), dim3(2)); }

TEST_P(CpuDevice, EmptyGridIsNoWork) {
  for (const dim3 grid : {dim3(0, 1, 1), dim3(1, 0, 1), dim3(1, 1, 0), dim3(0, 0, 0)}) {
    launch(kernels_->write_at, grid, dim3(1), 0, nullptr, nullptr, 0);  // would crash
  }
}

TEST_P(CpuDevice, RefusesWhatNoGpuAccepts) {
  const auto refused = [&](dim3 grid, dim3 block, std::size_t shared_bytes = 0) {
    try {
      launch(kernels_->lanes_leave_early, grid, block, shared_bytes, nullptr, nullptr, 0);
      return false;
    } catch (const std::invalid_argument&) {
      return true;
    }
  };
  EXPECT_FALSE(refused(dim3(1), dim3(1024)));
  EXPECT_TRUE(refused(dim3(1), dim3(0)));
  EXPECT_TRUE(refused(dim3(1), dim3(1, 0)));
  EXPECT_TRUE(refused(dim3(1), dim3(1, 1, 0)));
  EXPECT_TRUE(refused(dim3(1), dim3(1025)));
  EXPECT_TRUE(refused(dim3(1), dim3(33, 32)));
  EXPECT_FALSE(refused(dim3(1), dim3(1, 1, 64)));
  EXPECT_TRUE(refused(dim3(1), dim3(1, 1, 65)));
  EXPECT_TRUE(refused(dim3(0x80000000), dim3(1)));
  EXPECT_FALSE(refused(dim3(1, 65535), dim3(1)));
  EXPECT_TRUE(refused(dim3(1, 65536), dim3(1)));
  EXPECT_FALSE(refused(dim3(1, 1, 65535), dim3(1)));
  EXPECT_TRUE(refused(dim3(1, 1, 65536), dim3(1)));
  EXPECT_TRUE(refused(dim3(1), dim3(2147418113, 1718039348, 5)));  // 2^64 + 4 threads
  EXPECT_FALSE(refused(dim3(1), dim3(1), 227 * 1024));
  EXPECT_TRUE(refused(dim3(1), dim3(1), 227 * 1024 + 1));
  EXPECT_TRUE(refused(dim3(1), dim3(1), ~std::size_t{0}));
}

TEST_P(CpuDevice, BlockBarrierOrders) {
  constexpr int blocks = 9, threads = 200, rounds = 7;
  DeviceBuffer right(blocks * threads);
  launch(kernels_->block_exchange, dim3(blocks), dim3(threads), 0, nullptr, right.data(), rounds);
  EXPECT_EQ(right.values(), std::vector<float>(blocks * threads, rounds));
}

TEST_P(CpuDevice, BlockBarrierOrders3DBlocks) {
  DeviceBuffer right(2 * 8 * 4 * 4);
  launch(kernels_->block_exchange, dim3(2), dim3(8, 4, 4), 0, nullptr, right.data(), 3);
  EXPECT_EQ(right.values(), std::vector<float>(2 * 8 * 4 * 4, 3.0f));
}

TEST_P(CpuDevice, WarpBarrierOrders) {
  constexpr int threads = 128, rounds = 3;
  DeviceBuffer right(threads);
  launch(kernels_->warp_exchange, dim3(1), dim3(threads), 0, nullptr, right.data(), rounds);
  for (int t = 0; t < threads; ++t) EXPECT_EQ(right[t], static_cast<float>(rounds + t / 32)) << t;
}

TEST_P(CpuDevice, DynamicSharedMemory) {
  constexpr int threads = 96;
  DeviceBuffer x(threads), y(threads);
  std::iota(x.data(), x.data() + threads, 1.0f);
  launch(kernels_->reverse_in_dynamic_shared, dim3(1), dim3(threads), threads * sizeof(float), x.data(),
         y.data(), threads);
  for (int t = 0; t < threads; ++t) EXPECT_EQ(y[t], x[threads - 1 - t]);
}

TEST_P(CpuDevice, CopiesVectors) {
  constexpr int count = 1000;
  for (const auto& [kernel, width] : {std::pair{kernels_->copy_float4, 4}, {kernels_->copy_float2, 2}}) {
    DeviceBuffer x(count), y(count + 4);
    std::iota(x.data(), x.data() + count, 1.0f);
    std::fill_n(y.data(), count + 4, -1.0f);
    launch(kernel, dim3(8), dim3(64), 0, x.data(), y.data(), count / width);
    std::vector<float> expected = x.values();
    expected.resize(count + 4, -1.0f);
    EXPECT_EQ(y.values(), expected) << width;
  }
}

// Every block finds shared memory full of a NaN, whatever the block before it left there.
TEST_P(CpuDevice, SharedMemoryIsFreshInEveryBlock) {
  constexpr int blocks = 20, threads = 32;
  DeviceBuffer dynamic(blocks * threads), fixed(blocks * threads);
  cpu_device::set_checking(false);  // the observed build would rightly complain
  launch(kernels_->look_before_writing, dim3(blocks), dim3(threads), threads * sizeof(float), dynamic.data(),
         fixed.data(), 0);
  for (int i = 0; i < blocks * threads; ++i) {
    ASSERT_TRUE(dynamic[i] != dynamic[i]) << i;
    ASSERT_TRUE(fixed[i] != fixed[i]) << i;
  }
}

// Nor does the host find in it what a kernel has left there, to the last byte.
TEST_P(CpuDevice, SharedMemoryIsNotForTheHost) {
  launch(kernels_->fill_shared, dim3(1), dim3(1), 0, nullptr, nullptr, 0);
  const SharedOfHelpers seen = kernels_->shared_of_helpers();
  EXPECT_TRUE(seen.helper[0] != seen.helper[0] && seen.helper[1] != seen.helper[1]);
  EXPECT_TRUE(seen.beside != seen.beside);
  for (const unsigned char byte : seen.bytes) EXPECT_NE(byte, 7);
}

TEST_P(CpuDevice, BlocksRunOnSeveralCores) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  DeviceBuffer arrived(2);
  std::memset(arrived.data(), 0, 2 * sizeof(float));
  cpu_device::set_checking(false);  // what the blocks do is a race
  launch(kernels_->meet, dim3(2), dim3(1), 0, arrived.data(), nullptr, 2);
}

TEST_P(CpuDevice, RecursionThatFitsTheStack) {
  DeviceBuffer sum(1);
  launch(kernels_->recurse, dim3(1), dim3(64), 0, nullptr, sum.data(), 100);
  EXPECT_EQ(sum[0], 5051.0f);
}

TEST_P(CpuDevice, LaunchAfterLaunch) {
  for (int i = 0; i < 50; ++i) expect_all_indices(dim3(2), dim3(64 + i));
}

TEST(CpuDeviceMemory, IsAlignedAsOnAGpu) {
  for (const std::size_t bytes : {0, 1, 255, 257, 100000}) {
    void* pointer = cpu_device::allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 256, 0u) << bytes;
    cpu_device::release(pointer);
  }
  cpu_device::release(nullptr);
}

TEST(CpuDeviceMemory, ThrowsWhenThereIsNone) {
  EXPECT_THROW(cpu_device::allocate(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_THROW(cpu_device::allocate(~std::size_t{0}), std::bad_alloc);
}

TEST(CpuDeviceMemory, ViewsMustLieInsideOneAllocation) {
  DeviceBuffer x(64);
  const auto view = [&](const float* data, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
    return cpu_device::MatrixView{"X", data, rows, cols, ld, 1, rows * ld, true, true};
  };
  float host = 0;
  EXPECT_THROW(cpu_device::describe(view(&host, 1, 1, 1)), std::invalid_argument);
  EXPECT_THROW(cpu_device::describe(view(x.data(), 8, 9, 9)), std::invalid_argument);
  EXPECT_THROW(cpu_device::describe(view(x.data() + 1, 8, 8, 8)), std::invalid_argument);
  EXPECT_NO_THROW(cpu_device::describe(view(x.data(), 8, 8, 8)));
  EXPECT_NO_THROW(cpu_device::describe(view(x.data() + 1, 8, 7, 8)));  // the last row ends with the memory
}

// ---- Crashes
// --------------------------------------------------------------------------------------------------

using CpuDeviceDeathTest = CpuDevice;
INSTANTIATE_TEST_SUITE_P(, CpuDeviceDeathTest, testing::Values(Build{"plain", &plain_kernels}),
                         [](const auto& info) { return info.param.name; });

TEST_P(CpuDeviceDeathTest, StackOverflowIsOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DeviceBuffer y(1);
  EXPECT_EXIT(
      launch(kernels_->recurse, dim3(3, 2), dim3(8, 4), 0, nullptr, y.data(), 1 << 30),
      testing::ExitedWithCode(1),
      "^error: stack overflow in the kernel, block \\(2,1,0\\) thread \\(7,3,0\\), address 0x[0-9a-f]+; "
      "run with --check to see the line\n$");
}

TEST_P(CpuDeviceDeathTest, WildAccessIsOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      launch(kernels_->write_at, dim3(1), dim3(8, 4), 0, nullptr, nullptr, 4), testing::ExitedWithCode(1),
      "^error: invalid memory access in the kernel, block \\(0,0,0\\) thread \\(7,3,0\\), address 0x10; "
      "run with --check to see the line\n$");
}

TEST_P(CpuDeviceDeathTest, CrashCallsTheHook) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        cpu_device::crash_hook = [] { static_cast<void>(!write(STDERR_FILENO, "hook\n", 5)); };
        launch(kernels_->write_at, dim3(1), dim3(8, 4), 0, nullptr, nullptr, 4);
      },
      testing::ExitedWithCode(1), "^hook\nerror: invalid memory access in the kernel[^\n]*\n$");
}

}  // namespace
