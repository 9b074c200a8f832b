#include "common/cpu_device/mbarrier.hpp"

#include <cstring>

#include "common/cpu_device/internal.hpp"

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

std::string name_of(const void* address) { return "the mbarrier " + describe_shared(shared_offset(address)); }

}  // namespace

std::string Mbarrier::name() const { return "the mbarrier " + describe_shared(offset); }

Mbarrier& mbarrier_at(const void* address, const char* does, const void* pc) {
  Worker& worker = *current_worker;
  const auto found = worker.sync.mbarriers.find(address);
  if (found == worker.sync.mbarriers.end()) {
    misuse(pc, std::string(does) + " " + name_of(address) + ", which has not been initialised");
  }
  Mbarrier& b = found->second;
  if (std::memcmp(address, &in_use, sizeof in_use) != 0) {
    misuse(pc, std::string(does) + " " + b.name() + ", whose memory has been written to since");
  }
  if (worker.clocks && !worker.clocks->ordered(b.init_thread, b.init_tick, worker.current) &&
      !reported_before(FaultKind::race_shared, pc)) {
    report(FaultKind::race_shared, pc,
           std::string(does) + " " + b.name() + ", which " + thread_name(worker, b.init_thread) +
               " initialised at " + place_of(b.init_pc) + "; no barrier stands between");
  }
  return b;
}

std::string Mbarrier::awaited_by(const Worker& worker, unsigned thread) const {
  std::string text = "phase " + std::to_string(worker.threads[thread].wait.phase) + " of " + name();
  if (pending > 0) text += ", which lacks " + plural(pending, "arrival") + " of " + std::to_string(count);
  if (bytes > 0) {
    text += (pending > 0 ? " and " : ", which lacks ") + plural(bytes, "byte") + " that were announced";
  }
  if (bytes < 0) text += ", to which " + plural(-bytes, "byte") + " came that nobody announced";
  return text;
}

void Mbarrier::complete_if_due(Worker& worker) {
  if (pending != 0 || bytes != 0) return;
  Clocks::join(completed, arrivals);
  arrivals.clear();
  pending = static_cast<int>(count);
  ++phase;
  for (unsigned i = 0; i < worker.threads.size(); ++i) {
    if (worker.threads[i].wait.on != this) continue;
    if (worker.clocks) worker.clocks->acquire(i, completed);
    wake(worker, i, false);
  }
}

void Mbarrier::arrive(Worker& worker, const void* pc) {
  if (pending == 0) {
    misuse(pc, "arrives at " + name() + ", whose phase " + std::to_string(phase) + " has had its " +
                   plural(count, "arrival") + " and lacks only " + plural(bytes, "byte"));
  }
  --pending;
  ++worker.progress;
  complete_if_due(worker);
}

void Mbarrier::expect(Worker& worker, std::uint32_t more, const void* pc) {
  bytes += more;
  ++worker.progress;
  if (bytes > most_bytes) {
    misuse(pc, "announces " + plural(more, "byte") + " at " + name() + ", which makes " +
                   std::to_string(bytes) + "; an mbarrier counts up to " + std::to_string(most_bytes));
  }
}

void Mbarrier::deliver(Worker& worker, std::uint32_t delivered) {
  bytes -= delivered;
  ++worker.progress;
  complete_if_due(worker);
}

void mbarrier_init(std::uint64_t* barrier, unsigned count) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  if (reinterpret_cast<std::uintptr_t>(barrier) % sizeof *barrier != 0) {
    report(FaultKind::misaligned, pc, "initialises an mbarrier at an address that is no multiple of 8");
  }
  if (count == 0 || count > most_arrivals) {
    misuse(pc, "initialises " + name_of(barrier) + " with " + plural(count, "arrival") + "; 1 to " +
                   std::to_string(most_arrivals) + " are possible");
  }
  if (worker.launch->checked) {
    check_memory(reinterpret_cast<std::uintptr_t>(barrier), sizeof *barrier, true, pc);
  }
  Mbarrier& b = worker.sync.mbarriers[barrier];
  if (b.count != 0) {
    misuse(pc, "initialises " + b.name() + " again, which is in use since " + place_of(b.init_pc));
  }
  b.offset = shared_offset(barrier);
  b.count = count;
  b.pending = static_cast<int>(count);
  b.init_thread = worker.current;
  b.init_pc = pc;
  if (worker.clocks) {
    b.init_tick = worker.clocks->now();
    b.engine = worker.clocks->new_engine();
  }
  std::memcpy(barrier, &in_use, sizeof in_use);
}

void mbarrier_invalidate(std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  const Mbarrier& b = mbarrier_at(barrier, "invalidates", pc);
  for (const Thread& thread : current_worker->threads) {
    if (thread.wait.on == &b) misuse(pc, "invalidates " + b.name() + ", for which a thread waits");
  }
  if (current_worker->launch->checked) {
    check_memory(reinterpret_cast<std::uintptr_t>(barrier), sizeof *barrier, true, pc);
  }
  current_worker->sync.mbarriers.erase(barrier);
  poison(barrier, sizeof *barrier);
}

void mbarrier_fence_init() {
  for (auto& [address, b] : current_worker->sync.mbarriers) {
    if (b.init_thread == current_worker->current) b.known_to_engine = true;
  }
}

void mbarrier_arrive(std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  Mbarrier& b = mbarrier_at(barrier, "arrives at", pc);
  if (worker.clocks) worker.clocks->release(worker.current, b.arrivals);
  b.arrive(worker, pc);
}

void mbarrier_expect(std::uint64_t* barrier, std::uint32_t bytes, bool arrives) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  Mbarrier& b = mbarrier_at(barrier, arrives ? "arrives at" : "announces bytes at", pc);
  b.expect(worker, bytes, pc);
  if (!arrives) return;
  if (worker.clocks) worker.clocks->release(worker.current, b.arrivals);
  b.arrive(worker, pc);
}

bool mbarrier_wait(std::uint64_t* barrier, unsigned parity, bool may_fail) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  Mbarrier& b = mbarrier_at(barrier, "waits for", pc);
  if (parity > 1) {
    misuse(pc, "waits for parity " + std::to_string(parity) + " of " + b.name() + "; a parity is 0 or 1");
  }
  // If the current phase has the other parity, the one before it is meant, which is over.
  if (b.phase % 2 != parity) {
    if (worker.clocks) worker.clocks->acquire(worker.current, b.completed);
    return true;
  }
  const unsigned phase = b.phase;
  worker.threads[worker.current].wait = {&b, pc, 0, phase, may_fail};
  wait_for_wake(worker);
  return b.phase != phase;
}

void mbarrier_arrive_after_copies(std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  mbarrier_at(barrier, "has its copies arrive at", pc);
  worker.engine.arrive_after_copies(barrier, worker.current, worker.async_copies[worker.current].asked, pc);
}

}  // namespace cpu_device
