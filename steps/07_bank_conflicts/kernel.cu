// Step 07: the same accesses to shared memory, laid out so that no two lanes want the same bank.
//
// Idea      Shared memory has 32 banks of 4 bytes; lanes that want different words of one bank wait for
//           each other. Step 06 waits in two places: four lanes with the same row of A store to one
//           bank, and fragments of B at a stride of 32 bytes use every other group of four banks only.
// Change    As gets rows of BM + 4 floats, and two lanes (not four) share a row of A while copying:
//           terms 4 apart then lie 16 banks apart, and two groups of 16 rows fill the 32 banks. A thread
//           takes two groups of 4 columns, BN / 2 apart, instead of 8 neighbours; rows likewise. The
//           pointers of the copies move along instead of being computed for every tile.
// Bound     The wavefronts (passes through the shared memory) of a load fall from 5 to 3 on average, and
//           those in excess of what the accesses need to zero (docs/evidence/h200/07_bank_conflicts.json).
//           The data pipe of L1 cache and shared memory is 65 % busy now, the FMA pipe 69 %.

#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;               // the thread's tile: TM x TN of C
constexpr int TX = BN / TN, TY = BM / TM;   // threads across and down the tile
constexpr int THREADS = TX * TY;
constexpr int PAD = 4;     // shifts each row of As by 4 banks against the one before
constexpr int COPY_K = 8;  // the block copies COPY_K terms of A and of B at once
static_assert(THREADS * 4 == BM * COPY_K && THREADS * 4 == COPY_K * BN && BK % COPY_K == 0);

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

// c[0..3] = alpha * sums[0..3] + beta * c[0..3], as far as they exist. beta == 0: c is not read.
template <bool ALIGNED>
__device__ __forceinline__ void store4(float* c, int valid, const float* sums, float alpha, float beta) {
  if constexpr (ALIGNED) {
    if (valid <= 0) return;
    float4 v = make_float4(alpha * sums[0], alpha * sums[1], alpha * sums[2], alpha * sums[3]);
    if (beta != 0.0f) {
      const float4 old = float4_at(c);
      v = make_float4(v.x + beta * old.x, v.y + beta * old.y, v.z + beta * old.z, v.w + beta * old.w);
    }
    float4_at(c) = v;
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j < valid) c[j] = beta == 0.0f ? alpha * sums[j] : alpha * sums[j] + beta * c[j];
    }
  }
}

// Two blocks to an SM, for which nvcc keeps to 128 registers a thread.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_bank_conflicts(Gemm g) {
  __shared__ __align__(16) float As[BK][BM + PAD];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[BK][BN];        // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int tx = threadIdx.x % TX * 4;  // the thread's columns: tx .. tx + 3, and the same BN / 2 further on
  const int ty = threadIdx.x / TX * 4;  // its rows likewise

  // What this thread copies: 4 neighbours of a row of A, and again COPY_K terms further; of B likewise.
  const int a_row = threadIdx.x / 2, a_k = threadIdx.x % 2 * 4;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
  // Past the edge of C the last row, and if ALIGNED the last columns, are read instead: what comes of them is
  // never stored. Past K there are zeros.
  const int b_first = ALIGNED ? min(col0 + b_col, g.N - 4) : col0 + b_col;
  const int b_valid = ALIGNED ? 4 : g.N - b_first;
  const float* a_from = A + min(row0 + a_row, g.M - 1) * g.lda + a_k;
  const float* b_from = B + b_k * g.ldb + b_first;

  float sums[TM][TN] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK, a_from += BK, b_from += BK * g.ldb) {
    for (int i = 0; i < BK; i += COPY_K) {
      const float4 v = load4<ALIGNED>(a_from + i, g.K - k0 - a_k - i);
      As[a_k + i + 0][a_row] = v.x;
      As[a_k + i + 1][a_row] = v.y;
      As[a_k + i + 2][a_row] = v.z;
      As[a_k + i + 3][a_row] = v.w;
      float4_at(&Bs[b_k + i][b_col]) = load4<ALIGNED>(b_from + i * g.ldb, k0 + b_k + i < g.K ? b_valid : 0);
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[k][ty + i / 4 * (BM / 2)]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[k][tx + j / 4 * (BN / 2)]);
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
      const int row = row0 + ty + i / 4 * (BM / 2) + i % 4, col = col0 + tx + j / 4 * (BN / 2);
      store4<ALIGNED>(&C[row * g.ldc + col], row < g.M ? g.N - col : 0, &sums[i][j], g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_bank_conflicts<true> : sgemm_bank_conflicts<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
