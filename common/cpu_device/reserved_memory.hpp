#pragma once

// Zeroed memory that takes room only where it is touched, however large it is.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace cpu_device {

// From this size on the system is asked to reserve addresses only: otherwise it would refuse what is larger
// than its memory.
constexpr std::size_t reserved_from = std::size_t{1} << 30;

struct Free {
  std::size_t reserved = 0;  // bytes; 0: from calloc
  void operator()(void* pointer) const {
    if (reserved == 0) {
      std::free(pointer);
    } else {
      munmap(pointer, reserved);
    }
  }
};

// Throws std::bad_alloc.
template <typename T>
std::unique_ptr<T[], Free> zeroed(std::size_t count) {
  if (count > PTRDIFF_MAX / sizeof(T)) throw std::bad_alloc();
  const std::size_t bytes = count * sizeof(T);
  if (bytes >= reserved_from) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return {static_cast<T*>(memory), Free{bytes}};
  }
  auto* const words = static_cast<T*>(std::calloc(count, sizeof(T)));
  if (words == nullptr) throw std::bad_alloc();
  return {words, Free{}};
}

}  // namespace cpu_device
