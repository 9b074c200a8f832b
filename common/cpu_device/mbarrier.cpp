#include "common/cpu_device/mbarrier.hpp"

#include <algorithm>
#include <cstring>

#include "common/cpu_device/bulk_copy.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/orders.hpp"

namespace cpu_device {

namespace {

constexpr std::int64_t most_arrivals = (1 << 20) - 1, most_bytes = (1 << 20) - 1;  // PTX ISA, "mbarrier"
constexpr std::uint64_t in_use = 0x7ff7ba99e97fed7fu;  // in the memory of an mbarrier

std::string plural(std::int64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

[[noreturn]] void misuse(const void* pc, const std::string& text) {
  report(FaultKind::mbarrier_misuse, pc, text);
  stop_launch();
}

std::string name_of(const void* address) { return "the mbarrier " + describe_shared(address); }

// Ends the launch unless the mbarrier lies in the running block's own shared memory.
void check_own(const void* address, const char* does, const void* pc) {
  const Block* owner = find_shared(address, sizeof(std::uint64_t)).block;
  if (owner == nullptr) misuse(pc, std::string(does) + " an mbarrier that is not in shared memory");
  if (owner != current_block) {
    misuse(pc, std::string(does) + " " + name_of(address) +
                   "; of another block's mbarriers only mbarrier_arrive_remote() takes hold");
  }
}

}  // namespace

std::string Mbarrier::name() const { return name_of(address); }

Mbarrier& mbarrier_at(const void* address, const char* does, const void* pc) {
  check_own(address, does, pc);
  return mbarrier_of(*current_block, address, does, pc);
}

Mbarrier& mbarrier_of(Block& owner, const void* address, const char* does, const void* pc) {
  Block& block = *current_block;
  block.note_turn(pc);
  const auto found = owner.sync.mbarriers.find(address);
  if (found == owner.sync.mbarriers.end()) {
    misuse(pc, std::string(does) + " " + name_of(address) + ", which has not been initialised");
  }
  Mbarrier& b = found->second;
  if (std::memcmp(address, &in_use, sizeof in_use) != 0) {
    misuse(pc, std::string(does) + " " + b.name() + ", whose memory has been written to since");
  }
  if (block.clocks &&
      !block.clocks->ordered(owner.actor(b.init_thread), b.init_tick, block.actor(block.current)) &&
      !reported_before(FaultKind::race_shared, pc)) {
    report(FaultKind::race_shared, pc,
           std::string(does) + " " + b.name() + ", which " +
               block.cluster.actor_name(block, owner.actor(b.init_thread)) + " initialised at " +
               place_of(b.init_pc) + "; no barrier stands between");
  }
  return b;
}

std::string Mbarrier::awaited_by(const Block& block, unsigned thread) const {
  std::string text = "phase " + std::to_string(block.threads[thread].wait.phase) + " of " + name();
  if (pending > 0) text += ", which lacks " + plural(pending, "arrival") + " of " + std::to_string(count);
  if (bytes > 0) {
    text += (pending > 0 ? " and " : ", which lacks ") + plural(bytes, "byte") + " that were announced";
  }
  if (bytes < 0) text += ", to which " + plural(-bytes, "byte") + " came that nobody announced";
  return text;
}

// The running thread's, or that of a copy that it has asked for.
void Mbarrier::note_arrival(const void* pc, bool by_copy) {
  const ThreadOfCluster who{current_block->rank, current_block->current};
  auto found = std::find_if(by_call.begin(), by_call.end(),
                            [&](const Arrival& known) { return known.pc == pc && known.by_copy == by_copy; });
  if (found == by_call.end()) found = by_call.insert(found, {pc, by_copy});
  found->now.insert(who);
  found->ever.insert(who);
}

void Mbarrier::complete_if_due(Block& block, const void* pc) {
  if (pending != 0 || bytes != 0) return;
  // Whoever waits for the phase before from now on takes its parity for that of the phase to come. Where all
  // orders are tried, one of them shows what comes of it.
  if (!awaited && block.launch.checked && block.cluster.orders == nullptr &&
      !reported_before(FaultKind::mbarrier_misuse, pc)) {
    report(FaultKind::mbarrier_misuse, pc,
           "completes phase " + std::to_string(phase) + " of " + name() +
               ", and nobody has waited for the one before");
  }
  awaited = false;
  Clocks::join(completed, arrivals);
  arrivals.clear();
  pending = static_cast<int>(count);
  ++phase;
  for (Arrival& of_call : by_call) of_call.now.clear();
  if (block.cluster.orders != nullptr) return;  // who waits goes on when that is its turn
  for (unsigned i = 0; i < block.threads.size(); ++i) {
    if (block.threads[i].wait.on != this) continue;
    if (block.clocks) block.clocks->acquire(block.actor(i), completed);
    awaited = true;
    wake(block, i, false);
  }
}

void Mbarrier::arrive(Block& block, const void* pc) {
  if (pending == 0) {
    misuse(pc, "arrives at " + name() + ", whose phase " + std::to_string(phase) + " has had its " +
                   plural(count, "arrival") + " and lacks only " + plural(bytes, "byte"));
  }
  --pending;
  note_arrival(pc, false);
  ++block.cluster.progress;
  complete_if_due(block, pc);
}

void Mbarrier::expect(Block& block, std::uint32_t more, const void* pc) {
  bytes += more;
  ++block.cluster.progress;
  if (bytes > most_bytes) {
    misuse(pc, "announces " + plural(more, "byte") + " at " + name() + ", which makes " +
                   std::to_string(bytes) + "; an mbarrier counts up to " + std::to_string(most_bytes));
  }
}

void Mbarrier::deliver(Block& block, std::uint32_t delivered, const void* pc) {
  bytes -= delivered;
  note_arrival(pc, true);
  ++block.cluster.progress;
  complete_if_due(block, pc);
}

void mbarrier_init(std::uint64_t* barrier, unsigned count) {
  const void* pc = __builtin_return_address(0);
  Block& block = *current_block;
  if (reinterpret_cast<std::uintptr_t>(barrier) % sizeof *barrier != 0) {
    report(FaultKind::misaligned, pc, "initialises an mbarrier at an address that is no multiple of 8");
  }
  check_own(barrier, "initialises", pc);
  if (count == 0 || count > most_arrivals) {
    misuse(pc, "initialises " + name_of(barrier) + " with " + plural(count, "arrival") + "; 1 to " +
                   std::to_string(most_arrivals) + " are possible");
  }
  if (block.launch.checked) {
    check_memory(reinterpret_cast<std::uintptr_t>(barrier), sizeof *barrier, true, pc);
  }
  Mbarrier& b = block.sync.mbarriers[barrier];
  if (b.count != 0) {
    misuse(pc, "initialises " + b.name() + " again, which is in use since " + place_of(b.init_pc));
  }
  b.address = barrier;
  b.count = count;
  b.pending = static_cast<int>(count);
  b.init_thread = block.current;
  b.init_pc = pc;
  if (block.clocks) {
    b.init_tick = block.clocks->now();
    b.engine = block.clocks->new_engine(block.rank);
  }
  std::memcpy(barrier, &in_use, sizeof in_use);
}

void mbarrier_invalidate(std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  const Mbarrier& b = mbarrier_at(barrier, "invalidates", pc);
  for (const Thread& thread : current_block->threads) {
    if (thread.wait.on == &b) misuse(pc, "invalidates " + b.name() + ", for which a thread waits");
  }
  if (current_block->launch.checked) {
    check_memory(reinterpret_cast<std::uintptr_t>(barrier), sizeof *barrier, true, pc);
  }
  current_block->sync.mbarriers.erase(barrier);
  poison(barrier, sizeof *barrier);
}

void mbarrier_fence_init() {
  for (auto& [address, b] : current_block->sync.mbarriers) {
    if (b.init_thread == current_block->current) b.known_to_engine = true;
  }
  fence_async_proxy();  // on a GPU this function ends with one
}

void mbarrier_arrive(std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  Block& block = *current_block;
  if (Orders* orders = block.cluster.orders) {
    orders->before({.owner = &block, .address = barrier, .arrivals = 1}, pc);
  }
  Mbarrier& b = mbarrier_at(barrier, "arrives at", pc);
  if (block.clocks) block.clocks->release(block.actor(block.current), b.arrivals);
  b.arrive(block, pc);
}

void mbarrier_expect(std::uint64_t* barrier, std::uint32_t bytes, bool arrives) {
  const void* pc = __builtin_return_address(0);
  Block& block = *current_block;
  if (Orders* orders = block.cluster.orders) {
    orders->before({.owner = &block, .address = barrier, .arrivals = arrives, .bytes = bytes}, pc);
  }
  Mbarrier& b = mbarrier_at(barrier, arrives ? "arrives at" : "announces bytes at", pc);
  b.expect(block, bytes, pc);
  if (!arrives) return;
  if (block.clocks) block.clocks->release(block.actor(block.current), b.arrivals);
  b.arrive(block, pc);
}

bool mbarrier_wait(std::uint64_t* barrier, unsigned parity, bool may_fail) {
  return wait_for_mbarrier(barrier, parity, may_fail, __builtin_return_address(0));
}

bool wait_for_mbarrier(std::uint64_t* barrier, unsigned parity, bool may_fail, const void* pc) {
  Block& block = *current_block;
  Mbarrier& b = mbarrier_at(barrier, "waits for", pc);
  if (parity > 1) {
    misuse(pc, "waits for parity " + std::to_string(parity) + " of " + b.name() + "; a parity is 0 or 1");
  }
  if (Orders* orders = block.cluster.orders) {
    orders->before(
        {.owner = &block, .address = barrier, .waits = true, .parity = parity, .may_fail = may_fail}, pc);
    if (b.phase % 2 == parity) return false;
  }
  // If the current phase has the other parity, the one before it is meant, which is over.
  if (b.phase % 2 != parity) {
    b.awaited = true;
    if (block.clocks) block.clocks->acquire(block.actor(block.current), b.completed);
    return true;
  }
  const unsigned phase = b.phase;
  block.threads[block.current].wait = {&b, pc, 0, phase, may_fail};
  wait_for_wake();
  return b.phase != phase;
}

void mbarrier_arrive_after_copies(std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  Block& block = *current_block;
  mbarrier_at(barrier, "has its copies arrive at", pc);
  block.engine.arrive_after_copies({&block, nullptr, barrier}, block.current,
                                   block.async_copies[block.current].asked, pc);
}

}  // namespace cpu_device
