// What a launch may ask for, and which of its blocks run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "common/cuda/dependent_launch.hpp"

namespace {

using testing::ElementsAre;

// ---- Limits -----------------------------------------------------------------------------------------------

void touch_nothing(int) {}

// "" if the launch runs.
std::string refusal(const LaunchConfig& config) {
  try {
    cpu_device::launches_of([&] { launch(touch_nothing, config, 0); });
    return "";
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
}

TEST(Launch, AcceptsWhatAGpuDoes) {
  for (const LaunchConfig& config : std::vector<LaunchConfig>{
           {.grid = 1, .block = 1024},
           {.grid = 1, .block = {1, 1, 64}},
           {.grid = {1, 65535}, .block = 1},
           {.grid = {1, 1, 65535}, .block = 1},
           {.grid = 1, .block = 1, .shared_bytes = 227 * 1024},
           {.grid = {6, 4}, .block = 1, .cluster = {2, 4}},
           {.grid = {0, 4}, .block = 1, .cluster = {2, 4}},
       }) {
    EXPECT_EQ(refusal(config), "");
  }
}

TEST(Launch, NamesTheBrokenLimit) {
  struct Case {
    LaunchConfig config;
    const char *what, *limit;
  };
  for (const auto& [config, what, limit] : std::vector<Case>{
           {{.grid = 1, .block = 0}, "block.x is 0", "1 to 1024"},
           {{.grid = 1, .block = {32, 0}}, "block.y is 0", "1 to 1024"},
           {{.grid = 1, .block = {1, 1, 0}}, "block.z is 0", "1 to 64"},
           {{.grid = 1, .block = {1, 1, 65}}, "block.z is 65", "1 to 64"},
           {{.grid = 1, .block = 1025}, "block.x is 1025", "1 to 1024"},
           {{.grid = 1, .block = {33, 32}}, "the number of threads in a block is 1056", "1 to 1024"},
           {{.grid = 1, .block = {2147418113, 1718039348, 5}}, "block.x is 2147418113", "1 to 1024"},
           {{.grid = {0x80000000}, .block = 1}, "grid.x is 2147483648", "0 to 2147483647"},
           {{.grid = {1, 65536}, .block = 1}, "grid.y is 65536", "0 to 65535"},
           {{.grid = {1, 1, 65536}, .block = 1}, "grid.z is 65536", "0 to 65535"},
           {{.grid = 1, .block = 1, .shared_bytes = 227 * 1024 + 1},
            "the dynamic shared memory of a block, in bytes, is 232449",
            "0 to 232448"},
           {{.grid = {6, 4}, .block = 1, .cluster = {4, 1}}, "grid.x is 6", "a multiple of cluster.x, 4"},
           {{.grid = {6, 3}, .block = 1, .cluster = {2, 2}}, "grid.y is 3", "a multiple of cluster.y, 2"},
           {{.grid = {6, 3, 3}, .block = 1, .cluster = {1, 1, 2}},
            "grid.z is 3",
            "a multiple of cluster.z, 2"},
           {{.grid = 32, .block = 1, .cluster = 32}, "cluster.x is 32", "1 to 16"},
           {{.grid = 16, .block = 1, .cluster = {1, 0}}, "cluster.y is 0", "1 to 16"},
           {{.grid = {16, 16}, .block = 1, .cluster = {8, 4}},
            "the number of blocks in a cluster is 32",
            "1 to 16"},
       }) {
    EXPECT_EQ(refusal(config), std::string("launch: ") + what + ", outside the limits of CUDA: " + limit);
  }
}

void count_blocks(int* counts) { ++counts[blockIdx.y * gridDim.x + blockIdx.x]; }

// All blocks of all clusters run, and whoever asks is told the clusters' size.
TEST(Launch, WithAConfiguration) {
  std::vector<int> counts(12);
  const LaunchConfig config{.grid = {6, 2}, .block = 32, .shared_bytes = 64, .cluster = {3, 2}};
  launch(count_blocks, config, counts.data());
  EXPECT_THAT(counts, testing::Each(32));
  const auto launches = cpu_device::launches_of([&] {
    launch(count_blocks, config, counts.data());
    launch(count_blocks, dim3(6, 2), dim3(32), 64, counts.data());
  });
  ASSERT_EQ(launches.size(), 2u);
  for (const cpu_device::LaunchShape& shape : launches) {
    EXPECT_EQ(shape.kernel, reinterpret_cast<const void*>(count_blocks));
    EXPECT_EQ(shape.blocks(), 12u);
    EXPECT_EQ(shape.block.x, 32u);
    EXPECT_EQ(shape.shared_bytes, 64u);
  }
  EXPECT_EQ(launches[0].cluster.x, 3u);
  EXPECT_EQ(launches[0].cluster.y, 2u);
  EXPECT_EQ(launches[1].cluster.x, 1u);
  EXPECT_EQ(launches[1].cluster.y, 1u);
}

void wait_and_count(int* counts) {
  wait_for_previous_launch();
  ++counts[blockIdx.x];
  let_next_launch_begin();
}

// Here one launch follows the other, whatever they allow.
TEST(Launch, MayOverlapThePreviousOne) {
  std::vector<int> counts(3);
  for (const bool overlaps : {false, true}) {
    launch(wait_and_count, {.grid = 3, .block = 2, .overlaps_previous = overlaps}, counts.data());
  }
  EXPECT_THAT(counts, testing::Each(4));
}

// ---- Choosing blocks --------------------------------------------------------------------------------------

void count_block(int* counts) { ++counts[blockIdx.z * 6 + blockIdx.y * 3 + blockIdx.x]; }

class Blocks : public testing::Test {
 protected:
  ~Blocks() override { cpu_device::select_blocks(std::nullopt); }
  void run() { launch(count_block, dim3(3, 2, 2), dim3(1), 0, counts.data()); }
  std::vector<int> counts = std::vector<int>(12);
};

TEST_F(Blocks, All) {
  run();
  EXPECT_THAT(counts, testing::Each(1));
}

TEST_F(Blocks, SomeOfEachLaunch) {
  cpu_device::select_blocks({{{0, 4, 11}, {}, {4}}});
  for (int i = 0; i < 5; ++i) run();  // nothing after the third
  EXPECT_THAT(counts, ElementsAre(1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1));
  cpu_device::select_blocks(std::nullopt);
  run();
  EXPECT_THAT(counts, ElementsAre(2, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 2));
}

TEST_F(Blocks, LaunchesThatDoNotRun) {
  const std::vector<cpu_device::LaunchShape> launches = cpu_device::launches_of([&] {
    run();
    launch(count_block, dim3(0, 2), dim3(1), 0, counts.data());  // no blocks: no launch
    launch(count_block, dim3(5), dim3(32, 4), 100, counts.data());
  });
  EXPECT_THAT(counts, testing::Each(0));
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].blocks(), 12u);
  EXPECT_EQ(launches[1].grid.x, 5u);
  EXPECT_EQ(launches[1].block.y, 4u);
  EXPECT_EQ(launches[1].shared_bytes, 100u);
  EXPECT_THROW(cpu_device::launches_of([] { throw std::runtime_error("stop"); }), std::runtime_error);
  run();  // runs again
  EXPECT_THAT(counts, testing::Each(1));
}

}  // namespace
