#pragma once

// Tiles of C, the warpgroups' parts of them, and which way each part is computed.

#include "common/accuracy.hpp"
#include "common/step.hpp"

enum class Path : unsigned {
  fast,       // three products of FP16 numbers
  few_terms,  // FP32: an element is the sum of few products
  lossy,      // FP32: an element is so small that what its operands have lost may show
  special,    // FP32: a row of A or a column of B has an infinity or a NaN
  short_k,    // FP32: K is small
  unproved,   // FP32: so many operands are zero that an element may be the sum of few products
};
constexpr int PATHS = 6;
constexpr const char* path_names[PATHS] = {
    "by FP16 products", "in FP32: few terms",
    "in FP32: lossy",   "in FP32: an infinity or a NaN",
    "in FP32: short K", "in FP32: too many zeros for the proof",
};

// Of one call, in device memory. The call's first launch clears it.
struct Ledger {
  unsigned taken[PATHS];  // parts by path
  unsigned begun;         // paces of all blocks together, where they keep step
};

// The latest call's; whoever wants to know reads it when the call has ended.
inline const Ledger* latest_ledger = nullptr;

// In an unnamed namespace, as the kernel is: a program holds all this for both devices.
namespace {

constexpr int MM = 64;   // rows of a warpgroup's part of C; a block's tile has one or two parts
constexpr int BN = 128;  // columns of both
constexpr int BAND = 8;  // rows of tiles processed together, column by column

__host__ __device__ inline int tiles_of(const Gemm& g, int BM) {
  return ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
}
// Parts of C, whatever a tile's rows.
inline std::int64_t parts_at_most(int M, int N, int batch) {
  return std::int64_t{2} * ceil_div(M, 2 * MM) * ceil_div(N, BN) * batch;
}
// Words that have a bit for each of them.
inline int words_of_parts(int M, int N, int batch) {
  return static_cast<int>((parts_at_most(M, N, batch) + 31) / 32);
}

// Where a tile of C, or a part of one, begins.
struct Part {
  int matrix, row0, col0;
};

template <int BM>
__device__ __forceinline__ Part find_tile(const Gemm& g, int number) {
  const int tiles_m = ceil_div(g.M, BM), tiles_n = ceil_div(g.N, BN);
  const int in_matrix = number % (tiles_m * tiles_n);
  const int band = in_matrix / (BAND * tiles_n), in_band = in_matrix % (BAND * tiles_n);
  const int rows = min(BAND, tiles_m - band * BAND);
  const int column = band % 2 == 0 ? in_band / rows : tiles_n - 1 - in_band / rows;
  return {number / (tiles_m * tiles_n), (band * BAND + in_band % rows) * BM, column * BN};
}

// The part with this number, where a tile has so many.
template <int CONSUMERS>
__device__ __forceinline__ Part find_part(const Gemm& g, int number) {
  const Part tile = find_tile<CONSUMERS * MM>(g, number / CONSUMERS);
  return {tile.matrix, tile.row0 + number % CONSUMERS * MM, tile.col0};
}

}  // namespace
