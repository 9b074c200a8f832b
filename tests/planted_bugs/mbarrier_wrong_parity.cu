// bug: mbarrier_wrong_parity
// check: read of uninitialised shared memory
// place: const float b = Bs[stage][k][lane];
// check: phase 0 of the mbarrier full
// place: mbarrier_wait(&full[stage]
// gpu: none (the threads may miss a phase, and hang)
// cases: --m 64 --n 64 --k 128
//
// Wrong     The consumers wait for the parity of the phase before, which is over.
// Seen      They do not wait at all and read what nobody has filled; and after the first round they wait for
// a phase
//           that is still to begin.

#include "common/cuda/bulk_copy.hpp"
#include "common/step.hpp"

namespace {

// M, N and K are multiples of TILE here, and rows begin at multiples of 16 bytes.
constexpr int TILE = 32;   // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int STAGES = 2;  // buffers for the tiles
constexpr int CONSUMERS = 128;               // threads that compute; one thread more copies
constexpr int TM = TILE * TILE / CONSUMERS;  // a thread computes TM elements of a column
constexpr int ROW_BYTES = TILE * sizeof(float), TILE_BYTES = TILE * ROW_BYTES;

__global__ void sgemm_mbarrier_wrong_parity(Gemm g) {
  __shared__ __align__(16) float As[STAGES][TILE][TILE];  // [row][k]
  __shared__ __align__(16) float Bs[STAGES][TILE][TILE];  // [k][col]
  __shared__ std::uint64_t full[STAGES], empty[STAGES];   // mbarriers

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tiles = g.K / TILE;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  if (threadIdx.x == CONSUMERS) {
    for (int tile = 0; tile < tiles; ++tile) {
      const int stage = tile % STAGES, k0 = tile * TILE;
      mbarrier_wait(&empty[stage], tile / STAGES % 2 ^ 1);  // passes at once in the first round
      mbarrier_arrive_expect_tx(&full[stage], 2 * TILE_BYTES);
      for (int i = 0; i < TILE; ++i) {
        bulk_copy(As[stage][i], &A[(row0 + i) * g.lda + k0], ROW_BYTES, &full[stage]);
        bulk_copy(Bs[stage][i], &B[(k0 + i) * g.ldb + col0], ROW_BYTES, &full[stage]);
      }
    }
    return;
  }

  float sums[TM] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % STAGES;
    mbarrier_wait(&full[stage], tile / STAGES % 2 ^ 1);  // BUG: the producer's parity, not theirs
    for (int k = 0; k < TILE; ++k) {
      const float b = Bs[stage][k][lane];
      for (int i = 0; i < TM; ++i) sums[i] += As[stage][warp * TM + i][k] * b;
    }
    mbarrier_arrive(&empty[stage]);
  }

  for (int i = 0; i < TM; ++i) {
    float& c = C[(row0 + warp * TM + i) * g.ldc + col0 + lane];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(g.N / TILE, g.M / TILE, g.batch);
  launch(sgemm_mbarrier_wrong_parity, grid, dim3(CONSUMERS + 1), 0, g);
}

}  // namespace
