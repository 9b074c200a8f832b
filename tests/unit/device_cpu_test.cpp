// The CPU device as the harness uses it: filling, copying, stray writes, large problems in panels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "common/harness/device.hpp"
#include "common/harness/panels.hpp"
#include "common/harness/random.hpp"
#include "common/poison.hpp"

namespace {

using harness::Extent;

using harness::AnyGemm;
using harness::Input;

// Three matrices of 4 x 5, 7 elements from row to row, with a gap behind each, in a buffer of 120.
template <typename T>
class HarnessDevice : public testing::Test {
 protected:
  using Word = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  static constexpr Input type = harness::input_of<T>;
  static constexpr Extent extent{4, 5, 7, 3, 30};
  static constexpr int origin = 15;
  static bool inside(int at) { return at >= 0 && at < 90 && at % 30 / 7 < 4 && at % 30 % 7 < 5; }

  void poison() { device->poison(buffer.data(), buffer.size() * sizeof(T)); }
  void fill(std::uint64_t seed) { device->fill_uniform(matrix, type, extent, seed); }
  harness::StrayWrites stray_writes(const Extent& of) {
    return device->stray_writes(buffer.data(), type, buffer.size(), origin, of);
  }

  std::unique_ptr<harness::Device> device = harness::make_cpu_device(false);
  std::vector<T> buffer = std::vector<T>(120);
  T* matrix = buffer.data() + origin;
};
using Elements = testing::Types<float, bf16>;
TYPED_TEST_SUITE(HarnessDevice, Elements);

TYPED_TEST(HarnessDevice, FillsTheMatrixOnly) {
  this->poison();
  this->fill(42);
  std::uint64_t index = 0;
  for (int i = -15; i < 105; ++i) {
    if (this->inside(i)) {
      const float drawn = harness::uniform(42, index++, harness::traits(TestFixture::type).significand_bits);
      EXPECT_EQ(static_cast<float>(this->matrix[i]), drawn) << i;
    } else {
      typename TestFixture::Word bits;
      std::memcpy(&bits, this->matrix + i, sizeof bits);
      EXPECT_EQ(bits, poison_pattern<typename TestFixture::Word>) << i;
      EXPECT_TRUE(std::isnan(static_cast<float>(this->matrix[i]))) << i;
    }
  }
  EXPECT_EQ(index, 60u);
}

// The first rows of three matrices, of 5 elements, one after the other with 6 from each to the next; then the
// second rows.
TYPED_TEST(HarnessDevice, MatricesWhoseRowsTakeTurns) {
  constexpr Extent turns{4, 5, 20, 3, 6};
  this->poison();
  this->device->fill_uniform(this->matrix, this->type, turns, 1);
  EXPECT_EQ(this->stray_writes(turns).count, 0);
  for (int i = -15; i < 105; ++i) {
    const bool inside = i >= 0 && i < 80 && i % 20 < 17 && i % 20 % 6 < 5;
    EXPECT_EQ(turns.holds(i), inside) << i;
    EXPECT_EQ(std::isnan(static_cast<float>(this->matrix[i])), !inside) << i;
  }
}

// Of 5 GiB, a few pages are written: the rest holds the poison all the same, and takes no memory.
TYPED_TEST(HarnessDevice, PoisonsMoreThanThereIsMemory) {
  const std::size_t count = (std::size_t{5} << 30) / sizeof(TypeParam) + 10;
  auto* const words = static_cast<TypeParam*>(this->device->allocate(count * sizeof(TypeParam)));
  this->device->poison(words, count * sizeof(TypeParam));
  const auto far = static_cast<std::int64_t>(count) / 2;
  const Extent rows{2, 5, far, 1, 2 * far};
  const std::int64_t first = 3;
  this->device->fill_uniform(words + first, this->type, rows, 1);
  const auto stray = [&] { return this->device->stray_writes(words, this->type, count, first, rows); };
  for (const std::size_t at : {std::size_t{0}, std::size_t{1} << 29, count - 1}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(words[at]))) << at;
  }
  EXPECT_EQ(stray().count, 0);
  for (const std::size_t at : {count - 1, static_cast<std::size_t>(first + far + 5), std::size_t{1} << 29,
                               std::size_t{4096}, std::size_t{0}}) {
    words[at] = TypeParam(0.0f);
    EXPECT_EQ(stray().first, static_cast<std::int64_t>(at) - first);
  }
  EXPECT_EQ(stray().count, 5);
  this->device->release(words);
}

TYPED_TEST(HarnessDevice, FindsEveryStrayWrite) {
  this->poison();
  this->fill(1);
  EXPECT_EQ(this->stray_writes(this->extent).count, 0);
  for (int i = -15; i < 105; ++i) {
    if (this->inside(i)) continue;
    const TypeParam before = this->matrix[i];
    this->matrix[i] = TypeParam(0.0f);
    const harness::StrayWrites stray = this->stray_writes(this->extent);
    EXPECT_EQ(stray.count, 1) << i;
    EXPECT_EQ(stray.first, i);
    std::memcpy(this->matrix + i, &before, sizeof before);
  }
}

TYPED_TEST(HarnessDevice, StrayWritesAroundAnEmptyMatrix) {
  for (const Extent& empty : {Extent{0, 5, 5, 1, 0}, Extent{4, 0, 1, 1, 4}, Extent{4, 5, 5, 0, 20}}) {
    this->poison();
    EXPECT_EQ(this->stray_writes(empty).count, 0);
    *this->matrix = TypeParam(0.0f);
    EXPECT_EQ(this->stray_writes(empty).count, 1);
  }
}

class FloatDevice : public HarnessDevice<float> {};

TEST_F(FloatDevice, CopiesTheMatrixOnly) {
  fill(1);
  std::vector<float> to(120, -2.0f);
  device->copy_matrix(to.data() + origin, matrix, extent);
  for (int i = -15; i < 105; ++i) EXPECT_EQ(to[origin + i], inside(i) ? matrix[i] : -2.0f) << i;
}

TEST_F(FloatDevice, KnowsFreeMemory) {
  EXPECT_GT(device->free_bytes(), std::size_t{1} << 20);
  EXPECT_LT(device->free_bytes(), std::size_t{1} << 50);
}

TEST(Entry, CallsAStepWithInputsOfItsOwnTypeOnly) {
  static int calls;
  const harness::Entry none, fp32 = +[](const Gemm& g) { calls += g.M; },
                             narrow = +[](const GemmBf16& g) { calls += 100 * g.M; };
  EXPECT_FALSE(none);
  EXPECT_TRUE(fp32);
  EXPECT_EQ(fp32.input(), Input::fp32);
  EXPECT_EQ(narrow.input(), Input::bf16);
  Gemm gemm{};
  gemm.M = 2;
  GemmBf16 gemm_bf16{};
  gemm_bf16.M = 3;
  fp32(gemm);
  narrow(gemm_bf16);
  EXPECT_EQ(calls, 302);
  EXPECT_THROW(fp32(gemm_bf16), harness::WrongInput);
  EXPECT_THROW(narrow(gemm), harness::WrongInput);
}

// ---- Panels ----------------------------------------------------------------------------------------------

std::vector<AnyGemm> panels;

template <typename T>
std::vector<AnyGemm> panels_of(const GemmOf<T>& gemm) {
  panels.clear();
  harness::run_in_panels(+[](const GemmOf<T>& panel) { panels.push_back(panel); }, gemm);
  return panels;
}

// The kernels never see these: addresses that tell their distance from the start.
template <typename T>
GemmOf<T> large(int M, int batch) {
  return {.M = M,
          .N = 3,
          .K = 2,
          .batch = batch,
          .alpha = 2,
          .A = reinterpret_cast<const T*>(std::uintptr_t{1} << 60),
          .lda = 4096,
          .strideA = 1000,
          .B = reinterpret_cast<const T*>(std::uintptr_t{2} << 60),
          .ldb = 3,
          .strideB = 100000,
          .beta = 3,
          .C = reinterpret_cast<float*>(std::uintptr_t{3} << 60),
          .ldc = 5000,
          .strideC = 70000};
}

// In bytes.
std::int64_t distance(const void* to, const void* from) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) -
                                   reinterpret_cast<std::uintptr_t>(from));
}

TEST(Panels, SmallProblemsStayWhole) {
  const std::vector<AnyGemm> all = panels_of(large<float>(1 << 20, 1 << 15));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].M, 1 << 20);
  EXPECT_EQ(all[0].batch, 1 << 15);
  EXPECT_EQ(all[0].N, 3);
  EXPECT_EQ(all[0].alpha, 2.0f);
}

TEST(Panels, EmptyProblemsRunNothing) {
  EXPECT_TRUE(panels_of(large<float>(0, 5)).empty());
  EXPECT_TRUE(panels_of(large<float>(5, 0)).empty());
}

template <typename T>
void expect_cut() {
  const GemmOf<T> whole = large<T>((1 << 21) + 7, (1 << 15) + 9);
  const std::vector<AnyGemm> all = panels_of(whole);
  ASSERT_EQ(all.size(), 6u);
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i % 3) << 20, matrix = static_cast<std::int64_t>(i / 3)
                                                                              << 15;
    EXPECT_EQ(all[i].M, i % 3 == 2 ? 7 : 1 << 20);
    EXPECT_EQ(all[i].batch, i / 3 == 1 ? 9 : 1 << 15);
    EXPECT_EQ(distance(all[i].A, whole.A), (matrix * 1000 + row * 4096) * std::int64_t{sizeof(T)});
    EXPECT_EQ(distance(all[i].B, whole.B), matrix * 100000 * std::int64_t{sizeof(T)});
    EXPECT_EQ(distance(all[i].C, whole.C), (matrix * 70000 + row * 5000) * 4);
    elements += std::int64_t{all[i].M} * all[i].batch;
  }
  EXPECT_EQ(elements, std::int64_t{whole.M} * whole.batch);
}

TEST(Panels, LargeOnesAreCutInRowsAndMatrices) {
  expect_cut<float>();
  expect_cut<bf16>();
}

}  // namespace
