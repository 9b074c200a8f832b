// Exercise 06: loads and stores of 128 bits, from global and from shared memory.
//
// The kernel is right, and moves one float at a time. Where rows are aligned (ALIGNED), move four: when
// reading A and B, when reading the tiles, and when storing C; float4_at() gives you four floats as one.
// Four elements of A that a thread needs at once must then lie together: transpose A on its way to As.

#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;               // the thread's tile: TM x TN of C
constexpr int TX = BN / TN, TY = BM / TM;   // threads across and down the tile
constexpr int THREADS = TX * TY;
constexpr int A_ROWS = THREADS / (BK / 4);  // rows of A that the block copies at once, 4 elements a thread
constexpr int B_ROWS = THREADS / (BN / 4);  // rows of B likewise
static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "threads load equally many elements");

__device__ __forceinline__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

// Four neighbours in a row, of which only the first `valid` exist; zeros for the others. ALIGNED: p is a
// multiple of 16 bytes, and all four exist or none.
template <bool ALIGNED>
__device__ __forceinline__ float4 load4(const float* p, int valid) {
  // TODO 1: if ALIGNED, one load of 16 bytes (`if constexpr`; if none of the four exists, read nothing).
  return make_float4(valid > 0 ? p[0] : 0.0f, valid > 1 ? p[1] : 0.0f, valid > 2 ? p[2] : 0.0f,
                     valid > 3 ? p[3] : 0.0f);
}

// c[0..3] = alpha * sums[0..3] + beta * c[0..3], as far as they exist. beta == 0: c is not read.
template <bool ALIGNED>
__device__ __forceinline__ void store4(float* c, int valid, const float* sums, float alpha, float beta) {
  // TODO 4: if ALIGNED, one store of 16 bytes, and one load of C only if beta is not 0.
  for (int j = 0; j < 4; ++j) {
    if (j < valid) c[j] = beta == 0.0f ? alpha * sums[j] : alpha * sums[j] + beta * c[j];
  }
}

// Two blocks to an SM, for which nvcc keeps to 128 registers a thread.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_vectorization(Gemm g) {
  __shared__ __align__(16) float As[BM][BK];  // [row][k]; TODO 2: transposed
  __shared__ __align__(16) float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int tx = threadIdx.x % TX;  // the thread's columns begin at tx * TN
  const int ty = threadIdx.x / TX;  // its rows begin at ty * TM

  // What this thread copies: 4 neighbours of a row of A, A_ROWS rows apart; of B likewise.
  const int a_row = threadIdx.x / (BK / 4), a_k = threadIdx.x % (BK / 4) * 4;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
  // Past the edge of C the last row, and if ALIGNED the last columns, are read instead: what comes of them is
  // never stored. Past K there are zeros.
  const int b_from = ALIGNED ? min(col0 + b_col, g.N - 4) : col0 + b_col;

  float sums[TM][TN] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    for (int i = 0; i < BM; i += A_ROWS) {
      const int row = min(row0 + a_row + i, g.M - 1);
      const float4 v = load4<ALIGNED>(A + row * g.lda + k0 + a_k, g.K - k0 - a_k);
      As[a_row + i][a_k + 0] = v.x;
      As[a_row + i][a_k + 1] = v.y;
      As[a_row + i][a_k + 2] = v.z;
      As[a_row + i][a_k + 3] = v.w;
    }
    for (int i = 0; i < BK; i += B_ROWS) {
      const int k = k0 + b_k + i;
      float4_at(&Bs[b_k + i][b_col]) = load4<ALIGNED>(B + k * g.ldb + b_from, k < g.K ? g.N - b_from : 0);
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      // TODO 3: four elements with each load.
      for (int i = 0; i < TM; ++i) a[i] = As[ty * TM + i][k];
      for (int j = 0; j < TN; ++j) b[j] = Bs[k][tx * TN + j];
      // Back and forth: consecutive FFMAs always share an operand, at the turn from one row to the next as
      // well, and a shared operand is not read from the registers again.
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
          const int col = i % 2 == 0 ? j : TN - 1 - j;
          sums[i][col] += a[i] * b[col];
        }
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; j += 4) {
      const int row = row0 + ty * TM + i, col = col0 + tx * TN + j;
      store4<ALIGNED>(&C[row * g.ldc + col], row < g.M ? g.N - col : 0, &sums[i][j], g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_vectorization<true> : sgemm_vectorization<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
