// Why a block cannot go on.

#include "common/cpu_device/call_place.hpp"
#include "common/cpu_device/cluster.hpp"

namespace cpu_device {

namespace {

// "waits at FILE:LINE for ...", or "has left the kernel".
std::string doing(const Block& block, unsigned thread) {
  if (thread >= block.threads.size()) return "does not exist";
  if (block.has_exited(thread)) return "has left the kernel";
  const Wait& wait = block.threads[thread].wait;
  return "waits at " + place_of(wait.pc) + " for " + wait.on->awaited_by(block, thread);
}

// Where `thread` waits. If the place is that of `other`, too, with the calls that tell the two apart.
std::string place_beside(const Block& block, unsigned thread, unsigned other) {
  const auto place = [&](unsigned i) { return place_of(block.threads[i].wait.pc); };
  return place(thread) == place(other) ? place_with_calls(block, thread) : place(thread);
}

// ", called at FILE:LINE", if that is what tells the place of `thread` from that of `other`.
std::string called_by(const Block& block, unsigned thread, unsigned other) {
  const std::string place = place_of(block.threads[thread].wait.pc);
  return place_beside(block, thread, other).substr(place.size());
}

// What a lane says that waits for others, one of which is `missing`.
std::string missing_lane(const Block& block, const Rendezvous& r, unsigned waiting, unsigned missing) {
  const std::string name = r.awaited_by(block, waiting);
  if (missing >= block.threads.size() || block.has_exited(missing)) {
    return "waits here for " + name + ", which " + doing(block, missing);
  }
  const Wait& wait = block.threads[missing].wait;
  const auto* other = dynamic_cast<const Rendezvous*>(wait.on);
  std::string text = "waits here for " + name + ", which waits at " + place_beside(block, missing, waiting) +
                     " for " + wait.on->awaited_by(block, missing);
  if (other == nullptr || other->operation != r.operation) return text;
  if (other->mask != r.mask) {
    return text + ", with the mask " + mask_text(other->mask) + ", not " + mask_text(r.mask);
  }
  return text + "; all lanes must execute the same instruction, and this one waits at " +
         place_beside(block, waiting, missing);
}

void report_stuck_block(const Block& block) {
  constexpr unsigned none = ~0u;
  const SyncObject* all = &block.sync.barriers[0];
  unsigned first = none;      // a thread that waits
  unsigned other = none;      // one that waits for something other than the first
  unsigned exited = none;     // thread
  unsigned operation = none;  // one that waits for lanes of its warp
  unsigned flag = none;       // one that waits for another block
  bool only_all = true;       // everyone waits for all threads
  for (unsigned i = 0; i < block.threads.size(); ++i) {
    if (block.has_exited(i)) {
      exited = std::min(exited, i);
      continue;
    }
    const Wait& wait = block.threads[i].wait;
    only_all = only_all && wait.on == all;
    if (first == none) first = i;
    const Wait& of_first = block.threads[first].wait;
    const bool elsewhere = wait.on != of_first.on || (wait.on == all && !same_place(block, first, i));
    if (other == none && elsewhere) other = i;
    if (flag == none && dynamic_cast<const GridFlag*>(wait.on) != nullptr) flag = i;
    if (operation == none && dynamic_cast<const Rendezvous*>(wait.on) != nullptr) operation = i;
  }
  const auto say = [&](FaultKind kind, unsigned thread, const std::string& detail) {
    report(kind, block.threads[thread].wait.pc, detail, block, thread);
  };
  const auto place = [&](unsigned thread) { return place_of(block.threads[thread].wait.pc); };

  if (flag != none) {  // no matter what the others wait for
    const unsigned beside = first == flag ? other : first;
    std::string detail = "waits here for " + block.threads[flag].wait.on->awaited_by(block, flag);
    if (beside != none) detail += ", while " + thread_name(block, beside) + " " + doing(block, beside);
    say(FaultKind::deadlock, flag, detail);
    return;
  }
  if (only_all && other != none) {
    say(FaultKind::divergent_barrier, other,
        "waits here" + called_by(block, other, first) + ", while " + thread_name(block, first) +
            " waits at " + place_beside(block, first, other) + "; all threads must reach the same barrier");
    return;
  }
  if (operation != none) {
    const auto* rendezvous = dynamic_cast<const Rendezvous*>(block.threads[operation].wait.on);
    const unsigned missing = rendezvous->missing(block);
    if (rendezvous->operation->execute != nullptr) {
      say(FaultKind::missing_lane, operation, missing_lane(block, *rendezvous, operation, missing));
      return;
    }
    if (!block.has_exited(missing) && block.threads[missing].wait.on == all) {
      say(FaultKind::deadlock, missing,
          "waits here for " + all->awaited_by(block, missing) + ", while " + thread_name(block, operation) +
              " waits at one of another kind (" + place(operation) + "), that of its warp; neither can open");
      return;
    }
  }
  std::string detail = "waits here for " + block.threads[first].wait.on->awaited_by(block, first);
  if (other != none) detail += ", while " + thread_name(block, other) + " " + doing(block, other);
  for (const auto& peer : block.cluster.blocks) {  // one thread of each speaks for it
    unsigned i = 0;
    while (i < peer->threads.size() && peer->has_exited(i)) ++i;
    if (peer.get() == &block || i == peer->threads.size()) continue;
    detail += ", while " + thread_name(*peer, i) + " of " + block_name(block.launch.grid, peer->number) +
              " " + doing(*peer, i);
  }
  if (exited != none) detail += "; " + thread_name(block, exited) + " has left the kernel";
  say(FaultKind::deadlock, first, detail + "; no thread can go on");
}

}  // namespace

void report_stuck(Cluster& cluster) {
  // The others of the cluster say nothing new, or wait for it.
  for (auto& block : cluster.blocks) {
    if (block->alive == 0) continue;
    make_current(*block);
    if (block->registers != nullptr && block->registers->report_incomplete(*block)) return;
    report_stuck_block(*block);
    return;
  }
}

}  // namespace cpu_device
