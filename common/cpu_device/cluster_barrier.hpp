#pragma once

// The barrier of all threads of a cluster, at which arriving and waiting are two things. A thread that has
// left the kernel counts as arrived; what it did is not made visible by that.

#include <cstdint>
#include <string>
#include <vector>

#include "common/cpu_device/sync.hpp"

namespace cpu_device {

class ClusterBarrier : public SyncObject {
 public:
  explicit ClusterBarrier(Cluster& cluster) : cluster_(cluster) {}
  void begin();  // a new cluster
  // The running thread arrives; `waits`: and waits.
  void arrive(Block& block, bool waits, const void* pc);
  // The running thread, which has arrived, waits.
  void wait(Block& block, const void* pc);
  void thread_exited(Block& block, unsigned thread);
  std::string awaited_by(const Block& block, unsigned thread) const override;
  // Whether the thread keeps the barrier shut.
  bool lacks(const Block& block, unsigned thread) const;

 private:
  enum class State : std::uint8_t {
    away,     // has not arrived
    arrived,  // and does something else
    waits,    // since it arrived by itself
    syncs,    // since it arrived, with nothing between
    open,     // has arrived, not yet waited, and need not
  };
  struct OfThread {
    State state = State::away;
    const void* pc = nullptr;  // where it arrived
  };
  OfThread& of(const Block& block, unsigned thread);
  void open();

  Cluster& cluster_;
  std::vector<OfThread> threads_;  // of all blocks
  unsigned missing_ = 0;           // threads that have neither arrived nor left the kernel
  unsigned arrived_ = 0;
  bool exited_ = false;  // some thread has left the kernel
  bool split_ = false;   // some thread goes on between its arrival and its wait
  Clock arrivals_;       // of those threads
  Clock opened_;         // by all that arrived at the latest barrier that opened, if it was `split_`
};

}  // namespace cpu_device
