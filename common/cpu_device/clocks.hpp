#pragma once

// What happens before what inside a block, by vector clocks. An actor is a thread or an engine that works on
// its own (async_engine.hpp). One counter of the OS thread gives every event its tick; an actor's clock says
// up to which tick of each other actor's it has seen everything.
//
// Barriers of the whole block or of a whole warp, by far the most frequent, cost one step: they order
// everything before them, so a tick in place of a clock says it all. Clocks proper begin with the first
// synchronisation of some threads only.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace cpu_device {

// 32 bits last for 2^32 synchronisations in a block; between blocks the count begins anew in time.
using Tick = std::uint32_t;
using Clock = std::vector<Tick>;  // by actor; what lies beyond its end has not been seen

class Clocks {
 public:
  explicit Clocks(unsigned threads);

  // True if ticks begin anew: then what is remembered with a tick must be forgotten.
  bool new_block();

  Tick now() const { return now_; }
  Tick block_began() const { return block_began_; }
  // Everything that threads did before this tick is ordered for all.
  Tick block_barrier_passed() const { return block_barrier_; }

  void block_barrier();              // all threads of the block
  void warp_barrier(unsigned warp);  // all lanes of a warp
  void barrier(std::span<const unsigned> threads);

  // What the thread has done and seen is known to who acquires the object; what it does later is not.
  void release(unsigned thread, Clock& object);
  void acquire(unsigned thread, const Clock& object) { join(clocks_[thread], object); }
  // release() to threads of other blocks, which have not seen this block's barriers. Returns the tick before
  // which all that threads did is known, too.
  Tick release_to_grid(unsigned thread, Clock& object);

  // A number for another engine. There are 1000; after that they share one.
  unsigned new_engine() { return threads_ + (engines_ < 1000 ? engines_++ : engines_ - 1); }
  // The engine has done something that who acquires the object knows of. Returns its tick.
  Tick engine_release(unsigned engine, Clock& object);
  bool is_engine(unsigned actor) const { return actor >= threads_; }

  // Whether `thread` has seen what `actor` did at `tick`, in this block.
  bool ordered(unsigned actor, Tick tick, unsigned thread) const {
    if (actor == thread) return true;
    if (actor < threads_) {
      if (tick < block_barrier_) return true;
      if (actor / 32 == thread / 32 && tick < warp_barrier_[thread / 32]) return true;
    } else if (tick <= at(seen_by_all_, actor)) {
      return true;
    }
    return tick <= at(clocks_[thread], actor);
  }

  static void join(Clock& into, const Clock& from);

 private:
  static Tick at(const Clock& clock, unsigned actor) { return actor < clock.size() ? clock[actor] : 0; }
  static void raise(Clock& clock, unsigned actor, Tick tick);
  void add_warp_barriers(Clock& clock, unsigned warp) const;
  unsigned lanes_begin(unsigned warp) const { return warp * 32; }
  unsigned lanes_end(unsigned warp) const { return std::min(warp * 32 + 32, threads_); }

  const unsigned threads_;
  unsigned engines_ = 0;
  Tick now_ = 1;
  Tick block_began_ = 1;
  Tick block_barrier_ = 1;
  std::vector<Tick> warp_barrier_;
  bool in_use_ = false;        // clocks_, in this block
  std::vector<Clock> clocks_;  // of the threads
  Clock seen_by_all_;          // engines only
};

}  // namespace cpu_device
