#pragma once

// The flags of a launch (grid_flag.hpp): who has set them, and what others learn from that.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "common/cpu_device/grid_order.hpp"
#include "common/cpu_device/sync.hpp"

namespace cpu_device {

struct Cluster;
struct Launch;

class GridFlag : public SyncObject {
 public:
  std::string awaited_by(const Block& block, unsigned thread) const override;
  std::string name() const;  // "the flag ready[3]"

  // What a thread of some block did, and where.
  struct Event {
    std::uint64_t block = 0;
    unsigned thread = 0;
    const void* pc = nullptr;  // nullptr: it has not happened
  };
  unsigned* address = nullptr;
  Event set, cleared;         // `set` is reset when the flag is cleared
  SharedKnowledge knowledge;  // of the thread that set it; checked launches only
};

class GridFlags {
 public:
  void set(Block& block, unsigned* flag, const void* pc);
  // The object on which threads wait for this flag.
  const GridFlag& at(unsigned* flag);
  // Clears the flag for the thread if its cluster or one before it has set it; otherwise returns false. All
  // clusters before it have finished.
  bool take(Block& block, unsigned thread, unsigned* flag, const void* pc);
  // The launch has finished: a flag that is still set is a fault, and is cleared.
  void end(const Launch& launch);

 private:
  GridFlag& entry(unsigned* flag);
  std::mutex mutex_;
  std::map<unsigned*, GridFlag> flags_;
};

// If nothing else can happen in the cluster: waits until those before it have finished, then lets the threads
// go on whose flags are set. Returns false if there are none.
bool end_flag_waits(Cluster& cluster);

}  // namespace cpu_device
