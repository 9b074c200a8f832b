// Which orders the clusters of all launches of a call run under, and the shortest that shows a fault.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/orders.hpp"

namespace cpu_device {

namespace {

struct Place {
  std::size_t launch = 0;
  std::uint64_t cluster = 0;
  auto operator<=>(const Place&) const = default;
};

// Of the shortest bad schedule so far.
struct Bad {
  Place place;
  FaultKind kind;
  const void* pc;
  std::vector<Actor> moves;
  std::vector<std::vector<Actor>> shorter;  // of its moves, those that may do; the fewest first
};

struct Explored {
  std::map<Place, Orders> orders;
  std::size_t launches = 0;  // of this run
  bool shortens = false;     // the schedule that was found, instead of looking for further ones
  bool over = false;         // this run has been cut, or shown a fault
  std::optional<Bad> bad;
  OrdersRun run;
};

bool exploring = false;
Explored explored;

}  // namespace

void explore_orders(bool on) {
  exploring = on;
  explored = {};
}

bool orders_are_explored() { return exploring; }

void begin_launch_orders() { ++explored.launches; }

bool orders_are_over() { return exploring && explored.over; }

Orders* orders_of(std::uint64_t cluster) {
  if (!exploring) return nullptr;
  const Place place{explored.launches, cluster};
  if (explored.shortens) return explored.bad->place == place ? &explored.orders[place] : nullptr;
  Orders& orders = explored.orders[place];
  orders.place_ = {place.launch, place.cluster};
  return orders.done_ ? nullptr : &orders;
}

void Orders::end_run(Cluster& cluster) {
  OrdersRun& run = explored.run;
  const Place place{place_.first, place_.second};
  const bool is_bad = !cluster.faults.empty();
  if (is_bad || tree_.cut()) explored.over = true;
  std::optional<Bad>& bad = explored.bad;
  if (is_bad && (!bad || (tree_.length() < bad->moves.size() &&
                          (!explored.shortens || (bad->kind == cluster.faults[0].fault.kind &&
                                                  bad->pc == cluster.faults[0].pc))))) {
    const Recorded& fault = cluster.faults[0];
    run.best = true;
    run.table = table();
    bad = Bad{place, fault.fault.kind, fault.pc, tree_.made(), {}};
    if (fault.fault.kind != FaultKind::deadlock) note_shorter(cluster, fault);
  }
  if (explored.shortens) return;
  run.bad += is_bad;
  std::vector<Move> moves;
  std::vector<Group> groups;
  if (!is_bad || cluster.faults[0].fault.kind == FaultKind::deadlock) collect(cluster, moves, groups);
  done_ = !tree_.end_run(moves);
  run.steps = std::max<std::uint64_t>(run.steps, steps_.size());
}

// What the thread at fault had done and waited for, and what another had, whom it got in the way of.
void Orders::note_shorter(const Cluster& cluster, const Recorded& fault) {
  const Block* block = nullptr;
  for (const auto& one : cluster.blocks) {
    const dim3& index = fault.fault.block;
    if (flatten(index, cluster.launch.grid) == one->number) block = one.get();
  }
  if (block == nullptr) return;
  const Moves& own = pasts_[slot(*block, fault.thread)];
  std::vector<std::vector<Actor>>& shorter = explored.bad->shorter;
  for (const Moves& other : pasts_) {
    const Moves both = join(own, other);
    std::vector<Actor> moves = tree_.made(&both);
    if (moves.size() < tree_.length()) shorter.push_back(std::move(moves));
  }
  std::sort(shorter.begin(), shorter.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  shorter.erase(std::unique(shorter.begin(), shorter.end()), shorter.end());
}

OrdersRun next_order(bool enough) {
  OrdersRun& run = explored.run;
  run.whole = !explored.over;
  run.schedules = run.commuting = 0;
  for (const auto& [place, orders] : explored.orders) {
    run.schedules += orders.tree_.runs();
    run.commuting += orders.tree_.commuting();
  }
  run.all = std::all_of(explored.orders.begin(), explored.orders.end(),
                        [](const auto& orders) { return orders.second.done_; });
  std::optional<Bad>& bad = explored.bad;
  const bool was_shortening = explored.shortens;
  if (!explored.shortens && (run.all || enough)) explored.shortens = bad.has_value();
  run.more = explored.shortens ? !bad->shorter.empty() && !(was_shortening && run.best) : !run.all && !enough;
  if (explored.shortens && run.more) {
    explored.orders[bad->place].tree_.replay(std::move(bad->shorter.front()));
    bad->shorter.erase(bad->shorter.begin());
  }
  explored.launches = 0;
  explored.over = false;
  OrdersRun result = run;
  run.best = false;
  return result;
}

}  // namespace cpu_device
