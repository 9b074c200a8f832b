// Barriers: that of all threads of the block, and those that count threads.

#include "common/cpu_device/sync.hpp"

#include <bit>

#include "common/cpu_device/internal.hpp"
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
  arrived_ = 0;
  diverged_ = false;
  lanes_.fill(0);
  threads_.clear();
  clock_.clear();
}

void Barrier::arrive(Worker& worker, unsigned count, bool only_arrives, int line, const void* pc) {
  if (arrived_ == 0) {
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
  const unsigned thread = worker.current;
  ++arrived_;
  ++worker.progress;
  if (id_ == 0) {
    diverged_ |= line != line_;
  } else {
    lanes_[thread / 32] |= 1u << thread % 32;
    if (!only_arrives) threads_.push_back(thread);
    if (worker.clocks) worker.clocks->release(thread, clock_);
  }
  if (!only_arrives) worker.threads[thread].wait = {this, pc, line};
  if (arrived_ == expected_ && !diverged_) open(worker);
  if (!only_arrives) wait_for_wake(worker);
}

void Barrier::open(Worker& worker) {
  if (id_ == 0) {
    if (worker.clocks) worker.clocks->block_barrier();
    for (unsigned i = 0; i < worker.threads.size(); ++i) wake(worker, i, false);
    for (std::uint32_t& passed : worker.passed) ++passed;
    reset();
    return;
  }
  for (unsigned warp = 0; warp < worker.exited.size(); ++warp) {
    const std::uint32_t missing = lanes_[warp] == 0 ? 0 : ~(lanes_[warp] | worker.exited[warp]);
    if (missing == 0) continue;
    const unsigned lane = static_cast<unsigned>(std::countr_zero(missing));
    report(FaultKind::divergent_barrier, pc_,
           "comes to barrier " + std::to_string(id_) + ", which opens without " +
               thread_name(worker, warp * 32 + lane) + "; all lanes of a warp must come together",
           worker, warp * 32 + static_cast<unsigned>(std::countr_zero(lanes_[warp])));
  }
  for (const unsigned thread : threads_) {
    if (worker.clocks) worker.clocks->acquire(thread, clock_);
    wake(worker, thread, false);
  }
  for (unsigned warp = 0; warp < worker.exited.size(); ++warp) {
    if (lanes_[warp] != 0) ++worker.passed[warp];
  }
  reset();
}

std::string Barrier::awaited_by(const Worker&, unsigned) const {
  if (id_ == 0) return "all threads of the block";
  return "barrier " + std::to_string(id_) + ", to which " + std::to_string(arrived_) + " of " +
         std::to_string(expected_) + " threads have come";
}

void barrier_block(int line) {
  Worker& worker = *current_worker;
  worker.sync.barriers[0].arrive(worker, worker.launch->threads_per_block, false, line,
                                 __builtin_return_address(0));
}

void named_barrier(unsigned id, unsigned threads, bool only_arrives) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  if (id == 0 || id >= SyncObjects::named_barriers) {
    report(FaultKind::barrier_misuse, pc,
           "comes to barrier " + std::to_string(id) + "; there are 1 to 15 (0 is that of __syncthreads)");
    stop_launch();
  }
  if (threads == 0 || threads % warpSize != 0 || threads > worker.launch->threads_per_block) {
    report(FaultKind::barrier_misuse, pc,
           "comes to a barrier of " + std::to_string(threads) +
               " threads; it takes whole warps, and no more threads than the block has");
    stop_launch();
  }
  worker.sync.barriers[id].arrive(worker, threads, only_arrives, 0, pc);
}

}  // namespace cpu_device
