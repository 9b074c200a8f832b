// wgmma on a GPU: the kernels that wgmma_test.cpp runs on the CPU device give the same here.

#include <iterator>
#include <string>
#include <vector>

#include "tests/unit/gpu_test.hpp"
#include "tests/unit/wgmma_right.hpp"

namespace {

void run(int major) {
  if (major != 9) return;  // sm_90a exactly
  void (*const kernels[])(Layouts, float*) = {bf16_k_k_64,           bf16_k_mn_128, bf16_mn_k_16,
                                              bf16_mn_k_32,          bf16_mn_k_192, bf16_mn_mn_256,
                                              bf16_registers_mn_256, fp16_k_mn_64,  fp16_mn_k_8,
                                              fp16_registers_k_128,  tf32_k_k_256,  tf32_registers_k_64};
  for (std::size_t i = 0; i < std::size(kernels); ++i) {
    const WgmmaForm& form = wgmma_forms[i];
    std::vector<float> d(static_cast<std::size_t>(64 * form.N));
    float* on_gpu = nullptr;
    CUDA_CHECK(cudaMalloc(&on_gpu, d.size() * sizeof(float)));
    for (const Layouts& layouts : layouts_of(form)) {
      launch(kernels[i], dim3(1), dim3(wgmma_threads), sizeof(WgmmaRoom), layouts, on_gpu);
      CUDA_CHECK(cudaMemcpy(d.data(), on_gpu, d.size() * sizeof(float), cudaMemcpyDeviceToHost));
      const int wrong = first_wrong(d.data(), form.N, form.K);
      expect(wrong < 0, text_of(form, layouts) + ": element " + std::to_string(wrong));
    }
    cudaFree(on_gpu);
  }
}

}  // namespace

int main() { return test_gpu(run, 9); }
