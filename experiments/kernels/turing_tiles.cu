// Kernels 1 to 4 of the Turing ladder, rebuilt:
// https://github.com/yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs
//
// There matrices lie column by column, so its A is our B and its B our A; who reads what of shared memory at
// which distance is the same. Each thread computes one element of C from tiles of 32 x 32. Only for M, N and
// K that are multiples of 32.

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;          // a block's tile of C, and the terms of K at a time
constexpr int SHARED = 1;         // 0: no shared memory, kernel 1
constexpr int B_BY_K = 0;         // 1: Bs is [k][col]; 0: [col][k], 32 lanes in one bank
constexpr int A_BY_K = 0;         // 1: As is [k][row], so that 32 lanes store to one bank; 0: [row][k]
constexpr int ONE_DIMENSION = 0;  // 1: threads numbered 0 to 1023; 0: in two dimensions
constexpr int IN_VARIABLES = 0;  // 1: row and column are kept in variables; 0: computed where they are needed

__device__ __forceinline__ int thread_col() { return ONE_DIMENSION ? threadIdx.x % TILE : threadIdx.x; }
__device__ __forceinline__ int thread_row() { return ONE_DIMENSION ? threadIdx.x / TILE : threadIdx.y; }

__global__ void __launch_bounds__(TILE* TILE) sgemm_turing_tiles(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k] or [k][row]
  __shared__ float Bs[TILE][TILE];  // [col][k] or [k][col]

  const int col_kept = thread_col(), row_kept = thread_row();
  const auto tx = [&] { return IN_VARIABLES ? col_kept : thread_col(); };
  const auto ty = [&] { return IN_VARIABLES ? row_kept : thread_row(); };
  const auto a_place = [&](int row, int k) -> float& { return A_BY_K ? As[k][row] : As[row][k]; };
  const auto b_place = [&](int k, int col) -> float& { return B_BY_K ? Bs[k][col] : Bs[col][k]; };

  const float* A = g.A + blockIdx.z * g.strideA + blockIdx.y * TILE * g.lda;  // [TILE][K]
  const float* B = g.B + blockIdx.z * g.strideB + blockIdx.x * TILE;          // [K][TILE]

  float sum = 0.0f;
  if constexpr (SHARED) {
    for (int k0 = 0; k0 < g.K; k0 += TILE) {
      a_place(ty(), tx()) = A[ty() * g.lda + k0 + tx()];
      b_place(ty(), tx()) = B[(k0 + ty()) * g.ldb + tx()];
      __syncthreads();
      for (int k = 0; k < TILE; ++k) sum += a_place(ty(), k) * b_place(k, tx());
      __syncthreads();
    }
  } else {
    for (int k = 0; k < g.K; ++k) sum += A[ty() * g.lda + k] * B[k * g.ldb + tx()];
  }

  float& c = g.C[blockIdx.z * g.strideC + (blockIdx.y * TILE + ty()) * g.ldc + blockIdx.x * TILE + tx()];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_turing_tiles, grid, ONE_DIMENSION ? dim3(TILE * TILE) : dim3(TILE, TILE), 0, g);
}

}  // namespace
