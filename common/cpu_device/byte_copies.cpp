// memcpy() and memset() of kernels, and copies of structs.

#include <cstring>

#include "common/cpu_device/observe.hpp"

namespace cpu_device {

namespace {

// As accesses of the widest kind that the address allows: a GPU has none wider than 16 bytes.
void observe_range(const void* begin, std::size_t bytes, bool write, const void* pc) {
  if (current_block != nullptr && !current_block->launch.checked) return;
  auto address = reinterpret_cast<std::uintptr_t>(begin);
  while (bytes > 0) {
    unsigned piece = 16;
    while (piece > bytes || address % piece != 0) piece /= 2;
    observe(address, piece, write, pc);
    address += piece;
    bytes -= piece;
  }
}

}  // namespace

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  const void* pc = __builtin_return_address(0);
  observe_range(from, bytes, false, pc);
  observe_range(to, bytes, true, pc);
  std::memcpy(to, from, bytes);
}

void fill_bytes(void* to, int value, std::size_t bytes) {
  observe_range(to, bytes, true, __builtin_return_address(0));
  std::memset(to, value, bytes);
}

}  // namespace cpu_device

// The compiler calls these before accesses of unusual sizes, and of types that are aligned to less than their
// size: structs. It does not say to how much.
extern "C" {

void __tsan_read_range(void* address, std::size_t bytes) {
  cpu_device::observe_range(address, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  cpu_device::observe_range(address, bytes, true, __builtin_return_address(0));
}

}  // extern "C"
