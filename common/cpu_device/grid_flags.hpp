#pragma once

// The flags of a launch (grid_flag.hpp): who has set them, and what that lets others know.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "common/cpu_device/grid_order.hpp"
#include "common/cpu_device/sync.hpp"

namespace cpu_device {

struct Launch;

class GridFlag : public SyncObject {
 public:
  std::string awaited_by(const Worker& worker, unsigned thread) const override;
  std::string name() const;  // "the flag ready[3]"

  // A thread of a block, somewhere.
  struct Event {
    std::uint64_t block = 0;
    unsigned thread = 0;
    const void* pc = nullptr;  // nullptr: has not happened
  };
  unsigned* address = nullptr;
  Event set, cleared;         // `set` is none if the flag has been cleared since
  SharedKnowledge knowledge;  // of who has set it; checked launches only
};

class GridFlags {
 public:
  void set(Worker& worker, unsigned* flag, const void* pc);
  // What a thread waits on that waits for this flag.
  const GridFlag& at(unsigned* flag);
  // Clears the flag for the thread if its block or one before it has set it; otherwise false. All blocks
  // before it have come to their end.
  bool take(Worker& worker, unsigned thread, unsigned* flag, const void* pc);
  // The launch has come to its end: what is still set is a fault, and cleared.
  void end(const Launch& launch);

 private:
  GridFlag& entry(unsigned* flag);
  std::mutex mutex_;
  std::map<unsigned*, GridFlag> flags_;
};

// When otherwise nothing can happen in the block: waits until the blocks before it have come to their end,
// and lets threads go on whose flags are set. False: there are none.
bool end_flag_waits(Worker& worker);

}  // namespace cpu_device
