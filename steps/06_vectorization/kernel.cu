// Step 06: loads and stores of 128 bits, from global and from shared memory.
//
// Idea      An instruction that moves four floats costs little more than one that moves one. What a
//           thread moves at once must then lie together: so A is transposed on its way to shared memory,
//           and a thread takes neighbouring rows and columns.
// Change    float4 instead of float throughout; As is [k][row] instead of [row][k]. BK doubles to 16, as
//           a thread still needs only two loads for each tile. Besides: the sums run back and forth (see
//           the loop), and past the edge of C the last row is read, not tested for. Shapes that do not
//           allow float4 get a second kernel (ALIGNED = false).
// Bound     4 shared loads for 64 FFMAs instead of 16. The shared memory itself is no faster: it
//           delivers 128 bytes a cycle, and bank conflicts (the next step's matter) take nearly half of
//           that.

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
__global__ void __launch_bounds__(THREADS, 2) sgemm_vectorization(Gemm g) {
  __shared__ __align__(16) float As[BK][BM];  // [k][row]: A transposed
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
      As[a_k + 0][a_row + i] = v.x;
      As[a_k + 1][a_row + i] = v.y;
      As[a_k + 2][a_row + i] = v.z;
      As[a_k + 3][a_row + i] = v.w;
    }
    for (int i = 0; i < BK; i += B_ROWS) {
      const int k = k0 + b_k + i;
      float4_at(&Bs[b_k + i][b_col]) = load4<ALIGNED>(B + k * g.ldb + b_from, k < g.K ? g.N - b_from : 0);
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[k][ty * TM + i]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[k][tx * TN + j]);
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
