#pragma once

// What happens before what inside a cluster, by vector clocks. An actor is a thread or an engine that works
// asynchronously (async_engine.hpp). A counter per cluster gives every event its tick; an actor's clock
// holds, for every other actor, the tick up to which it has seen everything that one did.
//
// Barriers of a whole cluster, block or warp, by far the most frequent, cost one step: they order everything
// before them, so one tick does for a whole clock. Real clocks are kept only from the first synchronisation
// of fewer threads on.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace cpu_device {

// 32 bits are enough for 2^32 synchronisations in a cluster; the count restarts between clusters, in good
// time.
using Tick = std::uint32_t;
using Clock = std::vector<Tick>;  // by actor; actors beyond its end have not been seen

class Clocks {
 public:
  Clocks(unsigned threads_per_block, unsigned blocks);

  // A new cluster. True if the ticks restart: everything remembered with a tick must then be forgotten.
  bool begin();

  // Actors: the threads of block 0, of block 1 ..., whole warps of each, then the engines of each block.
  unsigned first_thread(unsigned block) const { return block * threads_; }
  bool is_engine(unsigned actor) const { return actor >= blocks_ * threads_; }
  unsigned block_of(unsigned actor) const {
    return is_engine(actor) ? (actor - blocks_ * threads_) / engines_per_block : actor / threads_;
  }

  Tick now() const { return now_; }
  Tick began() const { return began_; }
  // Everything that threads of the cluster did before this tick is ordered for all of them.
  Tick known_to_all() const { return known_to_all_; }

  void cluster_barrier();              // all threads of the cluster
  void block_barrier(unsigned block);  // all threads of a block
  void warp_barrier(unsigned warp);    // all lanes of a warp: the first one's actor, divided by 32
  void barrier(std::span<const unsigned> threads);

  // Whoever acquires the object knows what the thread has done and seen until now, not what it does later.
  void release(unsigned thread, Clock& object);
  void acquire(unsigned thread, const Clock& object) { join(clocks_[thread], object); }
  // release() to threads of other clusters, which have not seen this one's barriers. Returns the tick before
  // which everything that this cluster's threads did is known, too.
  Tick release_to_grid(unsigned thread, Clock& object);

  // A new engine of a block, as an actor. A block has 1000; further ones share the last.
  unsigned new_engine(unsigned block);
  // The engine has done something, which whoever acquires the object knows of. Returns its tick.
  Tick engine_release(unsigned engine, Clock& object);

  // Whether `thread` has seen what `actor` did at `tick`, in this cluster.
  bool ordered(unsigned actor, Tick tick, unsigned thread) const {
    if (actor == thread) return true;
    if (!is_engine(actor)) {
      if (tick < known_to_all_) return true;
      if (actor / 32 == thread / 32 && tick < warp_barrier_[thread / 32]) return true;
      if (blocks_ > 1 && actor / threads_ == thread / threads_ && tick < block_barrier_[thread / threads_]) {
        return true;
      }
    }
    return has_seen(thread, actor, tick);
  }
  // The same of an engine.
  bool has_seen(unsigned thread, unsigned engine, Tick tick) const {
    return tick <= at(clocks_[thread], engine) || tick <= at(seen_by_block_[thread / threads_], engine);
  }

  // Whether `thread` has seen anything of that block.
  bool knows_of(unsigned thread, unsigned block) const;

  static void join(Clock& into, const Clock& from);

 private:
  static constexpr unsigned engines_per_block = 1000;
  static Tick at(const Clock& clock, unsigned actor) { return actor < clock.size() ? clock[actor] : 0; }
  static void raise(Clock& clock, unsigned actor, Tick tick);
  static void raise(Clock& clock, unsigned first, unsigned end, Tick tick);
  // Adds what a thread has seen at barriers that its clock does not record.
  void add_barriers(Clock& clock, unsigned thread) const;

  const unsigned blocks_;
  const unsigned threads_;  // per block, rounded up to whole warps
  Tick now_ = 1;
  Tick began_ = 1;
  Tick known_to_all_ = 1;
  std::vector<Tick> block_barrier_;   // of each block
  std::vector<Tick> warp_barrier_;    // of each warp
  std::vector<unsigned> engines_;     // of each block: in use
  bool in_use_ = false;               // whether clocks_ is, in this cluster
  std::vector<Clock> clocks_;         // of the threads
  std::vector<Clock> seen_by_block_;  // what all threads of a block know: engines, and other blocks' threads
};

}  // namespace cpu_device
