// The model by which steps/38_every_shape_bf16 chooses.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "steps/38_every_shape_bf16/choose.hpp"

namespace {

constexpr int H200 = 132;  // multiprocessors

constexpr ProductShape product(int M, int N, int K, int batch = 1) {
  return {.M = M, .N = N, .K = K, .batch = batch, .reads_c = false, .copies_a = false, .copies_b = false};
}
constexpr const TileTime& time_of(Tile tile) { return TILES[static_cast<int>(tile)]; }
constexpr double estimate_of(const ProductShape& p, const Choice& choice) {
  return estimate(p, time_of(choice.tile), choice.splits, choice.in_cluster, H200);
}

TEST(EveryShape, ATileIsARowOfTheTable) {
  int row = 0;
  for (const TileTime& t : TILES) EXPECT_EQ(static_cast<int>(t.tile), row++);
}

TEST(EveryShape, LargeProductsTakeLargeWholeTiles) {
  static_assert(choose(product(8192, 8192, 8192), H200).tile == Tile::t128x256, "also when compiling");
  for (const int n : {4096, 8192, 16384}) {
    const auto [tile, splits, in_cluster] = choose(product(n, n, n), H200);
    EXPECT_EQ(tile, Tile::t128x256) << n;
    EXPECT_EQ(splits, 1) << n;
    EXPECT_FALSE(in_cluster) << n;
  }
}

TEST(EveryShape, FewTilesAreSmallerOrSplit) {
  EXPECT_EQ(choose(product(1024, 1024, 1024), H200).tile, Tile::t128x64);  // a tile for nearly every block
  EXPECT_GE(choose(product(128, 128, 65536), H200).splits, 16);  // there is little else to share out
  EXPECT_EQ(choose(product(64, 64, 64), H200).splits, 1);        // a k-tile cannot be split
}

TEST(EveryShape, FewPartsAreAddedUpInAClusterAndManyByALaunch) {
  EXPECT_TRUE(choose(product(257, 1025, 4097), H200).in_cluster);
  EXPECT_FALSE(choose(product(128, 128, 65536), H200).in_cluster);
  EXPECT_EQ(running(1, H200), 132);
  EXPECT_EQ(running(4, H200), 120);
  EXPECT_EQ(running(8, 4), 8);  // a cluster runs, whatever there is
}

TEST(EveryShape, FewRowsAreFewColumnsOfTheTransposedTile) {
  for (const int m : {1, 16, 32}) {
    EXPECT_LT(time_of(choose(product(m, 4096, 4096), H200).tile).BM, 64) << m;
  }
}

TEST(EveryShape, WavesThatWouldBeMostlyEmptyAreAvoided) {
  EXPECT_EQ(choose(product(3000, 3000, 3000), H200).tile, Tile::t128x192);  // 384 tiles: 2.9 waves
}

TEST(EveryShape, TheChoiceIsTheFastestThatCanBe) {
  for (const int m : {1, 16, 65, 128, 300, 1000, 4096, 33333}) {
    for (const int n : {1, 64, 100, 1024, 4095, 50257}) {
      for (const int k : {0, 1, 65, 768, 4096, 65536}) {
        const ProductShape p = product(m, n, k);
        const Choice choice = choose(p, H200);
        const std::int64_t k_tiles = std::max<std::int64_t>(covers(k, K_TILE), 1);
        const std::string text = std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
        EXPECT_LE(choice.splits, k_tiles) << text << ": a part without terms";
        if (choice.splits > 1 && !choice.in_cluster) {
          EXPECT_LE(tiles_of(p, time_of(choice.tile)) * choice.splits, MOST_WAVES * H200)
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
  EXPECT_GT(estimate_of(p, choose(p, H200)), bytes / cost.memory);
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
  return {.M = value("--m"),
          .N = value("--n"),
          .K = value("--k"),
          .batch = value("--batch"),
          .reads_c = options["--beta"] != 0.0f,
          .copies_a = false,
          .copies_b = false};
}

TEST(EveryShape, ItsTableOfShapesMakesTheCpuDeviceChooseEveryTile) {
  constexpr int cpu_device = 4;  // multiprocessors
  enum { whole, by_launch, in_cluster };
  std::set<std::pair<Tile, int>> chosen;
  std::ifstream table(PROJECT_ROOT "/tests/shapes_every_shape_bf16.txt");
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    const Choice choice = choose(read_problem(line), cpu_device);
    chosen.insert({choice.tile, choice.splits == 1 ? whole : choice.in_cluster ? in_cluster : by_launch});
  }
  const auto has = [&](Tile tile, int how) { return chosen.count({tile, how}) > 0; };
  for (const TileTime& t : TILES) {
    EXPECT_TRUE(has(t.tile, whole)) << t.BM << " x " << t.BN;
    EXPECT_TRUE(has(t.tile, in_cluster)) << t.BM << " x " << t.BN;
  }
  // Only what is stored where differs.
  EXPECT_TRUE(has(Tile::t128x128, by_launch) || has(Tile::t128x64, by_launch));
  EXPECT_TRUE(has(Tile::t32x128, by_launch) || has(Tile::t16x128, by_launch));
}

}  // namespace
