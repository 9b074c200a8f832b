// Step 23: the rows of tiles are swizzled in shared memory, so that no two lanes want the same bank.
//
// Idea      Lanes that load a fragment read four neighbours in each of eight rows, which all begin in bank 0.
//           If row r has group g of four elements at g XOR r, eight rows lie in eight different groups of
//           banks. This swizzle costs no memory, and groups of four stay whole for wide accesses.
// Change    Each access to As and Bs goes through a function that says where an element lies.
// Bound     A block does not multiply while it loads its tiles; an SM's second block fills some of the time.
// Needs     sm_80+: mma.sync on TF32

#include "common/cuda/float4.hpp"
#include "common/cuda/mma.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 32;         // the block's tile: BM x BN of C, BK terms at a time
constexpr int WM = 64, WN = 32;                    // the warp's tile of C
constexpr int MM = 16, MN = 8, MK = 8;             // an mma's: MM x MN of C, MK terms
constexpr int MMAS_M = WM / MM, MMAS_N = WN / MN;  // down and across the warp's tile
constexpr int WARPS_N = BN / WN;                   // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int A_ROWS = THREADS * 4 / BK;  // rows of A that the block loads at once, four elements per thread
constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B likewise
static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0);

// Where the elements of a row lie. In As, group g of four lies at g XOR the row, modulo 8: the 128-byte
// swizzle. In Bs, whose fragments have four rows and eight columns, groups of eight likewise.
__device__ __forceinline__ int swizzle_128B(int row, int k) { return k ^ row % 8 * 4; }
__device__ __forceinline__ int swizzle_b(int k, int col) { return col ^ k % 4 * 8; }

// Four floats rounded to TF32: floats whose last 13 bits are zero.
__device__ __forceinline__ float4 round4(float4 v) {
  return make_float4(__uint_as_float(to_tf32(v.x)), __uint_as_float(to_tf32(v.y)),
                     __uint_as_float(to_tf32(v.z)), __uint_as_float(to_tf32(v.w)));
}

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) gemm_swizzle(Gemm g) {
  __shared__ __align__(16) float As[BM][BK];  // [row][swizzle_128B()], rounded
  __shared__ __align__(16) float Bs[BK][BN];  // [k][swizzle_b()], rounded

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int quad = lane / 4, t = lane % 4;  // the lane's quad (its row of A, column of B) and place in it
  const int m = warp / WARPS_N * WM, n = warp % WARPS_N * WN;  // where the warp's tile begins in the block's

  // What this thread loads: 4 neighbours of a row of A, A_ROWS rows apart; of a row of B, B_ROWS rows apart.
  const int a_row = threadIdx.x / (BK / 4), a_k = threadIdx.x % (BK / 4) * 4;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;

  float sums[MMAS_M][MMAS_N][4] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    const int left = g.K - k0;  // terms
    for (int i = 0; i < BM / A_ROWS; ++i) {
      const int row = a_row + i * A_ROWS;
      float4_at(&As[row][swizzle_128B(row, a_k)]) =
          round4(load4<ALIGNED>(&A[(row0 + row) * g.lda + k0 + a_k], row < rows ? left - a_k : 0));
    }
    for (int i = 0; i < BK / B_ROWS; ++i) {
      const int k = b_k + i * B_ROWS;
      float4_at(&Bs[k][swizzle_b(k, b_col)]) =
          round4(load4<ALIGNED>(&B[(k0 + k) * g.ldb + col0 + b_col], k < left ? cols - b_col : 0));
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; k += MK) {
      std::uint32_t a[MMAS_M][4], b[MMAS_N][2];  // as mma_tf32() says
      for (int i = 0; i < MMAS_M; ++i) {
        for (int r = 0; r < 4; ++r) {
          const int row = m + i * MM + quad + r % 2 * 8;
          a[i][r] = __float_as_uint(As[row][swizzle_128B(row, k + t + r / 2 * 4)]);
        }
      }
      for (int j = 0; j < MMAS_N; ++j) {
        for (int r = 0; r < 2; ++r) {
          b[j][r] = __float_as_uint(Bs[k + t + r * 4][swizzle_b(k + t + r * 4, n + j * MN + quad)]);
        }
      }
      for (int i = 0; i < MMAS_M; ++i) {
        for (int j = 0; j < MMAS_N; ++j) mma_tf32(sums[i][j], a[i], b[j]);
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

#pragma unroll
  for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
    for (int j = 0; j < MMAS_N; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = m + i * MM + quad + r / 2 * 8,
                  col = n + j * MN + t * 2 + r % 2;  // in the block's tile
        if (row >= rows || col >= cols) continue;
        update(C[(row0 + row) * g.ldc + (col0 + col)], sums[i][j][r], g.alpha, g.beta);
      }
    }
  }
}

void gemm_tf32(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? gemm_swizzle<true> : gemm_swizzle<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
