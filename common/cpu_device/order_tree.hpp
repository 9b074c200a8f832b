#pragma once

// All orders of what the actors of a cluster do, up to exchanging neighbours that commute: which one to run
// next, by dynamic partial-order reduction with source sets and sleep sets (Abdulla, Aronis, Jonsson,
// Sagonas, "Optimal Dynamic Partial Order Reduction", POPL 2014). It knows actors, which make one move after
// another, and counters, which are what mbarriers and named barriers are made of.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace cpu_device {

using Actor = std::uint64_t;

// A set of moves of a run, by their numbers; nullptr: the empty set.
using Moves = std::shared_ptr<const std::vector<std::uint64_t>>;
Moves join(const Moves& a, const Moves& b);

// Counts arrivals and bytes; when neither is missing any more, the next phase begins.
struct Counter {
  unsigned phase = 0;
  std::int64_t pending = 0, bytes = 0, count = 0;
  // Of the phase before the current one.
  bool has_completed(unsigned parity) const { return phase % 2 != parity; }
  // Returns whether that completes the phase.
  bool add(std::int64_t arrivals, std::int64_t more_bytes);
};

struct Move {
  Actor actor = 0;
  const void* object = nullptr;  // whose counter is
  Counter counter{};             // as it is now
  bool waits = false;            // for a phase; can be made only when that is complete, and is not over again
  unsigned parity = 0;           // of that phase
  std::int64_t arrivals = 0, bytes = 0;  // if it does not wait; bytes that are brought count negative
  Moves before{};                        // that the actor has made or waited for
  bool enabled() const { return !waits || counter.has_completed(parity); }
};

class OrderTree {
 public:
  void begin_run();
  // Which of these moves is made next, given as its index; they are all that can be made, and those that wait
  // for what is not there yet. nullopt: none can be made, or only such as lead to nothing new (then `cut()`).
  std::optional<std::size_t> choose(const std::vector<Move>& moves);
  bool cut() const { return cut_; }
  // The move that was chosen last, and all that had to be made before it.
  const Moves& past() const { return events_.back().past; }
  std::size_t length() const { return events_.size(); }
  // The run has ended; `left`: the moves that were not made. Returns whether there is another order to run.
  bool end_run(const std::vector<Move>& left);

  // The actors whose moves were made, in order, and of them those that `past` holds.
  std::vector<Actor> made(const Moves* past = nullptr) const;
  // The next run makes these moves and no others, and is then cut; nothing is learnt from it.
  void replay(std::vector<Actor> moves) { replayed_ = std::move(moves); }
  // All that had to be made before the latest phase of an object, as far as it has gone.
  Moves before_latest_phase(const void* object) const;

  std::uint64_t runs() const { return runs_; }            // that were not cut
  std::uint64_t commuting() const { return commuting_; }  // choices that did not have to be tried

 private:
  struct Node {
    std::vector<Actor> enabled;
    std::set<Actor> asleep;  // what leads to nothing new
    std::set<Actor> tried, to_try;
    Actor chosen = 0;
  };
  struct Event {
    Actor actor;
    Moves past;  // this move, and those that had to be made before it
  };
  // The earlier move may as well come after the later one.
  struct Race {
    unsigned earlier, later;
    Actor actor;
    Moves base;                     // what must be before the later one all the same,
    std::vector<unsigned> waiters;  // and these
  };
  struct Object {
    std::map<unsigned, std::vector<unsigned>> counted, waited;  // moves, by the object's phase then
  };

  std::optional<std::size_t> choose_in_replay(const std::vector<Move>& moves) const;
  void make(const Move& move);
  void note_races(const std::vector<unsigned>& earlier, unsigned later, const Move& move,
                  const std::vector<unsigned>& waiters);
  void resolve(const Race& race);
  bool advance();

  std::vector<Node> nodes_;
  std::vector<Event> events_;
  std::vector<Race> races_;
  std::map<const void*, Object> objects_;
  std::set<Actor> asleep_;  // at the next node
  std::optional<std::vector<Actor>> replayed_;
  bool cut_ = false;
  std::uint64_t runs_ = 0, commuting_ = 0;
};

}  // namespace cpu_device
