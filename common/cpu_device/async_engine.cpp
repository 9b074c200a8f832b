#include "common/cpu_device/async_engine.hpp"

#include <cstring>

#include "common/cpu_device/bulk_copy.hpp"
#include "common/cpu_device/internal.hpp"

namespace cpu_device {

void AsyncEngine::new_block() {
  waiting_.clear();
  started_by_.clear();
}

void AsyncEngine::copy(void* shared, const void* global, std::uint32_t bytes, const void* mbarrier,
                       unsigned thread, const void* pc) {
  waiting_.push_back({shared, global, bytes, 0, mbarrier, thread, pc});
}

void AsyncEngine::arrive_after_copies(const void* mbarrier, unsigned thread, std::uint64_t copies,
                                      const void* pc) {
  waiting_.push_back({nullptr, nullptr, 0, copies, mbarrier, thread, pc});
}

unsigned AsyncEngine::started_by(unsigned engine, Tick tick) const {
  const auto found = started_by_.find({engine, tick});
  return found == started_by_.end() ? 0 : found->second;
}

bool AsyncEngine::act(Worker& worker) {
  if (waiting_.empty()) return false;
  const Work work = waiting_.front();
  waiting_.pop_front();
  worker.current = work.thread;  // whoever has asked for it is to blame
  const auto found = worker.sync.mbarriers.find(work.mbarrier);
  if (found == worker.sync.mbarriers.end()) {
    report(FaultKind::mbarrier_misuse, work.pc,
           "was to complete on an mbarrier that has been invalidated since");
    return true;
  }
  Mbarrier& b = found->second;
  Tick tick = 0;
  if (worker.clocks) {
    tick = worker.clocks->engine_release(b.engine, b.arrivals);
    started_by_[{b.engine, tick}] = work.thread;
  }
  if (work.shared == nullptr) {
    finish_copies(worker, work.thread, work.copies, &b, tick);
    if (b.pending == 0) {
      report(FaultKind::mbarrier_misuse, work.pc,
             "has its copies arrive at " + b.name() + ", at which all arrivals of the phase have been");
      return true;
    }
    b.arrive(worker, work.pc);
    return true;
  }
  std::memcpy(work.shared, work.global, work.bytes);
  if (worker.clocks) {
    fill_shared(work.shared, work.bytes, b.engine, tick, work.pc);
    note_engine_read(reinterpret_cast<std::uintptr_t>(work.global), work.bytes, b.engine, tick, work.pc);
  }
  b.deliver(worker, work.bytes);
  return true;
}

void bulk_copy(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  const auto from = reinterpret_cast<std::uintptr_t>(global), to = reinterpret_cast<std::uintptr_t>(shared);
  if ((from | to | bytes) % 16 != 0) {
    report(FaultKind::misaligned, pc,
           "copies " + std::to_string(bytes) + " bytes in bulk" +
               (bytes % 16 != 0  ? "; the number must be a multiple of 16"
                : from % 16 != 0 ? " from an address that is no multiple of 16"
                                 : " to an address that is no multiple of 16"));
    stop_launch();
  }
  Mbarrier& b = mbarrier_at(barrier, "completes a copy on", pc);
  if (!b.known_to_engine) {
    report(FaultKind::mbarrier_misuse, pc,
           "completes a copy on " + b.name() +
               ", which is not known to asynchronous copies yet: no mbarrier_fence_init() has followed its "
               "initialisation at " +
               place_of(b.init_pc));
  }
  if (worker.launch->checked && bytes > 0) {
    CollectiveRequest request{
        pc, Space::global, Operation::copy, bytes, worker.block, worker.current / warpSize, 0, {from}, 0};
    tell_request(request);
    check_memory(from, bytes, false, pc);
    request.space = Space::shared;
    request.addresses[0] = shared_offset(shared);
    tell_request(request);
    // From here on the copy may happen at any time: to others it is a write now, and one when it is done.
    check_memory(to, bytes, true, pc);
    mark_pending(shared, bytes, true);
  }
  poison(shared, bytes);
  worker.engine.copy(shared, global, bytes, barrier, worker.current, pc);
}

}  // namespace cpu_device
