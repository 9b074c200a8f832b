#pragma once

// Copies of A and B that the Tensor Memory Accelerator can read (tensor_copy.hpp), as steps 13, 28 and 29
// need them: rows that begin at multiples of 16 bytes; for step 13 A transposed. In part 3x they are BF16.

#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

// In an unnamed namespace, as a step's kernel is: a program holds all this for both devices.
namespace {

// A batch of row-major matrices [batch][rows][cols].
template <typename T>
struct MatricesOf {
  const T* data;
  int rows, cols;
  std::int64_t ld;      // elements from row to row
  std::int64_t stride;  // elements from matrix to matrix

  TensorMap map(int batch, int box_rows, int box_cols, Swizzle swizzle = Swizzle::none) const {
    return tensor_map(data, rows, cols, ld, batch, stride, box_rows, box_cols, swizzle);
  }
  // Of TF32 numbers, in the 128-byte swizzle (tensor_shape.hpp).
  TensorMap tf32_map(int batch, int box_rows, int box_cols, Swizzle swizzle = Swizzle::of_128_bytes,
                     Convert convert = Convert::to_tf32, Fetch fetch = Fetch::as_rows_lie) const {
    return tensor_map(data, rows, cols, ld, batch, stride, box_rows, box_cols, swizzle, convert, fetch);
  }
};
using Matrices = MatricesOf<float>;

namespace packing {

constexpr int TILE = 64, THREADS = 256;
constexpr int X = TILE / 4, Y = THREADS / X;  // threads across a tile, 4 elements each, and down

// to[matrix][col][row] = from[matrix][row][col], for rows and columns of `to` that exist in `from`; zeros for
// the others. ALIGNED: the rows of `from` are; those of `to` always are.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) transpose(Matrices from, Matrices to, float* to_data) {
  __shared__ float tile[TILE][TILE + 1];  // [row of from][column], padded by one: a column lies in all banks
  const int row0 = blockIdx.x * TILE, col0 = blockIdx.y * TILE;  // of the tile in `from`
  const int x = threadIdx.x % X * 4, y = threadIdx.x / X;
  const float* source = from.data + blockIdx.z * from.stride + row0 * from.ld + col0;
  for (int pass = 0; pass < TILE / Y; ++pass) {
    const int i = y + pass * Y;
    const float4 v =
        load4<ALIGNED>(source + i * from.ld + x, row0 + i < from.rows ? from.cols - col0 - x : 0);
    tile[i][x + 0] = v.x;
    tile[i][x + 1] = v.y;
    tile[i][x + 2] = v.z;
    tile[i][x + 3] = v.w;
  }
  __syncthreads();
  float* target = to_data + blockIdx.z * to.stride + col0 * to.ld + row0;
  for (int pass = 0; pass < TILE / Y; ++pass) {
    const int i = y + pass * Y;
    if (col0 + i >= to.rows || row0 + x >= to.cols) continue;
    float4_at(target + i * to.ld + x) =
        make_float4(tile[x][i], tile[x + 1][i], tile[x + 2][i], tile[x + 3][i]);
  }
}

// 16 bytes of neighbours in a row, of which only the first `valid` elements exist; zeros for the others.
template <bool ALIGNED>
__device__ __forceinline__ float4 load_group(const float* p, int valid) {
  return load4<ALIGNED>(p, valid);
}
template <bool ALIGNED>
__device__ __forceinline__ float4 load_group(const bf16* p, int valid) {
  if constexpr (ALIGNED) {
    return load4<true>(reinterpret_cast<const float*>(p), valid);
  } else {
    std::uint32_t pairs[4];
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t low = 2 * i < valid ? p[2 * i].bits : 0;
      const std::uint32_t high = 2 * i + 1 < valid ? p[2 * i + 1].bits : 0;
      pairs[i] = low | high << 16;
    }
    return make_float4(__uint_as_float(pairs[0]), __uint_as_float(pairs[1]), __uint_as_float(pairs[2]),
                       __uint_as_float(pairs[3]));
  }
}

// to[matrix][row][col] = from[matrix][row][col] likewise. May overlap with the launch before it, a
// transpose().
template <bool ALIGNED, typename T>
__global__ void __launch_bounds__(THREADS) copy(MatricesOf<T> from, MatricesOf<T> to, T* to_data) {
  constexpr int GROUP = 16 / sizeof(T);  // elements that a thread copies at a time
  constexpr int ACROSS = TILE / GROUP, DOWN = THREADS / ACROSS;
  const int row0 = blockIdx.x * TILE, col0 = blockIdx.y * TILE;
  const int x = threadIdx.x % ACROSS * GROUP, y = threadIdx.x / ACROSS;
  for (int i = row0 + y; i < min(row0 + TILE, to.rows); i += DOWN) {
    if (col0 + x >= to.cols) continue;
    const T* source = from.data + blockIdx.z * from.stride + i * from.ld + col0 + x;
    float4_at(reinterpret_cast<float*>(to_data + blockIdx.z * to.stride + i * to.ld + col0 + x)) =
        load_group<ALIGNED>(source, i < from.rows ? from.cols - col0 - x : 0);
  }
  wait_for_previous_launch();  // whoever waits for this launch thereby waits for that of transpose(), too
}

// Room in the workspace for [batch][rows][cols], with at least one row of at least 16 bytes.
template <typename T>
MatricesOf<T> room(int rows, int cols, int batch, Workspace<T>& workspace) {
  constexpr int group = 16 / sizeof(T);
  rows = max(rows, 1), cols = max(ceil_div(cols, group), 1) * group;
  const std::int64_t stride = static_cast<std::int64_t>(rows) * cols;
  return {workspace.at_least(static_cast<std::size_t>(stride) * batch), rows, cols, cols, stride};
}

template <typename Kernel, typename T>
void launch_on_tiles(Kernel kernel, const MatricesOf<T>& from, const MatricesOf<T>& to, int rows, int cols,
                     int batch, bool overlaps_previous = false) {
  const dim3 grid(ceil_div(rows, TILE), ceil_div(cols, TILE), batch);
  launch(kernel, LaunchConfig{grid, dim3(THREADS), 0, {1, 1, 1}, overlaps_previous}, from, to,
         const_cast<T*>(to.data));
}

}  // namespace packing

// A transposed: [batch][K][M], M rounded up to a multiple of 4. One row of zeros if K == 0.
// Throws OutOfMemory, CudaError.
[[maybe_unused]] Matrices transposed_a(const Gemm& g, Workspace<float>& workspace) {
  const Matrices from{g.A, g.M, g.K, g.lda, g.strideA}, to = packing::room(g.K, g.M, g.batch, workspace);
  packing::launch_on_tiles(is_aligned(g) ? packing::transpose<true> : packing::transpose<false>, from, to,
                           to.cols, to.rows, g.batch);
  return to;
}

// A matrix of A or B with rows aligned to 16 bytes: itself, if the problem is aligned and has terms;
// otherwise a copy. overlaps_previous: the launch before copies the other matrix, and does not read what this
// one writes.
template <typename T>
MatricesOf<T> aligned(const GemmOf<T>& g, const MatricesOf<T>& from, Workspace<T>& workspace,
                      bool overlaps_previous) {
  if (is_aligned(g) && g.K > 0) return from;
  const MatricesOf<T> to = packing::room(from.rows, from.cols, g.batch, workspace);
  packing::launch_on_tiles(is_aligned(g) ? packing::copy<true, T> : packing::copy<false, T>, from, to,
                           to.rows, to.cols, g.batch, overlaps_previous);
  return to;
}

// A, or a copy whose rows begin at multiples of 16 bytes. Throws OutOfMemory, CudaError.
template <typename T>
MatricesOf<T> aligned_a(const GemmOf<T>& g, Workspace<T>& workspace) {
  return aligned(g, MatricesOf<T>{g.A, g.M, g.K, g.lda, g.strideA}, workspace, false);
}

// B likewise. To be called right after transposed_a() or aligned_a(), with which the copying overlaps.
// Throws OutOfMemory, CudaError.
template <typename T>
MatricesOf<T> aligned_b(const GemmOf<T>& g, Workspace<T>& workspace) {
  return aligned(g, MatricesOf<T>{g.B, g.K, g.N, g.ldb, g.strideB}, workspace, true);
}

}  // namespace
