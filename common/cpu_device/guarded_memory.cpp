#include "common/cpu_device/guarded_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace cpu_device {

namespace {

constexpr std::size_t alignment = 256;
constexpr unsigned char untouched = 0xa5;  // what the bytes hold that alignment leaves

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The pages that hold the memory, which is at their end, but for its alignment.
struct Pages {
  Pages(const void* memory, std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    begin = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(memory) / page * page);
    end = const_cast<char*>(static_cast<const char*>(memory)) + round_up(bytes, alignment);
  }
  char *begin, *end;
};

bool is_untouched(const char* begin, const char* end) {
  return std::all_of(begin, end, [](char byte) { return static_cast<unsigned char>(byte) == untouched; });
}

}  // namespace

void* allocate_guarded(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX / 2) throw std::bad_alloc();
  const std::size_t pages =
      round_up(round_up(bytes, alignment), static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  // All of it is reserved first, as only what may be written counts as used.
  void* all =
      mmap(nullptr, pages + 2 * guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(all) + guard_bytes;
  if (mprotect(begin, pages, PROT_READ | PROT_WRITE) != 0) {
    munmap(all, pages + 2 * guard_bytes);
    throw std::bad_alloc();
  }
  char* const memory = begin + pages - round_up(bytes, alignment);
  std::memset(begin, untouched, static_cast<std::size_t>(memory - begin));
  std::memset(memory + bytes, untouched, round_up(bytes, alignment) - bytes);
  return memory;
}

void release_guarded(void* memory, std::size_t bytes) {
  const Pages pages(memory, bytes);
  munmap(pages.begin - guard_bytes, static_cast<std::size_t>(pages.end - pages.begin) + 2 * guard_bytes);
}

Overrun overrun_of(const void* memory, std::size_t bytes) {
  const Pages pages(memory, bytes);
  const auto* begin = static_cast<const char*>(memory);
  if (!is_untouched(begin + bytes, pages.end)) return Overrun::after;
  return is_untouched(pages.begin, begin) ? Overrun::none : Overrun::before;
}

}  // namespace cpu_device
