#include "common/cpu_device/grid_flags.hpp"

#include <atomic>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/grid_flag.hpp"
#include "common/cpu_device/observe.hpp"

namespace cpu_device {

namespace {

std::string who(const Block& block, const GridFlag::Event& event) {
  return thread_name(block, event.thread) + " of " + block_name(block.launch.grid, event.block);
}

}  // namespace

std::string GridFlag::name() const {
  return "the flag " + describe_global(reinterpret_cast<std::uintptr_t>(address));
}

std::string GridFlag::awaited_by(const Block& block, unsigned) const {
  std::string text = name() + ", which neither this block nor one before it has set";
  if (cleared.pc != nullptr)
    text += " since " + who(block, cleared) + " cleared it at " + place_of(cleared.pc);
  return text + " (a block behind it may begin only when this one ends)";
}

GridFlag& GridFlags::entry(unsigned* flag) {
  GridFlag& entry = flags_[flag];
  entry.address = flag;
  return entry;
}

const GridFlag& GridFlags::at(unsigned* flag) {
  const std::lock_guard lock(mutex_);
  return entry(flag);
}

void GridFlags::set(Block& block, unsigned* flag, const void* pc) {
  block.note_turn(pc);
  const std::lock_guard lock(mutex_);
  GridFlag& f = entry(flag);
  const std::atomic_ref<unsigned> value(*flag);
  const GridFlag::Event now{block.number, block.current, pc};
  const auto again = [&](const GridFlag::Event& first) {
    return "sets " + f.name() + ", which " + who(block, first) + " has set at " + place_of(first.pc) +
           "; a flag is set once in a launch";
  };
  if (f.set.pc != nullptr && block.launch.cluster_of(f.set.block) >
                                 block.cluster.number) {  // as if the blocks had run one after the other
    report_later_block(block.launch, FaultKind::flag_misuse, f.set.pc, again(now), f.set.block, f.set.thread);
  } else if (f.set.pc != nullptr) {
    report(FaultKind::flag_misuse, pc, again(f.set));
  } else if (value != 0) {
    report(FaultKind::flag_misuse, pc,
           "sets " + f.name() + ", which holds " + std::to_string(value) +
               " before; a flag that is not set is 0");
  }
  f.set = now;
  f.knowledge = block.grid_order ? block.grid_order->release(block.actor(block.current)) : nullptr;
  value = 1;
}

bool GridFlags::take(Block& block, unsigned thread, unsigned* flag, const void* pc) {
  const std::lock_guard lock(mutex_);
  GridFlag& f = entry(flag);
  const std::atomic_ref<unsigned> value(*flag);
  const bool by_earlier = f.set.pc != nullptr && block.launch.cluster_of(f.set.block) <= block.cluster.number;
  const bool before_launch = f.set.pc == nullptr && value != 0;
  if (block.launch.all && !by_earlier && !before_launch) return false;
  if (block.grid_order) {
    if (!block.launch.all) {  // the block that sets it may not be among those that run
      auto everything = std::make_shared<Knowledge>();
      everything->clusters_before = cluster_number(block.cluster.number);
      everything->fenced = std::make_shared<Knowledge>(*everything);
      block.grid_order->acquire(block.actor(thread), everything);
    } else if (by_earlier) {
      block.grid_order->acquire(block.actor(thread), f.knowledge);
    }
  }
  f.set = {};
  f.knowledge = nullptr;
  f.cleared = {block.number, thread, pc};
  value = 0;
  return true;
}

void GridFlags::end(const Launch& launch) {
  const bool whole = launch.all && launch.stop_after == ~std::uint64_t{0};
  for (auto& [address, flag] : flags_) {
    if (flag.set.pc == nullptr) continue;
    *address = 0;  // nobody else is running any more
    if (!whole) continue;
    report_later_block(
        launch, FaultKind::flag_misuse, flag.set.pc,
        "sets " + flag.name() + ", for which nobody waits in this launch: the next one would find it set",
        flag.set.block, flag.set.thread);
  }
}

bool end_flag_waits(Cluster& cluster) {
  if (cluster.flag_waits == 0) return false;
  wait_for_clusters_before(cluster);
  bool any = false;
  for (auto& block : cluster.blocks) {
    for (unsigned i = 0; i < block->threads.size(); ++i) {
      const Wait& wait = block->threads[i].wait;
      const auto* flag = dynamic_cast<const GridFlag*>(wait.on);
      if (flag == nullptr || !cluster.launch.flags.take(*block, i, flag->address, wait.pc)) continue;
      --cluster.flag_waits;
      ++cluster.progress;
      wake(*block, i, false);
      any = true;
    }
  }
  return any;
}

void flag_set(unsigned* flag) {
  const void* pc = __builtin_return_address(0);
  observe_atomic(flag, false, pc);
  current_block->launch.flags.set(*current_block, flag, pc);
}

void flag_wait_and_clear(unsigned* flag) {
  const void* pc = __builtin_return_address(0);
  observe_atomic(flag, true, pc);
  Block& block = *current_block;
  block.note_turn(pc);
  block.threads[block.current].wait = {&block.launch.flags.at(flag), pc};
  ++block.cluster.flag_waits;
  wait_for_wake();
}

}  // namespace cpu_device
