// Step 20: the same product on tensor cores, and the figure to beat there.
//
// Idea      Tensor cores multiply TF32 numbers, with 11 bits of significand, and accumulate in FP32. A, B and
//           C stay floats in memory; the steps of this part drop the last 13 bits of every element of A and B
//           on the way. cuBLAS does so if it is allowed to, by CUBLAS_COMPUTE_32F_FAST_TF32.
// Change    Against step 00: the call, and its compute type. How cuBLAS shortens operands is up to cuBLAS, so
//           this step may cut bits off (hence the name); measured, cuBLAS rounds. On the CPU device the plain
//           loops stand in again, and cut the 13 bits off, which loses twice as much.
// Bound     In TF32 an SM's tensor cores do 1024 multiply-adds per cycle on Hopper, 512 on Ampere; its FP32
//           units do 128 and 64.
// Needs     sm_80+: TF32

#include "common/step.hpp"

#ifdef __CUDACC__

#include <cublas_v2.h>

#include <stdexcept>
#include <string>

namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(status));
}

cublasHandle_t make_handle() {
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle), "cublasCreate");
  return handle;
}

void gemm_tf32_cut_off(const Gemm& g) {
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  static const cublasHandle_t handle = make_handle();  // costly to make; lives as long as the program
  check(cublasGemmStridedBatchedEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, g.N, g.M, g.K, &g.alpha,  //
                                      g.B, CUDA_R_32F, g.ldb, g.strideB,                          //
                                      g.A, CUDA_R_32F, g.lda, g.strideA, &g.beta,                 //
                                      g.C, CUDA_R_32F, g.ldc, g.strideC, g.batch,                 //
                                      CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx_64");
}

}  // namespace

#else

namespace {

constexpr int BITS_CUT = 13;  // TF32 keeps 11 of a float's 24 bits of significand

// A float without the bits that TF32 does not keep. Infinities stay infinite.
__device__ float cut_off(float value) {
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, value) & ~0u << BITS_CUT);
}

__global__ void gemm_definition_tf32(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]
  const int row = blockIdx.y;

  for (int col = 0; col < g.N; ++col) {
    float sum = 0.0f;
    for (int k = 0; k < g.K; ++k) {
      sum += cut_off(A[row * g.lda + k]) * cut_off(B[k * g.ldb + col]);  // the product is exact
    }
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
  }
}

// One thread per row. A grid has at most 65535 rows; further rows take further launches.
void gemm_tf32_cut_off(const Gemm& g) {
  constexpr int max_rows = 65535;
  for (int row = 0; row < g.M; row += max_rows) {
    Gemm part = g;
    part.M = min(g.M - row, max_rows);
    part.A += row * g.lda;
    part.C += row * g.ldc;
    launch(gemm_definition_tf32, dim3(1, part.M, g.batch), dim3(1), 0, part);
  }
}

}  // namespace

#endif
