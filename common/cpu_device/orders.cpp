#include "common/cpu_device/orders.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cpu_device/cluster.hpp"

namespace cpu_device {

namespace {

const Mbarrier* mbarrier_of(const Orders::Act& act) {
  const auto found = act.owner->sync.mbarriers.find(act.address);
  return found == act.owner->sync.mbarriers.end() ? nullptr : &found->second;
}

// Where it counts: for a thread a warp counts as a whole at a named barrier.
const void* object_of(const Orders::Act& act) {
  return act.address != nullptr ? act.address
                                : static_cast<const void*>(&act.owner->sync.barriers[act.barrier]);
}

Counter counter_of(const Orders::Act& act) {
  if (act.address == nullptr) return act.owner->sync.barriers[act.barrier].counter(act.arrivals);
  const Mbarrier* mbarrier = mbarrier_of(act);
  return mbarrier == nullptr ? Counter{} : mbarrier->counter();
}

Actor actor_of(const Block& block, unsigned thread) { return std::uint64_t{block.rank} << 32 | thread; }

Actor actor_of(const Block& block, const AsyncEngine::Work& work) {
  return std::uint64_t{1} << 63 | std::uint64_t{block.rank} << 56 | std::uint64_t{work.thread} << 40 |
         work.number;
}

}  // namespace

std::size_t Orders::slot(const Block& block, unsigned thread) const {
  return std::size_t{block.rank} * threads_per_block_ + thread;
}

void Orders::begin_run(Cluster& cluster) {
  threads_per_block_ = cluster.launch.threads_per_block;
  parked_.clear();
  pasts_.assign(std::size_t{threads_per_block_} * cluster.launch.blocks_per_cluster, nullptr);
  steps_.clear();
  waking_ = nullptr;
  tree_.begin_run();
}

const Moves& Orders::past_of_running() const { return pasts_[slot(*current_block, current_block->current)]; }

void Orders::before(const Act& act, const void* pc) {
  Block& block = *current_block;
  const std::pair place(block.rank, block.current);
  parked_[place] = {act, pc};
  const Mbarrier* mbarrier = act.waits ? mbarrier_of(act) : nullptr;
  block.threads[block.current].wait = {mbarrier, pc, 0, mbarrier == nullptr ? 0 : mbarrier->phase,
                                       act.may_fail};
  wait_for_wake();
  parked_.erase(place);
}

void Orders::wake(const Block& block, unsigned thread) {
  const Cluster& cluster = block.cluster;
  const SyncObject* on = block.threads[thread].wait.on;
  if (on == nullptr || parked_.count({block.rank, thread}) != 0) return;
  if (waking_ != on || waking_at_ != cluster.progress) {
    waking_ = on;
    waking_at_ = cluster.progress;
    waking_past_ = join(past_of_running(), tree_.before_latest_phase(on));
    for (const auto& other : cluster.blocks) {
      for (unsigned i = 0; i < other->threads.size(); ++i) {
        if (other->threads[i].wait.on == on) waking_past_ = join(waking_past_, pasts_[slot(*other, i)]);
      }
    }
  }
  pasts_[slot(block, thread)] = join(pasts_[slot(block, thread)], waking_past_);
}

// The moves that threads and copies can make, or wait to make.
void Orders::collect(Cluster& cluster, std::vector<Move>& moves, std::vector<Group>& groups) const {
  for (const auto& [place, parked] : parked_) {
    const auto& [rank, thread] = place;
    Block& block = *cluster.blocks[rank];
    const Act& act = parked.act;
    std::size_t at = groups.size();
    while (at > 0 && groups[at - 1].block == &block && groups[at - 1].lanes[0] / 32 == thread / 32) {
      if (groups[at - 1].act == act && groups[at - 1].pc == parked.pc) break;
      --at;
    }
    const bool joins =
        at > 0 && groups[at - 1].block == &block && groups[at - 1].lanes[0] / 32 == thread / 32;
    const Moves& before = pasts_[slot(block, thread)];
    if (joins) {
      groups[at - 1].lanes.push_back(thread);
      Move& move = moves[at - 1];
      if (act.address != nullptr) move.arrivals += act.arrivals, move.bytes += act.bytes;
      move.before = join(move.before, before);
      continue;
    }
    groups.push_back({&block, {thread}, 0, act, parked.pc});
    moves.push_back({actor_of(block, thread), object_of(act), counter_of(act), act.waits, act.parity,
                     act.address == nullptr ? warpSize : act.arrivals, act.bytes, before});
  }
  for (const auto& block : cluster.blocks) {
    const auto& waiting = block->engine.waiting();
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      const AsyncEngine::Work& work = waiting[i];
      const bool only_arrives = work.target.shared == nullptr;
      const Act act{.owner = work.target.block,
                    .address = work.target.mbarrier,
                    .arrivals = only_arrives,
                    .bytes = -std::int64_t{only_arrives ? 0 : work.rows.bytes()}};
      groups.push_back({block.get(), {}, i, act, work.pc});
      moves.push_back({actor_of(*block, work), object_of(act), counter_of(act), false, 0, act.arrivals,
                       act.bytes, work.before});
    }
  }
}

bool Orders::step(Cluster& cluster) {
  std::vector<Move> moves;
  std::vector<Group> groups;
  collect(cluster, moves, groups);
  const auto chosen = tree_.choose(moves);
  if (!chosen) {
    if (tree_.cut()) cluster.end_launch();
    for (const auto& [place, parked] : parked_) {  // for the report: the phase that a wait lacks now
      if (const Mbarrier* mbarrier = parked.act.waits ? mbarrier_of(parked.act) : nullptr) {
        cluster.blocks[place.first]->threads[place.second].wait.phase = mbarrier->phase;
      }
    }
    return tree_.cut();
  }
  const Group& group = groups[*chosen];
  make_current(*group.block);
  const Move& move = moves[*chosen];
  steps_.push_back({group, move.counter, move.arrivals, move.bytes});
  steps_.back().who = actor_text(group);
  steps_.back().what = action_text(steps_.back());
  if (group.lanes.empty()) {
    group.block->engine.act(*group.block, group.work);
  }
  for (const unsigned thread : group.lanes) {
    pasts_[slot(*group.block, thread)] = tree_.past();
    group.block->threads[thread].wait.on = nullptr;
    group.block->ready[thread / 32] |= 1u << thread % 32;
  }
  return true;
}

// ---- The table of a schedule -----------------------------------------------------------------------------

namespace {

std::string counted(std::int64_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

std::string Orders::actor_text(const Group& group) {
  const Block& block = *group.block;
  const std::string of_block =
      block.cluster.blocks.size() == 1 ? "" : " of " + block_name(block.launch.grid, block.number);
  if (group.lanes.empty()) {
    return fmt::format("{} that {} asked for{}", group.act.arrivals > 0 ? "copies" : "copy",
                       thread_name(block, block.engine.waiting()[group.work].thread), of_block);
  }
  if (group.lanes.size() == 1) return thread_name(block, group.lanes[0]) + of_block;
  const unsigned warp = group.lanes[0] / 32;
  const std::string text = group.lanes.size() == 32
                               ? fmt::format("warp {}", warp)
                               : fmt::format("{} threads of warp {}", group.lanes.size(), warp);
  return text + of_block;
}

std::string Orders::action_text(const Step& step) {
  const Act& act = step.group.act;
  Counter after = step.before;
  if (act.address == nullptr) {
    const bool opens = after.add(step.arrivals, 0);
    const std::int64_t come = opens ? after.count : after.count - after.pending;
    return fmt::format("comes to barrier {}: {} of {} threads{}", act.barrier, come, after.count,
                       opens ? ", which opens it" : "");
  }
  const Mbarrier* mbarrier = mbarrier_of(act);
  if (mbarrier == nullptr) return "acts on an mbarrier that is not there";
  const std::string name = mbarrier->name().substr(std::string("the mbarrier ").size());
  const unsigned phase = step.before.phase;
  if (act.waits) {
    return phase == 0 ? fmt::format("passes its wait at {}: parity 1, and no phase is over", name)
                      : fmt::format("passes its wait at {}: phase {} is over", name, phase - 1);
  }
  std::string text;
  if (step.group.lanes.empty() && act.bytes < 0) {
    text = fmt::format("brings {} to {}", counted(-act.bytes, "byte"), name);
  } else if (step.arrivals > 0) {
    text = fmt::format("arrives at {}", name);
    if (step.bytes > 0) text += fmt::format(", announces {}", counted(step.bytes, "byte"));
  } else {
    text = fmt::format("announces {} at {}", counted(step.bytes, "byte"), name);
  }
  if (after.add(step.arrivals, step.bytes)) return text + fmt::format(": phase {} is over", phase);
  std::string lacks;
  if (after.pending > 0) lacks = counted(after.pending, "arrival");
  if (after.bytes > 0) lacks += (lacks.empty() ? "" : " and ") + counted(after.bytes, "byte");
  if (after.bytes < 0) lacks += (lacks.empty() ? "" : " and ") + std::string("an announcement");
  return text + fmt::format(": phase {} lacks {}", phase, lacks);
}

// Where several do the same one after the other, a line has them all. Of long schedules the beginning is
// left out.
std::vector<std::string> Orders::table() const {
  constexpr std::size_t most_lines = 40;
  struct Line {
    std::size_t first, last;
    std::string who, what;
  };
  std::vector<Line> lines;
  const auto alike = [](const Step& one, const Step& other) {
    const Group &a = one.group, &b = other.group;
    return one.before.phase == other.before.phase && a.lanes.empty() == b.lanes.empty() &&
           (a.lanes.empty() || (a.pc == b.pc && a.lanes[0] < b.lanes[0])) && a.act.owner == b.act.owner &&
           a.act.address == b.act.address && a.act.barrier == b.act.barrier && a.act.waits == b.act.waits;
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (lines.empty() || !alike(steps_[i - 1], steps_[i])) lines.push_back({i, i, steps_[i].who, {}});
    lines.back().last = i;
    lines.back().what = steps_[i].what;
  }
  std::vector<const void*> pcs;
  std::size_t who_width = 0, what_width = 0;
  for (Line& line : lines) {
    pcs.push_back(steps_[line.last].group.pc);
    if (line.last > line.first) line.who += fmt::format(" and {} more", line.last - line.first);
    who_width = std::max(who_width, line.who.size());
    what_width = std::max(what_width, line.what.size());
  }
  const std::vector<SourceLocation> places = source_locations(pcs);
  std::vector<std::string> texts;
  for (std::size_t i = lines.size() - std::min(lines.size(), most_lines); i < lines.size(); ++i) {
    const Line& line = lines[i];
    const std::string numbers = line.first == line.last ? fmt::format("{}", line.first + 1)
                                                        : fmt::format("{}-{}", line.first + 1, line.last + 1);
    texts.push_back(fmt::format("{:>7}  {:<{}}  {:<{}}  {}:{}", numbers, line.who, who_width, line.what,
                                what_width, places[i].file, places[i].line));
  }
  if (lines.size() > most_lines) texts.insert(texts.begin(), "    ...");
  return texts;
}

}  // namespace cpu_device
