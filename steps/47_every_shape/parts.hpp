#pragma once

// Parts of C, MM x BN elements each, and which way each of them is computed.

#include "common/step.hpp"

enum class Path : unsigned {
  fast,       // three products of FP16 numbers
  few_terms,  // FP32: an element is the sum of few products
  lossy,      // FP32: an element is so small that what its operands have lost may show
  special,    // FP32: a row of A or a column of B has an infinity or a NaN
  short_k,    // FP32: K is small
};
constexpr int PATHS = 5;

// Of one call, in device memory. The splitting pass clears it.
struct Ledger {
  unsigned taken[PATHS];  // parts by path
  unsigned listed;        // parts on the list for the FP32 kernel
};

// The latest call's; whoever wants to know reads it when the call has ended.
inline const Ledger* latest_ledger = nullptr;

namespace {

constexpr int BM = 128;             // rows of a block's tile of C, which has BN columns: 128 or 64
constexpr int MM = 64;              // rows of a warpgroup's part of it
constexpr int CONSUMERS = BM / MM;  // warpgroups that multiply
constexpr int BAND = 16;            // rows of tiles processed together, column by column

// Where a tile of C, or a part of one, begins.
struct Place {
  int matrix, row0, col0;
};

template <int BN>
__device__ __forceinline__ Place find_tile(const Gemm& g, int number) {
  const int tiles_m = ceil_div(g.M, BM), tiles_n = ceil_div(g.N, BN);
  const int in_matrix = number % (tiles_m * tiles_n);
  const int band = in_matrix / (BAND * tiles_n), in_band = in_matrix % (BAND * tiles_n);
  const int rows = min(BAND, tiles_m - band * BAND);
  const int column = band % 2 == 0 ? in_band / rows : tiles_n - 1 - in_band / rows;
  return {number / (tiles_m * tiles_n), (band * BAND + in_band % rows) * BM, column * BN};
}

template <int BN>
__device__ __forceinline__ Place find_part(const Gemm& g, int number) {
  const Place tile = find_tile<BN>(g, number / CONSUMERS);
  return {tile.matrix, tile.row0 + number % CONSUMERS * MM, tile.col0};
}

}  // namespace
