#include "common/cpu_device/grid_order.hpp"

#include <algorithm>

namespace cpu_device {

namespace {

void join(SharedKnowledge& into, const SharedKnowledge& more) {
  if (into == nullptr || more == nullptr) {
    if (more != nullptr) into = more;
    return;
  }
  auto both = std::make_shared<Knowledge>(*into);
  both->add(*more);
  into = std::move(both);
}

}  // namespace

bool Knowledge::holds(ClusterNumber cluster, unsigned actor, bool is_engine, Tick tick) const {
  if (cluster < clusters_before) return true;
  const OfCluster* known = of(cluster);
  if (known == nullptr) return false;
  return (!is_engine && tick < known->all_before) ||
         (actor < known->clock.size() && tick <= known->clock[actor]);
}

void Knowledge::add(ClusterNumber cluster, const OfCluster& part) {
  OfCluster& known = clusters_[cluster];
  known.all_before = std::max(known.all_before, part.all_before);
  Clocks::join(known.clock, part.clock);
}

void Knowledge::add(const Knowledge& other) {
  clusters_before = std::max(clusters_before, other.clusters_before);
  for (const auto& [cluster, part] : other.clusters_) add(cluster, part);
  join(fenced, other.fenced);
}

const Knowledge::OfCluster* Knowledge::of(ClusterNumber cluster) const {
  const auto found = clusters_.find(cluster);
  return found == clusters_.end() ? nullptr : &found->second;
}

SharedKnowledge AtomicObjects::exchange(std::uintptr_t address, const SharedKnowledge& more) {
  const auto found = left_.find(address);
  SharedKnowledge there = found == left_.end() ? nullptr : found->second;
  if (more == nullptr) return there;
  if (there == nullptr) {
    left_[address] = more;
  } else {
    auto both = std::make_shared<Knowledge>(*there);
    both->add(*more);
    found->second = std::move(both);
  }
  return there;
}

void Learned::clear() {
  known_to_all_ = nullptr;
  events_.clear();
}

void Learned::add(unsigned thread, Tick tick, SharedKnowledge knowledge) {
  fold();
  if (!events_.empty() && events_.back().thread == thread && events_.back().knowledge == knowledge) return;
  events_.push_back({thread, tick, std::move(knowledge)});
}

void Learned::fold() {
  std::erase_if(events_, [&](const Event& event) {
    const bool everybody = event.tick < clocks_.known_to_all();
    if (everybody) join(known_to_all_, event.knowledge);
    return everybody;
  });
}

SharedKnowledge Learned::known_to(unsigned thread) {
  fold();
  SharedKnowledge all = known_to_all_;
  for (const Event& event : events_) {
    if (clocks_.ordered(event.thread, event.tick, thread)) join(all, event.knowledge);
  }
  return all;
}

bool Learned::holds(ClusterNumber cluster, unsigned actor, Tick tick, unsigned thread) const {
  const bool is_engine = clocks_.is_engine(actor);
  if (known_to_all_ != nullptr && known_to_all_->holds(cluster, actor, is_engine, tick)) return true;
  return std::any_of(events_.begin(), events_.end(), [&](const Event& event) {
    return event.knowledge->holds(cluster, actor, is_engine, tick) &&
           clocks_.ordered(event.thread, event.tick, thread);
  });
}

GridOrder::GridOrder(Clocks& clocks)
    : clocks_(clocks), acquired_(clocks), before_fences_(clocks), fenced_(clocks), found_(clocks) {}

void GridOrder::begin(std::uint64_t cluster) {
  cluster_ = cluster_number(cluster);
  acquired_.clear();
  before_fences_.clear();
  fenced_.clear();
  found_.clear();
  volatile_reads_.clear();
}

SharedKnowledge GridOrder::release(unsigned thread) {
  const SharedKnowledge of_others = acquired_.known_to(thread);
  auto all = of_others == nullptr ? std::make_shared<Knowledge>() : std::make_shared<Knowledge>(*of_others);
  Knowledge::OfCluster own;
  own.all_before = clocks_.release_to_grid(thread, own.clock);
  all->add(cluster_, own);
  all->fenced = fenced_.known_to(thread);
  return all;
}

void GridOrder::acquire(unsigned thread, const SharedKnowledge& knowledge) {
  if (const Knowledge::OfCluster* own = knowledge->of(cluster_)) clocks_.acquire(thread, own->clock);
  acquired_.add(thread, clocks_.now(), knowledge);
  if (knowledge->fenced != nullptr) fenced_.add(thread, clocks_.now(), knowledge->fenced);
}

void GridOrder::fence_async_proxy(unsigned thread) {
  const Tick tick = clocks_.now();
  auto all = std::make_shared<Knowledge>(*release(thread));
  all->fenced = nullptr;
  fenced_.add(thread, tick, std::move(all));
}

void GridOrder::fence(unsigned thread, AtomicObjects& objects) {
  for (const VolatileRead& read : volatile_reads_) {
    if (!clocks_.ordered(read.thread, read.tick, thread)) continue;
    const std::lock_guard lock(objects.mutex);
    if (const SharedKnowledge there = objects.exchange(read.address, nullptr)) acquire(thread, there);
  }
  if (const SharedKnowledge found = found_.known_to(thread)) acquire(thread, found);
  const Tick tick = clocks_.now();
  before_fences_.add(thread, tick, release(thread));
}

void GridOrder::atomic(unsigned thread, std::uintptr_t address, AtomicObjects& objects) {
  const SharedKnowledge there = objects.exchange(address, before_fences_.known_to(thread));
  if (there != nullptr) found_.add(thread, clocks_.now(), there);
}

void GridOrder::volatile_read(unsigned thread, std::uintptr_t address) {
  for (VolatileRead& read : volatile_reads_) {
    if (read.thread != thread || read.address != address) continue;
    read.tick = clocks_.now();
    return;
  }
  volatile_reads_.push_back({thread, clocks_.now(), address});
}

void GridOrder::volatile_write(unsigned thread, std::uintptr_t address, AtomicObjects& objects) {
  objects.exchange(address, before_fences_.known_to(thread));
}

}  // namespace cpu_device
