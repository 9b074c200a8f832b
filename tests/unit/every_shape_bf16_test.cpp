// The model by which steps/38_every_shape_bf16 chooses.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "steps/38_every_shape_bf16/choose.hpp"

namespace {

constexpr int H100 = 132;  // multiprocessors

constexpr ProductShape product(int M, int N, int K, int batch = 1) {
  return {.M = M, .N = N, .K = K, .batch = batch, .reads_c = false};
}
constexpr const TileTime& time_of(Tile tile) { return TILES[static_cast<int>(tile)]; }
constexpr double estimate_of(const ProductShape& p, const Choice& choice) {
  return estimate(p, choice, H100);
}

TEST(EveryShape, ATileIsARowOfTheTable) {
  int row = 0;
  for (const TileTime& t : TILES) EXPECT_EQ(static_cast<int>(t.tile), row++);
}

TEST(EveryShape, LargeProductsTakeLargeWholeTiles) {
  static_assert(choose(product(8192, 8192, 8192), H100).tile == Tile::t128x256, "also when compiling");
  for (const int n : {4096, 8192, 16384}) {
    const auto [tile, splits, in_pairs, apart] = choose(product(n, n, n), H100);
    EXPECT_EQ(apart, 1) << n;
    EXPECT_EQ(tile, Tile::t128x256) << n;
    EXPECT_EQ(splits, 1) << n;
    EXPECT_FALSE(in_pairs) << n;
  }
}

TEST(EveryShape, FewTilesAreSmallerOrSplit) {
  EXPECT_EQ(choose(product(1024, 1024, 1024), H100).tile, Tile::t128x64);  // a tile for nearly every block
  EXPECT_GE(choose(product(128, 128, 65536), H100).splits, 16);  // there is little else to share out
  EXPECT_EQ(choose(product(64, 64, 64), H100).splits, 1);        // a k-tile cannot be split
}

TEST(EveryShape, FewRowsAreFewColumnsOfTheTransposedTile) {
  for (const int m : {1, 16, 32}) {
    EXPECT_LT(time_of(choose(product(m, 4096, 4096), H100).tile).BM, 64) << m;
  }
}

TEST(EveryShape, WavesThatWouldBeMostlyEmptyAreAvoided) {
  EXPECT_EQ(choose(product(3072, 3072, 3072), H100).tile, Tile::t128x192);  // 384 tiles: 2.9 waves
}

TEST(EveryShape, PairsShareWhatIsReadTwice) {
  ProductShape p = product(3000, 3000, 3000);
  p.straddles_a = p.straddles_b = true;  // 6000 bytes
  EXPECT_TRUE(choose(p, H100).in_pairs);
  const Choice plain{Tile::t128x256, 1, false}, in_pairs{Tile::t128x256, 1, true};
  EXPECT_LT(estimate_of(p, in_pairs), estimate_of(p, plain));
  EXPECT_LT(estimate_of(product(3008, 3008, 3008), plain), estimate_of(p, plain));
}

TEST(EveryShape, TheChoiceIsTheFastestThatCanBe) {
  for (const int m : {1, 16, 65, 128, 300, 1000, 4096, 33333}) {
    for (const int n : {1, 64, 100, 1024, 4095, 50257}) {
      for (const int k : {0, 1, 65, 768, 4096, 65536}) {
        const ProductShape p = product(m, n, k);
        const Choice choice = choose(p, H100);
        const std::int64_t k_tiles = std::max<std::int64_t>(covers(k, K_TILE), 1);
        const std::string text = std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
        EXPECT_LE(choice.splits, k_tiles) << text << ": a part without terms";
        if (choice.splits > 1) {
          EXPECT_LE(tiles_of(p, time_of(choice.tile)) * choice.splits, MOST_WAVES * H100)
              << text << ": the workspace may have any size";
        }
        for (const TileTime& t : TILES) {
          EXPECT_LE(estimate_of(p, choice), estimate_of(p, {t.tile, 1, false})) << text;
        }
      }
    }
  }
}

TEST(EveryShape, NothingIsFasterThanMemory) {
  const ProductShape p = product(128, 8192, 8192);
  const double bytes = 2.0 * 128 * 8192 + 2.0 * 8192 * 8192 + 4.0 * 128 * 8192;
  EXPECT_GT(estimate_of(p, choose(p, H100)), bytes / cost.memory);
}

TEST(EveryShape, CopiesAndReadingCCostTime) {
  const ProductShape p = product(4096, 4096, 64);
  const auto estimate_with = [&](bool reads_c, bool copies_a, bool copies_b) {
    ProductShape other = p;
    other.reads_c = reads_c, other.copies_a = copies_a, other.copies_b = copies_b;
    return estimate_of(other, {Tile::t128x256, 1, false});
  };
  const double least = estimate_with(false, false, false);
  EXPECT_GT(estimate_with(true, false, false), least);
  EXPECT_GT(estimate_with(false, true, false), least);
  EXPECT_GT(estimate_with(false, true, true), estimate_with(false, true, false));
}

// One problem of a table like shapes.txt.
ProductShape read_problem(const std::string& line) {
  std::map<std::string, float> options{{"--batch", 1.0f}, {"--beta", 0.0f}};
  std::istringstream words(line);
  for (std::string option; words >> option;) words >> options[option];
  const auto value = [&](const char* option) { return static_cast<int>(options[option]); };
  const auto rows_straddle = [&](const char* given, const char* cols) {
    const int ld = options.count(given) > 0 ? value(given) : value(cols);
    return ld % 8 == 0 && ld % 64 != 0;
  };
  return {.M = value("--m"),
          .N = value("--n"),
          .K = value("--k"),
          .batch = value("--batch"),
          .reads_c = options["--beta"] != 0.0f,
          .straddles_a = rows_straddle("--lda", "--k"),
          .straddles_b = rows_straddle("--ldb", "--n")};
}

TEST(EveryShape, ItsTableOfShapesMakesTheCpuDeviceChooseEveryTile) {
  constexpr int cpu_device = 4;  // multiprocessors
  std::set<std::tuple<Tile, bool, bool>> chosen;
  std::ifstream table(PROJECT_ROOT "/tests/shapes_every_shape_bf16.txt");
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto [tile, splits, in_pairs, apart] = choose(read_problem(line), cpu_device);
    chosen.insert({tile, splits > 1, in_pairs});
  }
  const auto has = [&](Tile tile, bool split, bool in_pairs) {
    return chosen.count({tile, split, in_pairs}) > 0;
  };
  bool pairs = false;
  for (const TileTime& t : TILES) {
    EXPECT_TRUE(has(t.tile, false, false)) << t.BM << " x " << t.BN;
    pairs = pairs || has(t.tile, false, true);
  }
  EXPECT_TRUE(pairs);
  // Only what is stored where differs.
  EXPECT_TRUE(has(Tile::t128x128, true, false) || has(Tile::t128x64, true, false));
  EXPECT_TRUE(has(Tile::t32x128, true, false) || has(Tile::t16x128, true, false));
}

}  // namespace
