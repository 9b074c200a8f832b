#include "common/cpu_device/grid_flags.hpp"

#include <atomic>

#include "common/cpu_device/grid_flag.hpp"
#include "common/cpu_device/internal.hpp"

namespace cpu_device {

namespace {

std::string who(const Worker& worker, const GridFlag::Event& event) {
  return thread_name(worker, event.thread) + " of " + block_name(worker.launch->grid, event.block);
}

}  // namespace

std::string GridFlag::name() const {
  return "the flag " + describe_global(reinterpret_cast<std::uintptr_t>(address));
}

std::string GridFlag::awaited_by(const Worker& worker, unsigned) const {
  std::string text = name() + ", which neither this block nor one before it has set";
  if (cleared.pc != nullptr)
    text += " since " + who(worker, cleared) + " cleared it at " + place_of(cleared.pc);
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

void GridFlags::set(Worker& worker, unsigned* flag, const void* pc) {
  const std::lock_guard lock(mutex_);
  GridFlag& f = entry(flag);
  const std::atomic_ref<unsigned> value(*flag);
  const GridFlag::Event now{worker.block, worker.current, pc};
  const auto again = [&](const GridFlag::Event& first) {
    return "sets " + f.name() + ", which " + who(worker, first) + " has set at " + place_of(first.pc) +
           "; a flag is set once in a launch";
  };
  if (f.set.pc != nullptr && f.set.block > worker.block) {  // as if the blocks had run one after the other
    report_later_block(*worker.launch, FaultKind::flag_misuse, f.set.pc, again(now), f.set.block,
                       f.set.thread);
  } else if (f.set.pc != nullptr) {
    report(FaultKind::flag_misuse, pc, again(f.set));
  } else if (value != 0) {
    report(FaultKind::flag_misuse, pc,
           "sets " + f.name() + ", which holds " + std::to_string(value) +
               " before; a flag that is not set is 0");
  }
  f.set = now;
  f.knowledge = worker.grid_order ? worker.grid_order->release(worker.current) : nullptr;
  value = 1;
}

bool GridFlags::take(Worker& worker, unsigned thread, unsigned* flag, const void* pc) {
  const std::lock_guard lock(mutex_);
  GridFlag& f = entry(flag);
  const std::atomic_ref<unsigned> value(*flag);
  const bool by_earlier = f.set.pc != nullptr && f.set.block <= worker.block;
  const bool before_launch = f.set.pc == nullptr && value != 0;
  if (worker.launch->all && !by_earlier && !before_launch) return false;
  if (worker.grid_order) {
    if (!worker.launch->all) {  // the block that sets it may not be among those that run
      auto everything = std::make_shared<Knowledge>();
      everything->blocks_before = block_number(worker.block);
      worker.grid_order->acquire(thread, everything);
    } else if (by_earlier) {
      worker.grid_order->acquire(thread, f.knowledge);
    }
  }
  f.set = {};
  f.knowledge = nullptr;
  f.cleared = {worker.block, thread, pc};
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

bool end_flag_waits(Worker& worker) {
  if (worker.flag_waits == 0) return false;
  wait_for_blocks_before(worker);
  bool any = false;
  for (unsigned i = 0; i < worker.threads.size(); ++i) {
    const Wait& wait = worker.threads[i].wait;
    const auto* flag = dynamic_cast<const GridFlag*>(wait.on);
    if (flag == nullptr || !worker.launch->flags.take(worker, i, flag->address, wait.pc)) continue;
    --worker.flag_waits;
    ++worker.progress;
    wake(worker, i, false);
    any = true;
  }
  return any;
}

void flag_set(unsigned* flag) {
  const void* pc = __builtin_return_address(0);
  observe_atomic(flag, false, pc);
  current_worker->launch->flags.set(*current_worker, flag, pc);
}

void flag_wait_and_clear(unsigned* flag) {
  const void* pc = __builtin_return_address(0);
  observe_atomic(flag, true, pc);
  Worker& worker = *current_worker;
  worker.threads[worker.current].wait = {&worker.launch->flags.at(flag), pc};
  ++worker.flag_waits;
  wait_for_wake(worker);
}

}  // namespace cpu_device
