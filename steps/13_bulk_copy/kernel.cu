// Step 13: one thread requests whole tiles, and the Tensor Memory Accelerator (TMA) copies them.
//
// Idea      A tile is one request, not thousands. TMA computes the addresses, fills what lies beyond the
//           matrix with zeros, and signals an mbarrier when all bytes have arrived.
// Change    Two stages of BK = 64 terms, each filled by two requests. TMA requires rows aligned to 16
//           bytes, and it does not transpose: so a kernel of its own transposes A beforehand, and B is
//           copied if its rows are not aligned (common/cuda/pack.hpp).
// Bound     The main loop is FFMAs and shared loads, and little else. At 4096 there are 3.9 tiles per SM:
//           the last wave leaves SMs idle, which the next step mends.
// Needs     sm_90+: mbarriers, tensor copies

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 256, BK = 64;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 16;              // the thread's tile: TM x TN of C
constexpr int LM = 2, LN = 16;              // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;   // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;            // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0);
constexpr int STAGES = 2;  // buffers for the tiles
constexpr int UNROLL = 8;  // terms in a pass of the innermost loop; with all 64, it runs at half the speed
static_assert(BK % UNROLL == 0);

struct alignas(128) Tiles {
  float A[STAGES * BK][BM];    // [k][row]: one stage behind the other
  float B[STAGES * BK][BN];    // [k][col]
  std::uint64_t full[STAGES];  // mbarriers: the tiles of the stage have arrived
};

// map_a: of A transposed, boxes BK x BM. map_b: of B, boxes BK x BN.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) sgemm_bulk_copy(Gemm g, const __grid_constant__ TensorMap map_a,
                                                           const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / WARPS_N * WM + lane / LN * 4;  // the thread's rows: m + spread(i, LM * 4)
  const int n = warp % WARPS_N * WN + lane % LN * 4;  // its columns: n + spread(j, LN * 4)

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&full[stage], 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  const auto copy_tiles = [&](int tile) {
    const int stage = tile % STAGES;
    mbarrier_arrive_expect_tx(&full[stage], sizeof(float) * BK * (BM + BN));
    tensor_copy(As[stage * BK], map_a, row0, tile * BK, blockIdx.z, &full[stage]);
    tensor_copy(Bs[stage * BK], map_b, col0, tile * BK, blockIdx.z, &full[stage]);
  };

  __align__(16) float a[2][TM], b[2][TN];  // fragments for this k and for the next
  const auto load_fragments = [&](int set, float* a_from, float* b_from, int k) {
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = load4_now(a_from + k * BM + spread(i, LM * 4));
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = load4_now(b_from + k * BN + spread(j, LN * 4));
  };

  float sums[TM][TN] = {};
  if (threadIdx.x == 0) copy_tiles(0);
  mbarrier_wait(&full[0], 0);
  float *a_here = &As[0][m], *b_here = &Bs[0][n];  // the thread's fragments for the next pass
  load_fragments(0, a_here, b_here, 0);
  for (int tile = 0, left = g.K; left > 0; ++tile, left -= BK) {
    __syncthreads();                             // nobody needs the other stage any more
    if (threadIdx.x == 0) copy_tiles(tile + 1);  // past the last term: zeros
    const int stage = (tile + 1) % STAGES, parity = (tile + 1) / STAGES % 2;  // of the next tile
    int passes = ceil_div(min(left, BK), UNROLL);
#pragma unroll 1
    do {
      const bool last = passes == 1;
      float* a_next = last ? &As[stage * BK][m] : a_here + UNROLL * BM;
      float* b_next = last ? &Bs[stage * BK][n] : b_here + UNROLL * BN;
#pragma unroll
      for (int k = 0; k < UNROLL; ++k) {
        if (k + 1 < UNROLL) {
          load_fragments((k + 1) % 2, a_here, b_here, k + 1);
        } else {
          if (last) mbarrier_wait(&full[stage], parity);
          load_fragments(0, a_next, b_next, 0);
        }
        // Down one column of the thread's tile, up the next: consecutive FFMAs always share an operand, and a
        // shared operand is not read from the registers again.
        for (int j = 0; j < TN; ++j) {
          for (int i = 0; i < TM; ++i) {
            const int row = j % 2 == 0 ? i : TM - 1 - i;
            sums[row][j] += a[k % 2][row] * b[k % 2][j];
          }
        }
      }
      a_here = a_next, b_here = b_next;
    } while (--passes);
  }

  if (g.batch < 0) {  // never runs: asks for registers, as in step 12
#pragma unroll
    for (int j = 0; j < TN; ++j) request_registers<1, 0, 3, 2>(C, sums, j, THREADS);
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);  // within the block's tile
      update4<ALIGNED>(&C[(row0 + row) * g.ldc + col0 + col], row < rows ? cols - col : 0, &sums[i][j],
                       g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  static Workspace<float> a_workspace("transposed A"), b_workspace("aligned B");
  if (g.M == 0 || g.N == 0) return;
  const TensorMap map_a = transposed_a(g, a_workspace).map(g.batch, BK, BM);
  const TensorMap map_b = aligned_b(g, b_workspace).map(g.batch, BK, BN);
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_bulk_copy<true> : sgemm_bulk_copy<false>, grid, dim3(THREADS), sizeof(Tiles),
         g, map_a, map_b);
}

}  // namespace
