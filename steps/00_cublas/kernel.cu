// Step 00: the problem, and the figure to beat.
//
// Idea      C = alpha * A * B + beta * C is a library call. On a GPU this step makes it; every other
//           step is measured against it. cuBLAS is column-major: our row-major A is its A^T, and C^T =
//           B^T A^T, so the operands swap places.
// Change    The first step. On the CPU device, which has no cuBLAS, the plain loops below stand in for
//           it: they define what every later kernel computes.
// Bound     An FFMA is two operations, and an SM starts 128 FFMAs per cycle.

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
  check(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");  // FP32 throughout, no TF32
  return handle;
}

void sgemm(const Gemm& g) {
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  static const cublasHandle_t handle = make_handle();  // costly to make; lives as long as the program
  check(cublasSgemmStridedBatched_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, g.N, g.M, g.K, &g.alpha,  //
                                     g.B, g.ldb, g.strideB, g.A, g.lda, g.strideA, &g.beta,      //
                                     g.C, g.ldc, g.strideC, g.batch),
        "cublasSgemmStridedBatched_64");
}

}  // namespace

#else

namespace {

__global__ void sgemm_definition(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]
  const int row = blockIdx.y;

  for (int col = 0; col < g.N; ++col) {
    float sum = 0.0f;
    for (int k = 0; k < g.K; ++k) {
      sum += A[row * g.lda + k] * B[k * g.ldb + col];
    }
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
  }
}

// One thread per row. A grid has at most 65535 rows; further rows take further launches.
void sgemm(const Gemm& g) {
  constexpr int max_rows = 65535;
  for (int row = 0; row < g.M; row += max_rows) {
    Gemm part = g;
    part.M = min(g.M - row, max_rows);
    part.A += row * g.lda;
    part.C += row * g.ldc;
    launch(sgemm_definition, dim3(1, part.M, g.batch), dim3(1), 0, part);
  }
}

}  // namespace

#endif
