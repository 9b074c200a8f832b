#pragma once

// What happens before what between the clusters of a grid (a block without a cluster is one of its own).
// Inside a cluster the clocks tell (clocks.hpp); two clusters are ordered only by what one of them lets the
// other know: by a flag (grid_flag.hpp), or by atomic operations between fences.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/cpu_device/clocks.hpp"

namespace cpu_device {

// A cluster's number in race detection, which takes two that are 2^31 apart for one.
using ClusterNumber = std::uint32_t;
constexpr ClusterNumber cluster_number(std::uint64_t cluster) {
  return static_cast<ClusterNumber>(cluster & 0x7fffffff);
}

// What a thread had done or seen, in its own cluster and in others, at the moment it let others know.
class Knowledge {
 public:
  // Whether it includes what `actor` of the cluster did at this tick.
  bool holds(ClusterNumber cluster, unsigned actor, bool is_engine, Tick tick) const;

  struct OfCluster {
    Tick all_before = 0;  // everything that its threads did before this tick, ...
    Clock clock;          // ... and what each actor did up to its tick here
  };
  void add(ClusterNumber cluster, const OfCluster& part);
  void add(const Knowledge& other);
  const OfCluster* of(ClusterNumber cluster) const;

  // Everything that clusters before this one have done.
  ClusterNumber clusters_before = 0;
  // The part of it behind which a fence of the asynchronous proxy stands; nullptr: none.
  std::shared_ptr<const Knowledge> fenced;

 private:
  std::map<ClusterNumber, OfCluster> clusters_;
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

// What threads of a cluster have come to know, each at its tick. Whoever has seen that thread at that tick
// knows it, too.
class Learned {
 public:
  explicit Learned(const Clocks& clocks) : clocks_(clocks) {}
  void clear();
  void add(unsigned thread, Tick tick, SharedKnowledge knowledge);
  // Everything that the thread knows by now.
  SharedKnowledge known_to(unsigned thread);
  bool holds(ClusterNumber cluster, unsigned actor, Tick tick, unsigned thread) const;

 private:
  struct Event {
    unsigned thread;
    Tick tick;
    SharedKnowledge knowledge;
  };
  void fold();
  const Clocks& clocks_;
  SharedKnowledge known_to_all_;  // because a barrier of the whole cluster has passed
  std::vector<Event> events_;     // the others
};

// What the threads of a running cluster know about others. Threads are actors.
class GridOrder {
 public:
  explicit GridOrder(Clocks& clocks);
  void begin(std::uint64_t cluster);

  // What the thread has done and seen until now, and nothing that it does later.
  SharedKnowledge release(unsigned thread);
  // The thread has now seen this, and so will have those who come to know what it does from now on.
  void acquire(unsigned thread, const SharedKnowledge& knowledge);

  // An atomic operation by itself orders nothing. With a fence before it, it leaves what was known at the
  // fence; with a fence after it, what others have left there becomes known. Fence and operation may be those
  // of different threads of the cluster if something orders the two: that is how kernels are written, and how
  // GPUs work.
  void fence(unsigned thread, AtomicObjects& objects);
  void atomic(unsigned thread, std::uintptr_t address, AtomicObjects& objects);

  // A fence between what the thread has seen until now and asynchronous copies, for itself and for whoever
  // synchronises with it from now on.
  void fence_async_proxy(unsigned thread);
  // Whether one stands between what `actor` of another cluster did at its tick and the thread.
  bool fenced(ClusterNumber cluster, unsigned actor, Tick tick, unsigned thread) const {
    return fenced_.holds(cluster, actor, tick, thread);
  }

  // A volatile access, which is no more than a load or a store. What a read finds is looked up at the next
  // fence: at the moment of the read, its value has yet to be loaded.
  void volatile_read(unsigned thread, std::uintptr_t address);
  void volatile_write(unsigned thread, std::uintptr_t address, AtomicObjects& objects);

  // Whether the thread has seen what `actor` of another cluster did at its tick.
  bool seen(ClusterNumber cluster, unsigned actor, Tick tick, unsigned thread) const {
    return acquired_.holds(cluster, actor, tick, thread);
  }

 private:
  Clocks& clocks_;
  ClusterNumber cluster_ = 0;
  Learned acquired_;
  Learned before_fences_;  // of the cluster; atomic operations leave it behind
  Learned fenced_;         // what fence_async_proxy() stands behind
  Learned found_;          // by atomic operations; a fence makes it known
  struct VolatileRead {
    unsigned thread;
    Tick tick;
    std::uintptr_t address;
  };
  std::vector<VolatileRead> volatile_reads_;  // the latest of each thread at each address
};

}  // namespace cpu_device
