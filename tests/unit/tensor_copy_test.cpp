// Tensor copies on the CPU device: what comes, when, and what is said when it is used wrongly; which tensor
// maps are refused. gpu_tensor_copy_test.cu tests the same boxes on a GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "tests/unit/boxes.hpp"
#include "tests/unit/tensor_kernels.hpp"

namespace {

using cpu_device::Fault;
using cpu_device::FaultKind;
using testing::HasSubstr;
using testing::IsEmpty;

// The line of tensor_kernels.cpp with the comment "here: NAME".
std::string here(const std::string& name) {
  std::ifstream file(PROJECT_ROOT "/tests/unit/tensor_kernels.cpp");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with("// here: " + name)) return "tests/unit/tensor_kernels.cpp:" + std::to_string(number);
  }
  return "no line is marked with " + name;
}

// The batch of boxes.hpp, or room for that, in the CPU device's memory.
template <typename T>
class DeviceBatch {
 public:
  DeviceBatch() : data_(static_cast<T*>(cpu_device::allocate(Batch::size * sizeof(T)))) {
    const std::vector<T> elements = Batch::memory<T>();
    std::copy(elements.begin(), elements.end(), data_);
  }
  DeviceBatch(const DeviceBatch&) = delete;
  ~DeviceBatch() { cpu_device::release(data_); }
  T* data() const { return data_; }
  TensorMap map(const BoxSize& box, bool has_stride = true) const {
    return tensor_map(data_, Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
                      has_stride ? Batch::stride : 0, box.rows, box.cols);
  }
  cpu_device::MatrixView view(bool readable = true, bool writable = false) const {
    return {"A",           data_,    Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
            Batch::stride, readable, writable,    sizeof(T)};
  }

 private:
  T* data_;
};

class TensorFixture : public testing::Test {
 protected:
  explicit TensorFixture(bool checked) { cpu_device::set_checking(checked); }
  ~TensorFixture() override {
    cpu_device::set_listener(nullptr);
    for (const Fault& fault : cpu_device::take_faults()) ADD_FAILURE() << describe(fault);
    cpu_device::set_checking(false);
  }
  void run(TensorKernel kernel, unsigned threads, const TensorMap& map, int n = 0) {
    launch(kernel, dim3(1), dim3(threads), 0, x.data(), y.data(), map, n);
  }

  DeviceBatch<float> x, y;
};

// ---- Right kernels, by both builds -----------------------------------------------------------------------

struct Build {
  const char* name;
  const TensorKernels* kernels;
};
void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }

class TensorCopy : public TensorFixture, public testing::WithParamInterface<Build> {
 protected:
  TensorCopy() : TensorFixture(GetParam().kernels != &plain_tensor_kernels) {}
  const TensorKernels& kernels = *GetParam().kernels;

  template <typename T>
  void expect_boxes(void (*fetch)(T*, TensorMap, Box, int), const DeviceBatch<T>& batch, bool has_stride) {
    auto* out = static_cast<T*>(cpu_device::allocate(most_elements * sizeof(T)));
    for (const BoxSize& size : box_sizes) {
      const TensorMap map = batch.map(size, has_stride);
      for (const Box& box : boxes(size)) {
        std::fill_n(out, size.elements(), T(-1.0f));
        launch(fetch, dim3(1), dim3(box_threads), 0, out, map, box, size.elements());
        const std::vector<float> came(out, out + size.elements());
        ASSERT_EQ(came, expected(size, box, has_stride))
            << size.rows << " x " << size.cols << " at " << box.row << ", " << box.col << " of matrix "
            << box.matrix;
      }
    }
    cpu_device::release(out);
  }
};
INSTANTIATE_TEST_SUITE_P(, TensorCopy,
                         testing::Values(Build{"plain", &plain_tensor_kernels}
#ifdef HAVE_OBSERVED
                                         ,
                                         Build{"observed", &observed_tensor_kernels}
#endif
                                         ),
                         [](const auto& info) { return info.param.name; });

// The padding around the matrices is not read: it is no part of the view.
TEST_P(TensorCopy, BoxesOfFloats) {
  cpu_device::describe(x.view());
  expect_boxes(kernels.fetch_floats, x, true);
}

TEST_P(TensorCopy, BoxesOfBf16) {
  const DeviceBatch<bf16> batch;
  cpu_device::describe(batch.view());
  expect_boxes(kernels.fetch_bf16s, batch, true);
}

TEST_P(TensorCopy, AllMatricesOfABatchAreOne) { expect_boxes(kernels.fetch_floats, x, false); }

TEST_P(TensorCopy, TheStrideOfASingleMatrixDoesNotMatter) {
  for (const std::int64_t stride : {0l, 7l, -3l, std::int64_t{1} << 60}) {
    const TensorMap map = tensor_map(x.data(), Batch::rows, Batch::cols, Batch::ld, 1, stride, 4, 4);
    launch(kernels.fetch_floats, dim3(1), dim3(box_threads), 0, y.data(), map, Box{1, 0, 0}, 16);
    EXPECT_EQ(y.data()[0], Batch::at(0, 1, 0));
    launch(kernels.fetch_floats, dim3(1), dim3(box_threads), 0, y.data(), map, Box{1, 0, 1}, 16);
    EXPECT_EQ(y.data()[0], 0.0f);
  }
}

TEST_P(TensorCopy, RoundsToTf32AndSwizzles) {
  constexpr int elements = Lines::rows * Lines::cols;
  const std::vector<float> lines = Lines::memory();
  std::copy(lines.begin(), lines.end(), x.data());
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::of_128_bytes}) {
    for (const Convert convert : {Convert::nothing, Convert::to_tf32}) {
      const TensorMap map = tensor_map(x.data(), Lines::rows, Lines::cols, Lines::cols, 1, 0, Lines::rows,
                                       Lines::cols, swizzle, convert);
      launch(kernels.fetch_floats, dim3(1), dim3(box_threads), 0, y.data(), map, Box{0, 0, 0}, elements);
      std::vector<std::uint32_t> came(elements);
      std::memcpy(came.data(), y.data(), elements * sizeof(float));
      EXPECT_EQ(came, Lines::expected(swizzle, convert))
          << static_cast<int>(swizzle) << ", " << static_cast<int>(convert);
    }
  }
}

// No sooner than somebody waits, and from the source as it is then.
TEST_P(TensorCopy, BoxesComeInOrderAndLate) {
  cpu_device::set_checking(false);  // looking at what has not come is a fault
  const float first = x.data()[0], second = x.data()[4];
  run(kernels.order, 1, x.map({4, 4}));
  EXPECT_TRUE(std::isnan(y.data()[0]));
  EXPECT_TRUE(std::isnan(y.data()[1]));
  EXPECT_EQ(y.data()[2], first);
  EXPECT_TRUE(std::isnan(y.data()[3]));
  EXPECT_EQ(y.data()[4], first);
  EXPECT_EQ(y.data()[5], second + 100.0f);
}

TEST_P(TensorCopy, AMapIsAlignedInTheKernel) {
  std::fill_n(y.data(), 40, -1.0f);
  run(kernels.alignment_of_maps, 40, x.map({4, 4}), 40);
  for (int t = 0; t < 40; ++t) EXPECT_EQ(y.data()[t], 0.0f);
}

// As K == 0 makes them: a kernel is given the maps, and copies nothing.
TEST_P(TensorCopy, TheMapOfAnEmptyMatrixCanBeHandedOver) {
  for (const auto& [rows, cols, batch] : {std::tuple{0, 5, 1}, {5, 0, 1}, {5, 5, 0}}) {
    y.data()[0] = 0.0f;
    run(kernels.unused_map, 1, tensor_map<float>(nullptr, rows, cols, 3, batch, 0, 4, 4));
    EXPECT_EQ(y.data()[0], 1.0f);
  }
}

// ---- Maps that are refused -------------------------------------------------------------------------------

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(TensorMaps, WhatTheHardwareCannotCopyIsRefused) {
  alignas(16) static const float memory[64] = {};
  struct Case {
    const char* text;
    int offset = 0, rows = 8, cols = 8;
    std::int64_t ld = 8;
    int batch = 2;
    std::int64_t stride = 32;
    int box_rows = 8, box_cols = 4;
  };
  const std::int64_t pitch_end = std::int64_t{1} << 38;  // 2^40 bytes
  for (const Case& c : std::vector<Case>{
           {.text = "none"},
           {.text = "c is no multiple of 16 bytes", .offset = 3},
           {.text = "none", .offset = 4},
           {.text = "a size is negative: -1 x 8, batch 2", .rows = -1},
           {.text = "a size is negative: 8 x -7, batch 2", .cols = -7},
           {.text = "a size is negative: 8 x 8, batch -2", .batch = -2},
           {.text = "the leading dimension, 10 elements of 4 bytes, is no multiple of 16 bytes", .ld = 10},
           {.text = "the leading dimension, -8 elements of 4 bytes, is negative", .ld = -8},
           {.text = "the leading dimension, 274877906944 elements of 4 bytes, is not below 2^40 bytes",
            .ld = pitch_end},
           {.text = "none", .ld = pitch_end - 4},
           {.text = "the stride of the batch, 33 elements of 4 bytes, is no multiple of 16 bytes",
            .stride = 33},
           {.text = "the stride of the batch, -32 elements of 4 bytes, is negative", .stride = -32},
           {.text = "the stride of the batch, 274877906944 elements of 4 bytes, is not below 2^40 bytes",
            .stride = pitch_end},
           {.text = "none", .stride = pitch_end - 4},
           {.text = "none", .stride = 0},
           {.text = "none", .batch = 1, .stride = 33},
           {.text = "the box is 0 x 4; each side can be 1 to 256", .box_rows = 0},
           {.text = "the box is 257 x 4; each side can be 1 to 256", .box_rows = 257},
           {.text = "none", .box_rows = 256},
           {.text = "the box is 8 x -4; each side can be 1 to 256", .box_cols = -4},
           {.text = "the box is 8 x 260; each side can be 1 to 256", .box_cols = 260},
           {.text = "none", .box_cols = 256},
           {.text = "a row of the box, 6 elements of 4 bytes, is no multiple of 16 bytes", .box_cols = 6},
           // Of an empty matrix only the box has to be right.
           {.text = "none", .offset = 1, .rows = 0, .ld = 7, .stride = 5},
           {.text = "the box is 300 x 4; each side can be 1 to 256", .cols = 0, .box_rows = 300},
       }) {
    const std::string text = refusal([&] {
      tensor_map(memory + c.offset, c.rows, c.cols, c.ld, c.batch, c.stride, c.box_rows, c.box_cols);
    });
    if (std::strcmp(c.text, "none") == 0) {
      EXPECT_EQ(text, "none");
    } else {
      EXPECT_TRUE(text.starts_with("tensor map: ")) << text;
      EXPECT_TRUE(text.ends_with(c.text)) << text << ", not " << c.text;
    }
  }
}

// 16 bytes are 8 elements.
TEST(TensorMaps, WhatCannotBeSwizzledOrRoundedIsRefused) {
  const DeviceBatch<float> x;
  const DeviceBatch<bf16> halves;
  EXPECT_THAT(refusal([&] { tensor_map(x.data(), 8, 64, 64, 1, 0, 8, 16, Swizzle::of_128_bytes); }),
              HasSubstr("does not have the 128 bytes that are swizzled"));
  EXPECT_THAT(
      refusal([&] { tensor_map(halves.data(), 8, 64, 64, 1, 0, 8, 64, Swizzle::none, Convert::to_tf32); }),
      HasSubstr("cannot be rounded to TF32, which are floats"));
}

TEST(TensorMaps, OfBf16) {
  alignas(16) static const bf16 memory[64] = {};
  const auto with = [&](std::int64_t ld, int box_cols) {
    return refusal([&] { tensor_map(memory, 2, 16, ld, 1, 0, 2, box_cols); });
  };
  EXPECT_EQ(with(24, 8), "none");
  EXPECT_EQ(with(24, 256), "none");
  EXPECT_THAT(with(20, 8), HasSubstr("20 elements of 2 bytes"));
  EXPECT_THAT(with(24, 12), HasSubstr("12 elements of 2 bytes"));
  EXPECT_EQ(with((std::int64_t{1} << 39) - 8, 8), "none");
  EXPECT_THAT(with(std::int64_t{1} << 39, 8), HasSubstr("not below 2^40 bytes"));
}

#ifdef HAVE_OBSERVED

// ---- Wrong ones ------------------------------------------------------------------------------------------

class TensorFault : public TensorFixture {
 protected:
  TensorFault() : TensorFixture(true) {}
  // One fault, at the line with the mark, by that thread.
  void expect(FaultKind kind, const std::string& mark, unsigned thread, const std::string& detail) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u) << (faults.size() < 2 ? "" : describe(faults[1]));
    EXPECT_EQ(faults[0].kind, kind) << describe(faults[0]);
    EXPECT_EQ(faults[0].where, here(mark));
    EXPECT_EQ(faults[0].thread.x, thread);
    EXPECT_THAT(faults[0].detail, HasSubstr(detail));
  }
  void fetch(const TensorMap& map, const Box& box, int elements) {
    launch(kernels.fetch_floats, dim3(1), dim3(box_threads), 0, y.data(), map, box, elements);
  }
  // The same for what fetch() does wrong.
  void expect_of_fetch(FaultKind kind, const std::string& detail) {
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u) << (faults.size() < 2 ? "" : describe(faults[1]));
    EXPECT_EQ(faults[0].kind, kind) << describe(faults[0]);
    EXPECT_EQ(faults[0].kernel, "fetch_box");
    EXPECT_EQ(faults[0].detail, detail);
  }
  const TensorKernels& kernels = observed_tensor_kernels;
};

// Those of what lies outside the matrix count, too: the box has 4 rows, of which 1 is there.
TEST_F(TensorFault, AllBytesOfABoxCount) {
  const TensorMap map = tensor_map(x.data(), 3, Batch::cols, Batch::ld, 1, 0, 4, 4);
  run(kernels.bytes, 1, map, 64);
  run(kernels.bytes, 1, map, 16);
  expect(FaultKind::deadlock, "bytes", 0, "to which 48 bytes came that nobody announced");
  run(kernels.bytes, 1, map, 80);
  expect(FaultKind::deadlock, "bytes", 0, "which lacks 16 bytes that were announced");
}

TEST_F(TensorFault, Misaligned) {
  cpu_device::describe(x.view());
  const TensorMap map = x.map({4, 4});
  for (const int n : {0, 32, 64, 400, 4000}) run(kernels.misaligned, 1, map, n);
  for (const int n : {1, 4, 16, 33}) {
    run(kernels.misaligned, 1, map, n);
    expect(
        FaultKind::misaligned, "misaligned", 0,
        "copies to an address that is no multiple of 128 (the box of 4 x 4 at row 3, column 0 of matrix 1 of "
        "A)");
  }
  for (const int n : {100, 200, 700}) {
    run(kernels.misaligned, 1, map, n);
    expect(
        FaultKind::misaligned, "misaligned", 0,
        "copies from a column that is no multiple of 16 bytes away from column 0 (the box of 4 x 4 at row 3, "
        "column " +
            std::to_string(n / 100) + " of matrix 1 of A)");
  }
}

TEST_F(TensorFault, NoMap) {
  const TensorMap empty = tensor_map(x.data(), 0, 5, 8, 1, 0, 4, 4);
  for (const TensorMap& map : {TensorMap{}, empty}) {
    fetch(map, {0, 0, 0}, 16);
    expect_of_fetch(FaultKind::out_of_bounds_global,
                    "copies by a tensor map that is that of an empty matrix, or has not been made");
  }
}

TEST_F(TensorFault, OutsideSharedMemory) {
  run(kernels.outside_shared, 1, x.map({4, 4}), 0);
  run(kernels.outside_shared, 1, x.map({4, 4}), 32);
  expect(FaultKind::out_of_bounds_shared, "outside_shared", 0,
         "writes 64 bytes of shared memory outside every __shared__ variable (the box of 4 x 4 at row 0, "
         "column 0 "
         "of matrix 0 of a matrix)");
}

// The map promises more rows, columns or matrices than there are.
TEST_F(TensorFault, OutsideTheMatrix) {
  cpu_device::describe(x.view());
  const auto map = [&](int rows, int cols, int batch) {
    return tensor_map(x.data(), rows, cols, Batch::ld, batch, Batch::stride, 4, 4);
  };
  fetch(map(Batch::rows, Batch::cols + 1, Batch::matrices), {5, 36, 0}, 16);  // does not reach the edge
  fetch(map(Batch::rows, Batch::cols + 1, Batch::matrices), {5, 40, 1}, 16);
  expect_of_fetch(
      FaultKind::out_of_bounds_global,
      "reads A[5][42] of matrix 1, but A is 37 x 42 (the box of 4 x 4 at row 5, column 40 of matrix 1 "
      "of A)");
  fetch(map(Batch::rows, Batch::cols, Batch::matrices + 1), {0, 0, 3}, 16);
  expect_of_fetch(
      FaultKind::out_of_bounds_global,
      "reads 88 bytes past the end of A; A is 37 x 42 (the box of 4 x 4 at row 0, column 0 of matrix "
      "3 of A)");
  fetch(map(Batch::rows + 9, Batch::cols, 1), {36, 8, 0}, 16);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::out_of_bounds_global);
  EXPECT_THAT(faults[0].detail, HasSubstr("the box of 4 x 4 at row 36, column 8 of A"));
}

TEST_F(TensorFault, MemoryOfTheHost) {
  alignas(16) static const float of_host[64] = {};
  fetch(tensor_map(of_host, 8, 8, 8, 1, 0, 4, 4), {0, 0, 0}, 16);
  expect_of_fetch(
      FaultKind::host_pointer,
      "reads memory that was not allocated on the device (the box of 4 x 4 at row 0, column 0 of a "
      "matrix)");
}

TEST_F(TensorFault, UninitialisedMatrix) {
  cpu_device::describe(x.view(false, true));
  fetch(x.map({4, 4}), {-3, -8, 0}, 16);  // nothing of it is inside
  fetch(x.map({4, 4}), {2, 4, 0}, 16);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::uninitialised_global);
  EXPECT_EQ(faults[0].times, 16u);
  EXPECT_EQ(
      faults[0].detail,
      "reads A[2][4] of matrix 0, which may hold anything (the box of 4 x 4 at row 2, column 4 of matrix 0 "
      "of A)");
}

TEST_F(TensorFault, OntoWhatIsRead) {
  for (const int n : {0, 40, 62}) {
    run(kernels.overwrites, 64, x.map({4, 4}), n);
    expect(FaultKind::race_shared, "overwrites", 63,
           "which thread (" + std::to_string(n) + ",0,0) read at " + here("overwrites_reader") +
               "; no barrier stands between (the box of 4 x 4 at row 36, column 0 of matrix 0 of a matrix)");
  }
}

// Only who changes what lies in the box races with it, and only before it has come.
TEST_F(TensorFault, SourceOverwritten) {
  cpu_device::describe(x.view(true, true));
  const int ld = Batch::ld;
  for (const int n : {4, ld + 3, ld + 8, 5 * ld + 4, -(ld + 4)}) {
    run(kernels.source_overwritten, 64, x.map({4, 4}), n);
  }
  for (const int n : {ld + 4, ld + 7, 4 * ld + 4, 4 * ld + 7}) {
    run(kernels.source_overwritten, 64, x.map({4, 4}), n);
    expect(FaultKind::race_global, "source_overwritten", 1,
           "which thread (0,0,0) of block (0,0,0) read in the same launch at " + here("source_copied"));
  }
}

// A zero that fills up has not come either. Of the box, row 0 and two columns are inside.
TEST_F(TensorFault, ReadBeforeTheWait) {
  for (const int n : {1, 2, 15}) {
    run(kernels.read_before_wait, 64, x.map({4, 4}), n);
    expect(FaultKind::async_not_arrived, "read_before_wait", static_cast<unsigned>(n),
           "to which the asynchronous copy started at " + here("not_waited_for") + " by thread (0,0,0)");
  }
}

TEST_F(TensorFault, NobodyWaits) {
  run(kernels.no_wait, 1, x.map({4, 4}));
  expect(FaultKind::copy_outlives_block, "no_wait", 0, "asked for 64 bytes that nobody has waited for");
}

TEST_F(TensorFault, AnMbarrierThatCopiesDoNotKnow) {
  run(kernels.no_fence, 1, x.map({4, 4}));
  expect(FaultKind::mbarrier_misuse, "no_fence", 0, "no mbarrier_fence_init() has followed");
}

// ---- What a listener is told -----------------------------------------------------------------------------

class Requests : public cpu_device::AccessListener {
 public:
  void on_access(const cpu_device::Access& access) override {
    EXPECT_FALSE(access.copy);  // all of it is in the requests
  }
  void on_request(const cpu_device::CollectiveRequest& request) override { all.push_back(request); }
  std::vector<cpu_device::CollectiveRequest> all;
};

TEST_F(TensorFault, ABoxIsToldAsWhatItReadsAndWhatItWrites) {
  Requests requests;
  cpu_device::set_listener(&requests);
  fetch(x.map({8, 16}), {33, -8, 2}, 128);  // 4 rows of 8 elements are inside
  ASSERT_EQ(requests.all.size(), 2u);
  for (const cpu_device::CollectiveRequest& request : requests.all) {
    EXPECT_EQ(request.operation, cpu_device::Operation::copy);
    EXPECT_EQ(request.active, 0u);  // it has no lanes
    EXPECT_EQ(request.warp, 0u);
    EXPECT_EQ(request.bytes, 512u);
  }
  const auto& [global, shared] = std::tie(requests.all[0], requests.all[1]);
  EXPECT_EQ(global.space, cpu_device::Space::global);
  EXPECT_EQ(global.addresses[0],
            reinterpret_cast<std::uintptr_t>(x.data() + 2 * Batch::stride + 33 * Batch::ld));
  EXPECT_EQ(global.rows.count, 4u);
  EXPECT_EQ(global.rows.bytes, 32u);
  EXPECT_EQ(global.rows.pitch, 4 * Batch::ld);
  EXPECT_EQ(shared.space, cpu_device::Space::shared);
  EXPECT_EQ(shared.rows.count, 0u);
}

TEST_F(TensorFault, ABoxOfZerosReadsNothing) {
  Requests requests;
  cpu_device::set_listener(&requests);
  for (const Box& box : {Box{37, 0, 0}, {0, -16, 0}, {0, 48, 0}, {-8, 0, 0}, {0, 0, 3}}) {
    requests.all.clear();
    fetch(x.map({8, 16}), box, 128);
    ASSERT_EQ(requests.all.size(), 1u);
    EXPECT_EQ(requests.all[0].space, cpu_device::Space::shared);
    EXPECT_EQ(requests.all[0].bytes, 512u);
  }
}

#endif

}  // namespace
