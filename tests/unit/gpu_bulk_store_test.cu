// Bulk and tensor stores on a GPU: the kernels that bulk_store_test.cpp runs on the CPU device give the same
// here, bit for bit.

#include <string>
#include <vector>

#include "tests/unit/gpu_test.hpp"
#include "tests/unit/store_right.hpp"
#include "tests/unit/stored_boxes.hpp"

namespace {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    CUDA_CHECK(cudaMalloc(&data_, size_ * sizeof(T)));
    set(values);
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* data() const { return data_; }
  void set(const std::vector<T>& values) {
    CUDA_CHECK(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> values() const {
    std::vector<T> host(size_);
    CUDA_CHECK(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

void expect_rows() {
  constexpr int rows = 33;
  std::vector<float> x(rows * store_threads);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  const DeviceArray<float> in(x), out(x);
  launch(store_rows, dim3(1), dim3(store_threads), 0, in.data(), out.data(), rows);
  const std::vector<float> y = out.values();
  for (std::size_t i = 0; i < x.size(); ++i) expect(y[i] == 2.0f * x[i], "row by row");
  launch(store_copied, dim3(1), dim3(store_threads), 0, in.data(), out.data(), 0);
  const std::vector<float> copied = out.values();
  for (int i = 0; i < store_threads; ++i) {
    expect(copied[i] == x[i] && copied[store_threads + i] == x[store_threads - 1 - i], "there and back");
  }
}

template <typename T>
void expect_boxes(const char* type) {
  DeviceArray<T> batch(Batch::memory<T>());
  for (const BoxSize& size : box_sizes) {
    const TensorMap map = tensor_map(batch.data(), Batch::rows, Batch::cols, Batch::ld, Batch::matrices,
                                     Batch::stride, size.rows, size.cols);
    for (const Box& box : stored_boxes(size)) {
      batch.set(Batch::memory<T>());
      launch(store_box<T>, dim3(1), dim3(store_threads), 0, map, box, size.elements());
      std::vector<T> wanted = Batch::memory<T>();
      store_expected(wanted, size, box);
      expect(same_memory(wanted, batch.values().data()),
             std::string("a box of ") + type + ", " + std::to_string(size.rows) + " x " +
                 std::to_string(size.cols) + " at " + std::to_string(box.row) + ", " +
                 std::to_string(box.col) + " of matrix " + std::to_string(box.matrix));
    }
  }
}

void expect_lines() {
  const DeviceArray<float> lines(Lines::memory());
  for (const Swizzle swizzle : all_swizzles) {
    const int rows = Lines::rows(swizzle), cols = Lines::cols(swizzle);
    for (const Convert convert : {Convert::nothing, Convert::to_tf32}) {
      const DeviceArray<float> out(std::vector<float>(Lines::size, -1.0f));
      const TensorMap map = tensor_map(out.data(), rows, cols, cols, 1, 0, rows, cols, swizzle, convert);
      launch(store_lines, dim3(1), dim3(store_threads), 0, lines.data(), map, Lines::size);
      const std::vector<float> came = out.values();
      const std::vector<std::uint32_t> wanted = stored_lines(swizzle, convert);
      for (int i = 0; i < Lines::size; ++i) {
        char text[100];
        const auto bits = std::bit_cast<std::uint32_t>(came[i]);
        std::snprintf(text, sizeof text, "swizzle %d, convert %d, place %d: %08x, not %08x",
                      static_cast<int>(swizzle), static_cast<int>(convert), i, bits, wanted[i]);
        expect(bits == wanted[i], text);
      }
    }
  }
}

void run(int) {
  expect_rows();
  expect_boxes<float>("float");
  expect_boxes<bf16>("bf16");
  expect_lines();
}

}  // namespace

int main() { return test_gpu(run, 9); }
