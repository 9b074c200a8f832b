// Step 06: loads and stores of 128 bits, from global and from shared memory.
//
// Idea      An instruction that moves four floats costs little more than one that moves one.
// Change    float4 instead of float throughout. What a thread moves at once must be contiguous: so A is
//           transposed on its way to shared memory, and a thread takes neighbouring rows and columns. It
//           must also be aligned to 16 bytes: where the rows of a matrix are not, a second version of the
//           kernel (ALIGNED = false) loads and stores global memory float by float. BK doubles: a thread
//           still copies only two float4 of each tile, and there are half as many barriers.
// Bound     4 shared loads for 64 FFMAs instead of 16. Shared memory itself is no faster: it delivers
//           128 bytes per cycle, and bank conflicts, which the next step removes, waste part of that.

#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;               // the thread's tile: TM x TN of C
constexpr int TX = BN / TN, TY = BM / TM;   // threads across and down the tile
constexpr int THREADS = TX * TY;
constexpr int COPY_K = 8;  // the block copies COPY_K terms of A and of B at once, 4 elements a thread
static_assert(BM * COPY_K == THREADS * 4 && COPY_K * BN == THREADS * 4 && BK % COPY_K == 0);

__device__ __forceinline__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

// Four neighbours in a row, of which only the first `valid` exist; zeros for the others. ALIGNED: p is a
// multiple of 16 bytes, and all four exist or none.
template <bool ALIGNED>
__device__ __forceinline__ float4 load4(const float* p, int valid) {
  if constexpr (ALIGNED) {
    return valid > 0 ? *reinterpret_cast<const float4*>(p) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  } else {
    return make_float4(valid > 0 ? p[0] : 0.0f, valid > 1 ? p[1] : 0.0f, valid > 2 ? p[2] : 0.0f,
                       valid > 3 ? p[3] : 0.0f);
  }
}

// c = alpha * sum + beta * c. beta == 0: c is not read.
__device__ __forceinline__ void update(float& c, float sum, float alpha, float beta) {
  c = beta == 0.0f ? alpha * sum : alpha * sum + beta * c;
}

// update() for four neighbours, of which only the first `valid` exist.
template <bool ALIGNED>
__device__ __forceinline__ void update4(float* c, int valid, const float* sums, float alpha, float beta) {
  if constexpr (ALIGNED) {
    if (valid <= 0) return;
    float4 v;
    if (beta != 0.0f) v = float4_at(c);
    update(v.x, sums[0], alpha, beta);
    update(v.y, sums[1], alpha, beta);
    update(v.z, sums[2], alpha, beta);
    update(v.w, sums[3], alpha, beta);
    float4_at(c) = v;
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j < valid) update(c[j], sums[j], alpha, beta);
    }
  }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_vectorization(Gemm g) {
  __shared__ __align__(16) float As[BK][BM];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int tx = threadIdx.x % TX;  // the thread's columns begin at tx * TN
  const int ty = threadIdx.x / TX;  // its rows begin at ty * TM

  // What this thread copies: 4 neighbours of a row of A, and 4 of a row of B; then the same again, COPY_K
  // terms further on.
  const int a_row = threadIdx.x / (COPY_K / 4), a_k = threadIdx.x % (COPY_K / 4) * 4;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;

  float sums[TM][TN] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    const int left = g.K - k0;  // terms
    for (int k = 0; k < BK; k += COPY_K) {
      const float* a_from = A + (row0 + a_row) * g.lda + k0 + k + a_k;
      const float* b_from = B + (k0 + k + b_k) * g.ldb + col0 + b_col;
      const float4 a4 = load4<ALIGNED>(a_from, a_row < rows ? left - k - a_k : 0);
      As[k + a_k + 0][a_row] = a4.x;
      As[k + a_k + 1][a_row] = a4.y;
      As[k + a_k + 2][a_row] = a4.z;
      As[k + a_k + 3][a_row] = a4.w;
      float4_at(&Bs[k + b_k][b_col]) = load4<ALIGNED>(b_from, k + b_k < left ? cols - b_col : 0);
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[k][ty * TM + i]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[k][tx * TN + j]);
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) sums[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; j += 4) {
      const int row = ty * TM + i, col = tx * TN + j;  // within the block's tile
      update4<ALIGNED>(&C[(row0 + row) * g.ldc + col0 + col], row < rows ? cols - col : 0, &sums[i][j],
                       g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_vectorization<true> : sgemm_vectorization<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
