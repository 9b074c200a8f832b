#pragma once

// Who touched each word of a block's shared memory, and when; one for each block.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/packed_pc.hpp"

namespace cpu_device {

struct Block;

constexpr unsigned whole_word = 0xf;

// Calls f(word, bytes) for each word that an access touches; bit i of `bytes` is the word's byte i.
template <typename F>
inline __attribute__((always_inline)) void for_words(std::size_t offset, std::size_t bytes, F f) {
  if (offset % 4 == 0 && bytes == 4) {  // by far the most frequent
    f(offset / 4, whole_word);
    return;
  }
  const std::size_t end = offset + bytes;
  for (std::size_t word = offset / 4; word * 4 < end; ++word) {
    unsigned mask = whole_word;
    if (word * 4 < offset) mask &= mask << (offset - word * 4);
    if (word * 4 + 4 > end) mask &= whole_word >> (word * 4 + 4 - end);
    f(word, mask);
  }
}

class SharedShadow {
 public:
  explicit SharedShadow(const Block& block);
  void forget();  // the ticks restart

  // An access by `thread` (an actor) to some bytes (bit i: byte i) of word `word`. Reports races, reads of
  // what nobody has written, and accesses to what a copy has yet to fill.
  [[gnu::always_inline]] void access(std::size_t word, unsigned bytes, unsigned thread, bool write,
                                     const void* pc) {
    Reads& reads = reads_.data()[word];
    const Touch now =
        Touch::make(pc, bytes, thread / 32, write, false, clocks_.now(), std::uint32_t{1} << thread % 32);
    if (reads.latest.what == now.what && reads.latest.tick == now.tick &&
        (reads.settled || is_settled(words_.data()[word], thread))) {
      reads.latest.lanes |= now.lanes;  // like another lane of the warp just before
    } else if (write || !reads.settled || !read_settled(reads, now)) {
      access(words_.data()[word], word, now, thread, !write);
    }
  }

  // An atomic operation by `thread` on word `word`, which reads before it writes, or only writes. These do
  // not race with each other, but with all other accesses.
  void atomic(std::size_t word, unsigned thread, bool reads, const void* pc);

  // The running thread asks for an asynchronous copy that writes over these bytes, or for a store that reads
  // them: reports writes by threads that no fence separates from it.
  // `does`: "has a copy overwrite".
  void check_fenced(std::size_t word, unsigned bytes, const char* does, const void* pc) const;
  // A wgmma on whose behalf `thread` asks reads these bytes, at any time from now on: like access(), but not
  // remembered.
  void check_read(std::size_t word, unsigned bytes, unsigned thread, const void* pc) {
    const Word& known = words_.data()[word];
    const bool is_there = known.written == whole_word && (known.pending & whole_word) == 0;
    if (!is_there || !is_ordered(known, thread)) check_any_read(word, bytes, thread, pc);
  }
  // An engine has read them at this tick; whoever has not acquired that must not write to them.
  void read_by_engine(std::size_t word, unsigned bytes, unsigned engine, Tick tick, const void* pc);

  bool is_filled_by_engine(std::size_t word) const { return words_[word].write.by_engine(); }
  // An asynchronous copy to these bytes is in flight, so that nobody may touch them, or has finished.
  void mark_pending(std::size_t word, unsigned bytes, bool pending);
  // A store or a wgmma has yet to read these bytes, so that nobody may write to them, or has read them.
  void mark_unread(std::size_t word, unsigned bytes, bool unread);
  // An engine has filled them at this tick; whoever has not acquired that must not touch them. `unfenced`: by
  // cp.async, see Touch.
  void fill(std::size_t word, unsigned bytes, unsigned engine, Tick tick, bool unfenced, const void* pc);

 private:
  // Accesses to the same bytes from one place by lanes of one warp between two synchronisations, or one
  // access by an engine. Most of it is in one number, as it is compared very often.
  struct Touch {
    std::uint64_t what = 0;  // see make()
    Tick tick = 0;           // 0: none
    std::uint32_t lanes = 0;
    static Touch make(const void* pc, unsigned bytes, unsigned group, bool write, bool engine, Tick tick,
                      std::uint32_t lanes, bool atomic = false, bool unfenced = false) {
      return {packed_pc(pc) | std::uint64_t{bytes} << 32 | std::uint64_t{write} << 36 |
                  std::uint64_t{engine} << 37 | std::uint64_t{atomic} << 38 | std::uint64_t{unfenced} << 39 |
                  std::uint64_t{group} << group_at,
              tick, lanes};
    }
    const void* pc() const { return unpacked_pc(static_cast<std::uint32_t>(what)); }
    unsigned bytes() const { return what >> 32 & 15; }
    bool write() const { return (what >> 36 & 1) != 0; }
    bool by_engine() const { return (what >> 37 & 1) != 0; }
    bool atomic() const { return (what >> 38 & 1) != 0; }
    // By an engine, but not by the asynchronous proxy: behind cp.async bulk copies and stores need a fence.
    bool unfenced() const { return (what >> 39 & 1) != 0; }
    unsigned group() const { return static_cast<unsigned>(what >> group_at); }  // the warp, or the engine
    Touch with_group(unsigned group) const {
      return {(what & ((std::uint64_t{1} << group_at) - 1)) | std::uint64_t{group} << group_at, tick, lanes};
    }
    static constexpr unsigned group_at = 40;
  };
  // The reads of a word, which are by far the most frequent touches: apart, so that the cache holds many.
  struct alignas(32) Reads {
    Touch latest;
    // Earlier ones from the same place to the same bytes, by other warps, of the first 32, but by the same
    // lanes at the same tick, as most are.
    std::uint32_t alike_warps = 0;
    std::uint32_t alike_lanes = 0;
    Tick alike_tick = 0;
    // All of the word was written by threads, and before a barrier of the cluster that `latest` follows.
    bool settled = false;
    Touch alike(unsigned warp) const {
      Touch touch = latest.with_group(warp);
      touch.tick = alike_tick;
      touch.lanes = alike_lanes;
      return touch;
    }
  };
  struct alignas(32) Word {
    Touch write;               // the latest
    std::uint32_t more = 0;    // its index in more_, plus 1; 0: none
    Tick more_since = 0;       // the cluster's barrier before those
    std::uint8_t written = 0;  // which bytes, if `write` is of this block
    std::uint8_t pending = 0;  // likewise; from bit 4 on: which bytes a store has yet to read
    bool more_writes = false;  // among them
    bool more_engine = false;  // likewise
  };
  // A word's older touches that are not yet ordered before a newer one.
  using More = std::vector<Touch>;

  // The first actor of a touch that `thread` has not seen; nobody: it has seen them all.
  static constexpr unsigned nobody = ~0u;
  unsigned unseen(const Touch& touch, unsigned thread) const;
  bool is_recent(const Touch& touch) const {
    return touch.tick >= clocks_.known_to_all() || (touch.by_engine() && touch.tick >= clocks_.began());
  }
  // Whether all of it was written in this cluster, and before its latest barrier or by an engine for which
  // the thread has waited.
  bool is_settled(const Word& word, unsigned thread) const {
    return word.written == whole_word && word.pending == 0 && is_ordered(word, thread);
  }
  bool is_ordered(const Word& word, unsigned thread) const {
    const Touch& write = word.write;
    return write.tick >= clocks_.began() &&
           (write.by_engine() ? !word.more_writes && clocks_.has_seen(thread, write.group(), write.tick)
                              : write.tick < clocks_.known_to_all());
  }
  void access(Word& word, std::size_t index, Touch now, unsigned thread, bool reads);
  // A read of a word that is settled, by a warp that follows another; false: it is something else.
  [[gnu::always_inline]] bool read_settled(Reads& reads, const Touch& now) const {
    const Touch& latest = reads.latest;
    if (latest.tick < clocks_.began()) return false;
    if (latest.tick < clocks_.known_to_all()) {
      reads.latest = now;
      reads.alike_warps = 0;
      return true;
    }
    const unsigned warp = latest.group();
    if ((latest.what ^ now.what) >> Touch::group_at == 0 || !joins_alike(reads)) return false;
    if (latest.with_group(0).what != now.with_group(0).what) return false;
    reads.alike_tick = latest.tick;
    reads.alike_lanes = latest.lanes;
    reads.alike_warps |= 1u << warp;
    reads.latest = now;
    return true;
  }
  // Whether the latest read could be one of those alike.
  bool joins_alike(const Reads& reads) const {
    const Touch& latest = reads.latest;
    return !latest.by_engine() && latest.group() < 32 &&
           (reads.alike_warps == 0 || (reads.alike_tick == latest.tick && reads.alike_lanes == latest.lanes));
  }
  void check_any_read(std::size_t word, unsigned bytes, unsigned thread, const void* pc);
  void replace_latest(Word& word, Reads& reads, const Touch& now);
  void keep_alike(Word& word, Reads& reads);
  // Whether it may be touched at all, and in order with earlier writes; false: not at all.
  bool check_written(Word& word, std::size_t index, const Touch& now, unsigned thread, bool reads);
  // Reports a race if the thread has not seen the touch.
  bool conflict(const Touch& earlier, std::size_t word, const Touch& now, unsigned thread) const {
    return is_recent(earlier) && (earlier.bytes() & now.bytes()) != 0 &&
           !(earlier.atomic() && now.atomic()) && report_unseen(earlier, word, now, thread);
  }
  bool report_unseen(const Touch& earlier, std::size_t word, const Touch& now, unsigned thread) const;
  // The older touches since the latest barrier of the cluster, which orders those before it; nullptr: none.
  More* recent_more(Word& word);
  void keep(Word& word, const Touch& touch);
  static void thin_out(More& more);

  std::vector<Reads> reads_;
  std::vector<Word> words_;
  std::vector<More> more_;
  const Block& block_;
  const Clocks& clocks_;
};

}  // namespace cpu_device
