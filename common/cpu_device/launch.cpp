// Launches: spreads the clusters of a grid over the cores.

#include "common/cpu_device/launch.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "common/cores.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/crash.hpp"
#include "common/cpu_device/fibers.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/orders.hpp"
#include "common/cpu_device/untrusted.hpp"

// The kernel's blockDim and gridDim, which are const there: hence a second name for the same object.
__thread uint3 current_block_dim __asm__("blockDim");
__thread uint3 current_grid_dim __asm__("gridDim");

namespace cpu_device {

namespace {

bool checking = false;
unsigned schedule = 0;
std::vector<std::vector<std::uint64_t>> places_of_launches;  // for take_schedules()

std::vector<LaunchShape>* noted_launches = nullptr;  // for launches_of(), while it runs
std::optional<std::vector<std::vector<std::uint64_t>>> selection;
std::size_t launches_since_selection = 0;
void (*request_taker)(const Request&) = nullptr;

// What each OS thread does.
void run_clusters(Launch& launch) {
  install_crash_handler();
  const Watchdog watchdog;
  auto stacks = take_stacks();
  current_block_dim = {launch.block.x, launch.block.y, launch.block.z};
  current_grid_dim = {launch.grid.x, launch.grid.y, launch.grid.z};
  Cluster cluster(launch, *stacks);
  for (std::uint64_t number = 0; begin_next_cluster(launch, number);) {
    cluster.orders = launch.checked ? orders_of(number) : nullptr;
    cluster.run(number);
    if (cluster.orders != nullptr) cluster.orders->end_run(cluster);
    for (const auto& block : cluster.blocks) {
      if (launch.checked) tell_block_end(block->number);
    }
    end_cluster_faults(cluster);
    const auto turns_matter = [](const auto& block) { return block->turns_matter; };
    if (launch.checked && launch.schedule == 0 &&
        std::any_of(cluster.blocks.begin(), cluster.blocks.end(), turns_matter)) {
      std::vector<std::uint64_t> places;
      for (const auto& block : cluster.blocks) {
        for (std::size_t warp = 0; warp < block->places.size(); ++warp) {
          places.push_back((block->turns >> warp & 1) != 0 ? block->places[warp] : 0);
        }
      }
      launch.roles.add(places);
    }
  }
  // The host, which may go on in this OS thread, must not see it.
  for (const auto& block : cluster.blocks) block->shared.poison();
  current_block = nullptr;
  keep_stacks(std::move(stacks));
}

}  // namespace

std::uint64_t block_in_grid(const dim3& grid, const dim3& cluster, std::uint64_t cluster_number,
                            unsigned rank) {
  if (volume(cluster) == 1) return cluster_number;
  const dim3 clusters_of_grid = {grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
  const dim3 at = unflatten(cluster_number, clusters_of_grid), in = unflatten(rank, cluster);
  return flatten({at.x * cluster.x + in.x, at.y * cluster.y + in.y, at.z * cluster.z + in.z}, grid);
}

std::uint64_t Launch::cluster_of(std::uint64_t block_number) const {
  if (blocks_per_cluster == 1) return block_number;
  const dim3 clusters_of_grid = {grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
  const dim3 at = unflatten(block_number, grid);
  return flatten({at.x / cluster.x, at.y / cluster.y, at.z / cluster.z}, clusters_of_grid);
}

void Roles::add(const std::vector<std::uint64_t>& places) {
  const std::lock_guard lock(mutex_);
  places_.resize(std::max(places_.size(), places.size()));
  for (std::size_t warp = 0; warp < places.size(); ++warp) places_[warp] |= places[warp];
}

void set_checking(bool on) { checking = on; }

void set_schedule(unsigned number) { schedule = number; }

std::vector<unsigned> take_schedules() {
  std::vector<unsigned> firsts, others;
  for (const std::vector<std::uint64_t>& places : std::exchange(places_of_launches, {})) {
    for (std::size_t warp = 0; warp < places.size(); ++warp) {
      const bool first =
          places[warp] != 0 && std::find(places.begin(), places.end(), places[warp]) - places.begin() ==
                                   static_cast<std::ptrdiff_t>(warp);
      (first ? firsts : others).push_back(static_cast<unsigned>(warp) + 1);
    }
  }
  const auto in_order = [](std::vector<unsigned>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  in_order(firsts);
  in_order(others);
  std::erase_if(others, [&](unsigned one) { return std::binary_search(firsts.begin(), firsts.end(), one); });
  firsts.insert(firsts.end(), others.begin(), others.end());
  return firsts;
}

std::vector<LaunchShape> launches_of(const std::function<void()>& body) {
  std::vector<LaunchShape> launches;
  noted_launches = &launches;
  const auto end = [](auto* noted) { *noted = nullptr; };  // even if `body` throws
  const std::unique_ptr<std::vector<LaunchShape>*, decltype(end)> guard(&noted_launches, end);
  body();
  return launches;
}

bool launches_are_noted() { return noted_launches != nullptr; }

void select_blocks(std::optional<std::vector<std::vector<std::uint64_t>>> of_each_launch) {
  selection = std::move(of_each_launch);
  launches_since_selection = 0;
}

void request_launch(const Request& request, KernelBody spread) {
  if (current_block != nullptr) refuse("launch: a kernel asks for a launch, which only the host may");
  if (request_taker != nullptr) return request_taker(request);
  launch_body(request.kernel, request.config, spread, &request);
}

void set_request_taker(void (*taker)(const Request&)) { request_taker = taker; }

void launch_body(const void* kernel, const LaunchConfig& config, KernelBody body, const void* arguments) {
  check_limits(kernel, config);
  const LaunchShape shape{kernel, config.grid, config.block, config.shared_bytes, config.cluster};
  if (shape.blocks() == 0 || orders_are_over()) return;
  if (noted_launches != nullptr) {
    noted_launches->push_back(shape);
    return;
  }

  Launch launch{kernel,
                config.grid,
                config.block,
                config.cluster,
                static_cast<unsigned>(volume(config.block)),
                static_cast<unsigned>(volume(config.cluster)),
                config.shared_bytes,
                body,
                arguments,
                checking};
  std::uint64_t clusters = launch.clusters();
  if (selection) {
    const std::size_t number = launches_since_selection++;
    if (number >= selection->size()) return;
    launch.all = false;
    for (const std::uint64_t block : (*selection)[number])
      launch.selected.push_back(launch.cluster_of(block));
    std::sort(launch.selected.begin(), launch.selected.end());
    launch.selected.erase(std::unique(launch.selected.begin(), launch.selected.end()), launch.selected.end());
    clusters = launch.selected.size();
  }
  launch.schedule = schedule;
  if (checking) {
    launch.record = begin_record(launch, config.overlaps_previous);
    begin_global_accesses(*launch.record);
    tell_launch(shape);
    begin_launch_orders();
  }
  if (launch.blocks_per_cluster > 1) {
    if (const std::string variable = variable_of(kernel); !variable.empty()) {
      throw std::invalid_argument(
          "launch: the kernel has the __shared__ variable " + variable +
          "; here a kernel in clusters has its shared memory through dynamic_shared()");
    }
  }
  shared_variables();  // reads the symbol table before other OS threads need it
  const std::uint64_t cores = orders_are_explored() ? 1 : usable_cores();
  std::vector<std::thread> others;
  for (std::uint64_t i = 1; i < min(cores, clusters); ++i) others.emplace_back([&] { run_clusters(launch); });
  run_clusters(launch);
  for (std::thread& other : others) other.join();
  end_if_overrun();
  launch.flags.end(launch);
  end_launch_faults(launch);
  if (checking) note_workspace_writers(launch);
  if (checking && schedule == 0) places_of_launches.push_back(launch.roles.places());
}

}  // namespace cpu_device
