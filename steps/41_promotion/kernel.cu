// Step 41: promotion: every 64 terms the tensor cores' sums are added to FP32 sums of the thread's own.
//
// Idea      Tensor cores do not round a sum to the nearest float; they truncate it, so that all errors go one
//           way and grow with K. A short sum has few of them. So wgmma adds up one k-tile at a time, and the
//           threads add up its results by FADD, which rounds to nearest.
// Change    A second set of sums. The tile has half the columns, so that both sets fit into the registers.
// Bound     What is not hidden of a promotion, and three passes over A, B and C: slower than step 40.
// Needs     sm_90a: wgmma, setmaxnreg

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/workspace.hpp"
#include "common/fp16.hpp"
#include "common/step.hpp"

namespace {

constexpr int PARTS = 2;            // hi and lo
constexpr float SCALE = 0x1p12f;    // elements are multiplied by it first: FP16 has few exponents
constexpr int SPLIT_THREADS = 256;  // of the splitting pass, for four elements each

constexpr int BM = 128, BN = 128, BK = 64;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MM = 64, MK = 16;             // a wgmma's: MM x BN of C, MK terms
constexpr int CONSUMERS = BM / MM;          // warpgroups that multiply, MM rows each; the first one copies
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int STAGES = 6;            // buffers for the tiles
constexpr int GROUP = 64;            // elements in the 128 bytes that are swizzled
constexpr int BAND = 16;             // rows of tiles processed together, column by column
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
static_assert(BK == GROUP);

struct alignas(1024) Tiles {
  fp16 A[STAGES][BM][BK];                 // [stage][row][k], swizzled
  fp16 B[STAGES][BN / GROUP][BK][GROUP];  // [stage][group][k][column], swizzled
  std::uint64_t full[STAGES];             // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];            // all consumers have multiplied them
};

// A or B, and its parts: [batch][PARTS][rows][pitch], the pitch a multiple of 8 elements, 16 bytes.
struct Split {
  const float* data;
  int rows, cols;
  std::int64_t ld, stride;
  fp16* parts;
  std::int64_t pitch;
};

// SCALE * x = hi + lo for each element x. hi is the nearest FP16 number, so that lo, which has a sign, is at
// most half a unit in hi's last place.
template <bool ALIGNED>
__global__ void __launch_bounds__(SPLIT_THREADS) split(Split s) {
  const int row = blockIdx.x, col = (blockIdx.y * SPLIT_THREADS + threadIdx.x) * 4;
  if (col >= s.pitch) return;
  const float4 v = load4<ALIGNED>(s.data + blockIdx.z * s.stride + row * s.ld + col, s.cols - col);
  const float x[] = {SCALE * v.x, SCALE * v.y, SCALE * v.z, SCALE * v.w};
  const std::int64_t plane = s.rows * s.pitch;
  fp16* hi = s.parts + blockIdx.z * PARTS * plane + row * s.pitch + col;
  std::uint32_t hi_pairs[2], lo_pairs[2];
  for (int i = 0; i < 2; ++i) {
    hi_pairs[i] = pack_fp16(x[2 * i], x[2 * i + 1]);
    lo_pairs[i] = pack_fp16(x[2 * i] - first_fp16(hi_pairs[i]), x[2 * i + 1] - second_fp16(hi_pairs[i]));
  }
  float2_at(reinterpret_cast<float*>(hi)) =
      make_float2(__uint_as_float(hi_pairs[0]), __uint_as_float(hi_pairs[1]));
  float2_at(reinterpret_cast<float*>(hi + plane)) =
      make_float2(__uint_as_float(lo_pairs[0]), __uint_as_float(lo_pairs[1]));
}

// A tile of C.
struct Tile {
  int matrix, row0, col0;
};

__device__ __forceinline__ Tile find_tile(const Gemm& g, int number) {
  const int tiles_m = ceil_div(g.M, BM), tiles_n = ceil_div(g.N, BN);
  const int in_matrix = number % (tiles_m * tiles_n);
  const int band = in_matrix / (BAND * tiles_n), in_band = in_matrix % (BAND * tiles_n);
  const int rows = min(BAND, tiles_m - band * BAND);
  const int column = band % 2 == 0 ? in_band / rows : tiles_n - 1 - in_band / rows;
  return {number / (tiles_m * tiles_n), (band * BAND + in_band % rows) * BM, column * BN};
}

// C = g.alpha * A * B + g.beta * C for one part of A and one of B. map_a: boxes BM x BK. map_b: boxes BK x
// GROUP.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_parts(Gemm g, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               int part_a, int part_b) {
  auto& [As, Bs, full, empty] = dynamic_shared<Tiles>();

  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, k_tiles = ceil_div(g.K, BK);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  int stage = 0;
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
      const Tile tile = find_tile(g, number);
      const bool backwards = number / gridDim.x % 2 == 1;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        const int k0 = (backwards ? k_tiles - 1 - k_tile : k_tile) * BK;
        mbarrier_wait(&empty[stage], parity);
        mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * BK * (BM + BN));
        tensor_copy(As[stage], map_a, k0, tile.row0, tile.matrix * PARTS + part_a, &full[stage]);
        for (int group = 0; group < BN / GROUP; ++group) {
          tensor_copy(Bs[stage][group], map_b, tile.col0 + group * GROUP, k0, tile.matrix * PARTS + part_b,
                      &full[stage]);
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, m = (threadIdx.x / 128 - 1) * MM;  // the warpgroup's first row
  int parity = 0;
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Tile tile = find_tile(g, number);
    float products[BN / 2];   // of a k-tile
    float sums[BN / 2] = {};  // FP32
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
      for (int k = 0; k < BK; k += MK) {
        const auto a = matrix_descriptor(&As[stage][m][k], Swizzle::of_128_bytes, 0, ATOM);
        const auto b = matrix_descriptor(&Bs[stage][0][k][0], Swizzle::of_128_bytes, sizeof Bs[0][0], ATOM);
        wgmma_fp16<Major::K, Major::MN>(products, a, b, k > 0);
      }
      wgmma_commit();
      wgmma_wait<0>(products);  // meanwhile the other warpgroup's products keep the tensor cores busy
      if (thread == 0) mbarrier_arrive(&empty[stage]);
      if (++stage == STAGES) stage = 0, parity ^= 1;
#pragma unroll
      for (int j = 0; j < BN / 2; ++j) sums[j] += products[j];
    }

    float* C = g.C + tile.matrix * g.strideC;  // [M][N]
    const int rows = g.M - tile.row0, cols = g.N - tile.col0;
    constexpr float UNSCALE = 1 / (SCALE * SCALE);
#pragma unroll
    for (int j = 0; j < BN / 2; j += 2) {  // two sums side by side
      const auto [row, col] = wgmma_place(thread, j);
      update2<ALIGNED>(&C[(tile.row0 + m + row) * g.ldc + (tile.col0 + col)], m + row < rows ? cols - col : 0,
                       UNSCALE * sums[j], UNSCALE * sums[j + 1], g.alpha, g.beta);
    }
  }
}

// Blocks such that all of them have the same number of tiles, if fewer multiprocessors than there are take as
// many waves.
int blocks_for(int tiles) {
  const int waves = ceil_div(tiles, multiprocessors());
  return ceil_div(tiles, waves);
}

// Splits a matrix; returns the tensor map of its parts.
TensorMap split_matrix(Split s, int batch, bool aligned, Workspace<fp16>& workspace, int box_rows) {
  s.pitch = ceil_div(s.cols, 8) * 8;
  s.parts = workspace.at_least(static_cast<std::size_t>(batch) * PARTS * s.rows * s.pitch);
  if (s.rows > 0 && s.cols > 0) {
    const dim3 grid(s.rows, ceil_div(s.cols, 4 * SPLIT_THREADS), batch);
    launch(aligned ? split<true> : split<false>, grid, dim3(SPLIT_THREADS), 0, s);
  }
  return tensor_map(s.parts, s.rows, s.cols, s.pitch, batch * PARTS, s.rows * s.pitch, box_rows, GROUP,
                    Swizzle::of_128_bytes);
}

void gemm_fp16x3(const Gemm& g) {
  static Workspace<fp16> a_workspace("parts of A"), b_workspace("parts of B");
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  const bool aligned = is_aligned(g);
  const TensorMap map_a =
      split_matrix({g.A, g.M, g.K, g.lda, g.strideA, nullptr, 0}, g.batch, aligned, a_workspace, BM);
  const TensorMap map_b =
      split_matrix({g.B, g.K, g.N, g.ldb, g.strideB, nullptr, 0}, g.batch, aligned, b_workspace, BK);
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  Gemm product = g;
  constexpr int products[][2] = {{0, 1}, {1, 0}, {0, 0}};  // parts of A and B; 0 is hi
  for (const auto& [part_a, part_b] : products) {
    launch(aligned ? gemm_parts<true> : gemm_parts<false>, dim3(blocks_for(tiles)), dim3(THREADS),
           sizeof(Tiles), product, map_a, map_b, part_a, part_b);
    product.beta = 1;  // the others add to the first
  }
}

}  // namespace
