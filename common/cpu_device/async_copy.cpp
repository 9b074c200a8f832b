#include "common/cpu_device/async_copy.hpp"

#include <cstring>

#include "common/cpu_device/internal.hpp"
#include "common/poison.hpp"

namespace cpu_device {

namespace {

AsyncCopies& copies_of_running_thread() { return current_worker->async_copies[current_worker->current]; }

void check_alignment(const void* pointer, unsigned bytes, const void* pc) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0) return;
  report(FaultKind::misaligned, pc,
         "copies " + std::to_string(bytes) + " bytes asynchronously at an address that is no multiple of " +
             std::to_string(bytes));
}

}  // namespace

void async_copy(void* shared, const void* global, unsigned bytes, bool valid) {
  const void* pc = __builtin_return_address(0);
  Worker& worker = *current_worker;
  if (worker.launch->checked) {
    // From here on the copy may happen at any time: to others it is a write now ...
    observe_copy(shared, global, bytes, valid, pc);
    mark_pending(shared, bytes, true);
  } else {
    check_alignment(shared, bytes, pc);
    if (valid) check_alignment(global, bytes, pc);
  }
  constexpr std::uint32_t not_arrived = poison_bits | quiet_bits;
  for (unsigned i = 0; i < bytes; i += 4) std::memcpy(static_cast<char*>(shared) + i, &not_arrived, 4);
  AsyncCopies& copies = copies_of_running_thread();
  copies.waiting.push_back({shared, valid ? global : nullptr, bytes, copies.groups, pc});
}

void async_copy_commit() { ++copies_of_running_thread().groups; }

void async_copy_wait(unsigned pending) {
  Worker& worker = *current_worker;
  AsyncCopies& copies = copies_of_running_thread();
  std::size_t done = 0;
  for (const AsyncCopies::Copy& copy : copies.waiting) {
    if (copy.group + pending >= copies.groups) break;  // this one and all later ones may still be under way
    if (copy.global == nullptr) {
      std::memset(copy.shared, 0, copy.bytes);
    } else {
      std::memcpy(copy.shared, copy.global, copy.bytes);
    }
    if (worker.launch->checked) {  // ... and a write when it is waited for, at the latest
      mark_pending(copy.shared, copy.bytes, false);
      check_shared_write(copy.shared, copy.bytes, copy.pc);
    }
    ++done;
  }
  copies.waiting.erase(copies.waiting.begin(), copies.waiting.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace cpu_device
