#pragma once

// Memory that holds a pattern everywhere and takes room only where it is written: for matrices whose rows lie
// gigabytes apart. The CPU device uses it.

#include <cstddef>
#include <cstdint>
#include <functional>

namespace harness {

// Fills the buffer with the pattern: `bytes`, a multiple of 4, of private memory from mmap. Throws
// std::bad_alloc.
void map_pattern(void* buffer, std::size_t bytes, std::uint32_t pattern);

// Calls body(first, last), offsets in bytes, for each part of the memory that may have been written since;
// for a single one, of all the bytes, if the system does not tell.
void for_each_written(const void* buffer, std::size_t bytes,
                      const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace harness
