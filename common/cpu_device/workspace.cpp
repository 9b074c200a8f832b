#include "common/cuda/workspace.hpp"

#include <cstring>

#include "common/cpu_device/launch.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/out_of_memory.hpp"

namespace cpu_device {

WorkspaceMemory::~WorkspaceMemory() { release(memory_); }

void* WorkspaceMemory::at_least(std::size_t elements) {
  const std::size_t bytes = elements * element_bytes_;
  if (memory_ == nullptr || elements > capacity_) {
    release(memory_);
    memory_ = nullptr;
    try {
      if (bytes / element_bytes_ != elements) throw std::bad_alloc();
      memory_ = allocate(bytes);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(name_, elements, element_bytes_);
    }
    capacity_ = elements;
    new_ = true;
  }
  if (launches_are_noted()) return memory_;  // nobody will read it, and it may be large
  if (!zero_) {
    poison(memory_, bytes);
  } else if (new_) {
    std::memset(memory_, 0, bytes);
  }
  new_ = false;
  const auto count = static_cast<std::int64_t>(elements);
  describe({.name = name_,
            .data = memory_,
            .rows = 1,
            .cols = count,
            .leading_dimension = count,
            .batch = 1,
            .stride = count,
            .readable = zero_,
            .writable = true,
            .element_bytes = static_cast<unsigned>(element_bytes_),
            .one_index = true});
  return memory_;
}

}  // namespace cpu_device
