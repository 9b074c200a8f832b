#include "common/cpu_device/proxy_fences.hpp"

#include <algorithm>

#include "common/cpu_device/bulk_copy.hpp"
#include "common/cpu_device/cluster.hpp"

namespace cpu_device {

void ProxyFences::begin() {
  known_to_all_ = Fence{};
  fences_.clear();
}

void ProxyFences::join(Fence& into, const Fence& from) {
  into.all_before = std::max(into.all_before, from.all_before);
  Clocks::join(into.clock, from.clock);
}

void ProxyFences::fence(unsigned thread) {
  std::erase_if(fences_, [&](const Fence& fence) {
    const bool everybody = fence.tick < clocks_.known_to_all();
    if (everybody) join(known_to_all_, fence);
    return everybody;
  });
  Fence now{thread, clocks_.now(), 0, {}};
  now.all_before = clocks_.release_to_grid(thread, now.clock);  // with what its block knows of engines
  // Of many fences that some have yet to see the oldest of a thread becomes part of the next: that may hide a
  // missing fence, but never invents one.
  constexpr auto most = 4;
  const auto own = [thread](const Fence& fence) { return fence.thread == thread; };
  if (std::count_if(fences_.begin(), fences_.end(), own) == most) {
    const auto oldest = std::find_if(fences_.begin(), fences_.end(), own);
    const auto next = std::find_if(oldest + 1, fences_.end(), own);
    join(*oldest, *next);
    fences_.erase(next);
  }
  fences_.push_back(std::move(now));
}

bool ProxyFences::between(unsigned writer, Tick tick, unsigned requester) const {
  const bool is_engine = clocks_.is_engine(writer);
  if (known_to_all_.covers(writer, is_engine, tick)) return true;
  for (std::size_t i = 0; i < fences_.size(); ++i) {
    const std::size_t at = (latest_ + i) % fences_.size();
    const Fence& fence = fences_.data()[at];
    if (!fence.covers(writer, is_engine, tick) || !clocks_.ordered(fence.thread, fence.tick, requester)) {
      continue;
    }
    latest_ = at;
    return true;
  }
  return false;
}

void fence_async_proxy() {
  Block& block = *current_block;
  if (block.clocks != nullptr) block.cluster.shared_fences->fence(block.actor(block.current));
}

void fence_async_proxy_global() {
  Block& block = *current_block;
  if (block.clocks == nullptr) return;
  block.cluster.global_fences->fence(block.actor(block.current));
  block.grid_order->fence_async_proxy(block.actor(block.current));
}

}  // namespace cpu_device
