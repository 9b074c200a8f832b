// Step 43: every row of A and every column of B has a scale of its own, a power of two.
//
// Idea      FP16 has five bits of exponent: with a fixed scale, large elements become infinite, and small
//           ones vanish. An element of C is a row of A times a column of B; so each of these may be
//           multiplied by any power of two, which rounds nothing, if the product is divided by both.
// Change    Two more kernels find the largest element of each row of A and column of B; the splitting pass
//           brings it to FP16's upper end. The epilogue takes the scales out.
// Bound     For small and medium matrices, finding the largest elements: slower than step 42.
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

constexpr int PARTS = 2;     // hi and lo
constexpr int LARGEST = 14;  // exponent of a line's largest element, scaled
constexpr int SPLIT_THREADS = 256;

constexpr int BM = 128, BN = 128, BK = 64;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MM = 64, MK = 16;             // a wgmma's: MM x BN of C, MK terms
constexpr int CONSUMERS = BM / MM;          // warpgroups that multiply, MM rows each; the first one copies
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int STAGES = 3;            // buffers for the tiles
constexpr int GROUP = 64;            // elements in the 128 bytes that are swizzled
constexpr int BAND = 16;             // rows of tiles processed together, column by column
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
static_assert(BK == GROUP);

struct alignas(1024) Tiles {
  fp16 A[STAGES][PARTS][BM][BK];                 // [stage][hi, lo][row][k], swizzled
  fp16 B[STAGES][PARTS][BN / GROUP][BK][GROUP];  // [stage][hi, lo][group][k][column], swizzled
  std::uint64_t full[STAGES];                    // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];                   // all consumers have multiplied them
};

// A or B, and its parts. A line is a row of A or a column of B.
struct Split {
  const float* data;
  int rows, cols;
  std::int64_t ld, stride;
  int* scales;         // [batch][lines]: exponents
  fp16* parts;         // [batch][PARTS][rows][pitch]
  std::int64_t pitch;  // a multiple of 8 elements, 16 bytes
};

// 2^exponent, which is a normal number.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<unsigned>(exponent + 127) << 23);
}

// x * 2^exponent, with one rounding unless the result is subnormal; 2^exponent may be no float: two steps.
__device__ __forceinline__ float scaled(float x, int exponent) {
  const int first = min(max(exponent, -126), 127), second = min(max(exponent - first, -126), 127);
  return x * power_of_two(first) * power_of_two(second);
}

// The exponent that brings a line whose largest magnitude has these bits into [2^LARGEST, 2^(LARGEST + 1)).
__device__ __forceinline__ int scale_for(unsigned bits) {
  const float largest = __uint_as_float(bits);
  if (largest == 0.0f) return 0;
  const bool subnormal = largest < 0x1p-126f;
  const unsigned normal = subnormal ? __float_as_uint(largest * 0x1p24f) : bits;
  return LARGEST - (static_cast<int>(normal >> 23) - 127 - (subnormal ? 24 : 0));
}

// A warp per row. As bits, magnitudes are ordered.
__global__ void __launch_bounds__(SPLIT_THREADS) row_scales(Split s) {
  const int lane = threadIdx.x % 32, row = (blockIdx.x * SPLIT_THREADS + threadIdx.x) / 32;
  if (row >= s.rows) return;
  const float* x = s.data + blockIdx.z * s.stride + row * s.ld;
  unsigned largest = 0;
#pragma unroll 8
  for (int col = lane; col < s.cols; col += 32) largest = max(largest, __float_as_uint(x[col]) & 0x7fffffff);
  for (int apart = 1; apart < 32; apart *= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffff, largest, apart));
  }
  if (lane == 0) s.scales[static_cast<std::int64_t>(blockIdx.z) * s.rows + row] = scale_for(largest);
}

// A lane per column; the block's warps share its rows.
__global__ void __launch_bounds__(SPLIT_THREADS) column_scales(Split s) {
  constexpr int WARPS = SPLIT_THREADS / 32;
  __shared__ unsigned found[WARPS][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, col = blockIdx.x * 32 + lane;
  const float* x = s.data + blockIdx.z * s.stride + col;
  unsigned largest = 0;
#pragma unroll 8
  for (int row = warp; row < s.rows; row += WARPS) {
    if (col < s.cols) largest = max(largest, __float_as_uint(x[row * s.ld]) & 0x7fffffff);
  }
  found[warp][lane] = largest;
  __syncthreads();
  if (warp > 0 || col >= s.cols) return;
  for (int other = 1; other < WARPS; ++other) largest = max(largest, found[other][lane]);
  s.scales[static_cast<std::int64_t>(blockIdx.z) * s.cols + col] = scale_for(largest);
}

// x * 2^scale = hi + lo for each element x. hi is the nearest FP16 number, so that lo, which has a sign, is
// at most half a unit in hi's last place.
template <bool COLUMNS, bool ALIGNED>
__global__ void __launch_bounds__(SPLIT_THREADS) split(Split s) {
  const int row = blockIdx.x, col = (blockIdx.y * SPLIT_THREADS + threadIdx.x) * 4;
  if (col >= s.pitch) return;
  const float4 v = load4<ALIGNED>(s.data + blockIdx.z * s.stride + row * s.ld + col, s.cols - col);
  float x[] = {v.x, v.y, v.z, v.w};
  const int* scales = s.scales + static_cast<std::int64_t>(blockIdx.z) * (COLUMNS ? s.cols : s.rows);
  for (int i = 0; i < 4; ++i) x[i] = scaled(x[i], scales[COLUMNS ? min(col + i, s.cols - 1) : row]);
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

// map_a: boxes BM x BK. map_b: boxes BK x GROUP.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_split(Gemm g, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               const int* scales_a, const int* scales_b) {
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
        mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * PARTS * BK * (BM + BN));
        for (int part = 0; part < PARTS; ++part) {
          const int matrix = tile.matrix * PARTS + part;
          tensor_copy(As[stage][part], map_a, k0, tile.row0, matrix, &full[stage]);
          for (int group = 0; group < BN / GROUP; ++group) {
            tensor_copy(Bs[stage][part][group], map_b, tile.col0 + group * GROUP, k0, matrix, &full[stage]);
          }
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, m = (threadIdx.x / 128 - 1) * MM;  // the warpgroup's first row
  int parity = 0;
  const auto a_at = [&](int part, int k) {
    return matrix_descriptor(&As[stage][part][m][k], Swizzle::of_128_bytes, 0, ATOM);
  };
  const auto b_at = [&](int part, int k) {
    return matrix_descriptor(&Bs[stage][part][0][k][0], Swizzle::of_128_bytes, sizeof Bs[0][0][0], ATOM);
  };
  const auto multiply = [&](float (&d)[BN / 2], int part_a, int part_b, int k, bool adds = true) {
    wgmma_fp16<Major::K, Major::MN>(d, a_at(part_a, k), b_at(part_b, k), adds);
  };
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Tile tile = find_tile(g, number);
    float products[BN / 2];   // of a k-tile
    float sums[BN / 2] = {};  // FP32
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK; k += MK) {
        multiply(products, 0, 1, k, k > 0);
        multiply(products, 1, 0, k);
      }
#pragma unroll
      for (int k = 0; k < BK; k += MK) multiply(products, 0, 0, k);
      wgmma_commit();
      wgmma_wait<0>(products);  // meanwhile the other warpgroup's products keep the tensor cores busy
      if (thread == 0) mbarrier_arrive(&empty[stage]);
      if (++stage == STAGES) stage = 0, parity ^= 1;
#pragma unroll
      for (int j = 0; j < BN / 2; ++j) sums[j] += products[j];
    }

    float* C = g.C + tile.matrix * g.strideC;  // [M][N]
    const int rows = g.M - tile.row0, cols = g.N - tile.col0;
    // A thread has two rows, eight apart, and of every eight columns two neighbours.
    const int* of_cols = scales_b + static_cast<std::int64_t>(tile.matrix) * g.N + tile.col0;
    int of_row[2];
    for (int r = 0; r < 2; ++r) {
      const int row = min(m + wgmma_place(thread, 2 * r).row, rows - 1);
      of_row[r] = scales_a[static_cast<std::int64_t>(tile.matrix) * g.M + tile.row0 + row];
    }
#pragma unroll
    for (int j = 0; j < BN / 2; j += 2) {  // two sums side by side
      const auto [row, col] = wgmma_place(thread, j);
      if (m + row >= rows || col >= cols) continue;
      const int s = of_row[j / 2 % 2];
      update2<ALIGNED>(&C[(tile.row0 + m + row) * g.ldc + (tile.col0 + col)], cols - col,
                       scaled(sums[j], -s - of_cols[col]),
                       scaled(sums[j + 1], -s - of_cols[min(col + 1, cols - 1)]), g.alpha, g.beta);
    }
  }
}

// Blocks such that all of them have the same number of tiles, if fewer multiprocessors than there are take as
// many waves.
int blocks_for(int tiles) {
  const int waves = ceil_div(tiles, multiprocessors());
  return ceil_div(tiles, waves);
}

// What the splitting pass of a matrix makes: its parts, and the scales of its lines.
struct Room {
  Workspace<int> scales;
  Workspace<fp16> parts;
};

template <bool COLUMNS>
Split split_matrix(Split s, int batch, bool aligned, Room& room) {
  s.pitch = ceil_div(s.cols, 8) * 8;
  s.parts = room.parts.at_least(static_cast<std::size_t>(batch) * PARTS * s.rows * s.pitch);
  s.scales = room.scales.at_least(static_cast<std::size_t>(batch) * (COLUMNS ? s.cols : s.rows));
  const unsigned line_blocks = COLUMNS ? ceil_div(s.cols, 32) : ceil_div(s.rows, SPLIT_THREADS / 32);
  launch(COLUMNS ? column_scales : row_scales, dim3(line_blocks, 1, batch), dim3(SPLIT_THREADS), 0, s);
  if (s.rows > 0 && s.cols > 0) {
    const dim3 grid(s.rows, ceil_div(s.cols, 4 * SPLIT_THREADS), batch);
    launch(aligned ? split<COLUMNS, true> : split<COLUMNS, false>, grid, dim3(SPLIT_THREADS), 0, s);
  }
  return s;
}

TensorMap map_parts(const Split& s, int batch, int box_rows) {
  return tensor_map(s.parts, s.rows, s.cols, s.pitch, batch * PARTS, s.rows * s.pitch, box_rows, GROUP,
                    Swizzle::of_128_bytes);
}

void gemm_fp16x3(const Gemm& g) {
  static Room room_a{Workspace<int>("scales of A"), Workspace<fp16>("parts of A")},
      room_b{Workspace<int>("scales of B"), Workspace<fp16>("parts of B")};
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  const bool aligned = is_aligned(g);
  const Split a =
      split_matrix<false>({g.A, g.M, g.K, g.lda, g.strideA, nullptr, nullptr, 0}, g.batch, aligned, room_a);
  const Split b =
      split_matrix<true>({g.B, g.K, g.N, g.ldb, g.strideB, nullptr, nullptr, 0}, g.batch, aligned, room_b);
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  launch(aligned ? gemm_split<true> : gemm_split<false>, dim3(blocks_for(tiles)), dim3(THREADS),
         sizeof(Tiles), g, map_parts(a, g.batch, BM), map_parts(b, g.batch, BK), a.scales, b.scales);
}

}  // namespace
