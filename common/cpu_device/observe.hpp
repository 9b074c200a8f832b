#pragma once

// Accesses to memory: what the running CUDA thread does is checked, and the listener is told.

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/cpu_device.hpp"

namespace cpu_device {

// Checks an access of the running CUDA thread and tells the listener. Checked launches only.
void observe(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// Only checks: the listener is told in another way, or not at all.
void check_memory(std::uintptr_t address, unsigned bytes, bool write, const void* pc);
// The same for what a copy that the running thread asks for reads, now or at any time until it is done.
void check_copy_source(std::uintptr_t address, unsigned bytes, const void* pc);
// The same for what a store that the running thread asks for writes in global memory.
void check_store_target(std::uintptr_t address, unsigned bytes, const void* pc);
// Like observe(), for the start of an asynchronous copy. Not `valid`: it writes zeros and reads nothing.
void observe_copy(const void* shared, const void* global, unsigned bytes, bool valid, const void* pc);
// An atomic operation on 4 bytes, which reads before it writes, or only writes. On global memory in a checked
// launch, where other blocks may see it, returns the lock under which it is to be done: so the check sees
// those of all blocks in the order in which they happen. Ends the launch if the operation is not possible.
std::unique_lock<std::mutex> observe_atomic(const void* address, bool reads, const void* pc);

// The block of the running cluster in whose shared memory an address lies, or just past the end of a part of
// it; nullptr: none.
struct SharedPlace {
  Block* block = nullptr;
  bool inside = false;     // wholly in one variable, or in dynamic shared memory
  std::size_t offset = 0;  // as in an Access
};
SharedPlace find_shared(const void* address, unsigned bytes);

// The following are about an address in shared memory.
std::string describe_shared(const void* shared);
// A write of which the listener has been told.
void check_shared_write(const void* shared, unsigned bytes, const void* pc);
// Marks that an asynchronous copy to this place is in flight, so that nobody may touch it, or no longer is.
void mark_pending(const void* shared, unsigned bytes, bool pending);
// The running thread asks for a copy to this place, or for a store that reads it: see
// SharedShadow::check_fenced().
void check_fenced(const void* shared, unsigned bytes, const char* does, const void* pc);
// Marks that a store has yet to read this place, so that nobody may write to it, or no longer has.
void mark_unread(const void* shared, unsigned bytes, bool unread);
// The running thread has a wgmma read this place, now or at any time until it has waited for it; as
// check_fenced().
void check_async_read(const SharedPlace& place, unsigned bytes, const char* does, const void* pc);
// An engine has read this place, which it had yet to read.
void read_by_engine(const void* shared, unsigned bytes, unsigned engine, Tick tick, const void* pc);
// An engine has filled this place; see SharedShadow::fill().
void fill_shared(const void* shared, unsigned bytes, unsigned engine, Tick tick, bool unfenced,
                 const void* pc);

// Where the running CUDA thread finds `bytes` bytes at an address (in shared memory a byte offset, as in an
// Access); nullptr if they are in no allocation.
const std::byte* readable(Space space, std::uintptr_t address, unsigned bytes);

// The array at a place in the running block's shared memory. Outside of a kernel there are no names.
NamedArray shared_array_at(std::size_t offset);

void tell_launch(const LaunchShape& shape);
void tell_warp_end(std::uint64_t block, std::uint32_t warp);
void tell_block_end(std::uint64_t block);
void tell_request(const CollectiveRequest& request);

}  // namespace cpu_device
