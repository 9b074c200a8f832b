// Which blocks of a problem --xray observes, and that it says so where this build can observe none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/harness/error.hpp"
#include "common/harness/run.hpp"
#include "common/harness/xray.hpp"

namespace {

using harness::plan_xray;
using harness::XrayPlan;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A step that computes TILE x TILE elements in a block, each in a thread of its own.
constexpr int TILE = 32;
bool launched = false;
void kernel(Gemm) { launched = true; }
void entry(const Gemm& g) {
  launch(kernel, dim3((g.N + TILE - 1) / TILE, (g.M + TILE - 1) / TILE, g.batch), dim3(TILE * TILE), 0, g);
}
const harness::Step tiled{"step", {}, entry, entry};

Gemm problem(int M, int N, int K, int batch = 1) {
  Gemm g{};
  g.M = M, g.N = N, g.K = K, g.batch = batch;
  return g;
}

struct Block {
  std::uint64_t x, y, z;
  auto operator<=>(const Block&) const = default;
};

std::set<Block> blocks_of(const Gemm& g, std::size_t launch = 0) {
  const XrayPlan plan = plan_xray(tiled, g, std::nullopt);
  EXPECT_FALSE(plan.all);
  const std::uint64_t in_x = (g.N + TILE - 1) / TILE, in_y = (g.M + TILE - 1) / TILE;
  std::set<Block> blocks;
  for (const std::uint64_t linear : plan.blocks.at(launch)) {
    blocks.insert({linear % in_x, linear / in_x % in_y, linear / in_x / in_y});
  }
  EXPECT_EQ(blocks.size(), plan.blocks[launch].size()) << "some block twice";
  return blocks;
}

std::set<Block> lattice(const std::set<std::uint64_t>& xs, const std::set<std::uint64_t>& ys,
                        const std::set<std::uint64_t>& zs = {0}) {
  std::set<Block> blocks;
  for (const std::uint64_t x : xs) {
    for (const std::uint64_t y : ys) {
      for (const std::uint64_t z : zs) blocks.insert({x, y, z});
    }
  }
  return blocks;
}

std::string refusal(const Gemm& g, const harness::BlockIndex& block) {
  try {
    plan_xray(tiled, g, block);
  } catch (const harness::InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Plan, SmallProblemsAreObservedWholly) {
  for (const Gemm& g : {problem(256, 256, 128), problem(1, 1, 1), problem(512, 512, 128), problem(0, 5, 5),
                        problem(5, 5, 0), problem(64, 64, 64, 100)}) {
    const XrayPlan plan = plan_xray(tiled, g, std::nullopt);
    EXPECT_TRUE(plan.all);
    EXPECT_THAT(plan.blocks, IsEmpty());
  }
  EXPECT_FALSE(launched);
}

TEST(Plan, CornersEdgesAndBetween) {
  EXPECT_EQ(blocks_of(problem(4096, 4096, 4096)), lattice({0, 63, 127}, {0, 63, 127}));
  EXPECT_EQ(blocks_of(problem(4096, 2048, 4096)), lattice({0, 31, 63}, {0, 63, 127}));
  // At most so many however small K is, at least 4 however large.
  EXPECT_EQ(blocks_of(problem(32 * 1000, 32 * 1000, 1)).size(), 64u);
  EXPECT_EQ(blocks_of(problem(64 * 32, 64 * 32, 1 << 24)), lattice({0, 63}, {0, 63}));
}

TEST(Plan, NarrowGrids) {
  EXPECT_EQ(blocks_of(problem(32, 32 * 101, 4096)), lattice({0, 12, 25, 37, 50, 62, 75, 87, 100}, {0}));
  EXPECT_EQ(blocks_of(problem(32 * 101, 32, 4096)), lattice({0}, {0, 12, 25, 37, 50, 62, 75, 87, 100}));
  EXPECT_EQ(blocks_of(problem(32 * 101, 64, 4096)), lattice({0, 1}, {0, 33, 66, 100}));
}

// Fewer where a block computes more, or has but a few threads to do it.
TEST(Plan, LargeBlocks) {
  const auto in_one_dimension = [](const Gemm& g, int rows, int threads) {
    static int block_rows, block_threads;
    block_rows = rows, block_threads = threads;
    const harness::Entry launch_it =
        +[](const Gemm& p) { launch(kernel, dim3(1, p.M / block_rows), dim3(block_threads), 0, p); };
    return plan_xray({"step", {}, launch_it, launch_it}, g, std::nullopt).blocks.at(0).size();
  };
  const Gemm g = problem(4096, 4096, 4096);
  EXPECT_EQ(in_one_dimension(g, 1, 256), 9u);
  EXPECT_EQ(in_one_dimension(g, 4, 256), 9u);
  EXPECT_EQ(in_one_dimension(g, 8, 256), 4u);
  EXPECT_EQ(in_one_dimension(g, 64, 256), 4u);
  EXPECT_EQ(in_one_dimension(g, 1, 1), 2u);  // as step 00
}

TEST(Plan, Batches) {  // the first matrix and the last
  EXPECT_EQ(blocks_of(problem(32 * 64, 32 * 64, 4096, 10)), lattice({0, 63}, {0, 63}, {0, 9}));
}

TEST(Plan, SampleThatIsTheWhole) {
  const XrayPlan plan = plan_xray(tiled, problem(64, 64, 1 << 20), std::nullopt);
  EXPECT_TRUE(plan.all);
}

TEST(Plan, SeveralLaunches) {  // panels of 2^20 rows
  const Gemm g = problem((1 << 20) + 32 * 5, 64, 4096);
  ASSERT_EQ(plan_xray(tiled, g, std::nullopt).blocks.size(), 2u);
  EXPECT_THAT(plan_xray(tiled, g, std::nullopt).blocks[1], ElementsAre(0, 1, 2, 3, 4, 5, 8, 9));
}

TEST(Plan, OneBlock) {
  const Gemm g = problem(100, 200, 50, 3);
  const XrayPlan plan = plan_xray(tiled, g, harness::BlockIndex{5, 3, 2});
  EXPECT_FALSE(plan.all);
  ASSERT_EQ(plan.blocks.size(), 1u);
  EXPECT_THAT(plan.blocks[0], ElementsAre((2 * 4 + 3) * 7 + 5));
  EXPECT_TRUE(plan_xray(tiled, problem(32, 32, 5), harness::BlockIndex{0, 0, 0}).all);
  EXPECT_FALSE(launched);
}

TEST(Plan, NoSuchBlock) {
  const Gemm flat = problem(100, 200, 50);
  EXPECT_EQ(refusal(flat, {7, 0, 0}), "--block 7,0: the grid has 7 x 4 blocks; give 0,0 to 6,3");
  for (const harness::BlockIndex& block :
       {harness::BlockIndex{0, 4, 0}, {0, 0, 1}, {-1, 0, 0}, {0, -1, 0}, {0, 0, -1}}) {
    EXPECT_THAT(refusal(flat, block), HasSubstr("give 0,0 to 6,3"));
  }
  EXPECT_THAT(refusal(problem(100, 200, 50, 3), {0, 0, 3}),
              HasSubstr("7 x 4 x 3 blocks; give 0,0,0 to 6,3,2"));
  EXPECT_THAT(refusal(problem(0, 200, 50), {0, 0, 0}), HasSubstr("no blocks"));
}

// ---- A build that cannot observe -------------------------------------------------------------------------

TEST(Run, SaysWhyItCannotObserve) {
  harness::Step blind = tiled;
  blind.cpu_observed = {};
  const char* const arguments[] = {"run", "--xray"};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = harness::run(blind, 2, arguments);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), IsEmpty());
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 3);
  EXPECT_THAT(error, HasSubstr("cannot observe"));
  EXPECT_THAT(error, HasSubstr("GCC"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1);
}

}  // namespace
