// Why a block cannot go on.

#include "common/cpu_device/internal.hpp"

namespace cpu_device {

namespace {

bool has_exited(const Worker& worker, unsigned thread) {
  return (worker.exited[thread / 32] >> thread % 32 & 1) != 0;
}

// "waits at FILE:LINE for ...", or "has left the kernel".
std::string doing(const Worker& worker, unsigned thread) {
  if (thread >= worker.threads.size()) return "does not exist";
  if (has_exited(worker, thread)) return "has left the kernel";
  const Wait& wait = worker.threads[thread].wait;
  return "waits at " + place_of(wait.pc) + " for " + wait.on->awaited_by(worker, thread);
}

}  // namespace

void report_stuck_block(const Worker& worker) {
  constexpr unsigned none = ~0u;
  const SyncObject* all = &worker.sync.barriers[0];
  unsigned first = none;      // a thread that waits
  unsigned other = none;      // one that waits for something other than the first
  unsigned exited = none;     // thread
  unsigned operation = none;  // one that waits for lanes of its warp
  unsigned flag = none;       // one that waits for another block
  bool only_all = true;       // everyone waits for all threads
  for (unsigned i = 0; i < worker.threads.size(); ++i) {
    if (has_exited(worker, i)) {
      exited = std::min(exited, i);
      continue;
    }
    const Wait& wait = worker.threads[i].wait;
    only_all = only_all && wait.on == all;
    if (first == none) first = i;
    const Wait& of_first = worker.threads[first].wait;
    if (other == none && (wait.on != of_first.on || wait.line != of_first.line)) other = i;
    if (flag == none && dynamic_cast<const GridFlag*>(wait.on) != nullptr) flag = i;
    if (operation == none && dynamic_cast<const Rendezvous*>(wait.on) != nullptr) operation = i;
  }
  const auto say = [&](FaultKind kind, unsigned thread, const std::string& detail) {
    report(kind, worker.threads[thread].wait.pc, detail, worker, thread);
  };
  const auto place = [&](unsigned thread) { return place_of(worker.threads[thread].wait.pc); };

  if (flag != none) {  // no matter what the others wait for
    const unsigned beside = first == flag ? other : first;
    std::string detail = "waits here for " + worker.threads[flag].wait.on->awaited_by(worker, flag);
    if (beside != none) detail += ", while " + thread_name(worker, beside) + " " + doing(worker, beside);
    say(FaultKind::deadlock, flag, detail);
    return;
  }
  if (only_all && other != none) {
    say(FaultKind::divergent_barrier, other,
        "waits here, while " + thread_name(worker, first) + " waits at " + place(first) +
            "; all threads must reach the same barrier");
    return;
  }
  if (only_all && exited != none) {
    say(FaultKind::exit_before_barrier, first,
        "waits here for " + thread_name(worker, exited) + ", which has left the kernel");
    return;
  }
  if (operation != none) {
    const auto* rendezvous = dynamic_cast<const Rendezvous*>(worker.threads[operation].wait.on);
    const unsigned missing = rendezvous->missing(worker);
    if (rendezvous->operation->execute != nullptr) {
      say(FaultKind::missing_lane, operation,
          "waits here for " + rendezvous->awaited_by(worker, operation) + ", which " +
              doing(worker, missing));
      return;
    }
    if (!has_exited(worker, missing) && worker.threads[missing].wait.on == all) {
      say(FaultKind::deadlock, missing,
          "waits here for " + all->awaited_by(worker, missing) + ", while " + thread_name(worker, operation) +
              " waits at one of another kind (" + place(operation) + "), that of its warp; neither can open");
      return;
    }
  }
  std::string detail = "waits here for " + worker.threads[first].wait.on->awaited_by(worker, first);
  if (other != none) detail += ", while " + thread_name(worker, other) + " " + doing(worker, other);
  if (exited != none) detail += "; " + thread_name(worker, exited) + " has left the kernel";
  say(FaultKind::deadlock, first, detail + "; no thread can go on");
}

}  // namespace cpu_device
