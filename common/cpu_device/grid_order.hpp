#pragma once

// What happens before what between the blocks of a grid. Inside a block the clocks tell (clocks.hpp); two
// blocks are ordered only by what one of them lets the other know: by a flag (grid_flag.hpp), or by atomic
// operations between fences.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/cpu_device/clocks.hpp"

namespace cpu_device {

// A block's number in race detection, which takes two blocks that are 2^31 apart for one.
using BlockNumber = std::uint32_t;
constexpr BlockNumber block_number(std::uint64_t block) {
  return static_cast<BlockNumber>(block & 0x7fffffff);
}

// What a thread had done or seen, in its own block and in others, at the moment it let others know.
class Knowledge {
 public:
  // Whether it includes what `actor` of the block did at this tick.
  bool holds(BlockNumber block, unsigned actor, bool is_engine, Tick tick) const;

  struct OfBlock {
    Tick all_before = 0;  // everything that its threads did before this tick, ...
    Clock clock;          // ... and what each actor did up to its tick here
  };
  void add(BlockNumber block, const OfBlock& part);
  void add(const Knowledge& other);
  const OfBlock* of(BlockNumber block) const;

  // Everything that blocks before this one have done.
  BlockNumber blocks_before = 0;

 private:
  std::map<BlockNumber, OfBlock> blocks_;
};
using SharedKnowledge = std::shared_ptr<const Knowledge>;  // nullptr: nothing

// What the atomic operations of a launch have left at each address.
class AtomicObjects {
 public:
  // Adds `more` to what is there, and returns what was there before. The mutex is held until the operation
  // itself is done: of two operations, the later one finds what the earlier one left.
  SharedKnowledge exchange(std::uintptr_t address, const SharedKnowledge& more);
  std::mutex mutex;

 private:
  std::map<std::uintptr_t, SharedKnowledge> left_;
};

// What threads of a block have come to know, each at its tick. Whoever has seen that thread at that tick
// knows it, too.
class Learned {
 public:
  explicit Learned(const Clocks& clocks) : clocks_(clocks) {}
  void clear();
  void add(unsigned thread, Tick tick, SharedKnowledge knowledge);
  // Everything that the thread knows by now.
  SharedKnowledge known_to(unsigned thread);
  bool holds(BlockNumber block, unsigned actor, Tick tick, unsigned thread) const;

 private:
  struct Event {
    unsigned thread;
    Tick tick;
    SharedKnowledge knowledge;
  };
  void fold();
  const Clocks& clocks_;
  SharedKnowledge known_to_all_;  // because a barrier of the block has passed
  std::vector<Event> events_;     // the others
};

// What the threads of a worker's block know about other blocks.
class GridOrder {
 public:
  explicit GridOrder(Clocks& clocks);
  void new_block(std::uint64_t block);

  // What the thread has done and seen until now, and nothing that it does later.
  SharedKnowledge release(unsigned thread);
  // The thread has now seen this, and so will have those who come to know what it does from now on.
  void acquire(unsigned thread, const SharedKnowledge& knowledge);

  // An atomic operation by itself orders nothing. With a fence before it, it leaves what was known at the
  // fence; with a fence after it, what others have left there becomes known. Fence and operation may be those
  // of different threads of the block if something orders the two: that is how kernels are written, and how
  // GPUs work.
  void fence(unsigned thread);
  void atomic(unsigned thread, std::uintptr_t address, AtomicObjects& objects);

  // Whether the thread has seen what `actor` of another block did at its tick.
  bool seen(BlockNumber block, unsigned actor, Tick tick, unsigned thread) const {
    return acquired_.holds(block, actor, tick, thread);
  }

 private:
  Clocks& clocks_;
  BlockNumber block_ = 0;
  Learned acquired_;
  Learned before_fences_;  // of the block; atomic operations leave it behind
  Learned found_;          // by atomic operations; a fence makes it known
};

}  // namespace cpu_device
