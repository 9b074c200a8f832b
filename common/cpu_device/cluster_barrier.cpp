#include "common/cpu_device/cluster_barrier.hpp"

#include <utility>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/cluster_calls.hpp"

namespace cpu_device {

ClusterBarrier::OfThread& ClusterBarrier::of(const Block& block, unsigned thread) {
  return threads_[block.rank * cluster_.launch.threads_per_block + thread];
}

bool ClusterBarrier::lacks(const Block& block, unsigned thread) const {
  const OfThread& it = threads_[block.rank * cluster_.launch.threads_per_block + thread];
  return !block.has_exited(thread) && (it.state == State::away || it.state == State::open);
}

void ClusterBarrier::begin() {
  missing_ = cluster_.launch.threads_per_block * cluster_.launch.blocks_per_cluster;
  threads_.assign(missing_, OfThread{});
  arrived_ = 0;
  exited_ = split_ = false;
  arrivals_.clear();
  opened_.clear();
}

void ClusterBarrier::arrive(Block& block, bool waits, const void* pc) {
  block.note_turn(pc);
  const unsigned thread = block.current;
  OfThread& it = of(block, thread);
  if (it.state != State::away) {
    report(FaultKind::barrier_misuse, pc,
           "arrives at the cluster barrier again; it has not waited since it arrived at " + place_of(it.pc));
    stop_launch();
  }
  it = {waits ? State::syncs : State::arrived, pc};
  ++block.cluster.progress;
  ++arrived_;
  --missing_;
  if (waits) {
    block.threads[thread].wait = {this, pc};
  } else {
    split_ = true;
    if (block.clocks) block.clocks->release(block.actor(thread), arrivals_);
  }
  if (missing_ == 0) open();
  if (waits) wait_for_wake();
}

void ClusterBarrier::wait(Block& block, const void* pc) {
  const unsigned thread = block.current;
  OfThread& it = of(block, thread);
  if (it.state == State::away) {
    report(FaultKind::barrier_misuse, pc, "waits for the cluster barrier without having arrived at it");
    stop_launch();
  }
  if (it.state == State::open) {
    if (block.clocks) block.clocks->acquire(block.actor(thread), opened_);
    it.state = State::away;
    return;
  }
  it.state = State::waits;
  block.threads[thread].wait = {this, pc};
  wait_for_wake();
}

void ClusterBarrier::thread_exited(Block& block, unsigned thread) {
  exited_ = true;
  const State state = of(block, thread).state;
  if (state == State::arrived) return;  // counts already
  if (--missing_ == 0 && arrived_ > 0) open();
}

void ClusterBarrier::open() {
  Clocks* const clocks = cluster_.clocks.get();
  // Whoever has left the kernel has not arrived here, and is not ordered by it.
  const bool all_at_once = !split_ && !exited_;
  if (clocks != nullptr && all_at_once) clocks->cluster_barrier();
  opened_ = std::exchange(arrivals_, {});
  missing_ = arrived_ = 0;
  if (clocks != nullptr && !all_at_once) {
    for (auto& block : cluster_.blocks) {
      for (unsigned i = 0; i < block->threads.size(); ++i) {
        if (of(*block, i).state == State::syncs) clocks->release(block->actor(i), opened_);
      }
    }
  }
  for (auto& block : cluster_.blocks) {
    for (unsigned i = 0; i < block->threads.size(); ++i) {
      OfThread& it = of(*block, i);
      if (block->has_exited(i)) continue;
      ++missing_;
      if (it.state == State::arrived) {
        it.state = State::open;
        continue;
      }
      it.state = State::away;
      if (clocks != nullptr && !all_at_once) clocks->acquire(block->actor(i), opened_);
      wake(*block, i, false);
    }
    if (all_at_once) {
      for (std::uint32_t& passed : block->passed) ++passed;
    }
  }
  split_ = false;
}

std::string ClusterBarrier::awaited_by(const Block& seen_from, unsigned) const {
  const std::size_t all = threads_.size();
  for (const auto& block : cluster_.blocks) {
    for (unsigned i = 0; i < block->threads.size(); ++i) {
      if (!lacks(*block, i)) continue;
      const std::string of_block =
          block.get() == &seen_from ? "" : " of " + block_name(cluster_.launch.grid, block->number);
      return "the cluster barrier, to which " + std::to_string(all - missing_) + " of " +
             std::to_string(all) + " threads have come, and " + thread_name(*block, i) + of_block +
             " has not";
    }
  }
  return "the cluster barrier";
}

void cluster_arrive() {
  current_block->cluster.barrier.arrive(*current_block, false, __builtin_return_address(0));
}

void cluster_wait() { current_block->cluster.barrier.wait(*current_block, __builtin_return_address(0)); }

void cluster_sync() {
  current_block->cluster.barrier.arrive(*current_block, true, __builtin_return_address(0));
}

}  // namespace cpu_device
