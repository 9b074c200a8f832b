#pragma once

// Bulk and tensor copies and stores reach memory by another way than a thread's loads and stores, another
// proxy: what threads have written is there for them only behind a fence between the two. PTX ISA, "Memory
// Consistency Model", "Proxies".

#include <vector>

#include "common/cpu_device/clocks.hpp"

namespace cpu_device {

// The fences of a cluster's threads, for one kind of memory. Threads are actors.
class ProxyFences {
 public:
  explicit ProxyFences(Clocks& clocks) : clocks_(clocks) {}
  void begin();  // a new cluster
  void fence(unsigned thread);
  // Whether a fence stands between what `writer` did at this tick and what `requester` does now: by a thread
  // that had seen the one, and that the other has seen since.
  bool between(unsigned writer, Tick tick, unsigned requester) const;

 private:
  struct Fence {
    unsigned thread = 0;
    Tick tick = 0;
    Tick all_before = 0;  // what threads did before this tick its thread had seen, ...
    Clock clock;          // ... and what each actor did up to its tick here
    bool covers(unsigned writer, bool is_engine, Tick at) const {
      return (!is_engine && at < all_before) || (writer < clock.size() && at <= clock[writer]);
    }
  };
  static void join(Fence& into, const Fence& from);
  Clocks& clocks_;
  Fence known_to_all_;         // all those that every thread of the cluster has seen
  std::vector<Fence> fences_;  // the others, oldest first
  mutable std::size_t latest_ =
      0;  // that was found between: most likely the next one is the same or the next
};

}  // namespace cpu_device
