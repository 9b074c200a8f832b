#pragma once

// What threads of a block wait for: barriers, warp-wide operations, mbarriers. A thread that waits does so on
// an object; a cluster that is not done, but in which nothing is ready or can still happen, is stuck, and its
// objects say what they lack. (The barrier of a whole cluster: cluster_barrier.hpp.)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/order_tree.hpp"

namespace cpu_device {

struct Block;
struct Cluster;

// A thread of the cluster, by the rank of its block.
using ThreadOfCluster = std::pair<unsigned, unsigned>;

// Many of them.
class ThreadSet {
 public:
  void insert(const ThreadOfCluster& who) {
    const std::size_t number = who.first * of_block + who.second;
    if (number / 64 >= bits_.size()) bits_.resize(number / 64 + 1);
    bits_[number / 64] |= std::uint64_t{1} << number % 64;
  }
  void clear() { std::fill(bits_.begin(), bits_.end(), 0); }
  std::set<ThreadOfCluster> all() const;

 private:
  static constexpr std::size_t of_block = 1024;  // no block has more
  std::vector<std::uint64_t> bits_;              // by rank, then by thread
};

// Who has come to an object by one call: arrived there, or had a copy bring bytes. `now`: in this phase.
struct Arrival {
  const void* pc;
  bool by_copy = false;  // that the thread has asked for
  ThreadSet now = {}, ever = {};
};

class SyncObject {
 public:
  virtual ~SyncObject() = default;
  // What the waiting thread waits for: "barrier 1, to which 64 of 96 threads have come".
  virtual std::string awaited_by(const Block& block, unsigned thread) const = 0;
  // Whether any thread may come to it, as long as enough do; and who has so far, by call.
  virtual bool counts_arrivals() const { return false; }
  virtual std::vector<Arrival> arrivals_so_far() const { return {}; }
};

struct Wait {
  const SyncObject* on = nullptr;  // nullptr: the thread can run, or has exited
  const void* pc = nullptr;
  int line = 0;           // tells apart two calls that the compiler has merged; see call_place.hpp
  unsigned phase = 0;     // of an mbarrier
  bool may_fail = false;  // it can also go on without
};

// ---- sync.cpp --------------------------------------------------------------------------------------------

// The barrier of all threads (number 0), or one that counts threads.
//
// Number 0 opens when all threads that have not left the kernel have come, and all to the same place:
// __syncthreads() may stand in conditional code only if the whole block decides alike (CUDA C++ Programming
// Guide, "Synchronization Functions"). It orders what they did, not what those did that have left.
//
// The others count whole warps: one has arrived when all of its lanes have that have not left the kernel, for
// which its lanes wait in any case (PTX ISA, barrier). The lanes of a warp must come to the same place (PTX
// ISA, bar.sync: it is .aligned); warps may come to different ones, as the producers and the consumers of a
// pipeline do.
class Barrier : public SyncObject {
 public:
  explicit Barrier(unsigned id = 0) : id_(id) {}
  // The running thread arrives at that of all threads, and waits. `function`: in whose source the call
  // stands; nullptr if that is not known.
  void arrive_with_all(Block& block, int line, const void* pc, const char* function);
  // At one of the others; if it `only_arrives`, it just waits for its warp.
  void arrive(Block& block, unsigned count, bool only_arrives, int line, const void* pc);
  void thread_exited(Block& block, unsigned thread);
  std::string awaited_by(const Block& block, unsigned thread) const override;
  bool counts_arrivals() const override { return id_ != 0; }
  std::vector<Arrival> arrivals_so_far() const override;
  void reset();
  // Of threads; `count`: what the next to come says, if nobody has come yet.
  Counter counter(std::int64_t count) const {
    return {rounds_, in_use_ ? expected_ - arrived_ : count, 0, in_use_ ? expected_ : count};
  }

 private:
  void begin_anew();
  bool same_as_first(const Block& block, const void* pc, const char* function) const;
  void arrive_with_warp(Block& block, bool only_arrives, int line, const void* pc);
  void count_warp(Block& block, unsigned warp);
  bool is_complete(const Block& block) const;
  // Whether it has arrived while others of its warp have not.
  bool has_lane(unsigned thread) const { return (lanes_[thread / 32] >> thread % 32 & 1) != 0; }
  void open(Block& block);
  const unsigned id_;
  unsigned expected_ = 0, arrived_ = 0;  // threads
  unsigned rounds_ = 0;                  // how often it has opened
  bool in_use_ = false;
  unsigned first_ = 0;  // thread to arrive
  int line_ = 0;        // of that; likewise the others
  const void* pc_ = nullptr;
  const char* function_ = nullptr;  // in whose source the call stands
  bool diverged_ = false;
  struct Call {
    const void* pc = nullptr;
    int line = 0;
  };
  std::array<Call, 32> calls_;               // of each warp: that of its first lane to arrive last time
  std::array<std::uint32_t, 32> lanes_{};    // of each warp: those that have arrived while others have not
  std::array<std::uint32_t, 32> passing_{};  // of these, those that only arrive
  std::uint32_t warps_ = 0;                  // that have arrived
  std::uint32_t warps_before_ = 0;           // that have in earlier rounds
  unsigned rank_ = 0;                        // of the block
  std::vector<unsigned> threads_;            // that wait
  std::array<Clock, 32> released_;           // for each warp, by those lanes
  Clock clock_;                              // by the warps that have arrived
};

// ---- collective.cpp --------------------------------------------------------------------------------------

class Rendezvous;

// An operation that lanes of a warp, or the four warps of a warpgroup, execute at once. The last lane to
// arrive executes it for all.
struct Collective {
  const char* name;  // as the kernel writes it
  // Who takes part is said in one of two ways.
  // true: all lanes execute the same instruction, at the same place (PTX ISA, .aligned: mma, ldmatrix).
  // false: those in the mask that have not left the kernel execute the same operation with the same mask,
  // wherever each of them is (CUDA C++ Programming Guide, "Warp Shuffle Functions", "Synchronization
  // Functions": __shfl_sync and its relatives, __syncwarp).
  bool aligned;
  bool is_barrier;  // orders the participants' memory accesses
  // nullptr: they only meet. Must not be compiled for observation, as the operands lie on other threads'
  // stacks. It may set block.current to the thread on whose behalf it accesses memory, which is the one that
  // must have seen what is read there, and the one to blame. See check_memory() and tell_request().
  void (*execute)(Block&, Rendezvous&);
};

// Where they meet.
class Rendezvous : public SyncObject {
 public:
  static constexpr unsigned max_warps = 4;

  const Collective* operation = nullptr;
  unsigned first = 0;      // thread: lane 0 of the first warp
  unsigned warps = 1;      // 1 or 4
  std::uint32_t mask = 0;  // of each warp's lanes
  std::array<std::uint32_t, max_warps> arrived{};

  bool has(unsigned index) const { return (arrived[index / 32] >> index % 32 & 1) != 0; }
  // Of lane `index`, counted from `first`, which has arrived.
  void* operand(unsigned index) const { return operands_[index]; }
  const void* pc(unsigned index) const { return pcs_[index]; }
  unsigned thread(unsigned index) const { return first + index; }

  std::string awaited_by(const Block& block, unsigned thread) const override;
  // The first thread that has yet to arrive.
  unsigned missing(const Block& block) const;
  // Any thread that has arrived, and so waits.
  unsigned present() const;

 private:
  friend void meet(const Collective&, unsigned, std::uint32_t, void*, int, const void*);
  std::array<void*, max_warps * 32> operands_{};
  std::array<const void*, max_warps * 32> pcs_{};
};

std::string mask_text(std::uint32_t mask);  // "0x0000ffff"
// The running thread takes part in the operation of the lanes in `mask`, in its warp (`warps` is 1) or in
// each warp of its warpgroup (4). Returns when that is done. Only the operation knows what the operand is.
void meet(const Collective& operation, unsigned warps, std::uint32_t mask, void* operand, int line,
          const void* pc);
// A thread has exited: nobody waits for it any more.
void leave_rendezvous(Block& block, unsigned thread);

// ---- mbarrier.cpp ----------------------------------------------------------------------------------------

class Mbarrier : public SyncObject {
 public:
  const void* address = nullptr;
  unsigned count = 0;            // arrivals that complete a phase
  unsigned phase = 0;            // the current one, counted since init
  int pending = 0;               // arrivals still missing in it
  std::int64_t bytes = 0;        // announced in it and not yet arrived
  bool awaited = true;           // somebody has waited for the phase before, or there is none
  unsigned engine = 0;           // the actor for the asynchronous work that completes here
  bool known_to_engine = false;  // a fence has followed the init
  unsigned init_thread = 0;
  Tick init_tick = 0;
  const void* init_pc = nullptr;
  std::vector<Arrival> by_call;  // so far
  Clock arrivals, completed;

  std::string awaited_by(const Block& block, unsigned thread) const override;
  bool counts_arrivals() const override { return true; }
  std::vector<Arrival> arrivals_so_far() const override { return by_call; }
  Counter counter() const { return {phase, pending, bytes, count}; }
  void arrive(Block& block, const void* pc);
  void expect(Block& block, std::uint32_t more, const void* pc);
  void deliver(Block& block, std::uint32_t delivered, const void* pc);  // by the engine
  std::string name() const;

 private:
  void complete_if_due(Block& block, const void* pc);
  void note_arrival(const void* pc, bool by_copy);
};

using Mbarriers = std::map<const void*, Mbarrier>;  // of the block, by address

// The mbarrier at that address, for the running thread; ends the launch if there is none. `does`: "arrives
// at".
Mbarrier& mbarrier_at(const void* address, const char* does, const void* pc);
// The same for one of any block of the running cluster.
Mbarrier& mbarrier_of(Block& owner, const void* address, const char* does, const void* pc);
// mbarrier_wait(), for a return address.
bool wait_for_mbarrier(std::uint64_t* barrier, unsigned parity, bool may_fail, const void* pc);

// ---- stuck.cpp -------------------------------------------------------------------------------------------

// No thread can run, and the cluster is not done: reports why.
void report_stuck(Cluster& cluster);

// ---- All that a block has of these -----------------------------------------------------------------------

struct SyncObjects {
  SyncObjects();
  void new_block();

  static constexpr unsigned named_barriers = 16;
  std::vector<Barrier> barriers;  // number 0 is that of all threads
  // The open ones of each group of four warps. Closed ones are kept for reuse.
  std::array<std::vector<std::unique_ptr<Rendezvous>>, 8> open;
  std::vector<std::unique_ptr<Rendezvous>> closed;
  Mbarriers mbarriers;
};

}  // namespace cpu_device
