#pragma once

#include <cstdint>

#include "common/bf16.hpp"

// A batch of matrix products as the kernels see it: C = alpha * A * B + beta * C, row-major.
// Element (i, j) of matrix b of the batch is A[b * strideA + i * lda + j]. Rows may be longer than the
// matrix is wide (lda >= K, ldb >= N, ldc >= N); what lies between belongs to somebody else.
// Leading dimensions and strides are 64-bit, so that products with an index are 64-bit too.
// beta == 0 means that C is not read: it may hold anything, NaN included.
// T is the type of the inputs, A and B; C, alpha and beta are float.
template <typename T>
struct GemmOf {
  int M, N, K;
  int batch;
  float alpha;
  const T* A;  // [batch][M][K]
  std::int64_t lda, strideA;
  const T* B;  // [batch][K][N]
  std::int64_t ldb, strideB;
  float beta;
  float* C;  // [batch][M][N]
  std::int64_t ldc, strideC;
};

using Gemm = GemmOf<float>;
using GemmBf16 = GemmOf<bf16>;
