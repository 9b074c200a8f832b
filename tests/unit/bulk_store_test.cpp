// Bulk and tensor stores on the CPU device: what they write, and when, and the faults that are reported.
// gpu_bulk_store_test.cu runs the right ones on a GPU.

#include <cmath>

#include "tests/unit/device_test.hpp"
#include "tests/unit/stored_boxes.hpp"

namespace {

class Stores : public BothBuilds {
 protected:
  void describe_y() {
    cpu_device::describe({"Y", y.data(), 1, 256, 256, 1, 256, true, true, 4, true});
    cpu_device::describe({"X", x.data(), 1, 256, 256, 1, 256, true, true, 4, true});
  }
};
class StoreFault : public Stores {};
INSTANTIATE_TEST_SUITE_P(, Stores, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, StoreFault, testing::Values("observed"), name_of_build);

TEST_P(Stores, RowByRow) {
  run_as<void (*)(const float*, float*, int)>("store_rows", {.grid = 1, .block = 64}, x.data(), y.data(), 31);
  for (int i = 0; i < 31 * 64; ++i) ASSERT_EQ(y[i], 2.0f * x[i]);
}

TEST_P(Stores, ThereAndBackByCopiesWithoutAFence) {
  run_as<void (*)(const float*, float*, int)>("store_copied", {.grid = 1, .block = 64}, x.data(), y.data(),
                                              0);
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(y[i], x[i]);
    EXPECT_EQ(y[64 + i], x[63 - i]);
  }
}

template <typename T>
class Boxes {
 public:
  template <typename Test>
  static void expect(Test& test, const char* kernel) {
    const BufferOf<T> batch(Batch::size);
    cpu_device::describe({"C", batch.data(), Batch::rows, stored_cols<T>, Batch::ld, Batch::matrices,
                          Batch::stride, true, true, sizeof(T)});
    for (const BoxSize& size : box_sizes) {
      const TensorMap map = tensor_map(batch.data(), Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
                                       Batch::stride, size.rows, size.cols);
      for (const Box& box : stored_boxes(size)) {
        std::vector<T> wanted = Batch::memory<T>();
        std::copy(wanted.begin(), wanted.end(), batch.data());
        store_expected(wanted, size, box);
        test.template launch_as<void (*)(TensorMap, Box, int)>(kernel, map, box, size.elements());
        ASSERT_TRUE(same_memory(wanted, batch.data())) << size.rows << " x " << size.cols << " at " << box.row
                                                       << ", " << box.col << " of matrix " << box.matrix;
      }
    }
  }
};

class StoredBoxes : public Stores {
 public:
  template <typename K, typename... Args>
  void launch_as(const char* kernel, const Args&... args) {
    run_as<K>(kernel, {.grid = 1, .block = 64}, args...);
  }
};
INSTANTIATE_TEST_SUITE_P(, StoredBoxes, testing::Values("plain", "observed"), name_of_build);

TEST_P(StoredBoxes, ClippedAtTheEdges) {
  Boxes<float>::expect(*this, "store_box<float>");
  Boxes<bf16>::expect(*this, "store_box<bf16>");
}

TEST_P(StoredBoxes, ABoxThatBeginsBeforeItsMatrix) {
  const TensorMap map = tensor_map(x.data(), 8, 16, 16, 1, 0, 4, 8);
  for (const Box& box : {Box{-1, 0, 0}, Box{0, -4, 0}, Box{0, 0, -1}}) {
    launch_as<void (*)(TensorMap, Box, int)>("store_box<float>", map, box, 32);
    const Fault fault = cpu_device::take_faults().at(0);
    EXPECT_EQ(fault.kind, FaultKind::out_of_bounds_global);
    EXPECT_THAT(fault.detail, HasSubstr("stores a box that begins before its matrix"));
  }
}

TEST_P(StoredBoxes, OutOfSwizzledTiles) {
  const BufferOf<float> out(Lines::size);
  const std::vector<float> lines = Lines::memory();
  std::copy(lines.begin(), lines.end(), x.data());
  for (const Swizzle swizzle : all_swizzles) {
    const int rows = Lines::rows(swizzle), cols = Lines::cols(swizzle);
    const TensorMap map = tensor_map(out.data(), rows, cols, cols, 1, 0, rows, cols, swizzle);
    launch_as<void (*)(const float*, TensorMap, int)>("store_lines", x.data(), map, Lines::size);
    const std::vector<std::uint32_t> wanted = stored_lines(swizzle, Convert::nothing);
    for (int i = 0; i < Lines::size; ++i) ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), wanted[i]) << i;
  }
}

TEST_P(Stores, RightOnes) {
  describe_y();
  for (const int n : {0, 9, 10}) {
    run("store_tile", 1, 64, n);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(y[i], x[i]);
  }
  run("store_seen", 1, 64, 0);
  EXPECT_EQ(y[64], x[63]);
  run("store_over_write", 1, 64, 0);
  EXPECT_EQ(y[9], x[9]);
}

TEST_P(Stores, PackedForTheNextBlock) {
  describe_y();
  x[0] = 0.0f;
  for (const int n : {0, 1, 5}) {
    run("pack_for_next_block", 2, 64, n);
    EXPECT_EQ(y[0], 3.0f);
  }
}

// ---- Faults ----------------------------------------------------------------------------------------------

TEST_P(StoreFault, NoFenceBehindWrites) {
  for (const int n : {1, 2}) {
    run("store_tile", 1, 64, n);
    expect(FaultKind::missing_proxy_fence, 0,
           "has a store read tile[0], which thread (0,0,0) wrote at " + here("tile_written") +
               "; no fence_async_proxy() stands between");
  }
}

TEST_P(StoreFault, SourceOverwritten) {
  const std::string why = ", which a store that thread (0,0,0) asked for at " + here("store_tile") +
                          " has yet to read: nobody has waited for it";
  run("store_tile", 1, 64, 3);
  expect(FaultKind::race_shared, 0, "writes tile[5]" + why, "store_tile_overwritten_by_requester");
  run("store_tile", 1, 64, 4);
  expect(FaultKind::race_shared, 40, "writes tile[7]" + why, "store_tile_overwritten_by_another");
  run("store_tile", 1, 64, 8);
  std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_FALSE(faults.empty());
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    return fault.kind == FaultKind::race_shared && fault.where == here("store_tile_refilled") &&
           fault.detail.find(why) != std::string::npos;
  }));
}

TEST_P(StoreFault, NobodyWaits) {
  for (const int n : {5, 6, 7}) {
    run("store_tile", 1, 64, n);
    expect(FaultKind::copy_outlives_block, 0, "asked for a store of 256 bytes, and nobody has waited");
  }
}

// It writes nothing, but is followed all the same.
TEST_P(StoreFault, BeyondItsMatrix) {
  describe_y();
  const TensorMap map = tensor_map(y.data(), 1, 64, 64, 1, 0, 1, 64);
  const auto store = [&](int n) {
    run_as<void (*)(float*, TensorMap, int)>("store_beyond", {.grid = 1, .block = 64}, x.data(), map, n);
  };
  for (const int n : {0, 3}) {
    store(n);
    expect_none();
  }
  store(1);
  expect(FaultKind::copy_outlives_block, 0, "asked for a store of 256 bytes, and nobody has waited");
  store(2);
  expect(FaultKind::race_shared, 0,
         "writes tile[5], which a store that thread (0,0,0) asked for at " + here("store_beyond") +
             " has yet to read: nobody has waited for it",
         "store_beyond_overwritten");
}

TEST_P(StoreFault, SourceNotWrittenYet) {
  run("store_tile", 1, 64, 11);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].where, here("store_tile"));
  EXPECT_EQ(faults[0].kind, FaultKind::uninitialised_shared);
}

TEST_P(StoreFault, TargetTouchedTooEarly) {
  describe_y();
  const std::string why = "Y[3], which a store that thread (0,0,0) of block (0,0,0) asked for at " +
                          here("store_seen") + " has yet to write: nobody has waited for it";
  run("store_seen", 1, 64, 1);
  expect(FaultKind::race_global, 0, "reads " + why, "store_seen_by_requester");
  run("store_seen", 1, 64, 2);
  expect(FaultKind::race_global, 9, "reads " + why, "store_seen_by_another");
  run("store_seen", 1, 64, 3);
  expect(FaultKind::race_global, 9, "writes " + why, "store_overwritten");
}

TEST_P(StoreFault, NoFenceBehindWritesToItsTarget) {
  describe_y();
  run("store_over_write", 1, 64, 1);
  expect(FaultKind::missing_proxy_fence, 0,
         "has a store overwrite Y[0], which thread (0,0,0) of block (0,0,0) wrote at " +
             here("written_under_store") + "; no fence_async_proxy_global() stands between");
}

TEST_P(StoreFault, PackedForTheNextBlockWithoutAFence) {
  describe_y();
  for (const int n : {2, 3, 4}) {
    x[0] = 0.0f;
    run("pack_for_next_block", 2, 64, n);
    expect(FaultKind::missing_proxy_fence, {{1, 0, 0}, {0, 0, 0}},
           "has a copy read X[64], which thread (0,0,0) of block (0,0,0) wrote at " +
               here("packed_for_next_block"));
  }
}

TEST_P(StoreFault, Misaligned) {
  for (const auto& [n, detail] : {std::pair{1, "to an address"}, {10, "from"}, {100, "stores 20 bytes"}}) {
    run("store_misaligned", 1, 64, n);
    expect(FaultKind::misaligned, 0, detail);
  }
}

// The matrix has 42 columns; a store writes to whole groups of 16 bytes.
TEST_P(StoreFault, IntoThePaddingBehindARow) {
  const BufferOf<float> batch(Batch::size);
  cpu_device::describe({"C", batch.data(), Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
                        Batch::stride, true, true, sizeof(float)});
  const TensorMap map =
      tensor_map(batch.data(), Batch::rows, Batch::cols, Batch::ld, Batch::matrices, Batch::stride, 8, 16);
  run_as<void (*)(TensorMap, Box, int)>("store_box<float>", {.grid = 1, .block = 64}, map, Box{0, 40, 0},
                                        128);
  expect(FaultKind::out_of_bounds_global, 0, "C[0][42]");
}

TEST_P(StoreFault, OutOfBounds) {
  describe_y();
  run("store_outside", 1, 64, 244);
  expect(FaultKind::out_of_bounds_global, 0, "writes right behind the end of Y");
}

}  // namespace
