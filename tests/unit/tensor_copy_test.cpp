// Tensor copies on the CPU device: what arrives and when, and the faults that are reported.
// gpu_tensor_copy_test.cu copies the same boxes on a GPU.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/unit/boxes.hpp"
#include "tests/unit/device_test.hpp"

namespace {

using TensorKernel = void (*)(float* x, float* y, TensorMap map, int n);

// The batch of boxes.hpp, or room for it, in the CPU device's memory.
template <typename T>
class DeviceBatch : public BufferOf<T> {
 public:
  DeviceBatch() : BufferOf<T>(Batch::size) {
    const std::vector<T> elements = Batch::memory<T>();
    std::copy(elements.begin(), elements.end(), this->data());
  }
  TensorMap map(const BoxSize& box, bool has_stride = true) const {
    return tensor_map(this->data(), Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
                      has_stride ? Batch::stride : 0, box.rows, box.cols);
  }
  cpu_device::MatrixView view(bool readable = true, bool writable = false) const {
    return {"A",           this->data(), Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
            Batch::stride, readable,     writable,    sizeof(T)};
  }
};

class TensorCopy : public BothBuilds {
 protected:
  void run(const std::string& name, unsigned threads, const TensorMap& map, int n = 0) {
    run_as<TensorKernel>(name, {.grid = 1, .block = threads}, x.data(), y.data(), map, n);
  }
  template <typename T>
  void fetch(T* out, const TensorMap& map, const Box& box, int elements) {
    run_as<void (*)(T*, TensorMap, Box, int)>(
        std::is_same_v<T, float> ? "fetch_box<float>" : "fetch_box<bf16>", {.grid = 1, .block = box_threads},
        out, map, box, elements);
  }
  void fetch(const TensorMap& map, const Box& box, int elements = 16) { fetch(y.data(), map, box, elements); }

  template <typename T>
  void expect_boxes(const DeviceBatch<T>& batch, const std::vector<BoxSize>& sizes, bool has_stride) {
    const BufferOf<T> out(most_elements);
    for (const BoxSize& size : sizes) {
      const TensorMap map = batch.map(size, has_stride);
      for (const Box& box : boxes(size)) {
        std::fill_n(out.data(), size.elements(), T(-1.0f));
        fetch(out.data(), map, box, size.elements());
        const std::vector<float> came(out.data(), out.data() + size.elements());
        ASSERT_EQ(came, expected(size, box, has_stride))
            << size.rows << " x " << size.cols << " at " << box.row << ", " << box.col << " of matrix "
            << box.matrix;
      }
    }
  }
  void expect_box(FaultKind kind, const Who& who, const std::string& detail, const std::string& box) {
    expect(kind, who, detail + " (the box of 4 x 4 at " + box + ")");
  }

  DeviceBatch<float> x, y;
};
class TensorFault : public TensorCopy {};  // by the observed build only
INSTANTIATE_TEST_SUITE_P(, TensorCopy, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, TensorFault, testing::Values("observed"), name_of_build);

// The padding around the matrices is not read: it is no part of the view.
TEST_P(TensorCopy, Boxes) {
  const DeviceBatch<bf16> of_bf16;
  expect_boxes(x, {{8, 16}}, false);  // all matrices are one
  cpu_device::describe(x.view());
  cpu_device::describe(of_bf16.view());
  expect_boxes(x, box_sizes, true);
  expect_boxes(of_bf16, box_sizes, true);
}

TEST_P(TensorCopy, TheStrideOfASingleMatrixDoesNotMatter) {
  for (const std::int64_t stride : {0l, 7l, -3l, std::int64_t{1} << 60}) {
    const TensorMap map = tensor_map(x.data(), Batch::rows, Batch::cols, Batch::ld, 1, stride, 4, 4);
    fetch(map, {1, 0, 0});
    EXPECT_EQ(y[0], Batch::at(0, 1, 0));
    fetch(map, {1, 0, 1});
    EXPECT_EQ(y[0], 0.0f);
  }
}

TEST_P(TensorCopy, RoundsToTf32AndSwizzles) {
  constexpr int elements = Lines::size;
  const std::vector<float> lines = Lines::memory();
  std::copy(lines.begin(), lines.end(), x.data());
  for (const Swizzle swizzle : all_swizzles) {
    const int rows = Lines::rows(swizzle), cols = Lines::cols(swizzle);
    for (const Convert convert : {Convert::nothing, Convert::to_tf32}) {
      const TensorMap map = tensor_map(x.data(), rows, cols, cols, 1, 0, rows, cols, swizzle, convert);
      fetch(map, {0, 0, 0}, elements);
      std::vector<std::uint32_t> came(elements);
      std::memcpy(came.data(), y.data(), elements * sizeof(float));
      EXPECT_EQ(came, Lines::expected(swizzle, convert))
          << static_cast<int>(swizzle) << ", " << static_cast<int>(convert);
    }
  }
}

// Tiles of 16 lines of 128 bytes at no more than their pattern's alignment, which the kernels read by their
// formulas for it.
TEST_P(TensorCopy, SwizzledTilesAreReadWhereTheyLie) {
  for (int i = 0; i < Lines::size; ++i) x[i] = static_cast<float>(i);
  const auto read = [&](const std::string& kernel, Swizzle swizzle) {
    const int rows = Lines::rows(swizzle), cols = Lines::cols(swizzle);
    std::fill_n(y.data(), Lines::size, -1.0f);
    run_as<TensorKernel>(kernel, {.grid = 1, .block = 64, .shared_bytes = 4096}, x.data(), y.data(),
                         tensor_map(x.data(), rows, cols, cols, 1, 0, rows, cols, swizzle), Lines::size);
    return std::vector<float>(y.data(), y.data() + Lines::size);
  };
  const std::vector<float> all(x.data(), x.data() + Lines::size);
  EXPECT_EQ(read("swizzled_tile<32>", Swizzle::of_32_bytes), all);
  EXPECT_EQ(read("swizzled_tile<64>", Swizzle::of_64_bytes), all);
  EXPECT_EQ(read("swizzled_tile<128>", Swizzle::of_128_bytes), all);
  // By the formula of 128 bytes: of the first four of eight lines all is found, of the others nothing.
  const std::vector<float> wrong = read("swizzled_tile_of_128_bytes", Swizzle::of_64_bytes);
  for (int i = 0; i < Lines::size; ++i) EXPECT_EQ(wrong[i] == all[i], i / 32 % 8 < 4) << i;
}

// A copy arrives only when somebody waits for it, with what its source holds then.
TEST_P(TensorCopy, BoxesComeInOrderAndLate) {
  cpu_device::set_checking(false);  // looking at what has not come is a fault
  run("tensor_order", 1, x.map({4, 4}));
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[3]));
  EXPECT_EQ(y[2], Batch::at(0, 0, 0));
  EXPECT_EQ(y[4], Batch::at(0, 0, 0));
  EXPECT_EQ(y[5], Batch::at(0, 0, 4) + 100.0f);
}

TEST_P(TensorCopy, AMapIsAlignedInTheKernel) {
  run("alignment_of_maps", 40, x.map({4, 4}), 40);
  for (int t = 0; t < 40; ++t) EXPECT_EQ(y[t], 0.0f);
}

// With K == 0 a kernel is given such maps and copies nothing.
TEST_P(TensorCopy, TheMapOfAnEmptyMatrixCanBeHandedOver) {
  for (const auto& [rows, cols, batch] : {std::tuple{0, 5, 1}, {5, 0, 1}, {5, 5, 0}}) {
    y[0] = 0.0f;
    run("unused_map", 1, tensor_map<float>(nullptr, rows, cols, 3, batch, 0, 4, 4));
    EXPECT_EQ(y[0], 1.0f);
  }
}

// ---- Faults ----------------------------------------------------------------------------------------------

// The bytes outside the matrix count, too: the box has 4 rows, of which 1 is there.
TEST_P(TensorFault, AllBytesOfABoxCount) {
  const TensorMap map = tensor_map(x.data(), 3, Batch::cols, Batch::ld, 1, 0, 4, 4);
  run("tensor_bytes", 1, map, 64);
  expect_none();
  run("tensor_bytes", 1, map, 16);
  expect(FaultKind::deadlock, 0, "to which 48 bytes came that nobody announced");
  run("tensor_bytes", 1, map, 80);
  expect(FaultKind::deadlock, 0, "which lacks 16 bytes that were announced");
}

TEST_P(TensorFault, Misaligned) {
  cpu_device::describe(x.view());
  const TensorMap map = x.map({4, 4});
  for (const int n : {0, 32, 64, 400, 4000}) run("tensor_misaligned", 1, map, n);
  expect_none();
  for (const int n : {1, 4, 16, 33}) {
    run("tensor_misaligned", 1, map, n);
    expect_box(FaultKind::misaligned, 0, "copies to an address that is no multiple of 128",
               "row 3, column 0 of matrix 1 of A");
  }
  for (const int n : {100, 200, 700}) {
    run("tensor_misaligned", 1, map, n);
    expect_box(FaultKind::misaligned, 0,
               "copies from a column that is no multiple of 16 bytes away from column 0",
               "row 3, column " + std::to_string(n / 100) + " of matrix 1 of A");
  }
}

// Dynamic shared memory begins at a multiple of half of what the swizzle wants, and of no more.
TEST_P(TensorFault, SwizzledTileWithTooLittleAlignment) {
  for (const auto& [swizzle, bytes] :
       {std::pair{Swizzle::of_32_bytes, 32}, {Swizzle::of_64_bytes, 64}, {Swizzle::of_128_bytes, 128}}) {
    const int rows = Lines::rows(swizzle), cols = Lines::cols(swizzle);
    run_as<TensorKernel>("half_aligned_tile<" + std::to_string(bytes) + ">",
                         {.grid = 1, .block = 64, .shared_bytes = 4096}, x.data(), y.data(),
                         tensor_map(x.data(), rows, cols, cols, 1, 0, rows, cols, swizzle), Lines::size);
    expect(FaultKind::misaligned, 0,
           "copies to an address that is no multiple of " + std::to_string(8 * bytes) +
               ", where the swizzle of " + std::to_string(bytes) + " bytes begins anew",
           "read_tile");
  }
}

TEST_P(TensorFault, NoMap) {
  const TensorMap empty = tensor_map(x.data(), 0, 5, 8, 1, 0, 4, 4);
  for (const TensorMap& map : {TensorMap{}, empty}) {
    fetch(map, {0, 0, 0});
    expect(FaultKind::out_of_bounds_global, 0,
           "copies by a tensor map that is that of an empty matrix, or has not been made");
  }
}

TEST_P(TensorFault, OutsideSharedMemory) {
  run("tensor_outside_shared", 1, x.map({4, 4}), 0);
  expect_none();
  run("tensor_outside_shared", 1, x.map({4, 4}), 32);
  expect_box(FaultKind::out_of_bounds_shared, 0,
             "writes 64 bytes of shared memory outside every __shared__ variable",
             "row 0, column 0 of matrix 0 of a matrix");
}

// The map promises more rows, columns or matrices than there are.
TEST_P(TensorFault, OutsideTheMatrix) {
  cpu_device::describe(x.view());
  const auto map = [&](int rows, int cols, int batch) {
    return tensor_map(x.data(), rows, cols, Batch::ld, batch, Batch::stride, 4, 4);
  };
  fetch(map(Batch::rows, Batch::cols + 1, Batch::matrices), {5, 36, 0});  // does not reach the edge
  expect_none();
  fetch(map(Batch::rows, Batch::cols + 1, Batch::matrices), {5, 40, 1});
  expect_box(FaultKind::out_of_bounds_global, 0, "reads A[5][42] of matrix 1, but A is 37 x 42",
             "row 5, column 40 of matrix 1 of A");
  fetch(map(Batch::rows, Batch::cols, Batch::matrices + 1), {0, 0, 3});
  expect_box(FaultKind::out_of_bounds_global, 0, "reads 88 bytes past the end of A; A is 37 x 42",
             "row 0, column 0 of matrix 3 of A");
  fetch(map(Batch::rows + 9, Batch::cols, 1), {36, 8, 0});
  expect_box(FaultKind::out_of_bounds_global, 0, "", "row 36, column 8 of A");
}

TEST_P(TensorFault, MemoryOfTheHost) {
  alignas(16) static const float of_host[64] = {};
  fetch(tensor_map(of_host, 8, 8, 8, 1, 0, 4, 4), {0, 0, 0});
  expect_box(FaultKind::host_pointer, 0, "reads memory that was not allocated on the device",
             "row 0, column 0 of a matrix");
}

TEST_P(TensorFault, UninitialisedMatrix) {
  cpu_device::describe(x.view(false, true));
  fetch(x.map({4, 4}), {-3, -8, 0});  // nothing of it is inside
  expect_none();
  fetch(x.map({4, 4}), {2, 4, 0});
  expect_box(FaultKind::uninitialised_global, 0, "reads A[2][4] of matrix 0, which may hold anything",
             "row 2, column 4 of matrix 0 of A");
}

TEST_P(TensorFault, OntoWhatIsRead) {
  for (const int n : {0, 40, 62}) {
    run("tensor_overwrites", 64, x.map({4, 4}), n);
    expect_box(FaultKind::race_shared, 63,
               "which " + thread_name(n) + " read at " + here("tensor_overwrites_reader") +
                   "; no barrier stands between",
               "row 36, column 0 of matrix 0 of a matrix");
  }
}

// Only a write inside the box races with the copy, and only before it has arrived.
TEST_P(TensorFault, SourceOverwritten) {
  cpu_device::describe(x.view(true, true));
  const int ld = Batch::ld;
  for (const int n : {4, ld + 3, ld + 8, 5 * ld + 4, -(ld + 4)}) {
    run("tensor_source_overwritten", 64, x.map({4, 4}), n);
  }
  expect_none();
  for (const int n : {ld + 4, ld + 7, 4 * ld + 4, 4 * ld + 7}) {
    run("tensor_source_overwritten", 64, x.map({4, 4}), n);
    expect(FaultKind::race_global, 1,
           "which a copy that thread (0,0,0) of block (0,0,0) asked for at " + here("source_copied"));
  }
}

// A zero from outside the matrix arrives no earlier. Of the box, row 0 and two columns are inside.
TEST_P(TensorFault, ReadBeforeTheWait) {
  for (const int n : {1, 2, 15}) {
    run("tensor_read_before_wait", 64, x.map({4, 4}), n);
    expect(FaultKind::async_not_arrived, n,
           "to which the asynchronous copy started at " + here("not_waited_for") + " by thread (0,0,0)");
  }
}

TEST_P(TensorFault, NobodyWaits) {
  run("tensor_no_wait", 1, x.map({4, 4}));
  expect(FaultKind::copy_outlives_block, 0, "asked for 64 bytes that nobody has waited for");
}

TEST_P(TensorFault, AnMbarrierThatCopiesDoNotKnow) {
  run("tensor_no_fence", 1, x.map({4, 4}));
  expect(FaultKind::mbarrier_misuse, 0, "no mbarrier_fence_init() has followed");
}

// ---- What a listener is told -----------------------------------------------------------------------------

TEST_P(TensorFault, ABoxIsToldAsWhatItReadsAndWhatItWrites) {
  const Recorder& recorder = record();
  fetch(x.map({8, 16}), {33, -8, 2}, 128);  // 4 rows of 8 elements are inside
  for (const Access& access : recorder.accesses) EXPECT_FALSE(access.copy);  // all of it is in the requests
  ASSERT_EQ(recorder.requests.size(), 2u);
  for (const cpu_device::CollectiveRequest& request : recorder.requests) {
    EXPECT_EQ(request.operation, cpu_device::Operation::copy);
    EXPECT_EQ(request.active, 0u);  // it has no lanes
    EXPECT_EQ(request.warp, 0u);
    EXPECT_EQ(request.bytes, 512u);
  }
  const auto &global = recorder.requests[0], &shared = recorder.requests[1];
  EXPECT_EQ(global.space, Space::global);
  EXPECT_EQ(global.addresses[0],
            reinterpret_cast<std::uintptr_t>(x.data() + 2 * Batch::stride + 33 * Batch::ld));
  EXPECT_EQ(global.rows.count, 4u);
  EXPECT_EQ(global.rows.bytes, 32u);
  EXPECT_EQ(global.rows.pitch, 4 * Batch::ld);
  EXPECT_EQ(shared.space, Space::shared);
  EXPECT_EQ(shared.rows.count, 0u);
}

TEST_P(TensorFault, ABoxOfZerosReadsNothing) {
  for (const Box& box : {Box{37, 0, 0}, {0, -16, 0}, {0, 48, 0}, {-8, 0, 0}, {0, 0, 3}}) {
    const Recorder& recorder = record();
    fetch(x.map({8, 16}), box, 128);
    ASSERT_EQ(recorder.requests.size(), 1u);
    EXPECT_EQ(recorder.requests[0].space, Space::shared);
    EXPECT_EQ(recorder.requests[0].bytes, 512u);
  }
}

}  // namespace
