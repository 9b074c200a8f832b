// What three ladders share, rebuilt from what their authors describe: a block computes BM x BN elements of C,
// a warp WM x WN, a thread ITER_M x ITER_N tiles of TM x TN neighbours. Constants choose a ladder's kernel,
// see docs/experiments/turing_tiles.toml, batched_ladder.toml and a10_ladder.toml. Turing's matrices lie
// column by column, so its A is our B. As most of theirs, no launch bounds and no checks at edges.

#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 8;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int WM = 16, WN = 128;           // the warp's
constexpr int ITER_M = 1, ITER_N = 1;      // the thread has so many tiles, evenly spread over the warp's
constexpr int TM = 8, TN = 8;              // of this size
constexpr int TRANSPOSED = 1;              // 1: As is [k][row]; 0: [row][k]
constexpr int WIDE = 1;                    // 1: copies and stores of float4; 0: float by float
constexpr int NEIGHBOURS = 0;          // 1: a thread's copies are next to each other; 0: spread over the tile
constexpr int PREFETCH = 0;            // 1: the next tiles and fragments are fetched ahead, to registers
constexpr int BUFFERS = 1;             // 2: of the tiles, with PREFETCH
constexpr int BARRIERS = 3 - BUFFERS;  // for each pair of tiles; with two buffers one is enough
constexpr int LOADS_CHECKED = 0;       // 1: zeros are loaded from beyond the edges
constexpr int STORES_CHECKED = 0;      // 1: nothing is stored there
constexpr int SUMS_IN_C = 0;           // 1: after each tile its sums are added to C in global memory
constexpr int LONG_STRIDES = 1;        // 1: of 64 bits; 0: of 32
constexpr int BATCH_IN_X = 0;          // 1: blocks next to each other are of different products
using Stride = std::conditional_t<LONG_STRIDES, std::int64_t, int>;
constexpr int WARPS_N = BN / WN;  // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int LANES_N = WN / ITER_N / TN;                    // lanes across
constexpr int SUB_M = WM / ITER_M, SUB_N = WN / ITER_N;      // from one of the thread's tiles to the next
constexpr int WIDTH = WIDE ? 4 : 1;                          // floats of a copy
constexpr int A_COPIES = ceil_div(BM * BK, THREADS* WIDTH);  // of a thread
constexpr int B_COPIES = ceil_div(BK * BN, THREADS* WIDTH);
static_assert(SUB_M / TM * LANES_N == 32 && (!WIDE || TN % 4 == 0));
static_assert((BUFFERS == 1 || PREFETCH) && (BUFFERS == 2 || BARRIERS == 2));

__global__ void sgemm_thread_tiles(Gemm g) {
  __shared__ __align__(16) float As[BUFFERS][TRANSPOSED ? BK : BM][TRANSPOSED ? BM : BK];
  __shared__ __align__(16) float Bs[BUFFERS][BK][BN];

  const int batch = BATCH_IN_X ? blockIdx.x : blockIdx.z;
  const int row0 = blockIdx.y * BM, col0 = (BATCH_IN_X ? blockIdx.z : blockIdx.x) * BN;
  const float* A = g.A + batch * g.strideA;  // [M][K]
  const float* B = g.B + batch * g.strideB;  // [K][N]
  float* C = g.C + batch * g.strideC;        // [M][N]
  const Stride lda = g.lda, ldb = g.ldb, ldc = g.ldc;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int m = warp / WARPS_N * WM + lane / LANES_N * TM;  // of the thread's first tile in the block's
  const int n = warp % WARPS_N * WN + lane % LANES_N * TN;

  const auto a_place = [&](int buffer, int row, int k) -> float& {
    return TRANSPOSED ? As[buffer][k][row] : As[buffer][row][k];
  };
  const auto place = [&](int copy, int copies) {
    return (NEIGHBOURS ? tid * copies + copy : tid + copy * THREADS) * WIDTH;
  };
  float a_next[A_COPIES][WIDTH], b_next[B_COPIES][WIDTH];
  const auto fetch = [&](const float* from, float (&to)[WIDTH], bool inside) {
    if (LOADS_CHECKED && !inside) {
      for (float& value : to) value = 0.0f;
    } else if constexpr (WIDE) {
      const float4 v = *reinterpret_cast<const float4*>(from);
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else {
      to[0] = *from;
    }
  };
  const auto fetch_tiles = [&](int k0) {
#pragma unroll
    for (int copy = 0; copy < A_COPIES; ++copy) {
      const int i = place(copy, A_COPIES), row = row0 + i / BK, k = k0 + i % BK;
      if (BM * BK % (THREADS * WIDTH) != 0 && i >= BM * BK) break;
      fetch(&A[row * lda + k], a_next[copy], row < g.M && k < g.K);
    }
#pragma unroll
    for (int copy = 0; copy < B_COPIES; ++copy) {
      const int i = place(copy, B_COPIES), k = k0 + i / BN, col = col0 + i % BN;
      if (BK * BN % (THREADS * WIDTH) != 0 && i >= BK * BN) break;
      fetch(&B[k * ldb + col], b_next[copy], k < g.K && col < g.N);
    }
  };
  const auto put_tiles = [&](int buffer) {
#pragma unroll
    for (int copy = 0; copy < A_COPIES; ++copy) {
      const int i = place(copy, A_COPIES);
      if (BM * BK % (THREADS * WIDTH) != 0 && i >= BM * BK) break;
#pragma unroll
      for (int j = 0; j < WIDTH; ++j) a_place(buffer, i / BK, i % BK + j) = a_next[copy][j];
    }
#pragma unroll
    for (int copy = 0; copy < B_COPIES; ++copy) {
      const int i = place(copy, B_COPIES);
      if (BK * BN % (THREADS * WIDTH) != 0 && i >= BK * BN) break;
      if constexpr (WIDE) {
        const float (&v)[WIDTH] = b_next[copy];
        float4_at(&Bs[buffer][i / BN][i % BN]) = make_float4(v[0], v[1], v[2], v[3]);
      } else {
        Bs[buffer][i / BN][i % BN] = b_next[copy][0];
      }
    }
  };

  float sums[ITER_M][TM][ITER_N][TN] = {};
  struct Fragments {
    float a[ITER_M][TM], b[ITER_N][TN];
  };
  const auto load = [&](int buffer, int k, Fragments& f) {
    for (int u = 0; u < ITER_M; ++u) {
      for (int i = 0; i < TM; ++i) f.a[u][i] = a_place(buffer, m + u * SUB_M + i, k);
    }
    for (int v = 0; v < ITER_N; ++v) {
      if constexpr (WIDE) {
        for (int j = 0; j < TN; j += 4) {
          const float4 four = float4_at(&Bs[buffer][k][n + v * SUB_N + j]);
          f.b[v][j] = four.x, f.b[v][j + 1] = four.y, f.b[v][j + 2] = four.z, f.b[v][j + 3] = four.w;
        }
      } else {
        for (int j = 0; j < TN; ++j) f.b[v][j] = Bs[buffer][k][n + v * SUB_N + j];
      }
    }
  };
  const auto multiply = [&](const Fragments& f) {
    for (int u = 0; u < ITER_M; ++u) {
      for (int i = 0; i < TM; ++i) {
        for (int v = 0; v < ITER_N; ++v) {
          for (int j = 0; j < TN; ++j) sums[u][i][v][j] += f.a[u][i] * f.b[v][j];
        }
      }
    }
  };
  const auto store = [&](float beta) {
    for (int u = 0; u < ITER_M; ++u) {
      for (int i = 0; i < TM; ++i) {
        for (int v = 0; v < ITER_N; ++v) {
          const int row = row0 + m + u * SUB_M + i, first = col0 + n + v * SUB_N;
          float (&sum)[TN] = sums[u][i][v];
          for (int j = 0; j < TN; j += WIDTH) {
            if (STORES_CHECKED && (row >= g.M || first + j >= g.N)) continue;
            float* c = &C[row * ldc + first + j];
            if constexpr (WIDE) {
              update4<true>(c, 4, &sum[j], g.alpha, beta);
            } else {
              update(*c, sum[j], g.alpha, beta);
            }
            if constexpr (SUMS_IN_C) {
              for (int w = 0; w < WIDTH; ++w) sum[j + w] = 0.0f;
            }
          }
        }
      }
    }
  };

  if constexpr (!PREFETCH) {
    for (int k0 = 0; k0 < g.K; k0 += BK) {
      fetch_tiles(k0);
      put_tiles(0);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < BK; ++k) {
        Fragments f;
        load(0, k, f);
        multiply(f);
      }
      __syncthreads();
      if constexpr (SUMS_IN_C) store(k0 == 0 ? g.beta : 1.0f);
    }
    if constexpr (!SUMS_IN_C) store(g.beta);
  } else {
    Fragments even, odd;  // of the next k
    fetch_tiles(0);
    put_tiles(0);
    __syncthreads();
    load(0, 0, even);
    int buffer = 0;
    for (int k0 = 0; k0 < g.K; k0 += BK) {
      const bool more = k0 + BK < g.K;
      if (more) fetch_tiles(k0 + BK);
#pragma unroll
      for (int k = 0; k < BK; ++k) {
        if (k % 2 == 0) {
          if (k + 1 < BK) load(buffer, k + 1, odd);
          multiply(even);
        } else {
          if (k + 1 < BK) load(buffer, k + 1, even);
          multiply(odd);
        }
      }
      if (BARRIERS == 2) __syncthreads();
      if (!more) break;
      buffer = BUFFERS == 2 ? 1 - buffer : 0;
      put_tiles(buffer);
      __syncthreads();
      load(buffer, 0, even);
    }
    store(g.beta);
  }
}

void sgemm(const Gemm& g) {
  const int across = ceil_div(g.N, BN), down = ceil_div(g.M, BM);
  const dim3 grid = BATCH_IN_X ? dim3(g.batch, down, across) : dim3(across, down, g.batch);
  launch(sgemm_thread_tiles, grid, dim3(THREADS), 0, g);
}

}  // namespace
