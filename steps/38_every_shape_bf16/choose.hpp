#pragma once

// Which tile, and how many parts of K: a model of the time that each choice would take, and the fastest.
//
// The numbers of TILES and of `cost` are fitted to the times of all choices at 66 shapes on an H200 and
// of 18 on an H100, whose memory is slower, so that what is chosen takes little longer than the best: that
// matters, not how well each time is met. PINNED, beside the kernel, makes every product take one choice.

#include <algorithm>
#include <cstdint>

// In an unnamed namespace, as a step's kernel is: a program holds all this for both devices.
namespace {

// BM x BN of C. Those of less than 128 rows are computed as tiles of C transposed, B transposed times A
// transposed, so that it is the columns of C that are rows of the tensor cores' products.
enum class Tile { t128x256, t128x192, t128x128, t128x64, t64x128, t32x128, t16x128 };

// splits: how many parts the terms of a tile are cut into, for a block each; a second launch adds them up.
// apart: a tile has neighbouring rows of C (1), or every eighth: rows of A that TMA can reach so, and only
// so. in_pairs: two blocks of a cluster have tiles one below the other, and receive those of B together.
struct Choice {
  Tile tile;
  int splits;
  bool in_pairs;
  int apart = 1;
};

constexpr int PAIR = 2;     // blocks that receive the tiles of B together
constexpr int EIGHTH = 8;   // so many rows, whatever their length, are a multiple of 16 bytes
constexpr int K_TILE = 64;  // terms that a block multiplies at a time

// A tile: its size, the microseconds that a multiprocessor takes to multiply a k-tile that is there, and
// those between the last k-tile of a tile and the first of the next: sums are stored, the pipeline fills.
struct TileTime {
  Tile tile;
  int BM, BN;
  double k_tile, between;
};

constexpr TileTime TILES[] = {
    {Tile::t128x256, 128, 256, 0.625, 1.73},  {Tile::t128x192, 128, 192, 0.520, 0.777},
    {Tile::t128x128, 128, 128, 0.363, 0.518}, {Tile::t128x64, 128, 64, 0.238, 0.259},
    {Tile::t64x128, 64, 128, 0.243, 0.761},   {Tile::t32x128, 32, 128, 0.213, 0.42},
    {Tile::t16x128, 16, 128, 0.193, 0.2},
};
constexpr int SPLITS[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128};
constexpr int MOST_WAVES = 4;  // of split tiles: so much at most is the workspace for their sums

// The rest, in microseconds, and in bytes per microsecond (TB/s * 1e6).
struct Cost {
  double launch = 5.5;           // the kernel begins, its first copies arrive, and it ends
  double adding_up = 2.07;       // a launch that overlaps with the one before
  double copies = 1.2;           // likewise, and more of it
  double block = 9.82e4;         // what comes to one multiprocessor, when all of them fetch
  double memory = 3.26e6;        // what memory moves: A, B and C once
  double again = 1.05;           // an operand keeps memory busy longer if several tiles of C need its rows
  double copying = 3.4e6;        // rows read and written
  double adding = 3.37e6;        // sums of parts written, read and added up
  double straddling = 1.44;      // lines of the L2 that are read for one, where rows begin elsewhere
  double sharing = 0.715;        // two blocks begin and end together
  double eighths = 1.08;         // a k-tile takes longer if the rows are every eighth
  double between_eighths = 1.1;  // and so do tiles: their first columns are cleared, their map is another one
};
constexpr Cost cost;

// What the model knows of a product.
struct ProductShape {
  int M, N, K, batch;
  bool reads_c = false;                           // beta != 0
  bool copies_a = false, copies_b = false;        // their rows do not begin at multiples of 16 bytes
  bool by_eighths = false;                        // not all of A's, but every eighth row does
  bool straddles_a = false, straddles_b = false;  // they do, but not at multiples of 128: lines of the L2
  bool operator==(const ProductShape&) const = default;
};

constexpr std::int64_t covers(std::int64_t elements, std::int64_t tile) {
  return (elements + tile - 1) / tile;
}
// Tiles, in whole pairs if pairs share those of B, and as many from each row that a tile may begin with.
constexpr std::int64_t tiles_of(const ProductShape& p, const TileTime& t, int sharers = 1, int apart = 1) {
  return covers(p.M, sharers * apart * t.BM) * sharers * apart * covers(p.N, t.BN) * p.batch;
}

// Microseconds that a product takes with this choice, on a GPU with so many multiprocessors.
constexpr double estimate(const ProductShape& p, const Choice& choice, int multiprocessors) {
  const TileTime& t = TILES[static_cast<int>(choice.tile)];
  const int splits = choice.splits, apart = choice.apart, sharers = choice.in_pairs ? PAIR : 1;
  const std::int64_t units = tiles_of(p, t, sharers, apart) * splits;
  const std::int64_t waves = covers(units, std::max(multiprocessors / sharers, 1) * sharers);
  const std::int64_t k_tiles = waves * covers(covers(p.K + apart - 1, K_TILE), splits);  // of a block
  const auto rounds = static_cast<double>(waves);
  const double a = 2.0 * p.M * p.K * p.batch, b = 2.0 * p.K * p.N * p.batch, c = 4.0 * p.M * p.N * p.batch;

  // The slower of multiplying a k-tile and fetching one, when all blocks fetch theirs; and of all that and
  // memory. Rows and groups of columns that do not exist are not fetched.
  const double rows = std::min(t.BM, p.M) * (p.straddles_a || apart > 1 ? cost.straddling : 1.0);
  const double columns = std::min<double>(t.BN, 64.0 * static_cast<double>(covers(p.N, 64))) *
                         (p.straddles_b ? cost.straddling : 1.0) / sharers;
  const double fetch = 2.0 * K_TILE * (rows + columns) / cost.block;
  // All columns of tiles ask for A, all rows of tiles for B. The L2 answers, but not for nothing where A or B
  // is large: a tall A is multiplied faster by tiles that are as wide as C.
  const double memory = a * (p.N > t.BN ? cost.again : 1.0) + b * (p.M > sharers * t.BM ? cost.again : 1.0) +
                        c * (p.reads_c ? 2 : 1);
  const double k_tile = std::max(t.k_tile, fetch) * (apart > 1 ? cost.eighths : 1.0);
  double time = cost.launch + rounds * (t.between + (apart > 1 ? cost.between_eighths : 0.0)) +
                std::max(static_cast<double>(k_tiles) * k_tile, memory / cost.memory);
  if (sharers > 1) time += cost.sharing;
  if (splits > 1) time += cost.adding_up + c * (splits + 1) / cost.adding;
  const double copied = (p.copies_a && apart == 1 ? 2 * a : 0.0) + (p.copies_b ? 2 * b : 0.0);
  if (copied > 0) time += cost.copies + copied / cost.copying;
  return time;
}

// The choice for a product that is not empty.
constexpr Choice choose(const ProductShape& p, int multiprocessors) {
  const std::int64_t k_tiles = std::max<std::int64_t>(covers(p.K, K_TILE), 1);
  Choice best{TILES[0].tile, 1, false};
  double least = estimate(p, best, multiprocessors);
  const auto consider = [&](const Choice& choice) {
    if (choice.splits > k_tiles) return;
    const double time = estimate(p, choice, multiprocessors);
    if (time < least) least = time, best = choice;
  };
  for (const TileTime& t : TILES) {
    if (t.BM == 128 && p.by_eighths) consider({t.tile, 1, false, EIGHTH});
    for (const int splits : SPLITS) {
      if (splits > 1 && tiles_of(p, t) * splits > MOST_WAVES * multiprocessors) break;
      consider({t.tile, splits, false});
      if (t.BM == 128) consider({t.tile, splits, true});
    }
  }
  return best;
}

}  // namespace
