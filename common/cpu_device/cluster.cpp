// Runs the blocks of a cluster. Threads are fibers, which wait and are woken (sync.hpp).

#include "common/cpu_device/cluster.hpp"

#include <algorithm>
#include <utility>

#include "common/cpu_device/fibers.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/orders.hpp"

namespace cpu_device {

Cluster::Cluster(Launch& launch_, Stacks& stacks_) : launch(launch_), stacks(stacks_), barrier(*this) {
  if (launch.checked) {
    clocks = std::make_unique<Clocks>(launch.threads_per_block, launch.blocks_per_cluster);
    grid_order = std::make_unique<GridOrder>(*clocks);
    shared_fences = std::make_unique<ProxyFences>(*clocks);
    global_fences = std::make_unique<ProxyFences>(*clocks);
  }
  for (unsigned rank = 0; rank < launch.blocks_per_cluster; ++rank) {
    blocks.push_back(std::make_unique<Block>(launch, *this, rank, clocks.get(), grid_order.get()));
  }
}

unsigned Cluster::started_by(unsigned engine, Tick tick) {
  return block_of(engine).engine.started_by(engine, tick);
}

std::string Cluster::actor_name(const Block& seen_from, unsigned actor) {
  const Block& block = block_of(actor);
  const std::string name = thread_name(block, actor - block.first_actor);
  return &block == &seen_from ? name : name + " of " + block_name(launch.grid, block.number);
}

void Cluster::end_launch() {
  ended = true;
  std::atomic<std::uint64_t>& stop = launch.stop_after;
  for (std::uint64_t known = stop; number < known && !stop.compare_exchange_weak(known, number);) {
  }
}

bool Cluster::is_starved(const Block& block, unsigned warp) const {
  return block.rank * block.ready.size() + warp + 1 == launch.schedule;
}

// Gives every warp of every block its turn, except the starved one, or only that one. Returns whether any was
// ready.
bool Cluster::run_ready(bool starved) {
  bool any = false;
  for (auto& block : blocks) {
    for (unsigned warp = 0; warp < block->ready.size(); ++warp) {
      if (is_starved(*block, warp) != starved) continue;
      block->ready[warp] |= std::exchange(block->ready_next[warp], 0);
      any = any || block->ready[warp] != 0;
    }
  }
  for (auto& block : blocks) {
    if (!any || block->alive == 0) continue;
    make_current(*block);
    for (unsigned warp = 0; warp < block->ready.size(); ++warp) {
      if (is_starved(*block, warp) != starved) continue;
      run_warp(*block, stacks, warp);
      if (stopped()) return true;
    }
  }
  return any;
}

// Does the oldest asynchronous work of some block. Returns false if there is none.
bool Cluster::act() {
  return std::any_of(blocks.begin(), blocks.end(), [](auto& block) {
    make_current(*block);
    return block->engine.act(*block);
  });
}

// If nothing else can happen, threads that can go on without what they wait for do so. If that changes
// nothing for long, nothing ever will.
bool Cluster::give_up_waiting() {
  constexpr unsigned long_enough = 100;
  vain_ = progress == progress_seen_ ? vain_ + 1 : 0;
  progress_seen_ = progress;
  if (vain_ == long_enough) return false;
  if (spins_seen_ !=
      spins) {  // what a thread reads again and again may be written by a cluster before this one
    spins_seen_ = spins;
    wait_for_clusters_before(*this);
  }
  bool any = false;
  for (auto& block : blocks) {
    for (unsigned i = 0; i < block->threads.size(); ++i) {
      const Wait& wait = block->threads[i].wait;
      if (wait.on == nullptr || !wait.may_fail) continue;
      wake(*block, i, false);
      any = true;
    }
  }
  return any;
}

void Cluster::run(std::uint64_t cluster_number) {
  number = cluster_number;
  ended = false;
  flag_waits = 0;
  racing_writes.clear();
  launch_waits.begin();
  vain_ = 0;
  progress_seen_ = progress;
  const bool forget = clocks != nullptr && clocks->begin();
  for (auto& block : blocks) {
    block->begin(launch.block_in(number, block->rank));
    if (forget) block->shadow->forget();
  }
  barrier.begin();
  if (clocks != nullptr) {
    grid_order->begin(number);
    shared_fences->begin();
    global_fences->begin();
  }
  if (orders != nullptr) orders->begin_run(*this);
  while (true) {
    if (run_ready(false)) {
      if (stopped()) return;
      continue;
    }
    if (orders != nullptr && !faults.empty()) return end_launch();
    if (std::none_of(blocks.begin(), blocks.end(), [](const auto& block) { return block->alive > 0; })) break;
    if (orders != nullptr ? orders->step(*this) : act()) {
      if (stopped()) return;
      continue;
    }
    if (launch.schedule != 0 && run_ready(true)) {
      if (stopped()) return;
      continue;
    }
    if (end_flag_waits(*this)) continue;
    if (stopped()) return;  // by a cluster before it, while it waited for that
    if (give_up_waiting()) continue;
    report_stuck(*this);
    end_launch();
    return;
  }
  for (auto& block : blocks) {
    make_current(*block);
    block->engine.end_block(*block);
    if (block->registers != nullptr) block->registers->report_incomplete(*block);
    end_bulk_stores(*block);
    for (const auto& unit : block->matrix_units) {
      if (unit != nullptr) unit->end_block(*block);
    }
  }
}

}  // namespace cpu_device
