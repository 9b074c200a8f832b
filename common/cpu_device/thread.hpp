#pragma once

// A CUDA thread: a fiber, what it waits for, and the copies that it has under way.

#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <vector>

#include "common/cpu_device/sync.hpp"

namespace cpu_device {

// How often in vain a thread has let others run to read the same address again; see watchdog.hpp.
struct SpinState {
  std::uint64_t key = 0;  // of address and place
  unsigned times = 0;
  std::uint64_t progress = 0;  // of its cluster, the last time
};

struct Thread {
  boost::context::detail::fcontext_t context = nullptr;
  int stack = -1;  // its index in the Stacks while the thread is alive
  const char* stack_top = nullptr;
  dim3 index;  // threadIdx
  Wait wait;
  SpinState spin;
};

// The asynchronous copies (cp.async) that a thread has issued and not waited for, oldest first.
struct AsyncCopies {
  struct Copy {
    void* shared;
    const void* global;  // nullptr: zeros
    unsigned bytes;
    unsigned group;
    const void* pc;
  };
  std::vector<Copy> waiting;
  unsigned groups = 0;      // closed so far
  std::uint64_t asked = 0;  // copies so far
};

}  // namespace cpu_device
