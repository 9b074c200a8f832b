// Why a block cannot go on.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

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

// ---- The table of a deadlock -----------------------------------------------------------------------------

// Threads of the cluster that wait at one place for the same thing; without `on`, those that have left.
struct Waiting {
  const SyncObject* on;
  const void* pc;
  unsigned phase;
  std::set<ThreadOfCluster> threads;
};

std::vector<Waiting> waiting_in(const Cluster& cluster) {
  std::vector<Waiting> all;
  Waiting gone{nullptr, nullptr, 0, {}};
  for (const auto& block : cluster.blocks) {
    for (unsigned i = 0; i < block->threads.size(); ++i) {
      const Wait& wait = block->threads[i].wait;
      if (block->has_exited(i) || wait.on == nullptr) {
        gone.threads.insert({block->rank, i});
        continue;
      }
      auto found = std::find_if(all.begin(), all.end(), [&](const Waiting& known) {
        return known.on == wait.on && known.pc == wait.pc && known.phase == wait.phase;
      });
      if (found == all.end()) found = all.insert(found, {wait.on, wait.pc, wait.phase, {}});
      found->threads.insert({block->rank, i});
    }
  }
  if (!gone.threads.empty()) all.push_back(std::move(gone));
  return all;
}

// "thread (0,0,0)", "warps 4-7", "31 threads of warp 0"; of several blocks one after the other.
std::string names_of(const Cluster& cluster, const std::set<ThreadOfCluster>& threads) {
  std::string text;
  for (const auto& block : cluster.blocks) {
    std::vector<unsigned> of_block;
    for (const auto& [rank, thread] : threads) {
      if (rank == block->rank) of_block.push_back(thread);
    }
    if (of_block.empty()) continue;
    std::vector<std::pair<unsigned, unsigned>> whole;  // warps: the first and the last of each row
    std::vector<std::string> parts;
    for (std::size_t i = 0, end; i < of_block.size(); i = end) {
      const unsigned warp = of_block[i] / warpSize;
      for (end = i; end < of_block.size() && of_block[end] / warpSize == warp;) ++end;
      const std::size_t lanes = std::min<std::size_t>(warpSize, block->threads.size() - warp * warpSize);
      if (end - i == 1) {
        parts.push_back(thread_name(*block, of_block[i]));
      } else if (end - i < lanes) {
        parts.push_back(fmt::format("{} threads of warp {}", end - i, warp));
      } else if (!whole.empty() && whole.back().second + 1 == warp) {
        whole.back().second = warp;
      } else {
        whole.emplace_back(warp, warp);
      }
    }
    if (!whole.empty()) {
      std::string warps = whole.size() == 1 && whole[0].first == whole[0].second ? "warp " : "warps ";
      for (std::size_t i = 0; i < whole.size(); ++i) {
        const auto& [first, last] = whole[i];
        warps += (i == 0 ? "" : ", ") +
                 (first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
      }
      parts.insert(parts.begin(), warps);
    }
    constexpr std::size_t most = 4;
    if (parts.size() > most) {
      const std::size_t more = parts.size() - most + 1;
      parts.resize(most - 1);
      parts.push_back(fmt::format("{} more", more));
    }
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    if (cluster.blocks.size() > 1) text += " of " + block_name(cluster.launch.grid, block->number);
  }
  return text;
}

// "now at [1] and [3]": in which rows of the table these threads are.
std::string rows_with(const std::vector<Waiting>& table, const std::set<ThreadOfCluster>& threads) {
  std::string text;
  for (std::size_t row = 0; row < table.size(); ++row) {
    const auto& in_row = table[row].threads;
    const bool any =
        std::any_of(threads.begin(), threads.end(), [&](const auto& t) { return in_row.contains(t); });
    if (any) text += fmt::format("{}[{}]", text.empty() ? "now at " : " and ", row + 1);
  }
  return text;
}

// Who waits for whom: a row for each thing that threads of the cluster wait for, and below it who has come to
// it, and who did in an earlier phase but not in this one, and in which row they are. Empty if all wait for
// the same, and nothing is known of who could come to that.
std::vector<std::string> who_waits_for_whom(const Cluster& cluster) {
  constexpr std::size_t most_rows = 16;
  const std::vector<Waiting> rows = waiting_in(cluster);
  std::vector<std::string> lines{"who waits for whom:"};
  bool says_more = rows.size() > 1;
  for (std::size_t i = 0; i < std::min(rows.size(), most_rows); ++i) {
    const Waiting& row = rows[i];
    const std::string names = names_of(cluster, row.threads);
    const std::string who = fmt::format("[{}] {}", i + 1, names);
    const bool one =
        (names.starts_with("thread ") || names.starts_with("warp ")) && names.find(", ") == std::string::npos;
    if (row.on == nullptr) {
      lines.push_back(who + (one ? " has" : " have") + " left the kernel");
      continue;
    }
    const auto& [rank, thread] = *row.threads.begin();
    const Block& block = *cluster.blocks[rank];
    lines.push_back(fmt::format("{} wait{} at {} for {}", who, one ? "s" : "", place_of(row.pc),
                                row.on->awaited_by(block, thread)));
    if (const auto* rendezvous = dynamic_cast<const Rendezvous*>(row.on)) {
      const std::string where = rows_with(rows, {{rank, rendezvous->missing(block)}});
      if (!where.empty()) lines.push_back("      which is " + where);
    }
    if (!row.on->counts_arrivals()) continue;
    const auto before = std::find_if(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Waiting& other) { return other.on == row.on; });
    if (before != rows.begin() + static_cast<std::ptrdiff_t>(i)) {
      lines.push_back(fmt::format("      as [{}] does", before - rows.begin() + 1));
      continue;
    }
    const std::vector<Arrival> arrivals = row.on->arrivals_so_far();
    if (arrivals.empty()) lines.emplace_back("      nobody has come to it yet");
    for (const Arrival& arrival : arrivals) {
      const std::set<ThreadOfCluster> now = arrival.now.all(), ever = arrival.ever.all();
      std::set<ThreadOfCluster> late;
      std::set_difference(ever.begin(), ever.end(), now.begin(), now.end(), std::inserter(late, late.end()));
      const char* copies = arrival.by_copy ? "copies of " : "";
      for (const bool has_come : {true, false}) {
        const std::set<ThreadOfCluster>& threads = has_come ? now : late;
        if (threads.empty()) continue;
        lines.push_back(fmt::format(
            "      {}: {}{} ({}), {}", has_come ? "has come this time" : "came before, not this time", copies,
            names_of(cluster, threads), place_of(arrival.pc), rows_with(rows, threads)));
        says_more = true;
      }
    }
  }
  if (rows.size() > most_rows) lines.push_back(fmt::format("and {} more", rows.size() - most_rows));
  return says_more ? lines : std::vector<std::string>();
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
    if (block.registers != nullptr && missing < block.threads.size() &&
        block.threads[missing].wait.on == block.registers.get()) {
      say(FaultKind::deadlock, missing, "waits here for " + block.registers->awaited_by(block, missing));
      return;
    }
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
    for (Recorded& recorded : cluster.faults) {
      Fault& fault = recorded.fault;
      if (fault.kind == FaultKind::deadlock && fault.table.empty() && !fault.detail.empty()) {
        fault.table = who_waits_for_whom(cluster);
      }
    }
    return;
  }
}

}  // namespace cpu_device
