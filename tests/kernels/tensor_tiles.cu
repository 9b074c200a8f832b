// Tensor copies bring tiles of A and B, one request each, into two buffers: while all threads compute with
// one, the other is filled. A box may reach beyond its matrix, where the copy fills in zeros: no tile is
// special. Where rows do not begin at multiples of 16 bytes there can be no tensor map, and the threads load
// the tiles.
//
// Needs     sm_90+: mbarriers, tensor copies

#include "common/cuda/tensor_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 32, BN = 32, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int THREADS = 128;
constexpr int TM = BM * BN / THREADS;           // a thread computes TM elements of a column
constexpr int BUFFERS = 2;                      // for tiles
constexpr int BYTES = (BM * BK + BK * BN) * 4;  // that come for a tile, zeros too
static_assert(BN == 32);

template <bool COPIES>
__global__ void __launch_bounds__(THREADS) sgemm_tensor_tiles(Gemm g, const __grid_constant__ TensorMap map_a,
                                                              const __grid_constant__ TensorMap map_b) {
  __shared__ __align__(128) float As[BUFFERS][BM][BK];  // [row][k]
  __shared__ __align__(128) float Bs[BUFFERS][BK][BN];  // [k][col]
  __shared__ std::uint64_t full[BUFFERS];

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, matrix = blockIdx.z;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int tiles = ceil_div(g.K, BK);

  if (COPIES && t == 0) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    for (int buffer = 0; buffer < BUFFERS; ++buffer) mbarrier_init(&full[buffer], 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  const auto fill = [&](int tile) {
    const int k0 = tile * BK, buffer = tile % BUFFERS;
    if constexpr (COPIES) {
      if (t == 0) {
        mbarrier_arrive_expect_tx(&full[buffer], BYTES);
        tensor_copy(As[buffer], map_a, k0, row0, matrix, &full[buffer]);
        tensor_copy(Bs[buffer], map_b, col0, k0, matrix, &full[buffer]);
      }
    } else {
      for (int i = t; i < BM * BK; i += THREADS) {
        const int row = row0 + i / BK, k = k0 + i % BK;
        As[buffer][i / BK][i % BK] = row < g.M && k < g.K ? A[row * g.lda + k] : 0.0f;
      }
      for (int i = t; i < BK * BN; i += THREADS) {
        const int k = k0 + i / BN, col = col0 + i % BN;
        Bs[buffer][i / BN][i % BN] = k < g.K && col < g.N ? B[k * g.ldb + col] : 0.0f;
      }
    }
  };

  float sums[TM] = {};
  if (tiles > 0) fill(0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int buffer = tile % BUFFERS;
    if (tile + 1 < tiles) fill(tile + 1);  // all threads are done with that buffer
    if (COPIES) {
      mbarrier_wait(&full[buffer], tile / BUFFERS % 2);
    } else {
      __syncthreads();
    }
    for (int k = 0; k < BK; ++k) {
      const float b = Bs[buffer][k][lane];
      for (int i = 0; i < TM; ++i) sums[i] += As[buffer][warp * TM + i][k] * b;
    }
    __syncthreads();
  }

  for (int i = 0; i < TM; ++i) {
    const int row = row0 + warp * TM + i, col = col0 + lane;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  // N and K may be anything: only where rows begin matters.
  const auto multiple_of_4 = [](auto... numbers) { return ((numbers % 4 == 0) && ...); };
  const auto index = [](const float* p) { return reinterpret_cast<std::uintptr_t>(p) / sizeof(float); };
  if (multiple_of_4(g.lda, g.ldb, g.strideA, g.strideB, index(g.A), index(g.B))) {
    launch(sgemm_tensor_tiles<true>, grid, dim3(THREADS), 0, g,
           tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, BM, BK),
           tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, BK, BN));
  } else {
    launch(sgemm_tensor_tiles<false>, grid, dim3(THREADS), 0, g, TensorMap{}, TensorMap{});
  }
}

}  // namespace
