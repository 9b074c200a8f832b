#pragma once

// The CPU device's workspaces; common/cuda/workspace.hpp says what they are. Each at_least() begins a new
// use: the memory holds NaNs, and reading an element before the kernels have written it is a fault. So is an
// access beyond the elements asked for, even if there used to be more.

#include <cstddef>

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

class WorkspaceMemory {
 public:
  constexpr WorkspaceMemory(const char* name, std::size_t element_bytes, bool zero)
      : name_(name), element_bytes_(element_bytes), zero_(zero) {}
  WorkspaceMemory(const WorkspaceMemory&) = delete;
  ~WorkspaceMemory();
  void* at_least(std::size_t elements);

  // For those that must be zero again at the end of a call; see end_of_call().
  void note_writers();
  void end_of_call(bool whole);

 private:
  const char* name_;
  std::size_t element_bytes_;
  bool zero_;
  bool new_ = true;
  void* memory_ = nullptr;
  std::size_t capacity_ = 0;  // elements
};

}  // namespace cpu_device

template <typename T>
class Workspace {
 public:
  __forceinline__ explicit Workspace(const char* name, Fill fill = Fill::nothing)
      : memory_(name, sizeof(T), fill == Fill::zero) {}
  __forceinline__ T* at_least(std::size_t elements) { return static_cast<T*>(memory_.at_least(elements)); }

 private:
  cpu_device::WorkspaceMemory memory_;
};
