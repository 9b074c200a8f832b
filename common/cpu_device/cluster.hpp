#pragma once

// The blocks that run together on an OS thread, one to sixteen: a cluster. Threads of all of them take turns.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/cluster_barrier.hpp"
#include "common/cpu_device/overlap.hpp"
#include "common/cpu_device/proxy_fences.hpp"
#include "common/cpu_device/report.hpp"

namespace cpu_device {

struct Allocation;  // see global_memory.cpp
class Orders;
class Stacks;

struct Cluster {
  Cluster(Launch& launch, Stacks& stacks);
  // Runs the cluster with this number to its end, or until it cannot go on.
  void run(std::uint64_t number);
  // It cannot go on, and those after it need not.
  void end_launch();
  // Whether to give it up because it, or one before it, cannot go on.
  bool stopped() const { return ended || launch.stop_after.load(std::memory_order_relaxed) < number; }

  // In race detection an actor is a thread of any block, or an engine; see Block::actor().
  Block& block_of(unsigned actor) { return *blocks[clocks->block_of(actor)]; }
  // The thread, as an actor, that issued what an engine did at this tick.
  unsigned started_by(unsigned engine, Tick tick);
  // "thread (3,0,0)", followed by its block if that is not this one.
  std::string actor_name(const Block& seen_from, unsigned actor);

  Launch& launch;
  Stacks& stacks;
  std::uint64_t number = 0;  // linear, x fastest
  std::vector<std::unique_ptr<Block>> blocks;
  ClusterBarrier barrier;
  Orders* orders = nullptr;               // if the order of what happens in it is explored
  std::unique_ptr<Clocks> clocks;         // checked launches only
  std::unique_ptr<GridOrder> grid_order;  // likewise
  std::unique_ptr<ProxyFences> shared_fences, global_fences;  // likewise
  bool ended = false;                                         // by a fault that it cannot survive
  std::uint64_t progress = 0;                                 // synchronisations so far
  unsigned flag_waits = 0;                                    // threads waiting for a flag
  std::uint64_t spins = 0;                          // how often a thread that spins has let others run
  std::vector<Recorded> faults;                     // in program order
  std::vector<RacingWrite> racing_writes;           // by the running thread, since it last waited
  LaunchWaits launch_waits;                         // checked launches only
  std::array<Allocation*, 4> latest_allocations{};  // accessed, most recent first

 private:
  bool run_ready(bool starved);
  bool is_starved(const Block& block, unsigned warp) const;
  bool act();
  bool give_up_waiting();
  std::uint64_t progress_seen_ = 0;
  std::uint64_t spins_seen_ = 0;
  unsigned vain_ = 0;  // attempts to go on that have changed nothing
};

}  // namespace cpu_device
