// Step 30: BF16 matrices, and the library's answer: the figure to beat on Hopper's tensor cores.
//
// Idea      A BF16 number is the upper half of a float: the same range, 8 bits of significand. Matrices take
//           half the memory, and the tensor cores multiply twice as fast as in TF32. Sums, and C, stay float.
// Change    Against step 20: the type of A and B in memory, so no operand is rounded on its way. On the CPU
//           device plain loops stand in for the library.
// Bound     An SM's tensor cores do 2048 multiply-adds per cycle in BF16 on Hopper, by wgmma only.
// Needs     sm_80+: BF16

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

void gemm(const GemmBf16& g) {
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  static const cublasHandle_t handle = make_handle();  // costly to make; lives as long as the program
  check(cublasGemmStridedBatchedEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, g.N, g.M, g.K, &g.alpha,  //
                                      g.B, CUDA_R_16BF, g.ldb, g.strideB,                         //
                                      g.A, CUDA_R_16BF, g.lda, g.strideA, &g.beta,                //
                                      g.C, CUDA_R_32F, g.ldc, g.strideC, g.batch,                 //
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx_64");
}

}  // namespace

#else

namespace {

__global__ void gemm_definition(GemmBf16 g) {
  const bf16* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const bf16* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;       // [M][N]
  const int row = blockIdx.y;

  for (int col = 0; col < g.N; ++col) {
    float sum = 0.0f;
    for (int k = 0; k < g.K; ++k) sum += A[row * g.lda + k] * B[k * g.ldb + col];  // the product is exact
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
  }
}

// One thread per row. A grid has at most 65535 rows; further rows take further launches.
void gemm(const GemmBf16& g) {
  constexpr int max_rows = 65535;
  for (int row = 0; row < g.M; row += max_rows) {
    GemmBf16 part = g;
    part.M = min(g.M - row, max_rows);
    part.A += row * g.lda;
    part.C += row * g.ldc;
    launch(gemm_definition, dim3(1, part.M, g.batch), dim3(1), 0, part);
  }
}

}  // namespace

#endif
