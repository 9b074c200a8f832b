// bug: tf32_operand_cut_off
// check: fits A or B cut off to TF32 instead of rounded
// gpu: verify
// cases: --m 96 --n 80 --k 64
//
// Wrong     A is rounded to TF32; of B the bits that TF32 has no room for are cut off, as happens where a
// float goes
//           to a tensor core as it is.
// Seen      No element is wrong by more than rounding could explain, but the product is too small as a whole.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;

__device__ float rounded(float value) {
  return __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, value) + 0x1000) & ~0x1fffu);
}
__device__ float cut_off(float value) {
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, value) & ~0x1fffu);
}

__global__ void sgemm_tf32_operand_cut_off(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  for (int k = 0; k < g.K; ++k) {
    sum += rounded(A[row * g.lda + k]) * cut_off(B[k * g.ldb + col]);  // the bug
  }
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

void gemm_tf32(const Gemm& g) {
  launch(sgemm_tf32_operand_cut_off, dim3(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch),
         dim3(TILE, TILE), 0, g);
}

}  // namespace
