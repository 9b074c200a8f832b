// Receives the memory accesses of kernels compiled with -fsanitize=thread: the compiler calls
// __tsan_read4(address) and so on before each access, and these functions are ours, not the sanitizer's.

#include "common/cpu_device/observe.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/fibers.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/untrusted.hpp"
#include "common/cpu_device/xray.hpp"

namespace cpu_device {

namespace {

AccessListener* listener = nullptr;
Xray* xray = nullptr;  // the listener, if it is one

[[gnu::always_inline]] inline void tell(const Block& block, const void* pc, std::uintptr_t address,
                                        unsigned bytes, Space space, bool write, bool copy,
                                        std::uintptr_t source) {
  if (listener == nullptr) return;
  const Access access{pc,
                      address,
                      bytes,
                      space,
                      write,
                      block.number,
                      block.current,
                      block.passed.data()[block.current / warpSize],
                      copy,
                      source,
                      !block.async_copies.data()[block.current].waiting.empty()};
  if (xray != nullptr) [[likely]]
    return xray->take(access);
  listener->on_access(access);
}

// In a cluster, that of another block.
[[gnu::cold, gnu::noinline]] SharedPlace find_in_cluster(const Block& running, std::uintptr_t address,
                                                         unsigned bytes) {
  for (const auto& block : running.cluster.blocks) {
    const SharedMemory::Place place = block->shared.find(address, bytes);
    if (place.shared) return {block.get(), place.inside, place.offset};
  }
  return {};
}

[[gnu::always_inline]] inline SharedPlace find_shared(Block& running, std::uintptr_t address,
                                                      unsigned bytes) {
  const SharedMemory::Place place = running.shared.find(address, bytes);
  if (place.shared) return {&running, place.inside, place.offset};
  return running.launch.blocks_per_cluster == 1 ? SharedPlace{} : find_in_cluster(running, address, bytes);
}

[[gnu::always_inline]] inline void check_shared(const Block& running, const SharedPlace& place,
                                                unsigned bytes, bool write, const void* pc) {
  SharedShadow& shadow = *place.block->shadow;
  const unsigned thread = running.actor(running.current);
  for_words(place.offset, bytes,
            [=, &shadow](std::size_t word, unsigned mask)
                __attribute__((always_inline)) { shadow.access(word, mask, thread, write, pc); });
}

[[gnu::cold]] void report_misaligned(unsigned bytes, bool write, const void* pc) {
  report(FaultKind::misaligned, pc,
         std::string(write ? "writes " : "reads ") + std::to_string(bytes) +
             " bytes at an address that is no multiple of " + std::to_string(bytes));
}

[[noreturn, gnu::cold]] void stop_outside_shared(unsigned bytes, bool write, const void* pc) {
  report(FaultKind::out_of_bounds_shared, pc,
         std::string(write ? "writes " : "reads ") + std::to_string(bytes) +
             " bytes of shared memory outside every __shared__ variable");
  stop_launch();
}

// The blocks of a cluster run on one OS thread, whose thread_locals these are.
[[noreturn, gnu::cold]] void stop_at_variable(const SharedPlace& place, const void* pc) {
  report(FaultKind::out_of_bounds_shared, pc,
         "uses the __shared__ variable " + place.block->shared.describe(place.offset) +
             " in a cluster; here a kernel in clusters has its shared memory through dynamic_shared()");
  stop_launch();
}

[[noreturn, gnu::cold]] void stop_at_wild_address(std::uintptr_t address, bool write, const void* pc) {
  const std::string nearest = describe_nearest(address);
  if (nearest.empty()) {
    report(FaultKind::host_pointer, pc,
           std::string(write ? "writes " : "reads ") + "memory that was not allocated on the device");
  } else {
    report(FaultKind::out_of_bounds_global, pc, (write ? "writes " : "reads ") + nearest);
  }
  stop_launch();
}

[[gnu::always_inline]] inline void tell_and_check_global(Block& block, std::uintptr_t address, unsigned bytes,
                                                         bool write, const void* pc, bool told, bool copy,
                                                         std::uintptr_t source) {
  if (!told) tell(block, pc, address, bytes, Space::global, write, copy, source);
  const bool exists = copy && !write ? request_global(address, bytes, false, told, pc)
                                     : check_global(address, bytes, write, pc);
  if (!exists) stop_at_wild_address(address, write, pc);
}

[[gnu::noinline]] void tell_and_check_anywhere(Block& block, std::uintptr_t address, unsigned bytes,
                                               bool write, const void* pc, bool told, bool copy,
                                               std::uintptr_t source) {
  const SharedPlace place = find_shared(block, address, bytes);
  if (place.block != nullptr) {
    if (!place.inside) stop_outside_shared(bytes, write, pc);
    if (block.launch.blocks_per_cluster > 1 && place.offset < tls_bytes()) stop_at_variable(place, pc);
    if (place.block != &block) check_exists(block, *place.block, write ? "writes" : "reads", pc);
    if (!told) tell(block, pc, place.offset, bytes, Space::shared, write, copy, source);
    check_shared(block, place, bytes, write, pc);
    return;
  }
  tell_and_check_global(block, address, bytes, write, pc, told, copy, source);
}

// The same, fast where there is no cluster.
[[gnu::always_inline]] inline void tell_and_check(Block& block, std::uintptr_t address, unsigned bytes,
                                                  bool write, const void* pc, bool told, bool copy,
                                                  std::uintptr_t source) {
  const SharedMemory::Place place = block.shared.find(address, bytes);
  if (block.launch.blocks_per_cluster > 1 || (place.shared && !place.inside)) {
    return tell_and_check_anywhere(block, address, bytes, write, pc, told, copy, source);
  }
  if (!place.shared) return tell_and_check_global(block, address, bytes, write, pc, told, copy, source);
  if (!told) tell(block, pc, place.offset, bytes, Space::shared, write, copy, source);
  check_shared(block, {&block, true, place.offset}, bytes, write, pc);
}

// `copy`: one side of an asynchronous copy, `source`: where it reads; see Access.
[[gnu::always_inline]] inline void observe_memory(Block& block, std::uintptr_t address, unsigned bytes,
                                                  bool write, const void* pc, bool copy,
                                                  std::uintptr_t source) {
  if ((bytes & (bytes - 1)) == 0 && (address & (bytes - 1)) != 0) report_misaligned(bytes, write, pc);
  tell_and_check(block, address, bytes, write, pc, false, copy, source);
}

bool confined = false;  // see confine()
// Where a kernel's frame begins, in bytes below the top of a fiber's stack: the same for all threads of a
// launch.
std::atomic<std::uintptr_t> above_kernel = 0;

[[noreturn]] __attribute__((noinline)) void stop_program(const char* why) {
  std::fprintf(stderr, "error: %s\n", why);
  std::_Exit(1);
}

// Whether this is on the thread's own stack, which stands for registers and local memory.
[[gnu::always_inline]] inline bool on_stack(const Block& block, std::uintptr_t address, bool write) {
  const std::uintptr_t above_bottom = address - reinterpret_cast<std::uintptr_t>(block.stack_bottom);
  if (above_bottom >= Stacks::bytes) return false;
  if (write && confined && Stacks::bytes - above_bottom <= above_kernel.load(std::memory_order_relaxed))
      [[unlikely]] {
    stop_program("a thread writes to its stack outside of its variables");
  }
  return true;
}

[[gnu::always_inline]] inline void observe_elsewhere(Block& block, std::uintptr_t address, unsigned bytes,
                                                     bool write, const void* pc, bool copy,
                                                     std::uintptr_t source) {
  if (block.watch != Watch::checked) {
    if (block.watch == Watch::overdue) report_overdue(pc);
    return;
  }
  if (write) {
    block.spin.end();
  } else {
    block.spin.read(address, block.current, pc);
  }
  observe_memory(block, address, bytes, write, pc, copy, source);
}

template <unsigned bytes, bool write>
[[gnu::noinline]] void observe_plain(Block& block, std::uintptr_t address, const void* pc) {
  observe_elsewhere(block, address, bytes, write, pc, false, 0);
}

[[gnu::noinline]] void observe_stack(Block& block, std::uintptr_t address, bool write, const void* pc) {
  const auto& unit = block.matrix_units[block.current / MatrixUnit::threads];
  if (unit != nullptr && unit->holds_sums() && block.launch.checked) {
    unit->check_access(block, address, write, pc);
  }
}

// Most accesses are to the thread's own stack: not observed, but where a wgmma adds to what lies there. For
// them this is all that runs, so that what needs a frame of its own is in functions that are called last.
template <unsigned bytes, bool write>
[[gnu::always_inline]] inline void observe_access(std::uintptr_t address, const void* pc) {
  Block* block = current_block;
  if (block == nullptr) return;
  if (!on_stack(*block, address, write)) return observe_plain<bytes, write>(*block, address, pc);
  if (block->has_matrix_units) observe_stack(*block, address, write, pc);
}

// The same for any size. copy: one side of an asynchronous copy; source: where it reads.
void observe_access(std::uintptr_t address, unsigned bytes, bool write, const void* pc, bool copy = false,
                    std::uintptr_t source = 0) {
  Block* block = current_block;
  if (block == nullptr) return;
  if (!on_stack(*block, address, write))
    return observe_elsewhere(*block, address, bytes, write, pc, copy, source);
  if (block->has_matrix_units) observe_stack(*block, address, write, pc);
}

}  // namespace

namespace {

// A volatile access of 4 bytes of global memory counts as an atomic operation, which flags made by hand rely
// on; any other as an ordinary access.
void observe_volatile(std::uintptr_t address, unsigned bytes, bool write, const void* pc) {
  Block* block = current_block;
  const bool word = bytes == 4 && address % 4 == 0;
  if (!word || block == nullptr || !block->launch.checked || on_stack(*block, address, write) ||
      find_shared(*block, address, bytes).block != nullptr) {
    return observe_access(address, bytes, write, pc);
  }
  block->note_turn(pc);
  tell(*block, pc, address, bytes, Space::global, write, false, 0);
  if (!check_global_atomic(address, !write, write, pc)) stop_at_wild_address(address, write, pc);
  const unsigned thread = block->actor(block->current);
  if (write) {
    block->spin.end();
    const std::lock_guard lock(block->launch.atomic_objects.mutex);
    block->grid_order->volatile_write(thread, address, block->launch.atomic_objects);
  } else {
    block->grid_order->volatile_read(thread, address);
    block->spin.read(address, block->current, pc);
  }
}

}  // namespace

void observe(std::uintptr_t address, unsigned bytes, bool write, const void* pc) {
  observe_access(address, bytes, write, pc);
}

std::unique_lock<std::mutex> observe_atomic(const void* pointer, bool reads, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  constexpr unsigned bytes = 4;
  Block& block = *current_block;
  if (address % bytes != 0) {
    report(FaultKind::misaligned, pc, "changes 4 bytes atomically at an address that is no multiple of 4");
    stop_launch();
  }
  if (!block.launch.checked || on_stack(block, address, true)) return {};
  const SharedPlace place = find_shared(block, address, bytes);
  const bool shared = place.block != nullptr;
  if (shared && !place.inside) stop_outside_shared(bytes, true, pc);
  const std::uintptr_t told = shared ? place.offset : address;
  const Space space = shared ? Space::shared : Space::global;
  if (reads) tell(block, pc, told, bytes, space, false, false, 0);
  tell(block, pc, told, bytes, space, true, false, 0);
  if (shared) {
    place.block->shadow->atomic(place.offset / 4, block.actor(block.current), reads, pc);
    return {};
  }
  std::unique_lock lock(block.launch.atomic_objects.mutex);
  if (!check_global_atomic(address, reads, true, pc)) {
    lock.unlock();
    stop_at_wild_address(address, true, pc);
  }
  return lock;
}

void check_memory(std::uintptr_t address, unsigned bytes, bool write, const void* pc) {
  tell_and_check(*current_block, address, bytes, write, pc, true, false, 0);
}

void check_copy_source(std::uintptr_t address, unsigned bytes, const void* pc) {
  tell_and_check(*current_block, address, bytes, false, pc, true, true, 0);
}

void check_store_target(std::uintptr_t address, unsigned bytes, const void* pc) {
  if (!request_global(address, bytes, true, true, pc)) stop_at_wild_address(address, true, pc);
}

void observe_copy(const void* shared, const void* global, unsigned bytes, bool valid, const void* pc) {
  const std::uintptr_t source = valid ? reinterpret_cast<std::uintptr_t>(global) : 0;
  if (valid) observe_access(source, bytes, false, pc, true, source);
  observe_access(reinterpret_cast<std::uintptr_t>(shared), bytes, true, pc, true, source);
}

void tell_launch(const LaunchShape& shape) {
  if (listener != nullptr) listener->on_launch(shape);
}

void tell_warp_end(std::uint64_t block, std::uint32_t warp) {
  if (listener != nullptr) listener->on_warp_end(block, warp);
}

void tell_block_end(std::uint64_t block) {
  if (listener != nullptr) listener->on_block_end(block);
}

void tell_request(const CollectiveRequest& request) {
  if (listener != nullptr) listener->on_request(request);
}

SharedPlace find_shared(const void* address, unsigned bytes) {
  return find_shared(*current_block, reinterpret_cast<std::uintptr_t>(address), bytes);
}

void check_shared_write(const void* shared, unsigned bytes, const void* pc) {
  const SharedPlace place = find_shared(shared, bytes);
  if (place.inside) check_shared(*current_block, place, bytes, true, pc);
}

void refuse(const char* why) { stop_program(why); }

void confine() { confined = true; }

void check_format(const char* format) {
  for (const char* at = std::strchr(format, '%'); at != nullptr; at = std::strchr(at + 1, '%')) {
    at += 1 + std::strspn(at + 1, "-+ #0123456789.*'hlLqjzt");
    if (*at == 'n') refuse("printf: a GPU has no %n");
    if (*at == '\0') break;
  }
}

void set_listener(AccessListener* new_listener) {
  listener = new_listener;
  xray = dynamic_cast<Xray*>(new_listener);
}

void note_noncoherent_load(const void* pointer, unsigned bytes) {
  const Block* block = current_block;
  if (block == nullptr || block->watch == Watch::unchecked) return;
  check_noncoherent(reinterpret_cast<std::uintptr_t>(pointer), bytes, __builtin_return_address(0));
}

void report_misaligned_copy(unsigned bytes) {
  if (current_block == nullptr) return;
  report(FaultKind::misaligned, __builtin_return_address(0),
         "copies " + std::to_string(bytes) + " bytes at an address that is no multiple of " +
             std::to_string(bytes));
}

}  // namespace cpu_device

// ---- What the compiler calls ------------------------------------------------------------------------------

#define OBSERVE(name, bytes, write)                                                     \
  void name(void* address) {                                                            \
    cpu_device::observe_access<bytes, write>(reinterpret_cast<std::uintptr_t>(address), \
                                             __builtin_return_address(0));              \
  }

extern "C" {

#define OBSERVE_VOLATILE(name, bytes, write)                                              \
  void name(void* address) {                                                              \
    cpu_device::observe_volatile(reinterpret_cast<std::uintptr_t>(address), bytes, write, \
                                 __builtin_return_address(0));                            \
  }

OBSERVE_VOLATILE(__tsan_volatile_read1, 1, false)
OBSERVE_VOLATILE(__tsan_volatile_read2, 2, false)
OBSERVE_VOLATILE(__tsan_volatile_read4, 4, false)
OBSERVE_VOLATILE(__tsan_volatile_read8, 8, false)
OBSERVE_VOLATILE(__tsan_volatile_read16, 16, false)
OBSERVE_VOLATILE(__tsan_volatile_write1, 1, true)
OBSERVE_VOLATILE(__tsan_volatile_write2, 2, true)
OBSERVE_VOLATILE(__tsan_volatile_write4, 4, true)
OBSERVE_VOLATILE(__tsan_volatile_write8, 8, true)
OBSERVE_VOLATILE(__tsan_volatile_write16, 16, true)
OBSERVE(__tsan_read1, 1, false)
OBSERVE(__tsan_read2, 2, false)
OBSERVE(__tsan_read4, 4, false)
OBSERVE(__tsan_read8, 8, false)
OBSERVE(__tsan_read16, 16, false)
OBSERVE(__tsan_write1, 1, true)
OBSERVE(__tsan_write2, 2, true)
OBSERVE(__tsan_write4, 4, true)
OBSERVE(__tsan_write8, 8, true)
OBSERVE(__tsan_write16, 16, true)
OBSERVE(__tsan_unaligned_read2, 2, false)
OBSERVE(__tsan_unaligned_read4, 4, false)
OBSERVE(__tsan_unaligned_read8, 8, false)
OBSERVE(__tsan_unaligned_read16, 16, false)
OBSERVE(__tsan_unaligned_write2, 2, true)
OBSERVE(__tsan_unaligned_write4, 4, true)
OBSERVE(__tsan_unaligned_write8, 8, true)
OBSERVE(__tsan_unaligned_write16, 16, true)

// Asks whether a function's static variable, such as a workspace of sgemm(), has been initialised; not in
// kernels.
std::uint8_t __tsan_atomic8_load(const volatile std::uint8_t* address, int) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}
// The same on aarch64, where it has 64 bits.
std::uint64_t __tsan_atomic64_load(const volatile std::uint64_t* address, int) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

void __tsan_init() {}
void __tsan_func_entry(void* caller) {
  cpu_device::Block* block = cpu_device::current_block;
  if (block == nullptr) return;
  if (block->launch.checked) block->calls[block->current].push_back(caller);
  if (!cpu_device::confined) return;  // confined kernels are compiled with chained frames
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wframe-address"
  const auto* frame = static_cast<const char*>(__builtin_frame_address(1));
#pragma GCC diagnostic pop
#ifdef __aarch64__
  frame = *reinterpret_cast<const char* const*>(
      frame);  // a frame begins with the saved registers, and the variables follow
#endif
  cpu_device::above_kernel = static_cast<std::uintptr_t>(block->stack_top - frame);
}
void __tsan_func_exit() {
  cpu_device::Block* block = cpu_device::current_block;
  if (block != nullptr && block->launch.checked) block->calls[block->current].pop_back();
}

// -fsanitize=bounds: an index outside the array in the source. The address alone would not tell, as the next
// __shared__ array begins where one ends.
struct UbsanOutOfBounds {
  const char* file;
  std::uint32_t line, column;
  const struct UbsanType {
    std::uint16_t kind, info;
    char name[1];
  } *array, *index;
};

void __ubsan_handle_out_of_bounds(UbsanOutOfBounds* data, void* index) {
  if (cpu_device::current_block == nullptr || !cpu_device::current_block->launch.checked) return;
  cpu_device::report(cpu_device::FaultKind::array_index, __builtin_return_address(0),
                     "uses index " + std::to_string(reinterpret_cast<std::intptr_t>(index)) +
                         " of an array of type " + data->array->name);
  if (cpu_device::confined) cpu_device::stop_launch();
}

}  // extern "C"
