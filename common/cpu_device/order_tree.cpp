#include "common/cpu_device/order_tree.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace cpu_device {

namespace {

using Words = std::vector<std::uint64_t>;

bool contains(const Moves& set, unsigned move) {
  return set != nullptr && move / 64 < set->size() && ((*set)[move / 64] >> move % 64 & 1) != 0;
}

bool includes(const Moves& set, const Moves& other) {
  if (other == nullptr || set == other) return true;
  if (set == nullptr || set->size() < other->size()) return false;
  for (std::size_t i = 0; i < other->size(); ++i) {
    if (((*other)[i] & ~(*set)[i]) != 0) return false;
  }
  return true;
}

void insert(Words& set, unsigned move) {
  set.resize(std::max<std::size_t>(set.size(), move / 64 + 1));
  set[move / 64] |= std::uint64_t{1} << move % 64;
}

bool overlap(const Moves& set, const Words& other) {
  for (std::size_t i = 0; set != nullptr && i < std::min(set->size(), other.size()); ++i) {
    if (((*set)[i] & other[i]) != 0) return true;
  }
  return false;
}

// Whether the order of two moves that can both be made now makes no difference to anybody.
bool commute(const Move& a, const Move& b) {
  if (a.object != b.object || (a.waits && b.waits)) return true;
  if (a.waits || b.waits) {
    Counter counter = a.counter;
    const Move& counts = a.waits ? b : a;
    return !counter.add(counts.arrivals, counts.bytes);
  }
  // Both orders must count both in this phase, and none too many.
  const auto commutes = [](const Move& first, const Move& second) {
    Counter counter = first.counter;
    const bool ends = counter.add(first.arrivals, first.bytes);
    const bool too_many = ends || first.arrivals > first.counter.pending || second.arrivals > counter.pending;
    return !too_many;
  };
  return commutes(a, b) && commutes(b, a);
}

}  // namespace

Moves join(const Moves& a, const Moves& b) {
  if (includes(a, b)) return a;
  if (includes(b, a)) return b;
  Words all = *a;
  all.resize(std::max(a->size(), b->size()));
  for (std::size_t i = 0; i < b->size(); ++i) all[i] |= (*b)[i];
  return std::make_shared<const Words>(std::move(all));
}

bool Counter::add(std::int64_t arrivals, std::int64_t more_bytes) {
  pending -= arrivals;
  bytes += more_bytes;
  if (pending > 0 || bytes != 0) return false;
  pending += count;
  ++phase;
  return true;
}

void OrderTree::begin_run() {
  events_.clear();
  races_.clear();
  objects_.clear();
  asleep_.clear();
  cut_ = false;
}

std::optional<std::size_t> OrderTree::choose_in_replay(const std::vector<Move>& moves) const {
  if (events_.size() == replayed_->size()) return std::nullopt;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (moves[i].actor == (*replayed_)[events_.size()] && moves[i].enabled()) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> OrderTree::choose(const std::vector<Move>& moves) {
  if (replayed_) {
    const auto chosen = choose_in_replay(moves);
    cut_ = !chosen;
    if (chosen) make(moves[*chosen]);
    return chosen;
  }
  const std::size_t depth = events_.size();
  if (depth == nodes_.size()) {
    Node node;
    node.asleep = asleep_;
    for (const Move& move : moves) {
      if (move.enabled()) node.enabled.push_back(move.actor);
    }
    if (node.enabled.empty()) return std::nullopt;
    const auto awake = std::find_if(node.enabled.begin(), node.enabled.end(),
                                    [&](Actor actor) { return node.asleep.count(actor) == 0; });
    cut_ = awake == node.enabled.end();
    if (cut_) return std::nullopt;
    node.chosen = *awake;
    node.to_try.insert(*awake);
    commuting_ += node.enabled.size() - 1;
    nodes_.push_back(std::move(node));
  }
  const Node& node = nodes_[depth];
  std::size_t chosen = 0;
  while (chosen < moves.size() && moves[chosen].actor != node.chosen) ++chosen;
  if (chosen == moves.size() || !moves[chosen].enabled()) {
    throw std::logic_error("all orders: the same moves have led to another state than before");
  }
  asleep_.clear();
  for (const Move& other : moves) {
    const bool sleeps = node.asleep.count(other.actor) != 0 || node.tried.count(other.actor) != 0;
    if (sleeps && other.actor != node.chosen && commute(moves[chosen], other)) asleep_.insert(other.actor);
  }
  make(moves[chosen]);
  return chosen;
}

// What it comes after, and what it might have come before.
void OrderTree::make(const Move& move) {
  const auto number = static_cast<unsigned>(events_.size());
  Event event{move.actor, move.before};
  Object& object = objects_[move.object];
  const unsigned phase = move.counter.phase;
  const auto after = [&](const std::vector<unsigned>& others) {
    for (const unsigned other : others) event.past = join(event.past, events_[other].past);
  };
  if (phase > 0) after(object.counted[phase - 1]);
  if (move.waits) {
    if (phase > 1) note_races(object.counted[phase - 2], number, move, {});
    object.waited[phase].push_back(number);
  } else {
    Counter counter = move.counter;
    std::vector<unsigned> late;  // waits that might have come too late for the phase before
    if (counter.add(move.arrivals, move.bytes)) {
      for (const unsigned wait : object.waited[phase]) {
        const auto& counted = object.counted[phase];
        if (!contains(move.before, wait) && std::none_of(counted.begin(), counted.end(), [&](unsigned other) {
              return contains(events_[other].past, wait);
            })) {
          late.push_back(wait);
        }
      }
      note_races(late, number, move, object.waited[phase]);
      after(late);
    }
    if (phase > 0) note_races(object.counted[phase - 1], number, move, object.waited[phase - 1]);
    object.counted[phase].push_back(number);
  }
  Words past = event.past == nullptr ? Words{} : *event.past;
  insert(past, number);
  event.past = std::make_shared<const Words>(std::move(past));
  events_.push_back(std::move(event));
}

// Those of the earlier moves that nothing else orders before the later one; if one is before another of
// them, that one only.
void OrderTree::note_races(const std::vector<unsigned>& earlier, unsigned later, const Move& move,
                           const std::vector<unsigned>& waiters) {
  std::vector<unsigned> open;
  for (const unsigned one : earlier) {
    if (!contains(move.before, one)) open.push_back(one);
  }
  for (const unsigned one : open) {
    const bool through_another = std::any_of(open.begin(), open.end(), [&](unsigned other) {
      return other != one && contains(events_[other].past, one);
    });
    if (!through_another) races_.push_back({one, later, move.actor, move.before, waiters});
  }
}

// Has an order tried in which the later move comes first.
void OrderTree::resolve(const Race& race) {
  Words between;
  std::vector<Actor> first;  // who may begin such an order
  for (unsigned i = race.earlier + 1; i < race.later; ++i) {
    const Event& event = events_[i];
    if (contains(event.past, race.earlier)) continue;
    if (!overlap(event.past, between)) first.push_back(event.actor);
    insert(between, i);
  }
  const bool waits_between = std::any_of(race.waiters.begin(), race.waiters.end(), [&](unsigned wait) {
    return wait / 64 < between.size() && (between[wait / 64] >> wait % 64 & 1) != 0;
  });
  if (!overlap(race.base, between) && !waits_between) first.insert(first.begin(), race.actor);
  Node& node = nodes_[race.earlier];
  const auto is_to_try = [&](Actor actor) { return node.to_try.count(actor) != 0; };
  if (std::any_of(first.begin(), first.end(), is_to_try)) return;
  for (const Actor actor : first) {
    if (std::find(node.enabled.begin(), node.enabled.end(), actor) == node.enabled.end()) continue;
    node.to_try.insert(actor);
    return;
  }
  node.to_try.insert(node.enabled.begin(), node.enabled.end());
}

bool OrderTree::end_run(const std::vector<Move>& left) {
  if (std::exchange(replayed_, std::nullopt)) return false;
  const auto end = static_cast<unsigned>(events_.size());
  for (const Move& move : left) {  // waits that came too late
    const unsigned phase = move.counter.phase;
    if (move.waits && !move.enabled() && phase > 0) {
      note_races(objects_[move.object].counted[phase - 1], end, move, {});
    }
  }
  for (const Race& race : races_) resolve(race);
  if (!cut_) ++runs_;
  return advance();
}

bool OrderTree::advance() {
  nodes_.resize(std::min(nodes_.size(), events_.size()));
  for (; !nodes_.empty(); nodes_.pop_back()) {
    Node& node = nodes_.back();
    node.tried.insert(node.chosen);
    for (const Actor actor : node.to_try) {
      if (node.tried.count(actor) != 0 || node.asleep.count(actor) != 0) continue;
      node.chosen = actor;
      --commuting_;
      return true;
    }
  }
  return false;
}

Moves OrderTree::before_latest_phase(const void* object) const {
  Moves all;
  const auto found = objects_.find(object);
  if (found == objects_.end() || found->second.counted.empty()) return all;
  for (const unsigned move : found->second.counted.rbegin()->second) all = join(all, events_[move].past);
  return all;
}

std::vector<Actor> OrderTree::made(const Moves* past) const {
  std::vector<Actor> actors;
  for (unsigned i = 0; i < events_.size(); ++i) {
    if (past == nullptr || contains(*past, i)) actors.push_back(events_[i].actor);
  }
  return actors;
}

}  // namespace cpu_device
