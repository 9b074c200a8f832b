// Split-K inside a cluster: two blocks share a tile of C, each with half the terms. One puts its sums into
// the other's shared memory, and that one adds them to its own and writes C.
//
// Needs     sm_90+: clusters

#include "common/cuda/cluster.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;    // two blocks compute TILE x TILE elements of C
constexpr int CLUSTER = 2;  // blocks

struct Tiles {
  float handed_over[TILE][TILE];  // [row][col], by the other block
};

__global__ void __launch_bounds__(TILE* TILE) sgemm_cluster_split_k(Gemm g) {
  auto& tiles = dynamic_shared<Tiles>();

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int rank = static_cast<int>(cluster_block_rank());
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x / CLUSTER * TILE + tx;
  const bool in_c = row < g.M && col < g.N;
  const int terms = ceil_div(g.K, CLUSTER);

  float sum = 0.0f;
  for (int k = rank * terms; in_c && k < min(g.K, (rank + 1) * terms); ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  cluster_sync();  // the other block is there
  if (rank != 0) cluster_map_shared(tiles.handed_over[ty], 0)[tx] = sum;
  cluster_sync();  // all sums are handed over
  if (rank != 0 || !in_c) return;
  sum += tiles.handed_over[ty][tx];
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const LaunchConfig config{.grid = dim3(CLUSTER * ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch),
                            .block = dim3(TILE, TILE),
                            .shared_bytes = sizeof(Tiles),
                            .cluster = dim3(CLUSTER)};
  launch(sgemm_cluster_split_k, config, g);
}

}  // namespace
