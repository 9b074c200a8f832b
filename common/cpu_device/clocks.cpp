#include "common/cpu_device/clocks.hpp"

namespace cpu_device {

namespace {

// Nothing is called more often, and only AVX2 has the maximum of unsigned numbers.
#if defined(__x86_64__) && defined(__GLIBC__)
[[gnu::target_clones("avx2", "default")]]
#endif
void raise_all(Tick* into, const Tick* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

Clocks::Clocks(unsigned threads_per_block, unsigned blocks)
    : blocks_(blocks),
      threads_((threads_per_block + 31) / 32 * 32),
      block_barrier_(blocks, 1),
      warp_barrier_(blocks * threads_ / 32, 1),
      engines_(blocks),
      clocks_(blocks * threads_),
      seen_by_block_(blocks) {}

void Clocks::join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  raise_all(into.data(), from.data(), from.size());
}

void Clocks::raise(Clock& clock, unsigned actor, Tick tick) { raise(clock, actor, actor + 1, tick); }

void Clocks::raise(Clock& clock, unsigned first, unsigned end, Tick tick) {
  if (clock.size() < end) clock.resize(end);
  for (unsigned actor = first; actor < end; ++actor) clock[actor] = std::max(clock[actor], tick);
}

void Clocks::add_barriers(Clock& clock, unsigned thread) const {
  const unsigned block = thread / threads_, warp = thread / 32;
  Tick known = known_to_all_;
  if (blocks_ > 1) {  // the others have not seen the block's barriers
    join(clock, seen_by_block_[block]);
    known = std::max(known, block_barrier_[block]);
    if (known > 1) raise(clock, first_thread(block), first_thread(block + 1), known - 1);
  }
  if (warp_barrier_[warp] > known) raise(clock, warp * 32, warp * 32 + 32, warp_barrier_[warp] - 1);
}

bool Clocks::knows_of(unsigned thread, unsigned block) const {
  if (known_to_all_ > began_ || thread / threads_ == block) return true;
  for (unsigned actor = first_thread(block); actor < first_thread(block + 1); ++actor) {
    if (at(clocks_[thread], actor) > 0 || at(seen_by_block_[thread / threads_], actor) > 0) return true;
  }
  return false;
}

bool Clocks::begin() {
  if (in_use_) {
    for (Clock& clock : clocks_) clock.clear();
    for (Clock& clock : seen_by_block_) clock.clear();
    in_use_ = false;
  }
  std::fill(engines_.begin(), engines_.end(), 0);
  const bool anew = now_ >= Tick{1} << 31;
  if (anew) {
    now_ = 1;
    std::fill(warp_barrier_.begin(), warp_barrier_.end(), 1);
    std::fill(block_barrier_.begin(), block_barrier_.end(), 1);
  }
  began_ = known_to_all_ = ++now_;
  return anew;
}

void Clocks::cluster_barrier() {
  if (in_use_) {
    for (unsigned block = 0; block < blocks_; ++block) block_barrier(block);
    Clock all;
    for (const Clock& clock : seen_by_block_) join(all, clock);
    for (Clock& clock : seen_by_block_) clock = all;
  }
  known_to_all_ = ++now_;
}

void Clocks::block_barrier(unsigned block) {
  Clock& seen = seen_by_block_[block];
  if (in_use_) {
    const unsigned engines = blocks_ * threads_;  // the first engine's actor
    for (unsigned thread = first_thread(block); thread < first_thread(block + 1); ++thread) {
      const Clock& clock = clocks_[thread];
      // Of a block alone the ticks of its barriers tell what its threads have seen of each other.
      for (auto actor = blocks_ > 1 ? 0 : engines; actor < clock.size(); ++actor) {
        if (clock[actor] > at(seen, actor)) raise(seen, actor, clock[actor]);
      }
    }
  }
  block_barrier_[block] = ++now_;
  if (blocks_ == 1) known_to_all_ = now_;
}

void Clocks::warp_barrier(unsigned warp) {
  if (in_use_) {
    Clock all;
    for (unsigned lane = warp * 32; lane < warp * 32 + 32; ++lane) join(all, clocks_[lane]);
    for (unsigned lane = warp * 32; lane < warp * 32 + 32; ++lane) clocks_[lane] = all;
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
  add_barriers(object, thread);
  raise(object, thread, now_++);
}

Tick Clocks::release_to_grid(unsigned thread, Clock& object) {
  release(thread, object);
  join(object, seen_by_block_[thread / threads_]);
  return known_to_all_;
}

unsigned Clocks::new_engine(unsigned block) {
  const unsigned number = std::min(engines_[block]++, engines_per_block - 1);
  return blocks_ * threads_ + block * engines_per_block + number;
}

Tick Clocks::engine_release(unsigned engine, Clock& object) {
  in_use_ = true;
  raise(object, engine, now_);
  return now_++;
}

}  // namespace cpu_device
