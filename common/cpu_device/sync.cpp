// Barriers: the one of all threads of the block, and those that count threads.

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

void Barrier::arrive(Worker& worker, unsigned count, bool only_arrives, int line, const void* pc) {
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
  const unsigned thread = worker.current;
  ++worker.progress;
  if (!only_arrives) worker.threads[thread].wait = {this, pc, line};
  if (id_ == 0) {
    diverged_ |= line != line_;
    if (++arrived_ == expected_ && !diverged_) open(worker);
  } else {
    if (!only_arrives) threads_.push_back(thread);
    if (worker.clocks) worker.clocks->release(thread, released_[thread / 32]);
    lanes_[thread / 32] |= 1u << thread % 32;
    count_warp(worker, thread / 32);
  }
  if (!only_arrives) wait_for_wake(worker);
}

void Barrier::count_warp(Worker& worker, unsigned warp) {
  if (lanes_[warp] == 0 || ~(lanes_[warp] | worker.exited[warp]) != 0) return;
  lanes_[warp] = 0;
  warps_ |= 1u << warp;
  Clocks::join(clock_, released_[warp]);
  released_[warp].clear();
  arrived_ += warpSize;
  if (arrived_ >= expected_) open(worker);
}

void Barrier::thread_exited(Worker& worker, unsigned thread) {
  if (in_use_ && id_ != 0) count_warp(worker, thread / 32);
}

void Barrier::open(Worker& worker) {
  if (id_ == 0) {
    if (worker.clocks) worker.clocks->block_barrier();
    for (unsigned i = 0; i < worker.threads.size(); ++i) wake(worker, i, false);
    for (std::uint32_t& passed : worker.passed) ++passed;
    begin_anew();
    return;
  }
  std::erase_if(threads_, [&](unsigned thread) {
    if (lanes_[thread / 32] != 0) return false;
    if (worker.clocks) worker.clocks->acquire(thread, clock_);
    wake(worker, thread, false);
    return true;
  });
  for (unsigned warp = 0; warp < worker.passed.size(); ++warp) worker.passed[warp] += warps_ >> warp & 1;
  begin_anew();
}

std::string Barrier::awaited_by(const Worker& worker, unsigned thread) const {
  if (id_ == 0) return "all threads of the block";
  const std::string name = "barrier " + std::to_string(id_);
  const unsigned warp = thread / 32;
  if (const std::uint32_t lanes = lanes_[warp]) {
    const std::uint32_t missing = ~(lanes | worker.exited[warp]);
    return name + " together with " +
           thread_name(worker, warp * 32 + static_cast<unsigned>(std::countr_zero(missing))) + " of its warp";
  }
  return name + ", to which " + std::to_string(arrived_) + " of " + std::to_string(expected_) +
         " threads have come";
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
  if (threads == 0 || threads % warpSize != 0) {
    report(FaultKind::barrier_misuse, pc,
           "comes to a barrier of " + std::to_string(threads) + " threads; warps come as a whole");
    stop_launch();
  }
  worker.sync.barriers[id].arrive(worker, threads, only_arrives, 0, pc);
}

}  // namespace cpu_device
