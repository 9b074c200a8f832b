#pragma once

// A launch: what it asks for, and which of its clusters run. A block without a cluster counts as one of its
// own; clusters then have the numbers of their blocks.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/grid_flags.hpp"
#include "common/cpu_device/grid_order.hpp"
#include "common/cpu_device/overlap.hpp"

namespace cpu_device {

// ---- limits.cpp ------------------------------------------------------------------------------------------

constexpr unsigned max_threads_per_block = 1024;

// Throws a std::invalid_argument that names the exceeded limit if no GPU could launch this kernel so.
void check_limits(const void* kernel, const LaunchConfig& config);

// ---- launch.cpp ------------------------------------------------------------------------------------------

// The index of element `linear`, x fastest.
inline dim3 unflatten(std::uint64_t linear, const dim3& extent) {
  return {static_cast<unsigned>(linear % extent.x), static_cast<unsigned>(linear / extent.x % extent.y),
          static_cast<unsigned>(linear / extent.x / extent.y)};
}

inline std::uint64_t flatten(const dim3& index, const dim3& extent) {
  return (std::uint64_t{index.z} * extent.y + index.y) * extent.x + index.x;
}

inline std::uint64_t volume(const dim3& extent) { return std::uint64_t{extent.x} * extent.y * extent.z; }

// The linear number of the block with this rank in a cluster of a grid.
std::uint64_t block_in_grid(const dim3& grid, const dim3& cluster, std::uint64_t cluster_number,
                            unsigned rank);

// Where the warps of a launch's clusters have waited.
class Roles {
 public:
  // `places` as in Block::places, of all warps of a cluster; 0 for one that nobody else takes turns with. By
  // several OS threads at once.
  void add(const std::vector<std::uint64_t>& places);
  const std::vector<std::uint64_t>& places() const { return places_; }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> places_;
};

struct Launch {
  const void* kernel;
  dim3 grid, block, cluster;
  unsigned threads_per_block, blocks_per_cluster;
  std::size_t shared_bytes;
  KernelBody body;
  const void* arguments;
  bool checked;
  std::vector<std::uint64_t> selected{};  // the clusters to run, unless `all`
  bool all = true;
  std::uint64_t next = 0;  // how many clusters have been started; see next_cluster()
  // The first cluster in which the kernel could not go on after a fault. Those before it run to completion,
  // so that reports do not depend on which core was faster.
  std::atomic<std::uint64_t> stop_after{~std::uint64_t{0}};
  GridFlags flags{};
  AtomicObjects atomic_objects{};          // checked launches only
  unsigned schedule = 0;                   // see set_schedule()
  Roles roles{};                           // checked launches only
  std::shared_ptr<LaunchRecord> record{};  // likewise

  std::uint64_t clusters() const { return volume(grid) / blocks_per_cluster; }
  // The linear number of a cluster's block.
  std::uint64_t block_in(std::uint64_t cluster_number, unsigned rank) const {
    return block_in_grid(grid, cluster, cluster_number, rank);
  }
  std::uint64_t cluster_of(std::uint64_t block_number) const;
};

// Notes who has left something in the workspaces that must be zero again (workspace.cpp).
void note_workspace_writers(const Launch& launch);

// Whether launches_of() is running, so that launches run nothing.
bool launches_are_noted();

}  // namespace cpu_device
