// BF16 by wgmma: one warpgroup computes 64 x 128 elements of C, and of two stages of tiles in shared memory
// one is filled while the tensor cores read the other. Tensor copies bring the tiles; where rows do not begin
// at multiples of 16 bytes there can be no tensor map, and the threads write them where a copy would.
//
// Needs     sm_90a: wgmma

#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 64, BN = 128, BK = 64;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int THREADS = 128;
constexpr int STAGES = 2;
constexpr int GROUP = 64;  // elements in the 128 bytes that are swizzled
constexpr int MK = 16;     // terms of a wgmma
constexpr int SUMS = BM * BN / THREADS;
constexpr int BYTES = (BM * BK + BK * BN) * sizeof(bf16);  // that come for a tile, zeros too
static_assert(BK == GROUP);
constexpr auto SWIZZLE = Swizzle::of_128_bytes;

struct alignas(1024) Tiles {
  bf16 A[STAGES][BM][BK];                 // [stage][row][k], K-major
  bf16 B[STAGES][BN / GROUP][BK][GROUP];  // [stage][group][k][col], MN-major
  std::uint64_t full[STAGES];
};

// Element (row, col) of a tile with rows of 128 bytes, where a copy would put it.
__device__ __forceinline__ bf16& element(bf16 (*tile)[GROUP], int row, int col) {
  const std::size_t byte = (row * GROUP + col) * sizeof(bf16);
  return (&tile[0][0])[swizzled(SWIZZLE, byte) / sizeof(bf16)];
}

template <bool COPIES>
__global__ void __launch_bounds__(THREADS)
    gemm_wgmma_tiles(GemmBf16 g, const __grid_constant__ TensorMap map_a,
                     const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();
  const bf16* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const bf16* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;       // [M][N]

  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, matrix = blockIdx.z;
  const int t = threadIdx.x;
  const int tiles = ceil_div(g.K, BK);

  if (COPIES && t == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&full[stage], 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  const auto fill = [&](int tile) {
    const int k0 = tile * BK, stage = tile % STAGES;
    if constexpr (COPIES) {
      if (t == 0) {
        mbarrier_arrive_expect_tx(&full[stage], BYTES);
        tensor_copy(As[stage], map_a, k0, row0, matrix, &full[stage]);
        for (int group = 0; group < BN / GROUP; ++group) {
          tensor_copy(Bs[stage][group], map_b, col0 + group * GROUP, k0, matrix, &full[stage]);
        }
      }
    } else {
      for (int i = t; i < BM * BK; i += THREADS) {
        const int row = row0 + i / BK, k = k0 + i % BK;
        element(As[stage], i / BK, i % BK) = row < g.M && k < g.K ? A[row * g.lda + k] : bf16(0.0f);
      }
      for (int i = t; i < BK * BN; i += THREADS) {
        const int k = k0 + i / BN, col = col0 + i % BN;
        element(Bs[stage][i % BN / GROUP], i / BN, i % GROUP) =
            k < g.K && col < g.N ? B[k * g.ldb + col] : bf16(0.0f);
      }
      fence_async_proxy();  // wgmma reads as copies do
    }
  };

  float sums[SUMS] = {};
  if (tiles > 0) fill(0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % STAGES;
    if (COPIES) {
      mbarrier_wait(&full[stage], tile / STAGES % 2);
    } else {
      __syncthreads();
    }
    const MatrixDescriptor a = matrix_descriptor(As[stage], SWIZZLE, 0, 8 * 128);
    const MatrixDescriptor b = matrix_descriptor(Bs[stage], SWIZZLE, sizeof Bs[stage][0], 8 * 128);
    wgmma_fence();
    for (int k = 0; k < BK; k += MK) {
      wgmma_bf16<Major::K, Major::MN>(sums, a + k * sizeof(bf16), b + k * 128);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the tile before this one has been read
    if (tile + 1 < tiles) fill(tile + 1);
  }
  wgmma_wait<0>(sums);

  for (int i = 0; i < SUMS; ++i) {
    const WgmmaPlace at = wgmma_place(t, i);
    const int row = row0 + at.row, col = col0 + at.col;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void gemm(const GemmBf16& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  const auto multiple_of_8 = [](auto... numbers) { return ((numbers % 8 == 0) && ...); };
  const auto index = [](const bf16* p) { return reinterpret_cast<std::uintptr_t>(p) / sizeof(bf16); };
  if (multiple_of_8(g.lda, g.ldb, g.strideA, g.strideB, index(g.A), index(g.B))) {
    launch(gemm_wgmma_tiles<true>, grid, dim3(THREADS), sizeof(Tiles), g,
           tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, BM, BK, SWIZZLE),
           tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, BK, GROUP, SWIZZLE));
  } else {
    launch(gemm_wgmma_tiles<false>, grid, dim3(THREADS), sizeof(Tiles), g, TensorMap{}, TensorMap{});
  }
}

}  // namespace
