#pragma once

// What comes before and behind the multiplication: copies of A and B whose rows begin at multiples of 16
// bytes, and the sum of the parts of split tiles.

#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"
#include "steps/38_every_shape_bf16/choose.hpp"

namespace {
namespace passes {

constexpr int THREADS = 256;
constexpr int GROUP = 8;  // bf16 in 16 bytes
constexpr int LINE = 64;  // bf16 in a line of the L2

// A batch of row-major matrices [batch][rows][cols]; rows lie ld, matrices stride elements apart.
template <typename T>
struct Matrices {
  T* data;
  int rows, cols, batch;
  std::int64_t ld, stride;
};
using Operand = Matrices<const bf16>;

// Whether the Tensor Memory Accelerator can reach it: addresses and distances in multiples of 16 bytes, below
// 2^40 bytes (tensor_shape.hpp). A row may be of any length.
template <typename T>
bool fits_tensor_map(const Matrices<T>& m) {
  constexpr std::int64_t unit = 16 / sizeof(T), end = (std::int64_t{1} << 40) / sizeof(T);
  const auto fits = [](std::int64_t distance) { return distance % unit == 0 && distance < end; };
  return reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 && fits(m.ld) && (m.batch == 1 || fits(m.stride));
}

// Whether it can be reached by every eighth row, without a copy. What lies before a row, back to a multiple
// of 16 bytes, is read with it: that must be the row before, which only rows without gaps have there.
inline bool eighths_fit(const Operand& m) {
  Operand rows = m;
  rows.ld *= EIGHTH;
  return m.rows >= EIGHTH && m.ld == m.cols && fits_tensor_map(rows);
}

// `from` to rows ld_to and matrices stride_to elements apart. `across` threads share a row, a power of two;
// so many blocks have all rows.
struct Copy {
  Operand from;
  bf16* to;
  std::int64_t ld_to, stride_to;
  int across, blocks;
};

// Eight neighbours from p on, of a row or rows from `begin` to `end`; what lies beyond is zero. Mostly by the
// two groups of 16 bytes that have them, shifted by words and half a word.
__device__ __forceinline__ float4 load8(const bf16* p, const bf16* begin, const bf16* end) {
  const int before = static_cast<int>(reinterpret_cast<std::uintptr_t>(p) % 16 / sizeof(bf16));
  const bf16* from = p - before;
  std::uint32_t pairs[GROUP] = {};
  if (from >= begin && from + 2 * GROUP <= end) {
    const auto group = [&](int i) { return *reinterpret_cast<const float4*>(from + i * GROUP); };
    const auto put = [&](int i, float4 v) {
      pairs[i] = __float_as_uint(v.x), pairs[i + 1] = __float_as_uint(v.y);
      pairs[i + 2] = __float_as_uint(v.z), pairs[i + 3] = __float_as_uint(v.w);
    };
    put(0, group(0));
    put(4, group(1));
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      if (before & 4) pairs[i] = pairs[i + 2];
    }
#pragma unroll
    for (int i = 0; i < 5; ++i) {
      if (before & 2) pairs[i] = pairs[i + 1];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (before & 1) pairs[i] = pairs[i] >> 16 | pairs[i + 1] << 16;
    }
  } else {
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      if (p + i < end) pairs[i / 2] |= static_cast<std::uint32_t>(p[i].bits) << i % 2 * 16;
    }
  }
  return make_float4(__uint_as_float(pairs[0]), __uint_as_float(pairs[1]), __uint_as_float(pairs[2]),
                     __uint_as_float(pairs[3]));
}

// What a launch copies: A, B or both.
struct Copies {
  Copy of[2];
};

// A thread copies one group at a time: with more, of which a block has fewer, large matrices take longer.
__global__ void __launch_bounds__(THREADS) copy_rows(Copies copies) {
  let_next_launch_begin();
  wait_for_previous_launch();  // it may write A or B, and read what is copied here
  const int first_blocks = copies.of[0].blocks;
  const bool second = static_cast<int>(blockIdx.x) >= first_blocks;
  const Copy& copy = copies.of[second];
  const Operand& from = copy.from;
  const bool side_by_side = from.ld == from.cols;  // rows: nothing between them that must not be read
  const int block = blockIdx.x - (second ? first_blocks : 0);
  const int row = block * (THREADS / copy.across) + threadIdx.x / copy.across;
  if (row >= from.rows) return;
  for (int matrix = blockIdx.y; matrix < from.batch; matrix += gridDim.y) {
    const bf16* begin = from.data + matrix * from.stride;
    const bf16* end = begin + (from.rows - 1) * from.ld + from.cols;
    const bf16* own = begin + row * from.ld;
    bf16* to = copy.to + matrix * copy.stride_to + row * copy.ld_to;
    for (int col = threadIdx.x % copy.across * GROUP; col < from.cols; col += copy.across * GROUP) {
      const float4 group = load8(own + col, side_by_side ? begin : own, side_by_side ? end : own + from.cols);
      float4_at(reinterpret_cast<float*>(to + col)) = group;
    }
  }
}

constexpr unsigned MOST_Y = 65535;  // blocks of a grid

// A and B with rows that the Tensor Memory Accelerator can reach: themselves, or copies, which one launch
// makes. keeps_a: A is reached by every eighth row. Throws OutOfMemory, CudaError.
struct Operands {
  Operand a, b;
};
Operands reachable(const Operand& a, const Operand& b, bool keeps_a, bool overlaps) {
  static Workspace<bf16> a_workspace("aligned A"), b_workspace("aligned B");
  Operands result{a, b};
  Copies copies{};
  int count = 0;
  unsigned blocks = 0;
  const auto add = [&](Operand& operand, Workspace<bf16>& workspace) {
    if (operand.cols == 0 || operand.rows == 0 || fits_tensor_map(operand)) return;
    const int groups = ceil_div(operand.cols, GROUP);
    int across = 1;
    while (across < min(groups, THREADS)) across *= 2;
    const std::int64_t ld = std::int64_t{ceil_div(operand.cols, LINE)} * LINE, stride = ld * operand.rows;
    bf16* to = workspace.at_least(static_cast<std::size_t>(stride) * operand.batch);
    const int own_blocks = ceil_div(operand.rows, THREADS / across);
    copies.of[count++] = {operand, to, ld, stride, across, own_blocks};
    blocks += own_blocks;
    operand.data = to, operand.ld = ld, operand.stride = stride;
  };
  if (!keeps_a) add(result.a, a_workspace);
  add(result.b, b_workspace);
  if (count == 0) return result;
  const dim3 grid(blocks, min(static_cast<unsigned>(a.batch), MOST_Y));
  launch(copy_rows, LaunchConfig{.grid = grid, .block = dim3(THREADS), .overlaps_previous = overlaps},
         copies);
  return result;
}

// C = alpha * (the sum of the parts) + beta * C, in the order of the parts, four columns a thread. SHARERS
// threads share the parts of each four: each adds up every SHARERS-th, the first of them what they have.
template <int SHARERS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    add_parts(GemmBf16 g, int splits, const float* parts /* [matrix][split][M][ld] */, std::int64_t ld) {
  constexpr int ACROSS = THREADS / SHARERS;
  __shared__ __align__(16) float shared[SHARERS][ACROSS * 4];
  let_next_launch_begin();
  const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
  const std::int64_t four = static_cast<std::int64_t>(blockIdx.x) * ACROSS + x, fours = ld / 4;
  const std::int64_t row = four / fours, size = g.M * ld, matrix = row / g.M, in_matrix = row % g.M;
  const int col = static_cast<int>(four % fours) * 4, left = matrix < g.batch ? g.N - col : 0;
  const float* from = parts + matrix * splits * size + in_matrix * ld + col;
  float sums[4] = {};
  wait_for_previous_launch();  // the parts are there
#pragma unroll 4
  for (int split = y; split < splits; split += SHARERS) {
    const float4 v = load4<true>(from + split * size, left);
    sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
  }
  if constexpr (SHARERS > 1) {
    float4_at(&shared[y][x * 4]) = make_float4(sums[0], sums[1], sums[2], sums[3]);
    __syncthreads();
    if (y > 0) return;
    for (int other = 1; other < SHARERS; ++other) {
      const float4 v = float4_at(&shared[other][x * 4]);
      sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
    }
  }
  update4<ALIGNED>(g.C + matrix * g.strideC + in_matrix * g.ldc + col, left, sums, g.alpha, g.beta);
}

// parts: [batch][splits][M][ld]; ld is a multiple of 4, and what lies behind column N - 1 may be read.
void add(const GemmBf16& g, int splits, const float* parts, std::int64_t ld, bool c_is_aligned,
         bool overlaps) {
  constexpr int FEW = 2, SHARERS = 4;  // so many parts one thread adds up; more of them, so many threads
  const bool shared = splits > FEW;
  const std::int64_t fours = ld / 4 * g.M * g.batch, per_block = THREADS / (shared ? SHARERS : 1);
  const LaunchConfig config{.grid = dim3(static_cast<unsigned>((fours + per_block - 1) / per_block)),
                            .block = dim3(THREADS),
                            .overlaps_previous = overlaps};
  const auto kernel = shared ? (c_is_aligned ? add_parts<SHARERS, true> : add_parts<SHARERS, false>)
                             : (c_is_aligned ? add_parts<1, true> : add_parts<1, false>);
  launch(kernel, config, g, splits, parts, ld);
}

}  // namespace passes
}  // namespace
