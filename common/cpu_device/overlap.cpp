#include "common/cpu_device/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/dependent_launch.hpp"
#include "common/cpu_device/global_shadow.hpp"

namespace cpu_device {

namespace {

std::shared_ptr<LaunchRecord> latest_launch;  // that has not been forgotten

// More than these never overlap in practice, and each keeps the shadow of all memory.
constexpr std::size_t most_overlapping = 8;

}  // namespace

std::shared_ptr<LaunchRecord> begin_record(const Launch& launch, bool overlaps) {
  auto record = std::make_shared<LaunchRecord>();
  record->kernel = launch.kernel;
  record->grid = launch.grid;
  record->block = launch.block;
  record->cluster = launch.cluster;
  if (overlaps && latest_launch != nullptr) {
    record->before = latest_launch->waited_first ? latest_launch->after_wait : latest_launch->before;
    record->before.insert(record->before.begin(), latest_launch);
    record->after_wait = latest_launch->waited ? latest_launch->after_wait : latest_launch->before;
    if (record->before.size() > most_overlapping) record->before.resize(most_overlapping);
  }
  if (latest_launch != nullptr) {  // what was before it is of interest no longer
    latest_launch->before.clear();
    latest_launch->after_wait.clear();
  }
  latest_launch = record;
  return record;
}

void check_earlier(const std::vector<EarlierShadow>& earlier, std::size_t word,
                   const GlobalShadow::Planned& access, const void* pc) {
  Block& block = *current_block;
  const bool waited = block.cluster.launch_waits.known_to(block.actor(block.current), *block.clocks);
  const LaunchRecord::Ones& after_wait = block.launch.record->after_wait;
  for (const EarlierShadow& one : earlier) {
    if (waited && std::find(after_wait.begin(), after_wait.end(), one.launch) == after_wait.end()) continue;
    const auto [touch, wrote, asked_by] = one.shadow->conflict(word, access);
    if (!touch.any()) continue;
    if (reported_before(FaultKind::launch_overlap, pc)) return;
    const void* allowed = one.launch->let_next_begin;
    report(FaultKind::launch_overlap, pc,
           (access.write ? "writes " : "reads ") + one.shadow->element(word, access.bytes) + ", which " +
               one.launch->who(asked_by, touch.cluster(), one.launch == block.launch.record->before[0]) +
               (wrote ? " writes at " : " reads at ") + place_of(touch.pc()) +
               (waited ? "; the launch that this one has waited for did not wait for that one"
                       : "; nothing has waited for that launch (wait_for_previous_launch())") +
               (allowed == nullptr ? "" : ", which lets the next one begin at " + place_of(allowed)));
    return;
  }
}

void check_earlier_writes(const std::vector<EarlierShadow>& earlier, std::size_t word, unsigned bytes,
                          const void* pc) {
  for (const EarlierShadow& one : earlier) {
    const GlobalShadow::Older write = one.shadow->conflict(word, {bytes, false, false});
    if (!write.touch.any()) continue;
    if (reported_before(FaultKind::noncoherent_load, pc)) return;
    report(FaultKind::noncoherent_load, pc,
           "reads " + one.shadow->element(word, bytes) + " by a non-coherent load (__ldg), which " +
               one.launch->who(write.asked_by, write.touch.cluster(), &one == &earlier.front()) +
               " wrote at " + place_of(write.touch.pc()) +
               "; this launch overlaps with that one, and such a load may be made before any wait");
    return;
  }
}

void forget_past_launches() { latest_launch = nullptr; }

std::shared_ptr<const LaunchRecord> LaunchRecord::latest() { return latest_launch; }

Recorded LaunchRecord::recorded(unsigned actor, std::uint32_t cluster_number, const void* pc) const {
  const Clocks clocks(static_cast<unsigned>(volume(block)), static_cast<unsigned>(volume(cluster)));
  const unsigned rank = clocks.block_of(actor);
  const unsigned thread = clocks.is_engine(actor) ? 0 : actor - clocks.first_thread(rank);
  Recorded result{};
  result.fault.block = unflatten(block_in_grid(grid, cluster, cluster_number, rank), grid);
  result.fault.thread = unflatten(thread, block);
  result.pc = pc;
  result.kernel = kernel;
  result.thread = thread;
  return result;
}

std::string LaunchRecord::who(unsigned actor, std::uint32_t cluster_number, bool is_latest) const {
  const Clocks clocks(static_cast<unsigned>(volume(block)), static_cast<unsigned>(volume(cluster)));
  const unsigned rank = clocks.block_of(actor);
  const dim3 index = unflatten(actor - clocks.first_thread(rank), block);
  const std::string name = function_name(kernel);
  return (clocks.is_engine(actor) ? "an asynchronous copy"
                                  : fmt::format("thread ({},{},{})", index.x, index.y, index.z)) +
         " of " + block_name(grid, block_in_grid(grid, cluster, cluster_number, rank)) + " of " +
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
  const void* pc = __builtin_return_address(0);  // of several places the first, whichever thread was faster
  for (const void* known = record->let_next_begin; known == nullptr || pc < known;) {
    if (record->let_next_begin.compare_exchange_weak(known, pc)) break;
  }
}

}  // namespace cpu_device
