#include "common/cpu_device/async_copy.hpp"

#include <cstring>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/report.hpp"

namespace cpu_device {

namespace {

void check_alignment(const void* pointer, unsigned bytes, const void* pc) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0) return;
  report(FaultKind::misaligned, pc,
         "copies " + std::to_string(bytes) + " bytes asynchronously at an address that is no multiple of " +
             std::to_string(bytes));
}

// The copy has read its source, as if `reader` had at this tick.
void finish_read(Block& block, unsigned thread, const AsyncCopies::Copy& copy, unsigned reader, Tick tick) {
  if (copy.global == nullptr) return;
  finish_global(reinterpret_cast<std::uintptr_t>(copy.global), copy.bytes, false, block.actor(thread), reader,
                tick, copy.pc);
}

AsyncCopies& copies_of_running_thread() { return current_block->async_copies[current_block->current]; }

}  // namespace

void async_copy(void* shared, const void* global, unsigned bytes, bool valid) {
  const void* pc = __builtin_return_address(0);
  Block& block = *current_block;
  if (block.launch.checked) {
    // From here on the copy may happen at any time: to others it is a write now, ...
    observe_copy(shared, global, bytes, valid, pc);
    mark_pending(shared, bytes, true);
  } else {
    check_alignment(shared, bytes, pc);
    if (valid) check_alignment(global, bytes, pc);
  }
  poison(shared, bytes);
  AsyncCopies& copies = copies_of_running_thread();
  copies.waiting.push_back({shared, valid ? global : nullptr, bytes, copies.groups, pc});
  ++copies.asked;
}

void async_copy_commit() { ++copies_of_running_thread().groups; }

void async_copy_wait(unsigned pending) {
  Block& block = *current_block;
  const AsyncCopies& copies = copies_of_running_thread();
  std::uint64_t number = copies.asked - copies.waiting.size();
  for (const AsyncCopies::Copy& copy : copies.waiting) {
    if (copy.group + pending >= copies.groups) break;  // this one and all later ones may still be in flight
    ++number;
  }
  finish_copies(block, block.current, number, nullptr, 0);
}

void finish_copies(Block& block, unsigned thread, std::uint64_t number, const Mbarrier* by_engine,
                   Tick tick) {
  AsyncCopies& copies = block.async_copies[thread];
  std::uint64_t next = copies.asked - copies.waiting.size();
  auto copy = copies.waiting.begin();
  for (; copy != copies.waiting.end() && next < number; ++copy, ++next) {
    if (copy->global == nullptr) {
      std::memset(copy->shared, 0, copy->bytes);
    } else {
      std::memcpy(copy->shared, copy->global, copy->bytes);
    }
    if (!block.launch.checked) continue;
    finish_read(block, thread, *copy, by_engine == nullptr ? block.actor(thread) : by_engine->engine,
                by_engine == nullptr ? block.clocks->now() : tick);
    if (by_engine != nullptr) {
      fill_shared(copy->shared, copy->bytes, by_engine->engine, tick, true, copy->pc);
    } else {  // ... and again when it is waited for, at the latest
      mark_pending(copy->shared, copy->bytes, false);
      check_shared_write(copy->shared, copy->bytes, copy->pc);
    }
  }
  copies.waiting.erase(copies.waiting.begin(), copy);
}

void abandon_copies(Block& block, unsigned thread) {
  if (!block.launch.checked) return;
  for (const AsyncCopies::Copy& copy : block.async_copies[thread].waiting) {
    finish_read(block, thread, copy, block.actor(thread), block.clocks->now());
  }
}

}  // namespace cpu_device
