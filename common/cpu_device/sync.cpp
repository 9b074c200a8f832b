// Barriers: the one of all threads of the block, and those that count threads.

#include "common/cpu_device/sync.hpp"

#include <bit>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/named_barrier.hpp"

namespace cpu_device {

SyncObjects::SyncObjects() {
  barriers.reserve(named_barriers);
  for (unsigned id = 0; id < named_barriers; ++id) barriers.emplace_back(id);
}

void SyncObjects::new_block() {
  for (Barrier& barrier : barriers) barrier.reset();
  for (auto& group : open) {
    for (auto& rendezvous : group) closed.push_back(std::move(rendezvous));
    group.clear();
  }
  mbarriers.clear();
}

void Barrier::reset() {
  begin_anew();
  lanes_.fill(0);
  for (Clock& clock : released_) clock.clear();
  threads_.clear();
}

// Lanes of a warp that has not arrived as a whole remain.
void Barrier::begin_anew() {
  in_use_ = diverged_ = false;
  arrived_ = 0;
  warps_ = 0;
  clock_.clear();
}

void Barrier::arrive(Block& block, unsigned count, bool only_arrives, int line, const void* pc) {
  if (!in_use_) {
    in_use_ = true;
    expected_ = count;
    line_ = line;
    pc_ = pc;
  } else if (count != expected_) {
    report(FaultKind::barrier_misuse, pc,
           "comes to barrier " + std::to_string(id_) + " of " + std::to_string(count) +
               " threads, to which another came at " + place_of(pc_) + " as to one of " +
               std::to_string(expected_));
    stop_launch();
  }
  const unsigned thread = block.current;
  ++block.cluster.progress;
  if (!only_arrives) block.threads[thread].wait = {this, pc, line};
  if (id_ == 0) {
    diverged_ |= line != line_;
    if (++arrived_ == expected_ && !diverged_) open(block);
  } else {
    if (!only_arrives) threads_.push_back(thread);
    if (block.clocks) block.clocks->release(block.actor(thread), released_[thread / 32]);
    lanes_[thread / 32] |= 1u << thread % 32;
    count_warp(block, thread / 32);
  }
  if (!only_arrives) wait_for_wake();
}

void Barrier::count_warp(Block& block, unsigned warp) {
  if (lanes_[warp] == 0 || ~(lanes_[warp] | block.exited[warp]) != 0) return;
  lanes_[warp] = 0;
  warps_ |= 1u << warp;
  Clocks::join(clock_, released_[warp]);
  released_[warp].clear();
  arrived_ += warpSize;
  if (arrived_ >= expected_) open(block);
}

void Barrier::thread_exited(Block& block, unsigned thread) {
  if (in_use_ && id_ != 0) count_warp(block, thread / 32);
}

void Barrier::open(Block& block) {
  if (id_ == 0) {
    if (block.clocks) block.clocks->block_barrier(block.rank);
    for (unsigned i = 0; i < block.threads.size(); ++i) wake(block, i, false);
    for (std::uint32_t& passed : block.passed) ++passed;
    begin_anew();
    return;
  }
  std::erase_if(threads_, [&](unsigned thread) {
    if (lanes_[thread / 32] != 0) return false;
    if (block.clocks) block.clocks->acquire(block.actor(thread), clock_);
    wake(block, thread, false);
    return true;
  });
  for (unsigned warp = 0; warp < block.passed.size(); ++warp) block.passed[warp] += warps_ >> warp & 1;
  begin_anew();
}

std::string Barrier::awaited_by(const Block& block, unsigned thread) const {
  if (id_ == 0) return "all threads of the block";
  const std::string name = "barrier " + std::to_string(id_);
  const unsigned warp = thread / 32;
  if (const std::uint32_t lanes = lanes_[warp]) {
    const std::uint32_t missing = ~(lanes | block.exited[warp]);
    return name + " together with " +
           thread_name(block, warp * 32 + static_cast<unsigned>(std::countr_zero(missing))) + " of its warp";
  }
  return name + ", to which " + std::to_string(arrived_) + " of " + std::to_string(expected_) +
         " threads have come";
}

void barrier_block(int line) {
  Block& block = *current_block;
  block.sync.barriers[0].arrive(block, block.launch.threads_per_block, false, line,
                                __builtin_return_address(0));
}

void named_barrier(unsigned id, unsigned threads, bool only_arrives) {
  const void* pc = __builtin_return_address(0);
  Block& block = *current_block;
  if (id == 0 || id >= SyncObjects::named_barriers) {
    report(FaultKind::barrier_misuse, pc,
           "comes to barrier " + std::to_string(id) + "; there are 1 to 15 (0 is that of __syncthreads)");
    stop_launch();
  }
  if (threads == 0 || threads % warpSize != 0) {
    report(FaultKind::barrier_misuse, pc,
           "comes to a barrier of " + std::to_string(threads) + " threads; warps come as a whole");
    stop_launch();
  }
  block.sync.barriers[id].arrive(block, threads, only_arrives, 0, pc);
}

}  // namespace cpu_device
