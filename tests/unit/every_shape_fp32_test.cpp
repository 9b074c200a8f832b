// The model by which steps/15_every_shape chooses, as on the GPU of the recorded evidence: what the step's
// page says that it takes.

#include <gtest/gtest.h>

#include "common/step.hpp"

namespace {
constexpr int h200_multiprocessors() { return 132; }
}  // namespace

#define multiprocessors h200_multiprocessors  // in place of the CPU device's
#include "steps/15_every_shape/choose.hpp"

namespace {

struct Wanted {
  int M, N, K;
  Tile tile;
  int parts;
};

// Of rows without gaps.
Gemm product(int M, int N, int K) {
  Gemm g{};
  g.M = M, g.N = N, g.K = K, g.batch = 1;
  g.lda = K, g.ldb = g.ldc = N;
  return g;
}

TEST(EveryShape, TheModelTakesWhatThePageSays) {
  for (const auto& [M, N, K, tile, parts] : {
           Wanted{256, 256, 128, Tile::t32x64, 1},
           Wanted{512, 512, 512, Tile::t32x64, 1},
           Wanted{768, 768, 768, Tile::t128x128, 3},
           Wanted{1000, 1000, 1000, Tile::t64x128, 2},
           Wanted{1023, 1023, 1023, Tile::t128x128, 2},
           Wanted{1024, 1024, 1024, Tile::t64x128, 2},
           Wanted{8192, 128, 8192, Tile::t128x128, 2},
           Wanted{257, 1025, 4097, Tile::t64x64, 3},
           Wanted{32, 11008, 4096, Tile::t16x256, 3},
           Wanted{64, 11008, 4096, Tile::t64x128, 3},
           Wanted{16, 4096, 4096, Tile::t16x256, 16},
           Wanted{4096, 16, 4096, Tile::t64x32, 4},
           Wanted{33333, 65, 65, Tile::t128x96, 1},
       }) {
    const Choice choice = choose(product(M, N, K));
    EXPECT_EQ(choice.tile, tile) << M << " x " << N << " x " << K;
    EXPECT_EQ(choice.parts, parts) << M << " x " << N << " x " << K;
  }
}

TEST(EveryShape, LargeProductsTakeLargeTiles) {
  for (const int n : {1536, 2048, 3000, 4092, 4095, 4096, 8192, 16384}) {
    EXPECT_EQ(choose(product(n, n, n)).tile, Tile::large) << n;
  }
  Gemm many = product(1000, 1000, 1000);
  many.batch = 100, many.strideA = many.strideB = many.strideC = 1000 * 1000;
  EXPECT_EQ(choose(many).tile, Tile::large);
}

// The page's example: a launch, the wait for the first copies, and a tile's products at half the rate.
TEST(EveryShape, TheEstimateAt512) {
  EXPECT_NEAR(choose(product(512, 512, 512)).seconds * 1e6, 1.5 + 0.9 + 32 * 64 * 512 / (0.5 * 128 * 1950),
              1e-9);
}

}  // namespace
