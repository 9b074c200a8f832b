#pragma once

// Who touched each word of an allocation in this launch, and when.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/grid_order.hpp"
#include "common/cpu_device/overlap.hpp"
#include "common/cpu_device/packed_pc.hpp"
#include "common/cpu_device/reserved_memory.hpp"

namespace cpu_device {

class GlobalShadow {
 public:
  // Of a large allocation only what the launch touches takes memory.
  GlobalShadow(std::uintptr_t begin, std::size_t words) : begin_(begin), touched_(zeroed<Touched>(words)) {}

  // An access by the running thread to some bytes (bit i: byte i) of word `word`; reports races. Atomic
  // operations do not race with each other.
  void access(std::size_t word, unsigned bytes, bool write, bool atomic, const void* pc);
  // The running thread asks for a copy that reads these bytes (or for a store that writes them), now or at
  // any time until it is done: reports races with earlier writes (or accesses), and from now on with every
  // one. `by_bulk`: by a bulk or tensor copy or store, which needs a fence behind a write.
  void request(std::size_t word, unsigned bytes, bool write, bool by_bulk, const void* pc);
  // What an actor has asked for at `pc` is done, as if `actor` had done it at this tick.
  void finish(std::size_t word, unsigned bytes, bool write, unsigned requester, unsigned actor, Tick tick,
              const void* pc);
  // A non-coherent load by the running thread, which makes an ordinary access as well; reports writes by the
  // same launch, before it or after it.
  void noncoherent_read(std::size_t word, unsigned bytes, const void* pc);

  // An access to some bytes of a word; see make().
  struct Touch {
    std::uint64_t what = 0;  // 0: none
    std::uint32_t where = 0;
    Tick tick = 0;
    static Touch make(const void* pc, unsigned bytes, unsigned actor, std::uint64_t cluster, Tick tick,
                      bool atomic = false) {
      return {packed_pc(pc) | std::uint64_t{bytes} << 32 | std::uint64_t{actor} << 36,
              cluster_number(cluster) | (atomic ? is_atomic : 0), tick};
    }
    bool any() const { return what != 0; }
    const void* pc() const { return unpacked_pc(static_cast<std::uint32_t>(what)); }
    unsigned bytes() const { return what >> 32 & 15; }
    unsigned actor() const { return what >> 36 & 0x1ffffff; }  // in its cluster
    ClusterNumber cluster() const { return where & ~is_atomic; }
    bool atomic() const { return (where & is_atomic) != 0; }
    // A copy's read, or a store's write, that is still to come; the actor has asked for it.
    bool pending() const { return (what & is_pending) != 0; }
    // By a bulk store, whose writes need no fence.
    bool by_store() const { return (what & is_store) != 0; }
    static constexpr std::uint64_t is_store = std::uint64_t{1} << 61;    // in `what`
    static constexpr std::uint64_t is_pending = std::uint64_t{1} << 62;  // in `what`
    static constexpr std::uint32_t is_atomic = std::uint32_t{1} << 31;   // in `where`
  };

  // Who touched a word in this launch: the latest write and the latest read. What they have replaced without
  // being ordered after it is among the older ones.
  struct Touched {
    Touch write, read;
    std::uint32_t older = 0;  // 0: there are none; otherwise 1 + their index in Stripe::older
  };
  struct Older {
    Touch touch;
    bool write;
    unsigned asked_by;  // the thread (an actor) that did it, or asked for it
  };
  // Reads by themselves: a word may have one of every thread, and another read asks about none of them.
  struct AllOlder {
    std::vector<Older> writes, reads;
    std::vector<Older>& of(bool write) { return write ? writes : reads; }
  };

  // Of a launch that is over: its access to a word with which another one, which a later launch makes without
  // having waited, conflicts. None: its touch is none.
  struct Planned {
    unsigned bytes;
    bool write, atomic;
  };
  Older conflict(std::size_t word, const Planned& access);
  std::string element(std::size_t word, unsigned bytes) const;  // "C[3][80]", the first of these bytes

 private:
  // Blocks on several cores touch the same words; each of these serves every 64th word.
  struct Stripe {
    std::mutex mutex;
    std::vector<AllOlder> older;
    std::vector<std::uint32_t> unused;                      // which of them no word has any more
    std::unordered_map<const Touched*, Touch> noncoherent;  // a load of each word, of the first cluster

    AllOlder* older_of(const Touched& touched);  // nullptr: there are none
    AllOlder& make_older(Touched& touched);      // if there are none; others may move
    void drop_older(Touched& touched);
  };
  void check_noncoherent(const Touch& load, const Touch& write, bool load_is_later, std::size_t word) const;
  std::array<Stripe, 64> stripes_;
  const std::uintptr_t begin_;
  const std::unique_ptr<Touched[], Free> touched_;
};

// The shadow of an allocation in an earlier launch, which may still be running.
struct EarlierShadow {
  std::shared_ptr<const LaunchRecord> launch;
  std::shared_ptr<GlobalShadow> shadow;
};

// An access by the running thread, which may not have waited for these launches; reports conflicts.
void check_earlier(const std::vector<EarlierShadow>& earlier, std::size_t word,
                   const GlobalShadow::Planned& access, const void* pc);
// A non-coherent load, for which it does not matter whether the thread has waited.
void check_earlier_writes(const std::vector<EarlierShadow>& earlier, std::size_t word, unsigned bytes,
                          const void* pc);

}  // namespace cpu_device
