// A product by the library, compared with one in double. From the project's root, for a Hopper GPU (-x cu:
// nvcc compiles both files as CUDA):
//
//   nvcc -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -I. -o example
//     -x cu library/example.cpp library/gemm_fp32_tc.cu
//
// and for the CPU device, with the project built in build/:
//
//   g++ -std=c++20 -O2 -I. -o example library/example.cpp
//     build/library/libgemm_fp32_tc_cpu.a build/common/libcpu_device.a -lfmt -lboost_context -lpthread
//
// each in one line.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "library/gemm_fp32_tc.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

static float* on_device(const std::vector<float>& host) {
  float* memory = nullptr;
  cudaMalloc(&memory, host.size() * sizeof(float));
  cudaMemcpy(memory, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
  return memory;
}
static void to_host(std::vector<float>& host, const float* memory) {
  cudaMemcpy(host.data(), memory, host.size() * sizeof(float), cudaMemcpyDeviceToHost);
}
#else
static float* on_device(std::vector<float>& host) { return host.data(); }
static void to_host(std::vector<float>&, const float*) {}
#endif

int main() {
  const int m = 200, n = 150, k = 300;
  std::vector<float> A(m * k), B(k * n), C(m * n);  // column-major
  for (int i = 0; i < m * k; ++i) A[i] = std::sin(1.0f + 3 * i);
  for (int i = 0; i < k * n; ++i) B[i] = std::cos(2.0f + 5 * i);
  float *a = on_device(A), *b = on_device(B), *c = on_device(C);

  gemm_fp32_tc_handle_t handle;
  if (const auto created = gemm_fp32_tc_create(&handle); created != GEMM_FP32_TC_SUCCESS) {
    std::printf("no handle: %s\n", gemm_fp32_tc_status_string(created));
    return 1;
  }
  const float alpha = 1, beta = 0;
  const gemm_fp32_tc_status_t status = gemm_fp32_tc_sgemm(handle, GEMM_FP32_TC_OP_N, GEMM_FP32_TC_OP_N, m, n,
                                                          k, &alpha, a, m, b, k, &beta, c, m);
  gemm_fp32_tc_report_t report;
  if (status != GEMM_FP32_TC_SUCCESS || gemm_fp32_tc_report(handle, &report) != GEMM_FP32_TC_SUCCESS) {
    std::printf("failed: %s\n", gemm_fp32_tc_message(handle));
    return 1;
  }
  to_host(C, c);
  double worst = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double product = 0, magnitudes = 0;
      for (int t = 0; t < k; ++t) {
        const double term = static_cast<double>(A[i + t * m]) * B[t + j * k];
        product += term;
        magnitudes += std::fabs(term);
      }
      worst = std::max(worst, std::fabs(C[i + j * m] - product) / magnitudes);
    }
  }
  std::printf("%s: largest error %.1e of |A||B|; %lld of %lld parts by FP16 products\n",
              gemm_fp32_tc_built_for(), worst, static_cast<long long>(report.fast),
              static_cast<long long>(report.fast + report.few_terms + report.lossy + report.special +
                                     report.short_k + report.unproved));
  gemm_fp32_tc_destroy(handle);
  return worst < 1e-6 ? 0 : 1;
}
