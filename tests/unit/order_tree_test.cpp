// All orders of small systems of actors, by the tree and by trying every one.

#include "common/cpu_device/order_tree.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using cpu_device::Counter;
using cpu_device::Move;
using cpu_device::Moves;
using cpu_device::OrderTree;

struct Step {
  unsigned object;
  bool waits;
  unsigned parity;
  std::int64_t arrivals, bytes;
};
struct System {
  std::vector<std::vector<Step>> actors;
  std::vector<std::int64_t> counts;  // of the objects
};

class State {
 public:
  explicit State(const System& system) : system_(system), at_(system.actors.size()), before_(at_.size()) {
    for (const std::int64_t count : system.counts) counters_.push_back({0, count, 0, count});
    histories_.resize(at_.size());
  }
  std::vector<Move> moves() const {
    std::vector<Move> moves;
    for (std::size_t actor = 0; actor < at_.size(); ++actor) {
      if (at_[actor] == system_.actors[actor].size()) continue;
      const Step& step = system_.actors[actor][at_[actor]];
      moves.push_back({actor, &system_.counts[step.object], counters_[step.object], step.waits, step.parity,
                       step.arrivals, step.bytes, before_[actor]});
    }
    return moves;
  }
  void make(const Move& move, const Moves& past) {
    const Step& step = system_.actors[move.actor][at_[move.actor]++];
    Counter& counter = counters_[step.object];
    histories_[move.actor] += std::to_string(counter.phase) + ' ';
    if (!step.waits) counter.add(step.arrivals, step.bytes);
    before_[move.actor] = past;
  }
  // In which phases each actor has done what: two orders for which this is the same differ in nothing.
  std::string text() const {
    std::string text;
    for (const std::string& history : histories_) text += history + "| ";
    return text;
  }

 private:
  const System& system_;
  std::vector<std::size_t> at_;
  std::vector<Moves> before_;
  std::vector<Counter> counters_;
  std::vector<std::string> histories_;
};

void try_all(const State& state, std::set<std::string>& ends, std::set<std::string>& seen) {
  bool any = false;
  if (!seen.insert(state.text()).second) return;
  for (const Move& move : state.moves()) {
    if (!move.enabled()) continue;
    any = true;
    State next = state;
    next.make(move, nullptr);
    try_all(next, ends, seen);
  }
  if (!any) ends.insert(state.text());
}

std::set<std::string> all(const System& system) {
  std::set<std::string> ends, seen;
  try_all(State(system), ends, seen);
  return ends;
}

std::pair<std::set<std::string>, std::uint64_t> by_tree(const System& system) {
  std::set<std::string> ends;
  OrderTree tree;
  for (bool more = true; more;) {
    State state(system);
    tree.begin_run();
    while (const auto chosen = tree.choose(state.moves())) state.make(state.moves()[*chosen], tree.past());
    if (!tree.cut()) ends.insert(state.text());
    more = tree.end_run(state.moves());
  }
  return {ends, tree.runs()};
}

constexpr Step arrive(unsigned object) { return {object, false, 0, 1, 0}; }
constexpr Step wait(unsigned object, unsigned parity) { return {object, true, parity, 0, 0}; }

TEST(OrderTree, TriesOnlyWhatMakesADifference) {
  const auto runs = [](const System& system) { return by_tree(system).second; };
  EXPECT_EQ(runs({{{arrive(0)}, {arrive(0)}, {arrive(0)}}, {3}}), 1u);  // they end one phase together
  EXPECT_EQ(runs({{{arrive(0)}, {arrive(0)}, {arrive(0)}}, {1}}), 6u);
  EXPECT_EQ(runs({{{arrive(0)}, {arrive(1)}, {arrive(2)}}, {1, 1, 1}}), 1u);
  EXPECT_EQ(runs({{{arrive(0), wait(1, 0), arrive(0)}, {wait(0, 0), arrive(1), wait(0, 1)}}, {1, 1}}), 1u);
}

// The waiting actor sees the first phase in time, or not before the second is over, and then never.
TEST(OrderTree, FindsAWaitThatComesTooLate) {
  const System system{{{arrive(0), arrive(0)}, {wait(0, 0)}}, {1}};
  EXPECT_EQ(by_tree(system).first, (std::set<std::string>{"0 1 | | ", "0 1 | 1 | "}));
}

TEST(OrderTree, FindsWhatTryingAllFinds) {
  std::mt19937 random(1);
  const auto below = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
  std::size_t most = 0;
  for (int round = 0; round < 200; ++round) {
    System system;
    for (unsigned i = 0; i < 1 + below(2); ++i) system.counts.push_back(1 + below(2));
    system.actors.resize(2 + below(3));
    for (auto& actor : system.actors) {
      for (unsigned i = 0; i < 1 + below(3); ++i) {
        const unsigned object = below(static_cast<unsigned>(system.counts.size()));
        actor.push_back(below(3) == 0 ? wait(object, below(2)) : arrive(object));
      }
    }
    const auto [found, runs] = by_tree(system);
    const std::set<std::string> expected = all(system);
    ASSERT_EQ(found, expected) << "round " << round;
    EXPECT_LE(runs, 2 * expected.size()) << "round " << round;
    most = std::max(most, expected.size());
  }
  EXPECT_GT(most, 50u);
}

}  // namespace
