// Tensor copies on a GPU: the boxes that tensor_copy_test.cpp has on the CPU device, bit for bit, and the
// maps that the driver has to accept.

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/cuda/tensor_copy.hpp"
#include "tests/unit/boxes.hpp"
#include "tests/unit/gpu_test.hpp"

namespace {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) { CUDA_CHECK(cudaMalloc(&data_, size * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    CUDA_CHECK(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* data() const { return data_; }
  std::vector<T> values(std::size_t size) const {
    std::vector<T> host(size);
    CUDA_CHECK(cudaMemcpy(host.data(), data_, size * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
};

template <typename T>
void expect_boxes(const char* type, bool has_stride) {
  const DeviceArray<T> batch(Batch::memory<T>());
  const DeviceArray<T> out(most_elements);
  for (const BoxSize& size : box_sizes) {
    const TensorMap map = tensor_map(batch.data(), Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
                                     has_stride ? Batch::stride : 0, size.rows, size.cols);
    for (const Box& box : boxes(size)) {
      launch(fetch_box<T>, dim3(1), dim3(box_threads), 0, out.data(), map, box, size.elements());
      const std::vector<T> came = out.values(size.elements());
      expect(std::vector<float>(came.begin(), came.end()) == expected(size, box, has_stride),
             std::string("a box of ") + type + ", " + std::to_string(size.rows) + " x " +
                 std::to_string(size.cols) + " at " + std::to_string(box.row) + ", " +
                 std::to_string(box.col) + " of matrix " + std::to_string(box.matrix) +
                 (has_stride ? "" : ", all matrices being one"));
    }
  }
}

void expect_lines() {
  const DeviceArray<float> lines(Lines::memory());
  const DeviceArray<float> out(most_elements);
  constexpr int elements = Lines::size;
  for (const Swizzle swizzle : all_swizzles) {
    const int rows = Lines::rows(swizzle), cols = Lines::cols(swizzle);
    for (const Convert convert : {Convert::nothing, Convert::to_tf32}) {
      const TensorMap map = tensor_map(lines.data(), rows, cols, cols, 1, 0, rows, cols, swizzle, convert);
      launch(fetch_box<float>, dim3(1), dim3(box_threads), 0, out.data(), map, Box{0, 0, 0}, elements);
      const std::vector<float> came = out.values(elements);
      const std::vector<std::uint32_t> wanted = Lines::expected(swizzle, convert);
      for (int i = 0; i < elements; ++i) {
        char text[100];
        const auto bits = std::bit_cast<std::uint32_t>(came[i]);
        std::snprintf(text, sizeof text, "swizzle %d, convert %d, place %d: %08x, not %08x",
                      static_cast<int>(swizzle), static_cast<int>(convert), i, bits, wanted[i]);
        expect(bits == wanted[i], text);
      }
    }
  }
}

// What check_tensor_shape() accepts at the limits, the driver accepts as well.
void expect_accepted() {
  const DeviceArray<float> x(1024);
  const std::int64_t pitch_end = std::int64_t{1} << 38;  // 2^40 bytes
  struct Limit {
    int rows = 8, cols = 8;
    std::int64_t ld = 8;
    int batch = 2;
    std::int64_t stride = 64;
    int box_rows = 8, box_cols = 4;
  };
  for (const Limit& l : std::vector<Limit>{{.ld = pitch_end - 4},
                                           {.stride = pitch_end - 4},
                                           {.stride = 0},
                                           {.batch = 1, .stride = 33},
                                           {.rows = 1, .cols = 1, .batch = 1},
                                           {.rows = 2147483647},
                                           {.cols = 2147483647, .ld = 2147483648},
                                           {.batch = 2147483647},
                                           {.box_rows = 256},
                                           {.box_cols = 256}}) {
    try {
      tensor_map(x.data(), l.rows, l.cols, l.ld, l.batch, l.stride, l.box_rows, l.box_cols);
    } catch (const std::exception& error) {
      expect(false, error.what());
    }
  }
  tensor_map(x.data() + 4, 8, 8, 8, 1, 0, 8, 4);
}

void expect_refused() {
  const DeviceArray<float> x(1024);
  for (const int ld : {7, 8}) {
    bool refused = false;
    try {
      tensor_map(x.data() + (ld == 7 ? 0 : 1), 8, 7, ld, 1, 0, 8, 4);
    } catch (const ImpossibleTensor&) {
      refused = true;
    }
    expect(refused, "what is not aligned is refused");
  }
}

__global__ void prefetch_only(int* out, const __grid_constant__ TensorMap map) {
  prefetch_tensor_map(map);
  out[0] = 1;
}

// As K == 0 makes it: a kernel is given the map, and copies nothing.
void expect_empty_map() {
  const DeviceArray<int> out(std::vector<int>{0});
  launch(prefetch_only, dim3(1), dim3(1), 0, out.data(), tensor_map<float>(nullptr, 5, 0, 3, 1, 0, 4, 4));
  expect(out.values(1)[0] == 1, "the map of an empty matrix can be handed over");
}

void run(int) {
  expect_boxes<float>("float", true);
  expect_boxes<float>("float", false);
  expect_boxes<bf16>("bf16", true);
  expect_lines();
  expect_accepted();
  expect_refused();
  expect_empty_map();
}

}  // namespace

// Older GPUs cannot copy tensors.
int main() { return test_gpu(run, 9); }
