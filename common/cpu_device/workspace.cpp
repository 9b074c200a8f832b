#include "common/cuda/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/launch.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/out_of_memory.hpp"

namespace cpu_device {

namespace {

// The workspaces that must be zero again, each with who has written what is not, as far as that is known. It
// is never destroyed, as they are static variables themselves.
using Writers = std::map<std::size_t, Recorded>;  // by element
std::map<WorkspaceMemory*, Writers>& zero_workspaces() {
  static auto& all = *new std::map<WorkspaceMemory*, Writers>;
  return all;
}
bool all_blocks_ran = true;  // in this call

bool is_zero(const std::byte* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](std::byte byte) { return byte == std::byte{}; });
}

}  // namespace

WorkspaceMemory::~WorkspaceMemory() {
  if (zero_) zero_workspaces().erase(this);
  release(memory_);
}

void WorkspaceMemory::note_writers() {
  Writers& writers = zero_workspaces()[this];
  for (std::size_t i = 0; i < capacity_; ++i) {
    const auto* element = static_cast<const std::byte*>(memory_) + i * element_bytes_;
    if (is_zero(element, element_bytes_)) continue;
    if (auto writer = last_writer(reinterpret_cast<std::uintptr_t>(element))) writers[i] = std::move(*writer);
  }
}

void WorkspaceMemory::end_of_call(bool whole) {
  Writers writers = std::exchange(zero_workspaces()[this], {});
  std::size_t first = capacity_, count = 0;
  for (std::size_t i = 0; i < capacity_; ++i) {
    if (is_zero(static_cast<const std::byte*>(memory_) + i * element_bytes_, element_bytes_)) continue;
    first = std::min(first, i);
    ++count;
  }
  if (count == 0) return;
  std::memset(memory_, 0, capacity_ * element_bytes_);
  if (!whole) return;
  Recorded fault = writers[first];
  fault.fault.kind = FaultKind::workspace_left;
  fault.fault.detail =
      fmt::format("writes {}[{}], which is not zero again when the call ends{}; the next call finds it so",
                  name_, first, count == 1 ? "" : fmt::format(", as are {} more of {}", count - 1, name_));
  report_after_launch(std::move(fault));
}

void note_workspace_writers(const Launch& launch) {
  all_blocks_ran = all_blocks_ran && launch.all && launch.stop_after == ~std::uint64_t{0};
  for (auto& [workspace, writers] : zero_workspaces()) workspace->note_writers();
}

void end_of_call() {
  const bool whole = std::exchange(all_blocks_ran, true);
  for (auto& [workspace, writers] : zero_workspaces()) workspace->end_of_call(whole);
}

void* WorkspaceMemory::at_least(std::size_t elements) {
  const std::size_t bytes = elements * element_bytes_;
  if (zero_) zero_workspaces().try_emplace(this);
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
    if (zero_) zero_workspaces()[this].clear();
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
