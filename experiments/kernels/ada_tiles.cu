// The kernels of a ladder on an RTX 4090, rebuilt from its author's description: 128 threads compute 64 x 256
// elements of C, 16 x 8 each, with one change after the other. As there, no __launch_bounds__. Only for M, N
// and K that are multiples of the tiles.

#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 64, BN = 256, BK = 32;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 16, TN = 8;             // the thread's tile: TM x TN of C
constexpr int TX = BN / TN, TY = BM / TM;  // threads across and down the tile: 32 x 4
constexpr int THREADS = TX * TY;
constexpr int SHARED = 1;   // 0: operands come from global memory, of which the L1 cache holds what is shared
constexpr int C_FIRST = 0;  // 1: the sums begin with C; 0: C is read after the loop
constexpr int WIDE_GLOBAL = 0;  // 1: the copies read float4
constexpr int GROUPED = 0;      // 1: a thread's columns lie in groups of four
constexpr int WIDE_SHARED = 0;  // 1: and are read as float4
constexpr int GROUP_LOOP = 0;   // 1: a loop over these groups, of which each is read and multiplied by itself
constexpr int TRANSPOSED = 0;   // 1: As is [k][row]
constexpr int ALIGNMENT = 4;    // of the arrays in shared memory, in bytes
constexpr int TIMES = 1;        // of the arrays in shared memory only a part is used, the TIMES-th
constexpr int BUFFERS = 1;      // 2: the next tiles are copied while these are computed
constexpr int BY_COLUMN = 0;    // 1: a column of the thread's tile after the other; 0: a row
constexpr int UNROLLED = 1;     // terms in a round of the inner loop
constexpr int BY_TWO = 0;  // 1: the loop over tiles is written for two of them, so that buffers are fixed
static_assert(BM * BK % (4 * THREADS) == 0 && BK * BN % (4 * THREADS) == 0);
static_assert((GROUPED || !WIDE_SHARED) && (GROUPED || !GROUP_LOOP));

// The thread's j-th column in the block's tile.
__device__ __forceinline__ int column(int tx, int j) {
  return GROUPED ? tx * 4 + j / 4 * TX * 4 + j % 4 : tx + j * TX;
}

__global__ void sgemm_ada_tiles(Gemm g) {
  __shared__ __align__(ALIGNMENT) float As[BUFFERS][TIMES][TRANSPOSED ? BK : BM][TRANSPOSED ? BM : BK];
  __shared__ __align__(ALIGNMENT) float Bs[BUFFERS][TIMES][BK][BN];

  const float* A = g.A + blockIdx.z * g.strideA + blockIdx.y * BM * g.lda;              // [BM][K]
  const float* B = g.B + blockIdx.z * g.strideB + blockIdx.x * BN;                      // [K][BN]
  float* C = g.C + blockIdx.z * g.strideC + blockIdx.y * BM * g.ldc + blockIdx.x * BN;  // [BM][BN]
  const int lda = g.lda, ldb = g.ldb, ldc = g.ldc;                                      // 32 bits, as there
  const int tx = threadIdx.x % TX, ty = threadIdx.x / TX;

  const auto a_place = [&](int buffer, int row, int k) -> float& {
    return TRANSPOSED ? As[buffer][0][k][row] : As[buffer][0][row][k];
  };
  const auto copy_tiles = [&](int buffer, int k0) {
    constexpr int WIDTH = WIDE_GLOBAL ? 4 : 1;
    for (int i = threadIdx.x * WIDTH; i < BM * BK; i += THREADS * WIDTH) {
      const int row = i / BK, k = i % BK;
      const float* from = &A[row * lda + k0 + k];
      if constexpr (WIDE_GLOBAL) {
        const float4 v = *reinterpret_cast<const float4*>(from);
        if constexpr (!TRANSPOSED) {
          float4_at(&a_place(buffer, row, k)) = v;
        } else {
          a_place(buffer, row, k) = v.x, a_place(buffer, row, k + 1) = v.y;
          a_place(buffer, row, k + 2) = v.z, a_place(buffer, row, k + 3) = v.w;
        }
      } else {
        a_place(buffer, row, k) = *from;
      }
    }
    for (int i = threadIdx.x * WIDTH; i < BK * BN; i += THREADS * WIDTH) {
      const int k = i / BN, col = i % BN;
      const float* from = &B[(k0 + k) * ldb + col];
      if constexpr (WIDE_GLOBAL) {
        float4_at(&Bs[buffer][0][k][col]) = *reinterpret_cast<const float4*>(from);
      } else {
        Bs[buffer][0][k][col] = *from;
      }
    }
  };

  float sums[TM][TN] = {};
  const auto add_product = [&](const float (&a)[TM], const float (&b)[TN], int first, int last) {
    if constexpr (BY_COLUMN) {
      for (int j = first; j < last; ++j) {
        for (int i = 0; i < TM; ++i) sums[i][j] += a[i] * b[j];
      }
    } else {
      for (int i = 0; i < TM; ++i) {
        for (int j = first; j < last; ++j) sums[i][j] += a[i] * b[j];
      }
    }
  };
  const auto multiply_tiles = [&](int buffer) {
#pragma unroll UNROLLED
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; ++i) a[i] = a_place(buffer, ty * TM + i, k);
      constexpr int AT_ONCE = GROUP_LOOP ? 4 : TN;  // columns
      for (int first = 0; first < TN; first += AT_ONCE) {
        if constexpr (WIDE_SHARED) {
          for (int j = first; j < first + AT_ONCE; j += 4) {
            float4_at(&b[j]) = float4_at(&Bs[buffer][0][k][column(tx, j)]);
          }
        } else {
          for (int j = first; j < first + AT_ONCE; ++j) b[j] = Bs[buffer][0][k][column(tx, j)];
        }
        add_product(a, b, first, first + AT_ONCE);
      }
    }
  };

  const float scale = C_FIRST && g.alpha != 0.0f ? g.beta / g.alpha : 0.0f;
  if (scale != 0.0f) {
    for (int i = 0; i < TM; ++i) {
      for (int j = 0; j < TN; ++j) sums[i][j] = scale * C[(ty * TM + i) * ldc + column(tx, j)];
    }
  }

  if constexpr (!SHARED) {
#pragma unroll 4
    for (int k = 0; k < g.K; ++k) {
      float a[TM], b[TN];
      for (int i = 0; i < TM; ++i) a[i] = A[(ty * TM + i) * lda + k];
      for (int j = 0; j < TN; ++j) b[j] = B[k * ldb + column(tx, j)];
      add_product(a, b, 0, TN);
    }
  } else if constexpr (BUFFERS == 1) {
    for (int k0 = 0; k0 < g.K; k0 += BK) {
      copy_tiles(0, k0);
      __syncthreads();
      multiply_tiles(0);
      __syncthreads();
    }
  } else if constexpr (BY_TWO) {
    copy_tiles(0, 0);
    __syncthreads();
    for (int k0 = 0; k0 < g.K; k0 += 2 * BK) {
#pragma unroll
      for (int buffer = 0; buffer < 2; ++buffer) {
        if (k0 + (buffer + 1) * BK < g.K) copy_tiles(1 - buffer, k0 + (buffer + 1) * BK);
        if (k0 + buffer * BK < g.K) multiply_tiles(buffer);
        __syncthreads();
      }
    }
  } else {
    copy_tiles(0, 0);
    __syncthreads();
    for (int k0 = 0, buffer = 0; k0 < g.K; k0 += BK, buffer = 1 - buffer) {
      if (k0 + BK < g.K) copy_tiles(1 - buffer, k0 + BK);
      multiply_tiles(buffer);
      __syncthreads();
    }
  }

  const float beta = C_FIRST && g.alpha != 0.0f ? 0.0f : g.beta;
  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; ++j) {
      update(C[(ty * TM + i) * ldc + column(tx, j)], sums[i][j], g.alpha, beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(g.N / BN, g.M / BM, g.batch);
  launch(sgemm_ada_tiles, grid, dim3(THREADS), 0, g);
}

}  // namespace
