#pragma once

// Asynchronous work that belongs to the block: what is asked for is done at the latest moment that the rules
// allow, when no thread can go on without it, the oldest first.

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "common/cpu_device/clocks.hpp"

namespace cpu_device {

struct Worker;
class Mbarrier;

class AsyncEngine {
 public:
  void new_block();
  // Copies to shared memory, then tells the mbarrier how many bytes have come.
  void copy(void* shared, const void* global, std::uint32_t bytes, const void* mbarrier, unsigned thread,
            const void* pc);
  // Arrives at the mbarrier when all that the thread has asked async_copy() for has come.
  void arrive_after_copies(const void* mbarrier, unsigned thread, std::uint64_t copies, const void* pc);

  // Does the oldest of what it was asked for; false: there is nothing to do.
  bool act(Worker& worker);

  // The thread that has asked for what an engine did at this tick.
  unsigned started_by(unsigned engine, Tick tick) const;

 private:
  struct Work {
    void* shared;
    const void* global;
    std::uint32_t bytes;
    std::uint64_t copies;  // of the thread's own, that must have come
    const void* mbarrier;
    unsigned thread;
    const void* pc;
  };
  std::deque<Work> waiting_;
  std::map<std::pair<unsigned, Tick>, unsigned> started_by_;  // checked launches only
};

}  // namespace cpu_device
