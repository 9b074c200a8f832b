// What a launch may ask for: the limits that hold on every GPU since compute capability 3.0, so that what
// runs here can run there; for shared memory those of the GPUs with the most of it, for clusters 16
// blocks, of which every GPU that has clusters takes 8.

#include <fmt/format.h>

#include <stdexcept>

#include "common/cpu_device/launch.hpp"

namespace cpu_device {

namespace {

void require(const char* what, std::uint64_t asked, std::uint64_t least, std::uint64_t most) {
  if (asked >= least && asked <= most) return;
  throw std::invalid_argument(
      fmt::format("launch: {} is {}, outside the limits of CUDA: {} to {}", what, asked, least, most));
}

void require_multiple(const char* what, unsigned grid, unsigned cluster) {
  if (grid % cluster == 0) return;
  throw std::invalid_argument(
      fmt::format("launch: grid.{0} is {1}, outside the limits of CUDA: a multiple of cluster.{0}, {2}", what,
                  grid, cluster));
}

}  // namespace

void check_limits(const void* kernel, const LaunchConfig& config) {
  const auto& [grid, block, shared_bytes, cluster, overlaps_previous] = config;
  require("block.x", block.x, 1, max_threads_per_block);
  require("block.y", block.y, 1, max_threads_per_block);
  require("block.z", block.z, 1, 64);
  require("the number of threads in a block", volume(block), 1, max_threads_per_block);
  require("grid.x", grid.x, 0, 0x7fffffff);
  require("grid.y", grid.y, 0, 65535);
  require("grid.z", grid.z, 0, 65535);
  require("the dynamic shared memory of a block, in bytes,", shared_bytes, 0, 227 * 1024);
  constexpr unsigned max_blocks_per_cluster = 16;
  require("cluster.x", cluster.x, 1, max_blocks_per_cluster);
  require("cluster.y", cluster.y, 1, max_blocks_per_cluster);
  require("cluster.z", cluster.z, 1, max_blocks_per_cluster);
  require("the number of blocks in a cluster", volume(cluster), 1, max_blocks_per_cluster);
  require_multiple("x", grid.x, cluster.x);
  require_multiple("y", grid.y, cluster.y);
  require_multiple("z", grid.z, cluster.z);
  const LaunchBounds bounds = launch_bounds_of(kernel);
  if (bounds.threads != 0 && volume(block) > bounds.threads) {
    throw std::invalid_argument(fmt::format(
        "launch: a block has {} threads, more than the {} that the kernel's __launch_bounds__ allows",
        volume(block), bounds.threads));
  }
}

}  // namespace cpu_device
