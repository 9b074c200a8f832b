#pragma once

// Which kernel, with which tile and how many parts of K: a model of the time that each would take, and the
// choice of the fastest.

#include <algorithm>
#include <cmath>

#include "common/step.hpp"

// In an unnamed namespace, as a step's kernel is: a program holds all this for both devices.
namespace {

enum class Tile { large, large_swapped, t128x128, t128x96, t64x128, t64x64, t64x32, t32x64, t16x256 };

// parts: into how many the terms of a tile are cut; of a large tile, at most.
struct Choice {
  Tile tile;
  int parts;
  double seconds;
};

namespace model {

// A multiprocessor's FFMAs per second, if it did nothing else: 128 per cycle.
constexpr double FFMAS = 128 * 1.95e9;

// A small tile: its size, how many of its blocks a multiprocessor holds, what fraction of FFMAS the
// multiprocessor reaches with one of them and with all, and what fraction of that if rows are not aligned.
struct SmallTile {
  Tile tile;
  int BM, BN, BK, blocks;
  double one, all, unaligned;
};

// Fitted to the times of these tiles, at many shapes and splits, on an H200.
constexpr SmallTile SMALL_TILES[] = {
    {Tile::t128x128, 128, 128, 16, 2, 0.745, 0.76, 0.95}, {Tile::t128x96, 128, 96, 16, 2, 0.65, 0.7, 0.9},
    {Tile::t64x128, 64, 128, 16, 4, 0.63, 0.725, 0.9},    {Tile::t64x64, 64, 64, 16, 3, 0.59, 0.62, 0.89},
    {Tile::t64x32, 64, 32, 16, 4, 0.425, 0.47, 0.86},     {Tile::t32x64, 32, 64, 16, 4, 0.5, 0.56, 0.82},
    {Tile::t16x256, 16, 256, 16, 3, 0.54, 0.62, 0.6},
};
constexpr int SPLITS[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128};
constexpr int PARTS[] = {1, 2, 3, 4, 6, 8, 12};

// Seconds: a launch, the wait of a wave's blocks for their first copies, the launch of a second kernel. Bytes
// per second: TRAFFIC of the copies of tiles, from wherever, PASS of a pass that packs a matrix, ADDING of
// one that adds up partial sums.
constexpr double LAUNCH = 1.5e-6, WAVE = 0.9e-6, SECOND_LAUNCH = 2.7e-6, TRAFFIC = 1.2e13, PASS = 4e12,
                 ADDING = 1.9e12;
// Two parts of a tile are a cluster: it starts later, by PAIR, and each block reads half a tile of sums from
// its own shared memory and half a tile from the other's, REMOTE bytes per second.
constexpr double PAIR = 1.2e-6, REMOTE = 2e10;
// Of large tiles: the launches, a slab, handing over a part of a tile, storing a tile.
constexpr double LARGE_LAUNCHES = 8e-6, SLAB = 9.4e-6, PART = 1.4e-6, LARGE_STORE = 3.1e-6;
// For large tiles where rows are not aligned: the launch that packs B, too, and bytes per second of packing.
constexpr double UNALIGNED_LAUNCH = 7e-6, UNALIGNED_PASS = 2.7e12;

double small(const Gemm& g, const SmallTile& t, int splits) {
  const int terms = ceil_div(ceil_div(g.K, splits), t.BK) * t.BK;
  splits = max(ceil_div(g.K, max(terms, 1)), 1);
  const double blocks = 1.0 * ceil_div(g.M, t.BM) * ceil_div(g.N, t.BN) * g.batch * splits;
  // Full waves, of t.blocks blocks on each multiprocessor, and one wave of what is left.
  const double ffmas = FFMAS * (is_aligned(g) ? 1.0 : t.unaligned);
  const auto wave = [&](double resident) {
    return WAVE + resident * t.BM * t.BN * terms / (ffmas * std::min(t.all, resident * t.one));
  };
  const double at_a_time = 1.0 * t.blocks * multiprocessors();
  const double waves = std::floor(blocks / at_a_time), left = blocks - waves * at_a_time;
  double seconds = waves * wave(t.blocks) + (left > 0 ? wave(std::ceil(left / multiprocessors())) : 0.0);
  seconds = std::max(seconds, 4.0 * terms * (t.BM + t.BN) * blocks / TRAFFIC) + LAUNCH;
  if (splits == 2) seconds += PAIR + 4.0 * t.BM * t.BN / REMOTE;
  if (splits > 2) seconds += SECOND_LAUNCH + 4.0 * g.M * g.N * g.batch * (splits + 1) / ADDING;
  return seconds;
}

double large(const Gemm& g, bool swapped, int parts) {
  const int M = swapped ? g.N : g.M, N = swapped ? g.M : g.N;
  const double tiles = 1.0 * ceil_div(M, 128) * ceil_div(N, 256) * g.batch, slabs = max(ceil_div(g.K, 64), 1);
  const double blocks = std::min<double>(multiprocessors(), std::min<double>(parts, slabs) * tiles);
  const double share = tiles * slabs / blocks, whole = std::ceil(tiles / blocks);
  const double a = 8.0 * g.M * g.K * g.batch, b = 8.0 * g.K * g.N * g.batch;  // bytes of packing
  const double packing = is_aligned(g) ? a / PASS : UNALIGNED_LAUNCH + (a + b) / UNALIGNED_PASS;
  const bool even = tiles / blocks == whole;
  return LARGE_LAUNCHES + packing + share * SLAB + (even ? 0.0 : PART * std::ceil(slabs / share)) +
         LARGE_STORE * whole;
}

}  // namespace model

// The choice takes some microseconds, which counts for a small product: it is kept while the shape stays.
Choice choose(const Gemm& g) {
  struct Shape {
    int M, N, K, batch;
    bool aligned;
    bool operator==(const Shape&) const = default;
  };
  static Shape last{};
  static Choice best{};
  const Shape shape{g.M, g.N, g.K, g.batch, is_aligned(g)};
  if (shape == last) return best;
  best = {Tile::large, 1, model::large(g, false, 1)};
  const auto consider = [&](Tile tile, int parts, double seconds) {
    if (seconds < best.seconds) best = {tile, parts, seconds};
  };
  for (const int parts : model::PARTS) {
    consider(Tile::large, parts, model::large(g, false, parts));
    consider(Tile::large_swapped, parts, model::large(g, true, parts));
  }
  for (const model::SmallTile& tile : model::SMALL_TILES) {
    for (const int splits : model::SPLITS) consider(tile.tile, splits, model::small(g, tile, splits));
  }
  last = shape;
  return best;
}

}  // namespace
