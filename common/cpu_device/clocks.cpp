#include "common/cpu_device/clocks.hpp"

namespace cpu_device {

Clocks::Clocks(unsigned threads)
    : threads_(threads), warp_barrier_((threads + 31) / 32, 1), clocks_(threads) {}

void Clocks::join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void Clocks::raise(Clock& clock, unsigned actor, Tick tick) {
  if (clock.size() <= actor) clock.resize(actor + 1);
  clock[actor] = std::max(clock[actor], tick);
}

// Adds what a lane has seen of its own warp at barriers that its clock does not record.
void Clocks::add_warp_barriers(Clock& clock, unsigned warp) const {
  if (warp_barrier_[warp] <= block_barrier_) return;  // everybody knows that
  for (unsigned lane = lanes_begin(warp); lane < lanes_end(warp); ++lane) {
    raise(clock, lane, warp_barrier_[warp] - 1);
  }
}

bool Clocks::new_block() {
  if (in_use_) {
    for (Clock& clock : clocks_) clock.clear();
    seen_by_all_.clear();
    in_use_ = false;
  }
  engines_ = 0;
  const bool anew = now_ >= Tick{1} << 31;
  if (anew) {
    now_ = 1;
    std::fill(warp_barrier_.begin(), warp_barrier_.end(), 1);
  }
  block_began_ = block_barrier_ = ++now_;
  return anew;
}

void Clocks::block_barrier() {
  for (unsigned engine = threads_; engine < threads_ + engines_; ++engine) {
    for (const Clock& clock : clocks_) raise(seen_by_all_, engine, at(clock, engine));
  }
  block_barrier_ = ++now_;
}

void Clocks::warp_barrier(unsigned warp) {
  if (in_use_) {
    Clock all;
    for (unsigned lane = lanes_begin(warp); lane < lanes_end(warp); ++lane) join(all, clocks_[lane]);
    for (unsigned lane = lanes_begin(warp); lane < lanes_end(warp); ++lane) clocks_[lane] = all;
  }
  warp_barrier_[warp] = ++now_;
}

void Clocks::barrier(std::span<const unsigned> threads) {
  Clock all;
  for (const unsigned thread : threads) release(thread, all);
  for (const unsigned thread : threads) acquire(thread, all);
}

void Clocks::release(unsigned thread, Clock& object) {
  in_use_ = true;
  join(object, clocks_[thread]);
  add_warp_barriers(object, thread / 32);
  raise(object, thread, now_++);
}

Tick Clocks::release_to_grid(unsigned thread, Clock& object) {
  release(thread, object);
  join(object, seen_by_all_);
  return block_barrier_;
}

Tick Clocks::engine_release(unsigned engine, Clock& object) {
  in_use_ = true;
  raise(object, engine, now_);
  return now_++;
}

}  // namespace cpu_device
