#pragma once

// Runs a cluster under one order of its threads' arrivals and waits, and of the arrivals of its copies, after
// another (order_tree.hpp). Lanes of a warp that are at the same place act together. Between these moves
// threads do what no other can observe but by a race, which vector clocks find in any order; so that is done
// at once.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/order_tree.hpp"

namespace cpu_device {

struct Block;
struct Cluster;
struct Recorded;
class SyncObject;

class Orders {
 public:
  void begin_run(Cluster& cluster);
  // Nothing can happen any more but moves: one of them is made. Returns whether there was any.
  bool step(Cluster& cluster);
  // The cluster has ended, or cannot go on.
  void end_run(Cluster& cluster);

  // The running thread is about to act on an object of `owner`: returns when that is its turn. A wait may end
  // without what it waits for, if it `may_fail` and nothing else can happen.
  struct Act {
    Block* owner;
    const void* address = nullptr;  // of an mbarrier
    unsigned barrier = 0;           // or the number of a named barrier
    std::int64_t arrivals = 0, bytes = 0;
    bool waits = false;
    unsigned parity = 0;
    bool may_fail = false;
    bool operator==(const Act&) const = default;
  };
  void before(const Act& act, const void* pc);

  // What the running thread has done so far, and waited for.
  const Moves& past_of_running() const;
  // A thread is about to be woken that waits on `on`.
  void wake(const Block& block, unsigned thread);

  void note_shorter(const Cluster& cluster, const Recorded& fault);

 private:
  friend Orders* orders_of(std::uint64_t);
  friend OrdersRun next_order(bool);
  struct Parked {
    Act act;
    const void* pc;
  };
  struct Group {  // of lanes, or a copy
    Block* block;
    std::vector<unsigned> lanes;  // empty: a copy
    std::size_t work = 0;         // of the block's engine
    Act act;
    const void* pc;
  };
  // For the table of a schedule.
  struct Step {
    Group group;
    Counter before;
    std::int64_t arrivals, bytes;
    std::string who = {}, what = {};
  };
  static std::string actor_text(const Group& group);
  static std::string action_text(const Step& step);
  std::size_t slot(const Block& block, unsigned thread) const;
  void collect(Cluster& cluster, std::vector<Move>& moves, std::vector<Group>& groups) const;
  std::vector<std::string> table() const;

  OrderTree tree_;
  std::map<std::pair<unsigned, unsigned>, Parked> parked_;  // by block and thread
  std::vector<Moves> pasts_;                                // of the threads
  std::vector<Step> steps_;                                 // of this run
  unsigned threads_per_block_ = 0;
  // What those have done that wake up together.
  const SyncObject* waking_ = nullptr;
  std::uint64_t waking_at_ = 0;
  Moves waking_past_;
  bool done_ = false;                              // all orders have been run
  std::pair<std::size_t, std::uint64_t> place_{};  // number of the launch, and of the cluster
};

// ---- Over several launches -------------------------------------------------------------------------------

// Of the cluster in the launch that is about to run; nullptr: its order is not explored.
Orders* orders_of(std::uint64_t cluster);
void begin_launch_orders();  // a further launch begins
bool orders_are_explored();
bool orders_are_over();  // the call's further launches tell nothing: one has been cut, or has shown a fault

}  // namespace cpu_device
