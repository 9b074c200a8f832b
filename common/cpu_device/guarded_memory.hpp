#pragma once

// Memory between pages that nobody may touch: whoever runs over its end, or before its beginning, crashes at
// once, even unchecked, instead of damaging the host's heap.

#include <cstddef>

namespace cpu_device {

// An access that misses an allocation by less meets its guard pages.
constexpr std::size_t guard_bytes = std::size_t{1} << 20;

// Aligned to 256 bytes. Throws std::bad_alloc.
void* allocate_guarded(std::size_t bytes);
void release_guarded(void* memory, std::size_t bytes);

// Alignment leaves some bytes between the memory and its guard pages. Whether somebody has written there.
enum class Overrun { none, before, after };
Overrun overrun_of(const void* memory, std::size_t bytes);

}  // namespace cpu_device
