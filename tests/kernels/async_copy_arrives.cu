// Each thread copies with cp.async, and its copies arrive at an mbarrier by themselves: no thread waits for
// groups.
//
// Needs     sm_90+: mbarriers

#include "common/cuda/async_copy.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;   // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int STAGES = 2;  // buffers for the tiles

__global__ void sgemm_async_copy_arrives(Gemm g) {
  __shared__ float As[STAGES][TILE][TILE];  // [row][k]
  __shared__ float Bs[STAGES][TILE][TILE];  // [k][col]
  __shared__ std::uint64_t full[STAGES], empty[STAGES];

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  const int tiles = ceil_div(g.K, TILE);

  if (tx == 0 && ty == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], TILE * TILE);
      mbarrier_init(&empty[stage], TILE * TILE);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  const auto copy_tiles = [&](int tile) {
    const int stage = tile % STAGES, a_k = tile * TILE + tx, b_k = tile * TILE + ty;
    async_copy<4>(&As[stage][ty][tx], A + row * g.lda + a_k, row < g.M && a_k < g.K);
    async_copy<4>(&Bs[stage][ty][tx], B + b_k * g.ldb + col, b_k < g.K && col < g.N);
    mbarrier_arrive_after_async_copies(&full[stage]);
  };

  float sum = 0.0f;
  if (tiles > 0) copy_tiles(0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % STAGES, round = tile / STAGES, next = tile + 1;
    if (next < tiles) {
      mbarrier_wait(&empty[next % STAGES], next / STAGES % 2 ^ 1);  // passes at once in the first round
      copy_tiles(next);
    }
    mbarrier_wait(&full[stage], round % 2);
    for (int k = 0; k < TILE; ++k) sum += As[stage][ty][k] * Bs[stage][k][tx];
    mbarrier_arrive(&empty[stage]);
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_async_copy_arrives, grid, dim3(TILE, TILE), 0, g);
}

}  // namespace
