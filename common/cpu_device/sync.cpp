// Barriers: the one of all threads of the block, and those that count threads.

#include "common/cpu_device/sync.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/cpu_device/call_place.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/named_barrier.hpp"
#include "common/cpu_device/orders.hpp"

namespace cpu_device {

namespace {

// At the barrier of all threads.
void order_all(Block& block) {
  if (block.alive == block.threads.size()) return block.clocks->block_barrier(block.rank);
  std::vector<unsigned> present;
  for (unsigned i = 0; i < block.threads.size(); ++i) {
    if (!block.has_exited(i)) present.push_back(block.actor(i));
  }
  block.clocks->barrier(present);
}

}  // namespace

std::set<ThreadOfCluster> ThreadSet::all() const {
  std::set<ThreadOfCluster> threads;
  for (std::size_t i = 0; i < 64 * bits_.size(); ++i) {
    if ((bits_[i / 64] >> i % 64 & 1) == 0) continue;
    threads.emplace(static_cast<unsigned>(i / of_block), static_cast<unsigned>(i % of_block));
  }
  return threads;
}

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
  rounds_ = 0;
  warps_before_ = 0;
  lanes_.fill(0);
  passing_.fill(0);
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
    pc_ = pc;
  } else if (count != expected_) {
    report(FaultKind::barrier_misuse, pc,
           "comes to barrier " + std::to_string(id_) + " of " + std::to_string(count) +
               " threads, to which another came at " + place_of(pc_) + " as to one of " +
               std::to_string(expected_));
    stop_launch();
  }
  ++block.cluster.progress;
  block.threads[block.current].wait = {this, pc, line};
  arrive_with_warp(block, only_arrives, line, pc);
  wait_for_wake();
}

void Barrier::arrive_with_all(Block& block, int line, const void* pc, const char* function) {
  if (!in_use_) {
    in_use_ = true;
    first_ = block.current;
    line_ = line;
    pc_ = pc;
    function_ = function;
  }
  ++block.cluster.progress;
  ++arrived_;
  block.threads[block.current].wait = {this, pc, line};
  diverged_ |= line != line_ || (block.launch.checked && !same_as_first(block, pc, function));
  if (is_complete(block)) open(block);
  wait_for_wake();
}

bool Barrier::same_as_first(const Block& block, const void* pc, const char* function) const {
  if (pc == pc_ && block.calls[block.current] == block.calls[first_]) return true;
  // The compiler has duplicated the call, as it does with one behind `if (threadIdx.x == 0) ...`. In the
  // kernel itself nothing around it tells places apart, and looking would take longer than a small problem.
  const auto in_kernel = [&](unsigned thread, const char* where) {
    return block.calls[thread].size() <= 1 && is_named(block.launch.kernel, where);
  };
  if (in_kernel(first_, function_) && in_kernel(block.current, function)) return true;
  return same_place(block, first_, block.current);
}

// Of the barrier of all threads.
bool Barrier::is_complete(const Block& block) const { return arrived_ == block.alive && !diverged_; }

[[gnu::noinline]] void Barrier::arrive_with_warp(Block& block, bool only_arrives, int line, const void* pc) {
  const unsigned thread = block.current, warp = thread / 32;
  if (lanes_[warp] == 0) calls_[warp] = {pc, line};
  if (!same_place(calls_[warp].pc, calls_[warp].line, pc, line)) {
    report(FaultKind::divergent_barrier, pc,
           "comes to barrier " + std::to_string(id_) + " here, but " +
               thread_name(block, warp * 32 + static_cast<unsigned>(std::countr_zero(lanes_[warp]))) +
               " of its warp came to it at " + place_of(calls_[warp].pc) +
               "; the lanes of a warp must come by one call");
    stop_launch();
  }
  if (only_arrives) {
    passing_[warp] |= 1u << thread % 32;
  } else {
    threads_.push_back(thread);
  }
  if (block.clocks) block.clocks->release(block.actor(thread), released_[warp]);
  lanes_[warp] |= 1u << thread % 32;
  count_warp(block, warp);
}

void Barrier::count_warp(Block& block, unsigned warp) {
  if (lanes_[warp] == 0 || ~(lanes_[warp] | block.exited[warp]) != 0) return;
  lanes_[warp] = 0;
  for (std::uint32_t lanes = std::exchange(passing_[warp], 0); lanes != 0; lanes &= lanes - 1) {
    wake(block, warp * 32 + static_cast<unsigned>(std::countr_zero(lanes)), true);
  }
  warps_ |= 1u << warp;
  Clocks::join(clock_, released_[warp]);
  released_[warp].clear();
  rank_ = block.rank;
  arrived_ += warpSize;
  if (arrived_ >= expected_) open(block);
}

void Barrier::thread_exited(Block& block, unsigned thread) {
  if (!in_use_) return;
  if (id_ != 0) return count_warp(block, thread / 32);
  if (is_complete(block)) open(block);
}

void Barrier::open(Block& block) {
  ++rounds_;
  if (id_ == 0) {
    if (block.clocks) order_all(block);
    if (Orders* orders = block.cluster.orders) {
      for (unsigned i = 0; i < block.threads.size(); ++i) orders->wake(block, i);
    }
    for (Thread& thread : block.threads) thread.wait.on = nullptr;
    for (unsigned warp = 0; warp < block.ready_next.size(); ++warp) {
      block.ready_next[warp] |= ~block.exited[warp];
    }
    for (std::uint32_t& passed : block.passed) ++passed;
    begin_anew();
    return;
  }
  std::erase_if(threads_, [&](unsigned thread) {
    if (has_lane(thread)) return false;
    if (block.clocks) block.clocks->acquire(block.actor(thread), clock_);
    wake(block, thread, false);
    return true;
  });
  for (unsigned warp = 0; warp < block.passed.size(); ++warp) block.passed[warp] += warps_ >> warp & 1;
  warps_before_ |= warps_;
  begin_anew();
}

std::string Barrier::awaited_by(const Block& block, unsigned thread) const {
  if (id_ == 0) return "all threads of the block";
  const std::string name = "barrier " + std::to_string(id_);
  const unsigned warp = thread / 32;
  if (has_lane(thread)) {
    const std::uint32_t missing = ~(lanes_[warp] | block.exited[warp]);
    return name + " together with " +
           thread_name(block, warp * 32 + static_cast<unsigned>(std::countr_zero(missing))) + " of its warp";
  }
  return name + ", to which " + std::to_string(arrived_) + " of " + std::to_string(expected_) +
         " threads have come";
}

std::vector<Arrival> Barrier::arrivals_so_far() const {
  std::vector<Arrival> by_call;
  for (unsigned warp = 0; warp < calls_.size(); ++warp) {
    if (((warps_ | warps_before_) >> warp & 1) == 0) continue;
    auto found = std::find_if(by_call.begin(), by_call.end(),
                              [&](const Arrival& known) { return known.pc == calls_[warp].pc; });
    if (found == by_call.end()) found = by_call.insert(found, {calls_[warp].pc});
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      const ThreadOfCluster who{rank_, warp * warpSize + lane};
      found->ever.insert(who);
      if ((warps_ >> warp & 1) != 0) found->now.insert(who);
    }
  }
  return by_call;
}

void barrier_block(int line) {
  Block& block = *current_block;
  block.sync.barriers[0].arrive_with_all(block, line, __builtin_return_address(0), nullptr);
}

void barrier_block(int line, const char* function) {
  Block& block = *current_block;
  block.sync.barriers[0].arrive_with_all(block, line, __builtin_return_address(0), function);
}

void named_barrier(unsigned id, unsigned threads, bool only_arrives, int line) {
  const void* pc = __builtin_return_address(0);
  Block& block = *current_block;
  block.note_turn(pc);
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
  if (Orders* orders = block.cluster.orders) {
    orders->before({.owner = &block, .barrier = id, .arrivals = threads}, pc);
  }
  block.sync.barriers[id].arrive(block, threads, only_arrives, line, pc);
}

}  // namespace cpu_device
