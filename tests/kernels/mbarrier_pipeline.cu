// One warp fills tiles of A and B with bulk copies while four others compute. They synchronise by mbarriers
// alone, two for each buffer: one says that it is full, one that it is empty. Rows that are not aligned are
// copied element by element.
//
// Needs     sm_90+: mbarriers, bulk copies

#include "common/cuda/bulk_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 32, BN = 32, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int STAGES = 2;                 // buffers for the tiles
constexpr int CONSUMERS = 128;            // threads that compute; one warp more copies
constexpr int TM = BM * BN / CONSUMERS;   // a thread computes TM elements of a column
static_assert(BM == 32 && BN == 32 && BK <= 32);

// The row's first `valid` of COLS elements, and zeros. Returns how many bytes a bulk copy will bring.
template <bool ALIGNED, int COLS>
__device__ __forceinline__ int fill_row(float* shared, const float* global, int valid) {
  const int copied = ALIGNED ? max(0, min(valid, COLS)) : 0;
  for (int i = copied; i < COLS; ++i) shared[i] = i < valid ? global[i] : 0.0f;
  return copied * static_cast<int>(sizeof(float));
}

template <bool ALIGNED>
__global__ void __launch_bounds__(CONSUMERS + 32) sgemm_mbarrier_pipeline(Gemm g) {
  __shared__ __align__(16) float As[STAGES][BM][BK];  // [row][k]
  __shared__ __align__(16) float Bs[STAGES][BK][BN];  // [k][col]
  __shared__ std::uint64_t full[STAGES], empty[STAGES];

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tiles = ceil_div(g.K, BK);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 32);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  if (threadIdx.x >= CONSUMERS) {  // each lane copies one row of A, and one of B if there are so many
    for (int tile = 0; tile < tiles; ++tile) {
      const int stage = tile % STAGES, k0 = tile * BK, row = row0 + lane, k = k0 + lane;
      const float* a = A + row * g.lda + k0;
      const float* b = B + k * g.ldb + col0;
      mbarrier_wait(&empty[stage], tile / STAGES % 2 ^ 1);  // passes at once in the first round
      const int a_bytes = fill_row<ALIGNED, BK>(As[stage][lane], a, row < g.M ? g.K - k0 : 0);
      const int b_bytes = lane < BK ? fill_row<ALIGNED, BN>(Bs[stage][lane], b, k < g.K ? g.N - col0 : 0) : 0;
      mbarrier_arrive_expect_tx(&full[stage], a_bytes + b_bytes);
      // No fence between a lane's own writes and these: only the last tile is cut short, so where a lane has
      // written zeros or single floats, no copy writes afterwards.
      if (a_bytes > 0) bulk_copy(As[stage][lane], a, a_bytes, &full[stage]);
      if (b_bytes > 0) bulk_copy(Bs[stage][lane], b, b_bytes, &full[stage]);
    }
    return;
  }

  float sums[TM] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % STAGES;
    mbarrier_wait(&full[stage], tile / STAGES % 2);
    for (int k = 0; k < BK; ++k) {
      const float b = Bs[stage][k][lane];
      for (int i = 0; i < TM; ++i) sums[i] += As[stage][warp * TM + i][k] * b;
    }
    mbarrier_arrive(&empty[stage]);
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
  launch(is_aligned(g) ? sgemm_mbarrier_pipeline<true> : sgemm_mbarrier_pipeline<false>, grid,
         dim3(CONSUMERS + 32), 0, g);
}

}  // namespace
