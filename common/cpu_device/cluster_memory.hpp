#pragma once

// The shared memory of a cluster's other blocks. It exists from when a block is known to run until it leaves
// the kernel.

#include <cstdint>
#include <vector>

#include "common/cpu_device/clocks.hpp"

namespace cpu_device {

struct Block;

// Where a copy comes: the same places in each of these blocks.
struct CopyTarget {
  Block* block;
  void* shared;
  void* mbarrier;
};
std::vector<CopyTarget> targets_of_multicast(void* shared, std::uint64_t* barrier, std::uint16_t blocks,
                                             const void* pc);

// The running thread reaches for the shared memory of a block of its cluster: reports if that may not exist.
// `does`: "reads".
void check_exists(Block& running, Block& owner, const char* does, const void* pc);

// The latest access of each thread of other blocks to a block's shared memory.
class Visits {
 public:
  void begin() { visits_.clear(); }
  void note(unsigned actor, Tick tick, const void* pc);
  // A thread of the block leaves the kernel. With the last one the memory goes: reports a visit that none of
  // them has seen.
  void thread_exits(Block& owner, unsigned thread);

 private:
  struct Visit {
    unsigned actor;
    Tick tick;
    const void* pc;
  };
  std::vector<Visit> visits_;
};

}  // namespace cpu_device
