// wgmma on the CPU device: what it computes, in every layout, and the faults that are reported.
// gpu_wgmma_test.cu runs the right kernels on a GPU.

#include <algorithm>
#include <string>

#include "common/cuda/tensor_copy.hpp"
#include "tests/unit/device_test.hpp"
#include "tests/unit/wgmma_right.hpp"

namespace {

class Wgmma : public BothBuilds {
 protected:
  Wgmma() { std::fill_n(x.data(), x.size(), 3.0f); }
  void one_product(int n) {
    run_as<void (*)(float*, float*, int)>("one_product", {.grid = 1, .block = 256, .shared_bytes = 33 * 1024},
                                          x.data(), product.data(), n);
  }
  void expect_product(float wanted) {
    for (const float value : product.values()) ASSERT_EQ(value, wanted);
  }
  const DeviceBuffer product{64 * 64};
};
class WgmmaFault : public Wgmma {
 protected:
  // The one fault that the kernel gives.
  void expect(int n, FaultKind kind, const char* mark, const char* detail) {
    one_product(n);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_FALSE(faults.empty()) << n;
    EXPECT_EQ(faults[0].kind, kind) << n;
    EXPECT_EQ(faults[0].where, here(mark)) << n;
    EXPECT_THAT(faults[0].detail, HasSubstr(detail)) << n;
  }
};
INSTANTIATE_TEST_SUITE_P(, Wgmma, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, WgmmaFault, testing::Values("observed"), name_of_build);

TEST_P(Wgmma, EveryLayout) {
  for (const WgmmaForm& form : wgmma_forms) {
    const DeviceBuffer d(static_cast<std::size_t>(64 * form.N));
    for (const Layouts& layouts : layouts_of(form)) {
      run_as<void (*)(Layouts, float*)>(
          form.name, {.grid = 1, .block = wgmma_threads, .shared_bytes = sizeof(WgmmaRoom)}, layouts,
          d.data());
      EXPECT_EQ(first_wrong(d.data(), form.N, form.K), -1) << text_of(form, layouts);
    }
  }
}

TEST_P(Wgmma, WhatIsRight) {
  one_product(0);
  expect_product(3 + 16);
  one_product(10);  // overwritten behind a barrier
  expect_product(3 + 16);
  one_product(14);  // twice as much, behind a fence, and another product
  expect_product(2 * (3 + 16) + 16);
  one_product(15);  // two products in a group
  expect_product(3 + 16 + 16);
  one_product(17);  // only read in between
  expect_product(3 + 16 + 16);
  one_product(18);  // warps wait one after the other
  expect_product(3 + 16);
}

TEST_P(WgmmaFault, Fences) {
  expect(1, FaultKind::wgmma_misuse, "one_product", "no wgmma_fence() stands between");
  expect(13, FaultKind::wgmma_misuse, "second_product", "no wgmma_fence() stands between");
  for (const int n : {2, 3}) {
    expect(n, FaultKind::missing_proxy_fence, "one_product", "has wgmma_bf16 read TwoTiles::A");
  }
}

TEST_P(WgmmaFault, SumsBeforeTheWait) {
  expect(6, FaultKind::wgmma_misuse, "sum_read",
         ("reads sum 3 of those that the wgmma begun at " + here("one_product") +
          " still adds to: nobody has waited")
             .c_str());
  expect(7, FaultKind::wgmma_misuse, "sum_written", "writes to sum 3 of those");
  expect(4, FaultKind::wgmma_misuse, "one_product", "nobody has waited when the block ends");
  expect(5, FaultKind::wgmma_misuse, "one_product", "nobody has waited when the block ends");
  expect(16, FaultKind::wgmma_misuse, "one_product", "nobody has waited when the block ends");
}

TEST_P(WgmmaFault, TilesThatAreOverwritten) {
  expect(8, FaultKind::race_shared, "wgmma_tile_overwritten", "has yet to read: nobody has waited for it");
  expect(9, FaultKind::race_shared, "wgmma_tile_overwritten_behind",
         "has yet to read: nobody has waited for it");
  expect(19, FaultKind::race_shared, "wgmma_tile_overwritten_behind",
         ("which the wgmma begun at " + here("one_product") + " read; nothing orders this behind").c_str());
}

TEST_P(WgmmaFault, AWarpgroupThatIsNotOne) {
  expect(11, FaultKind::wgmma_misuse, "one_product", "all threads of a warpgroup bring the same descriptors");
  expect(12, FaultKind::missing_lane, "one_product",
         "waits here for thread (64,0,0) at wgmma_bf16, which has left the kernel");
}

TEST_P(WgmmaFault, Descriptors) {
  const BufferOf<bf16> a(128 * 64), b(64 * 128);
  const DeviceBuffer d(64 * 128);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = bf16(a_of(static_cast<int>(i) / 64, static_cast<int>(i) % 64));
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] = bf16(b_of(static_cast<int>(i) / 128, static_cast<int>(i) % 128));
  cpu_device::describe({"A", a.data(), 128, 64, 64, 1, 128 * 64, true, false, 2});
  cpu_device::describe({"B", b.data(), 64, 128, 128, 1, 64 * 128, true, false, 2});
  const TensorMap map_a = tensor_map(a.data(), 128, 64, 64, 1, 0, 128, 64, Swizzle::of_128_bytes);
  const TensorMap map_b = tensor_map(b.data(), 64, 128, 128, 1, 0, 64, 64, Swizzle::of_128_bytes);
  const auto multiply = [&](int n) {
    run_as<void (*)(TensorMap, TensorMap, float*, int)>(
        "described", {.grid = 1, .block = 128, .shared_bytes = 33 * 1024}, map_a, map_b, d.data(), n);
    return cpu_device::take_faults();
  };
  for (const int n : {0, 7}) {
    EXPECT_THAT(multiply(n), IsEmpty());
    for (int i = 0; i < 64 * 128; ++i) {
      const int row = i / 128, in_a = n == 7 ? row / 8 * 16 + row % 8 : row;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a_of(in_a, k) * b_of(k, i % 128);
      ASSERT_EQ(d[static_cast<std::size_t>(i)], sum);
    }
  }
  const char* wrong[] = {"",
                         "descriptor of A by which its element [1][0] is at",
                         "descriptor of B by which its element [1][0] is at",
                         "descriptor of A by which its element [8][0] is at",
                         "descriptor of B by which its element [8][0] is at",
                         "descriptor of B by which its element [0][64] is at TwoTiles::B[0][8][0]",
                         "descriptor of B by which its element [0][48] is at",
                         "",
                         "descriptor of A that begins at an address that is no multiple of 16",
                         "descriptor of A that begins 512 bytes behind a multiple of 1024",
                         "descriptor of A whose stride is no multiple of 16: 1000",
                         "descriptor of B with a distance that is not below 2^18"};
  for (int n = 1; n <= 11; ++n) {
    if (n == 7) continue;
    const std::vector<Fault> faults = multiply(n);
    ASSERT_FALSE(faults.empty()) << n;
    EXPECT_EQ(faults[0].kind, FaultKind::descriptor_misuse) << n;
    EXPECT_EQ(faults[0].where, here("described")) << n;
    EXPECT_THAT(faults[0].detail, HasSubstr(wrong[n])) << n;
  }
}

}  // namespace
