// Receives the memory accesses of kernels compiled with -fsanitize=thread: the compiler calls
// __tsan_read4(address) and so on before each access, and these functions are ours, not the sanitizer's.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/cpu_device/internal.hpp"

namespace cpu_device {

namespace {

AccessListener* listener = nullptr;

[[gnu::always_inline]] inline void tell(const Worker& worker, const void* pc, std::uintptr_t address,
                                        unsigned bytes, Space space, bool write, bool copy,
                                        std::uintptr_t source) {
  if (listener == nullptr) return;
  listener->on_access({pc, address, bytes, space, write, worker.block, worker.current,
                       worker.passed[worker.current / warpSize], copy, source,
                       !worker.async_copies[worker.current].waiting.empty()});
}

// Where an address lies in the block's shared memory: the variables come first, then dynamic shared memory.
struct SharedPlace {
  bool shared = false;
  bool inside = false;  // wholly in one variable
  std::size_t offset = 0;
};

inline bool inside(const SharedVariable& variable, std::size_t offset, unsigned bytes) {
  return offset >= variable.tls_offset && offset + bytes <= variable.tls_offset + variable.bytes;
}

inline SharedPlace find_shared(const Worker& worker, std::uintptr_t address, unsigned bytes) {
  const std::size_t offset = address - reinterpret_cast<std::uintptr_t>(worker.tls);
  if (offset < worker.tls_bytes) {
    for (const SharedVariable& variable : *worker.variables) {
      if (inside(variable, offset, bytes)) return {true, true, offset};
    }
    return {true, false, offset};
  }
  const std::size_t dynamic = address - reinterpret_cast<std::uintptr_t>(worker.dynamic_shared.data());
  return {dynamic < worker.dynamic_shared.size(), dynamic + bytes <= worker.launch->shared_bytes,
          worker.tls_bytes + dynamic};
}

inline void check_shared(const Worker& worker, std::size_t offset, unsigned bytes, bool write,
                         const void* pc) {
  SharedShadow& shadow = *worker.shadow;
  const unsigned thread = worker.current;
  for_words(offset, bytes,
            [=, &shadow](std::size_t word, unsigned mask) { shadow.access(word, mask, thread, write, pc); });
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

[[gnu::always_inline]] inline void tell_and_check(Worker& worker, std::uintptr_t address, unsigned bytes,
                                                  bool write, const void* pc, bool told, bool copy,
                                                  std::uintptr_t source) {
  const SharedPlace place = find_shared(worker, address, bytes);
  if (place.shared) {
    if (!place.inside) stop_outside_shared(bytes, write, pc);
    if (!told) tell(worker, pc, place.offset, bytes, Space::shared, write, copy, source);
    check_shared(worker, place.offset, bytes, write, pc);
    return;
  }

  if (!told) tell(worker, pc, address, bytes, Space::global, write, copy, source);
  if (!check_global(address, bytes, write, pc)) stop_at_wild_address(address, write, pc);
}

// `copy`: one side of an asynchronous copy, `source`: where it reads; see Access.
[[gnu::always_inline]] inline void observe_memory(Worker& worker, std::uintptr_t address, unsigned bytes,
                                                  bool write, const void* pc, bool copy,
                                                  std::uintptr_t source) {
  if ((bytes & (bytes - 1)) == 0 && address % bytes != 0) report_misaligned(bytes, write, pc);
  tell_and_check(worker, address, bytes, write, pc, false, copy, source);
}

// See confine(). The untrusted program's own frames lie below; 0: not confined.
std::uintptr_t confined_below = 0;
// Where a kernel's frame begins, in bytes below the top of a fiber's stack: the same for all threads of a
// launch.
std::atomic<std::uintptr_t> above_kernel = 0;

[[noreturn]] __attribute__((noinline)) void stop_program(const char* why) {
  std::fprintf(stderr, "error: %s\n", why);
  std::_Exit(1);
}

// Whether this is on the thread's own stack, which stands for registers and local memory.
inline bool on_stack(const Worker& worker, std::uintptr_t address, bool write) {
  const auto bottom = reinterpret_cast<std::uintptr_t>(worker.stack_bottom);
  const auto top = reinterpret_cast<std::uintptr_t>(worker.stack_top);
  if (address - bottom >= top - bottom) return false;
  if (write && confined_below != 0 && address >= top - above_kernel.load(std::memory_order_relaxed)) {
    stop_program("a thread writes to its stack outside of its variables");
  }
  return true;
}

void observe_host(std::uintptr_t address, bool write) {
  if (confined_below == 0 || !write) return;
  const auto own = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (address - own >= confined_below - own) {
    stop_program("the function that launches writes to memory that is not its own, outside any kernel");
  }
}

// Most accesses are to the thread's own stack: not observed.
inline void observe_access(std::uintptr_t address, unsigned bytes, bool write, const void* pc, bool copy,
                           std::uintptr_t source) {
  Worker* worker = current_worker;
  if (worker == nullptr) return observe_host(address, write);
  if (on_stack(*worker, address, write) || !worker->launch->checked) return;
  observe_memory(*worker, address, bytes, write, pc, copy, source);
}

}  // namespace

void observe(std::uintptr_t address, unsigned bytes, bool write, const void* pc) {
  observe_access(address, bytes, write, pc, false, 0);
}

bool observe_atomic(const void* pointer, bool reads, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  constexpr unsigned bytes = 4;
  Worker& worker = *current_worker;
  if (address % bytes != 0) {
    report(FaultKind::misaligned, pc, "changes 4 bytes atomically at an address that is no multiple of 4");
    stop_launch();
  }
  if (!worker.launch->checked || on_stack(worker, address, true)) return false;
  if (find_shared(worker, address, bytes).shared) {
    report(FaultKind::unsupported, pc,
           "changes shared memory atomically; the check knows atomic operations on global memory only");
    stop_launch();
  }
  if (reads) tell(worker, pc, address, bytes, Space::global, false, false, 0);
  tell(worker, pc, address, bytes, Space::global, true, false, 0);
  if (!check_global_atomic(address, reads, pc)) stop_at_wild_address(address, true, pc);
  return true;
}

void check_memory(std::uintptr_t address, unsigned bytes, bool write, const void* pc) {
  tell_and_check(*current_worker, address, bytes, write, pc, true, false, 0);
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

void check_shared_write(const void* shared, unsigned bytes, const void* pc) {
  const SharedPlace place = find_shared(*current_worker, reinterpret_cast<std::uintptr_t>(shared), bytes);
  if (place.inside) check_shared(*current_worker, place.offset, bytes, true, pc);
}

void mark_pending(const void* shared, unsigned bytes, bool pending) {
  const SharedPlace place = find_shared(*current_worker, reinterpret_cast<std::uintptr_t>(shared), bytes);
  if (!place.inside) return;
  for_words(place.offset, bytes, [&](std::size_t word, unsigned mask) {
    current_worker->shadow->mark_pending(word, mask, pending);
  });
}

void fill_shared(const void* shared, unsigned bytes, unsigned engine, Tick tick, const void* pc) {
  for_words(shared_offset(shared), bytes, [&](std::size_t word, unsigned mask) {
    current_worker->shadow->fill(word, mask, engine, tick, pc);
  });
}

bool is_shared(const void* address) {
  return find_shared(*current_worker, reinterpret_cast<std::uintptr_t>(address), 1).shared;
}

std::size_t shared_offset(const void* shared) {
  return find_shared(*current_worker, reinterpret_cast<std::uintptr_t>(shared), 1).offset;
}

const std::byte* readable(Space space, std::uintptr_t address, unsigned bytes) {
  if (space == Space::global) {
    return is_allocated(address, bytes) ? reinterpret_cast<const std::byte*>(address) : nullptr;
  }
  const Worker& worker = *current_worker;
  if (address + bytes <= worker.tls_bytes) return worker.tls + address;
  const std::size_t dynamic = address - worker.tls_bytes;
  return dynamic + bytes <= worker.dynamic_shared.size() ? worker.dynamic_shared.data() + dynamic : nullptr;
}

void refuse(const char* why) { stop_program(why); }

void confine(const void* top) { confined_below = reinterpret_cast<std::uintptr_t>(top); }

void set_listener(AccessListener* new_listener) { listener = new_listener; }

void copy_vector(void* to, const void* from, unsigned bytes) {
  const void* pc = __builtin_return_address(0);
  Worker* worker = current_worker;
  if (worker != nullptr && worker->launch->checked) {
    observe(reinterpret_cast<std::uintptr_t>(from), bytes, false, pc);
    observe(reinterpret_cast<std::uintptr_t>(to), bytes, true, pc);
  } else if (worker != nullptr) {
    const auto bits = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
    if (bits % bytes != 0) {
      report(FaultKind::misaligned, pc,
             "copies " + std::to_string(bytes) + " bytes at an address that is no multiple of " +
                 std::to_string(bytes));
    }
  }
  std::memcpy(to, from, bytes);
}

}  // namespace cpu_device

// ---- What the compiler calls ------------------------------------------------------------------------------

#define OBSERVE(name, bytes, write)                                                     \
  void name(void* address) {                                                            \
    cpu_device::observe_access(reinterpret_cast<std::uintptr_t>(address), bytes, write, \
                               __builtin_return_address(0), false, 0);                  \
  }

extern "C" {

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

void __tsan_read_range(void* address, std::size_t bytes) {
  cpu_device::observe(reinterpret_cast<std::uintptr_t>(address), static_cast<unsigned>(bytes), false,
                      __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  cpu_device::observe(reinterpret_cast<std::uintptr_t>(address), static_cast<unsigned>(bytes), true,
                      __builtin_return_address(0));
}

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
// Called by confined kernels, which are compiled with chained frames.
void __tsan_func_entry(void*) {
  const cpu_device::Worker* worker = cpu_device::current_worker;
  if (worker == nullptr || cpu_device::confined_below == 0) return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wframe-address"
  const auto* frame = static_cast<const char*>(__builtin_frame_address(1));
#pragma GCC diagnostic pop
#ifdef __aarch64__
  frame = *reinterpret_cast<const char* const*>(
      frame);  // a frame begins with the saved registers, and the variables follow
#endif
  cpu_device::above_kernel = static_cast<std::uintptr_t>(worker->stack_top - frame);
}
void __tsan_func_exit() {}

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
  if (cpu_device::current_worker == nullptr || !cpu_device::current_worker->launch->checked) return;
  cpu_device::report(cpu_device::FaultKind::array_index, __builtin_return_address(0),
                     "uses index " + std::to_string(reinterpret_cast<std::intptr_t>(index)) +
                         " of an array of type " + data->array->name);
  if (cpu_device::confined_below != 0) cpu_device::stop_launch();
}

}  // extern "C"
