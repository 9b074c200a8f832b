#pragma once

// Which tile, and how many parts of K: a model of the time that each choice would take, and the fastest.
//
// What a recording must decide:
// - every number of TILES and of `cost`, fitted to the times of all choices, at the shapes of the table and
//   around them; PINNED, beside the kernel, makes every product take one choice;
// - whether 192 columns beat 256 where waves are ragged (3000: 3 waves of 3/4, not 3), or a remainder that is
//   split alone does;
// - whether 4 stages of 192 columns, or 6 of 128, cost clock as the fourth of 256 does;
// - flat shapes (16 to 128 rows): how many blocks must stream B, and with how many bytes under way, for
//   memory to be the limit; whether wider tiles with more parts or copies that two blocks share do better;
// - adding up parts in clusters or by a second launch; how many clusters run at the same time;
// - small unaligned products: copies in a launch of their own, or by threads of the producer warpgroup.

#include <algorithm>
#include <cstdint>

// In an unnamed namespace, as a step's kernel is: a program holds all this for both devices.
namespace {

// BM x BN of C. Those of less than 128 rows are computed as tiles of C transposed, B transposed times A
// transposed, so that it is the columns of C that are rows of the tensor cores' products.
enum class Tile { t128x256, t128x192, t128x128, t128x64, t64x128, t32x128, t16x128 };

// splits: how many parts the terms of a tile are cut into, for a block each. in_cluster: these blocks are a
// cluster, and add up what they leave to each other in shared memory; otherwise a second launch does.
struct Choice {
  Tile tile;
  int splits;
  bool in_cluster;
};

constexpr int K_TILE = 64;  // terms that a block multiplies at a time

// A tile: its size, the microseconds that a multiprocessor takes to multiply a k-tile that is there, and
// those between the last k-tile of a tile and the first of the next: sums are stored, the pipeline fills.
struct TileTime {
  Tile tile;
  int BM, BN;
  double k_tile, between;
};

// On an H200. Of 256, 128 and 64 columns: from the times of single sizes, 8192, 2048 and 1024. The others are
// estimates.
constexpr TileTime TILES[] = {
    {Tile::t128x256, 128, 256, 0.62, 2.8}, {Tile::t128x192, 128, 192, 0.49, 2.1},
    {Tile::t128x128, 128, 128, 0.33, 1.4}, {Tile::t128x64, 128, 64, 0.20, 0.9},
    {Tile::t64x128, 64, 128, 0.20, 0.9},   {Tile::t32x128, 32, 128, 0.14, 0.7},
    {Tile::t16x128, 16, 128, 0.10, 0.6},
};
constexpr int SPLITS[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128};
// Clusters of blocks, and the fraction of the multiprocessors that are in use when as many run as fit.
struct ClusterFit {
  int blocks;
  double fraction;
};
constexpr ClusterFit CLUSTERS[] = {{2, 1.0}, {4, 0.91}, {8, 0.79}};
constexpr int MOST_WAVES = 4;  // of split tiles: so much at most is the workspace for their sums

// The rest, in microseconds, and in bytes per microsecond (TB/s * 1e6).
struct Cost {
  double launch = 2.5;         // the kernel begins, and its first copies arrive
  double more_launches = 1.7;  // one that overlaps with the launch before: copies of rows, adding up
  double block = 9e4;          // what comes to one multiprocessor, at most
  double tiles = 1.2e7;        // what comes to all of them, from the L2 or from memory
  double memory = 4.1e6;       // what memory moves: A, B and C once
  double copying = 3.8e6;      // rows read and written
  double adding = 1.9e6;       // sums of parts written, read and added up
  double cluster = 0.8;        // its blocks wait for each other, twice
  double handing_over = 5e4;   // what one block reads of the cluster's sums
};
constexpr Cost cost;

// What the model knows of a product.
struct ProductShape {
  int M, N, K, batch;
  bool reads_c;             // beta != 0
  bool copies_a, copies_b;  // their rows do not begin at multiples of 16 bytes
  bool operator==(const ProductShape&) const = default;
};

constexpr std::int64_t covers(std::int64_t elements, std::int64_t tile) {
  return (elements + tile - 1) / tile;
}
constexpr std::int64_t tiles_of(const ProductShape& p, const TileTime& t) {
  return covers(p.M, t.BM) * covers(p.N, t.BN) * p.batch;
}

// How many blocks run at the same time in clusters of so many.
constexpr std::int64_t running(int cluster, int multiprocessors) {
  for (const ClusterFit& fit : CLUSTERS) {
    if (fit.blocks != cluster) continue;
    return std::max(static_cast<int>(fit.fraction * multiprocessors) / cluster, 1) * cluster;
  }
  return multiprocessors;
}

// Microseconds for a product with this tile and so many parts, on a GPU with so many multiprocessors.
constexpr double estimate(const ProductShape& p, const TileTime& t, int splits, bool in_cluster,
                          int multiprocessors) {
  const std::int64_t units = tiles_of(p, t) * splits;
  const std::int64_t waves = covers(units, running(in_cluster ? splits : 1, multiprocessors));
  const std::int64_t blocks = covers(units, waves);
  const double a = 2.0 * p.M * p.K * p.batch, b = 2.0 * p.K * p.N * p.batch, c = 4.0 * p.M * p.N * p.batch;

  // The slower of multiplying a k-tile and fetching one, when all blocks fetch theirs; and of all that and
  // memory.
  const double fetch = 2.0 * K_TILE * (t.BM + t.BN) / std::min(cost.block, cost.tiles / blocks);
  const double parts = covers(covers(p.K, K_TILE), splits) * std::max(t.k_tile, fetch) + t.between;
  double time = cost.launch + std::max(waves * parts, (a + b + c * (p.reads_c ? 2 : 1)) / cost.memory);

  if (in_cluster) {
    time += waves * (cost.cluster + 4.0 * t.BM * t.BN / cost.handing_over);
  } else if (splits > 1) {
    time += cost.more_launches + c * (splits + 1) / cost.adding;
  }
  const double copied = (p.copies_a ? 2 * a : 0.0) + (p.copies_b ? 2 * b : 0.0);
  if (copied > 0) time += cost.more_launches + copied / cost.copying;
  return time;
}

// The choice for a product that is not empty.
constexpr Choice choose(const ProductShape& p, int multiprocessors) {
  const std::int64_t k_tiles = std::max<std::int64_t>(covers(p.K, K_TILE), 1);
  Choice best{TILES[0].tile, 1, false};
  double least = estimate(p, TILES[0], 1, false, multiprocessors);
  const auto consider = [&](const TileTime& t, int splits, bool in_cluster) {
    if (splits > k_tiles) return;
    const double time = estimate(p, t, splits, in_cluster, multiprocessors);
    if (time < least) least = time, best = {t.tile, splits, in_cluster};
  };
  for (const TileTime& t : TILES) {
    for (const ClusterFit& fit : CLUSTERS) consider(t, fit.blocks, true);
    for (const int splits : SPLITS) {
      if (splits > 1 && tiles_of(p, t) * splits > MOST_WAVES * multiprocessors) break;
      consider(t, splits, false);
    }
  }
  return best;
}

}  // namespace
