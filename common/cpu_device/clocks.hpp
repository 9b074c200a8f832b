#pragma once

// What happens before what inside a block, by vector clocks. An actor is a thread or an engine that works
// asynchronously (async_engine.hpp). A counter per OS thread gives every event its tick; an actor's clock
// holds, for every other actor, the tick up to which it has seen everything that one did.
//
// Barriers of the whole block or of a whole warp, by far the most frequent, cost one step: they order
// everything before them, so one tick does for a whole clock. Real clocks are kept only from the first
// synchronisation of fewer threads on.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace cpu_device {

// 32 bits are enough for 2^32 synchronisations in a block; the count restarts between blocks, in good time.
using Tick = std::uint32_t;
using Clock = std::vector<Tick>;  // by actor; actors beyond its end have not been seen

class Clocks {
 public:
  explicit Clocks(unsigned threads);

  // True if the ticks restart: everything remembered with a tick must then be forgotten.
  bool new_block();

  Tick now() const { return now_; }
  Tick block_began() const { return block_began_; }
  // Everything that threads did before this tick is ordered for all of them.
  Tick block_barrier_passed() const { return block_barrier_; }

  void block_barrier();              // all threads of the block
  void warp_barrier(unsigned warp);  // all lanes of a warp
  void barrier(std::span<const unsigned> threads);

  // Whoever acquires the object knows what the thread has done and seen until now, not what it does later.
  void release(unsigned thread, Clock& object);
  void acquire(unsigned thread, const Clock& object) { join(clocks_[thread], object); }
  // release() to threads of other blocks, which have not seen this block's barriers. Returns the tick before
  // which everything that this block's threads did is known, too.
  Tick release_to_grid(unsigned thread, Clock& object);

  // The number of a new engine. There are 1000; beyond that they share one.
  unsigned new_engine() { return threads_ + (engines_ < 1000 ? engines_++ : engines_ - 1); }
  // The engine has done something, which whoever acquires the object knows of. Returns its tick.
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
  bool in_use_ = false;        // whether clocks_ is, in this block
  std::vector<Clock> clocks_;  // of the threads
  Clock seen_by_all_;          // engines only
};

}  // namespace cpu_device
