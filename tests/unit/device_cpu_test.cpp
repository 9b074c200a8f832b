// The CPU device as the harness uses it: filling, copying, stray writes, large problems in panels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "common/harness/device.hpp"
#include "common/harness/random.hpp"

namespace {

using harness::Extent;

class HarnessDevice : public testing::Test {
 protected:
  // Three matrices of 4 x 5, 7 elements from row to row, with a gap behind each, in a buffer of 120.
  static constexpr Extent extent{4, 5, 7, 3, 30};
  static bool inside(int at) { return at >= 0 && at < 90 && at % 30 / 7 < 4 && at % 30 % 7 < 5; }

  std::unique_ptr<harness::Device> device = harness::make_cpu_device(false);
  std::vector<float> buffer = std::vector<float>(120);
  float* matrix = buffer.data() + 15;
};

TEST_F(HarnessDevice, FillsTheMatrixOnly) {
  device->poison(buffer.data(), buffer.size());
  device->fill_uniform(matrix, extent, 42);
  std::uint64_t index = 0;
  for (int i = -15; i < 105; ++i) {
    if (inside(i)) {
      EXPECT_EQ(matrix[i], harness::uniform(42, index++)) << i;
    } else {
      std::uint32_t bits;
      std::memcpy(&bits, matrix + i, sizeof bits);
      EXPECT_EQ(bits, harness::poison_bits) << i;
    }
  }
  EXPECT_EQ(index, 60u);
}

TEST_F(HarnessDevice, CopiesTheMatrixOnly) {
  device->fill_uniform(matrix, extent, 1);
  std::vector<float> to(120, -2.0f);
  device->copy_matrix(to.data() + 15, matrix, extent);
  for (int i = -15; i < 105; ++i) EXPECT_EQ(to[15 + i], inside(i) ? matrix[i] : -2.0f) << i;
}

TEST_F(HarnessDevice, FindsEveryStrayWrite) {
  device->poison(buffer.data(), buffer.size());
  device->fill_uniform(matrix, extent, 1);
  EXPECT_EQ(device->stray_writes(buffer.data(), buffer.size(), matrix, extent).count, 0);
  for (int i = -15; i < 105; ++i) {
    if (inside(i)) continue;
    const float before = matrix[i];
    matrix[i] = 0.0f;
    const harness::StrayWrites stray = device->stray_writes(buffer.data(), buffer.size(), matrix, extent);
    EXPECT_EQ(stray.count, 1) << i;
    EXPECT_EQ(stray.first, i);
    std::memcpy(matrix + i, &before, sizeof before);
  }
}

TEST_F(HarnessDevice, StrayWritesAroundAnEmptyMatrix) {
  for (const Extent& empty : {Extent{0, 5, 5, 1, 0}, Extent{4, 0, 1, 1, 4}, Extent{4, 5, 5, 0, 20}}) {
    device->poison(buffer.data(), buffer.size());
    EXPECT_EQ(device->stray_writes(buffer.data(), buffer.size(), matrix, empty).count, 0);
    *matrix = 0.0f;
    EXPECT_EQ(device->stray_writes(buffer.data(), buffer.size(), matrix, empty).count, 1);
  }
}

TEST_F(HarnessDevice, KnowsFreeMemory) {
  EXPECT_GT(device->free_bytes(), std::size_t{1} << 20);
  EXPECT_LT(device->free_bytes(), std::size_t{1} << 50);
}

// ---- Panels
// ----------------------------------------------------------------------------------------------------

std::vector<Gemm> panels;

std::vector<Gemm> panels_of(const Gemm& gemm) {
  panels.clear();
  harness::run_in_panels([](const Gemm& panel) { panels.push_back(panel); }, gemm);
  return panels;
}

// The kernels never see these: addresses that tell their distance from the start.
Gemm large(int M, int batch) {
  return {.M = M,
          .N = 3,
          .K = 2,
          .batch = batch,
          .alpha = 2,
          .A = reinterpret_cast<const float*>(std::uintptr_t{1} << 60),
          .lda = 4096,
          .strideA = 1000,
          .B = reinterpret_cast<const float*>(std::uintptr_t{2} << 60),
          .ldb = 3,
          .strideB = 100000,
          .beta = 3,
          .C = reinterpret_cast<float*>(std::uintptr_t{3} << 60),
          .ldc = 5000,
          .strideC = 70000};
}

std::int64_t distance(const void* to, const void* from) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) -
                                   reinterpret_cast<std::uintptr_t>(from)) /
         4;
}

TEST(Panels, SmallProblemsStayWhole) {
  const std::vector<Gemm> all = panels_of(large(1 << 20, 1 << 15));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].M, 1 << 20);
  EXPECT_EQ(all[0].batch, 1 << 15);
  EXPECT_EQ(all[0].N, 3);
  EXPECT_EQ(all[0].alpha, 2.0f);
}

TEST(Panels, EmptyProblemsRunNothing) {
  EXPECT_TRUE(panels_of(large(0, 5)).empty());
  EXPECT_TRUE(panels_of(large(5, 0)).empty());
}

TEST(Panels, LargeOnesAreCutInRowsAndMatrices) {
  const Gemm whole = large((1 << 21) + 7, (1 << 15) + 9);
  const std::vector<Gemm> all = panels_of(whole);
  ASSERT_EQ(all.size(), 6u);
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i % 3) << 20, matrix = static_cast<std::int64_t>(i / 3)
                                                                              << 15;
    EXPECT_EQ(all[i].M, i % 3 == 2 ? 7 : 1 << 20);
    EXPECT_EQ(all[i].batch, i / 3 == 1 ? 9 : 1 << 15);
    EXPECT_EQ(distance(all[i].A, whole.A), matrix * 1000 + row * 4096);
    EXPECT_EQ(distance(all[i].B, whole.B), matrix * 100000);
    EXPECT_EQ(distance(all[i].C, whole.C), matrix * 70000 + row * 5000);
    elements += std::int64_t{all[i].M} * all[i].batch;
  }
  EXPECT_EQ(elements, std::int64_t{whole.M} * whole.batch);
}

}  // namespace
