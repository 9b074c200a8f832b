// Step 07: the same accesses to shared memory, laid out so that no two lanes want the same bank.
//
// Idea      Shared memory has 32 banks of 4 bytes; lanes that want different words of one bank wait for
//           each other. Step 06 waits in two places: two lanes with the same row of A store to one bank,
//           and fragments of B at a stride of 32 bytes use only every other group of four banks.
// Change    The rows of As are padded to BM + 4 floats: terms 4 apart then lie 16 banks apart. A thread
//           takes two groups of 4 columns, BN / 2 apart, instead of 8 neighbours; rows likewise.
// Bound     No excess wavefronts (passes through shared memory) are left; a load still takes 2 wavefronts
//           for A and 4 for B.

#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;               // the thread's tile: TM x TN of C
constexpr int TX = BN / TN, TY = BM / TM;   // threads across and down the tile
constexpr int THREADS = TX * TY;
constexpr int PAD = 4;     // shifts each row of As by 4 banks from the row before
constexpr int COPY_K = 8;  // the block copies COPY_K terms of A and of B at once, 4 elements a thread
static_assert(BM * COPY_K == THREADS * 4 && COPY_K * BN == THREADS * 4 && BK % COPY_K == 0);

// Where a thread's i-th row or column lies: in groups of 4 neighbours, `apart` from one to the next.
__host__ __device__ constexpr int spread(int i, int apart) { return i / 4 * apart + i % 4; }

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_bank_conflicts(Gemm g) {
  __shared__ __align__(16) float As[BK][BM + PAD];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[BK][BN];        // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int tx = threadIdx.x % TX;  // the thread's columns: tx * 4 + spread(j, BN / 2)
  const int ty = threadIdx.x / TX;  // its rows: ty * 4 + spread(i, BM / 2)

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
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[k][ty * 4 + spread(i, BM / 2)]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[k][tx * 4 + spread(j, BN / 2)]);
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) sums[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; j += 4) {
      const int row = ty * 4 + spread(i, BM / 2),
                col = tx * 4 + spread(j, BN / 2);  // within the block's tile
      update4<ALIGNED>(&C[(row0 + row) * g.ldc + col0 + col], row < rows ? cols - col : 0, &sums[i][j],
                       g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_bank_conflicts<true> : sgemm_bank_conflicts<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
