#include "common/cpu_device/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_shadow.hpp"

namespace cpu_device {

namespace {

std::shared_ptr<LaunchRecord> latest;  // that has not been forgotten

// More than these never overlap in practice, and each keeps the shadow of all memory.
constexpr std::size_t most_overlapping = 8;

}  // namespace

std::shared_ptr<LaunchRecord> begin_record(const Launch& launch, bool overlaps) {
  auto record = std::make_shared<LaunchRecord>();
  record->kernel = launch.kernel;
  record->grid = launch.grid;
  record->block = launch.block;
  record->cluster = launch.cluster;
  if (overlaps && latest != nullptr) {
    record->before = latest->waited_first ? latest->after_wait : latest->before;
    record->before.insert(record->before.begin(), latest);
    record->after_wait = latest->waited ? latest->after_wait : latest->before;
    if (record->before.size() > most_overlapping) record->before.resize(most_overlapping);
  }
  if (latest != nullptr) {  // what was before it is of interest no longer
    latest->before.clear();
    latest->after_wait.clear();
  }
  latest = record;
  return record;
}

void forget_past_launches() { latest = nullptr; }

std::string LaunchRecord::who(unsigned actor, std::uint32_t cluster_number, bool is_latest) const {
  const auto blocks = static_cast<unsigned>(volume(cluster));
  const Clocks clocks(static_cast<unsigned>(volume(block)), blocks);
  const unsigned rank = clocks.block_of(actor);
  Launch shape{kernel, grid, block, cluster, 0, blocks, 0, nullptr, nullptr, true};
  const std::string name = function_name(kernel);
  return (clocks.is_engine(actor) ? "an asynchronous copy"
                                  : fmt::format("thread {}", text_of(unflatten(
                                                                 actor - clocks.first_thread(rank), block)))) +
         " of " + block_name(grid, shape.block_in(cluster_number, rank)) + " of " +
         (is_latest ? "the launch before" : "an earlier launch") +
         (name.empty() ? "" : ", " + name.substr(0, name.find('<')) + ",");
}

void LaunchWaits::begin() {
  events_.clear();
  known_.clear();
}

void LaunchWaits::add(unsigned thread, Tick tick) {
  if (known_.size() <= thread) known_.resize(thread + 1);
  if (known_[thread]) return;
  known_[thread] = true;
  events_.push_back({thread, tick});
}

bool LaunchWaits::known_to(unsigned thread, const Clocks& clocks) {
  if (thread < known_.size() && known_[thread]) return true;
  const bool ordered = std::any_of(events_.begin(), events_.end(), [&](const Event& event) {
    return clocks.ordered(event.thread, event.tick, thread);
  });
  if (!ordered) return false;
  if (known_.size() <= thread) known_.resize(thread + 1);
  known_[thread] = true;
  return true;
}

void wait_for_previous_launch() {
  Block& block = *current_block;
  const LaunchRecord* record = block.launch.record.get();
  if (record == nullptr) return;
  if (!block.lets_next_begin) record->waited_first = true;
  record->waited = true;
  const unsigned thread = block.actor(block.current);
  block.cluster.launch_waits.add(thread, block.clocks->now());
}

void let_next_launch_begin() {
  Block& block = *current_block;
  const LaunchRecord* record = block.launch.record.get();
  if (record == nullptr) return;
  block.lets_next_begin = true;
  record->let_next_begin = __builtin_return_address(0);
}

}  // namespace cpu_device
