// Two blocks of a cluster, one above the other, need the same tiles of B: each asks for half of every tile,
// and the copy comes to both. A stage is filled again only when the consumers of both blocks are done with
// it, so a warp that is arrives at the mbarriers of both. Where rows do not begin at multiples of 16 bytes
// the threads load the tiles, each block for itself.
//
// Needs     sm_90+: clusters, mbarriers, tensor copies

#include "common/cuda/cluster.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 32, BN = 32, BK = 16;        // the block's tile: BM x BN of C, BK terms at a time
constexpr int STAGES = 2;                       // buffers for the tiles
constexpr int CONSUMERS = 128;                  // threads that compute; one warp more copies
constexpr int TM = BM * BN / CONSUMERS;         // a thread computes TM elements of a column
constexpr int CLUSTER = 2;                      // blocks
constexpr int BYTES = (BM * BK + BK * BN) * 4;  // that come to a block for a tile, zeros too
static_assert(BN == 32);

struct alignas(128) Tiles {
  float A[STAGES][BM][BK];  // [stage][row][k]
  float B[STAGES][BK][BN];  // [stage][k][col]
  std::uint64_t full[STAGES], empty[STAGES];
};

template <bool COPIES>
__global__ void __launch_bounds__(CONSUMERS + 32)
    sgemm_cluster_multicast(Gemm g, const __grid_constant__ TensorMap map_a,
                            const __grid_constant__ TensorMap map_b) {
  auto& tiles = dynamic_shared<Tiles>();

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, matrix = blockIdx.z;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int rank = static_cast<int>(cluster_block_rank());
  const int k_tiles = ceil_div(g.K, BK);

  if (t == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&tiles.full[stage], COPIES ? 1 : 32);
      mbarrier_init(&tiles.empty[stage], CLUSTER * CONSUMERS / 32);
    }
    mbarrier_fence_init();
  }
  cluster_sync();  // the mbarriers of both blocks are there

  if (t >= CONSUMERS) {
    for (int tile = 0; tile < k_tiles; ++tile) {
      const int stage = tile % STAGES, k0 = tile * BK;
      mbarrier_wait_cluster(&tiles.empty[stage], tile / STAGES % 2 ^ 1);  // passes at once in the first round
      if constexpr (COPIES) {
        if (lane == 0) {
          constexpr int half = BK / CLUSTER;
          mbarrier_arrive_expect_tx(&tiles.full[stage], BYTES);
          tensor_copy(tiles.A[stage], map_a, k0, row0, matrix, &tiles.full[stage]);
          tensor_copy_multicast(tiles.B[stage][rank * half], map_b, col0, k0 + rank * half, matrix,
                                &tiles.full[stage], (1 << CLUSTER) - 1);
        }
      } else {
        for (int i = lane; i < BM * BK; i += 32) {
          const int row = row0 + i / BK, k = k0 + i % BK;
          tiles.A[stage][i / BK][i % BK] = row < g.M && k < g.K ? A[row * g.lda + k] : 0.0f;
        }
        for (int i = lane; i < BK * BN; i += 32) {
          const int k = k0 + i / BN, col = col0 + i % BN;
          tiles.B[stage][i / BN][i % BN] = k < g.K && col < g.N ? B[k * g.ldb + col] : 0.0f;
        }
        mbarrier_arrive(&tiles.full[stage]);
      }
    }
  } else {
    float sums[TM] = {};
    for (int tile = 0; tile < k_tiles; ++tile) {
      const int stage = tile % STAGES;
      mbarrier_wait(&tiles.full[stage], tile / STAGES % 2);
      for (int k = 0; k < BK; ++k) {
        const float b = tiles.B[stage][k][lane];
        for (int i = 0; i < TM; ++i) sums[i] += tiles.A[stage][warp * TM + i][k] * b;
      }
      __syncwarp();  // all lanes are done with the stage
      if (lane < CLUSTER) mbarrier_arrive_remote(&tiles.empty[stage], lane);
    }
    for (int i = 0; i < TM; ++i) {
      const int row = row0 + warp * TM + i, col = col0 + lane;
      if (row >= g.M || col >= g.N) continue;
      float& c = C[row * g.ldc + col];
      c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
    }
  }
  cluster_sync();  // the other block may still arrive here
}

void sgemm(const Gemm& g) {
  const LaunchConfig config{
      .grid = dim3(ceil_div(g.N, BN), ceil_div(ceil_div(g.M, BM), CLUSTER) * CLUSTER, g.batch),
      .block = dim3(CONSUMERS + 32),
      .shared_bytes = sizeof(Tiles),
      .cluster = dim3(1, CLUSTER)};
  // N and K may be anything: only where rows begin matters.
  const auto multiple_of_4 = [](auto... numbers) { return ((numbers % 4 == 0) && ...); };
  const auto index = [](const float* p) { return reinterpret_cast<std::uintptr_t>(p) / sizeof(float); };
  if (multiple_of_4(g.lda, g.ldb, g.strideA, g.strideB, index(g.A), index(g.B))) {
    launch(sgemm_cluster_multicast<true>, config, g,
           tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, BM, BK),
           tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, BK / CLUSTER, BN));
  } else {
    launch(sgemm_cluster_multicast<false>, config, g, TensorMap{}, TensorMap{});
  }
}

}  // namespace
