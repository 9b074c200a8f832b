// Data races on shared memory: two threads touch a byte, at least one of them writes, and nothing orders the
// two. To find every race, in whatever order the fibers run, it is enough to remember for each word the
// latest write, and every read since that no later read has seen.

#include "common/cpu_device/race.hpp"

#include <bit>
#include <utility>

#include "common/cpu_device/bulk_stores.hpp"
#include "common/cpu_device/cluster.hpp"

namespace cpu_device {

SharedShadow::SharedShadow(const Block& block)
    : reads_(block.shared.bytes() / 4 + 1), words_(reads_.size()), block_(block), clocks_(*block.clocks) {}

void SharedShadow::forget() {
  std::fill(reads_.begin(), reads_.end(), Reads{});
  std::fill(words_.begin(), words_.end(), Word{});
  more_.clear();
}

unsigned SharedShadow::unseen(const Touch& touch, unsigned thread) const {
  if (touch.by_engine()) {
    return clocks_.ordered(touch.group(), touch.tick, thread) ? nobody : touch.group();
  }
  for (std::uint32_t lanes = touch.lanes; lanes != 0; lanes &= lanes - 1) {
    const unsigned actor = touch.group() * 32 + static_cast<unsigned>(std::countr_zero(lanes));
    if (!clocks_.ordered(actor, touch.tick, thread)) return actor;
  }
  return nobody;
}

bool SharedShadow::report_unseen(const Touch& earlier, std::size_t word, const Touch& now,
                                 unsigned thread) const {
  const unsigned actor = unseen(earlier, thread);
  const void* pc = now.pc();
  if (actor == nobody) return false;
  const bool by_copy = earlier.by_engine() && earlier.write();  // the others only read
  const FaultKind kind = by_copy ? FaultKind::async_not_arrived : FaultKind::race_shared;
  if (earlier.write() && now.write() && !earlier.by_engine() && !earlier.atomic() && !now.atomic()) {
    if (const std::byte* at = block_.shared.at(word * 4, 4)) note_racing_write(pc, at, now.bytes());
  }
  if (reported_before(kind, pc)) return true;
  const Block& running = *current_block;
  Cluster& cluster = running.cluster;
  const std::string what =
      std::string(now.atomic()  ? "changes atomically "
                  : now.write() ? "writes "
                                : "reads ") +
      block_.shared.describe(word * 4 + static_cast<unsigned>(std::countr_zero(now.bytes())));
  if (earlier.by_engine() && !by_copy) {
    report(kind, pc,
           what + ", which the wgmma begun at " + place_of(earlier.pc()) +
               " read; nothing orders this behind the wait for it (wgmma_wait)");
  } else if (by_copy) {
    report(kind, pc,
           what + ", to which the asynchronous copy started at " + place_of(earlier.pc()) + " by " +
               cluster.actor_name(running, cluster.started_by(actor, earlier.tick)) +
               " has not been waited for");
  } else {
    const Block& other = cluster.block_of(actor);
    const bool gone = other.has_exited(actor - other.first_actor);
    report(kind, pc,
           what + ", which " + cluster.actor_name(running, actor) +
               (earlier.atomic()  ? " changed atomically at "
                : earlier.write() ? " wrote at "
                                  : " read at ") +
               place_of(earlier.pc()) + "; no barrier stands between" +
               (gone ? " (it has left the kernel since: later barriers do not order what it did)" : ""));
  }
  return true;
}

SharedShadow::More* SharedShadow::recent_more(Word& word) {
  if (word.more == 0) return nullptr;
  More& more = more_[word.more - 1];
  if (word.more_since != clocks_.known_to_all()) {
    word.more_since = clocks_.known_to_all();
    if (word.more_engine) {
      std::erase_if(more, [&](const Touch& touch) { return !is_recent(touch); });
    } else {
      more.clear();
      word.more_writes = false;
    }
  }
  return more.empty() ? nullptr : &more;
}

// Adds a touch to the older ones, before another one replaces it.
void SharedShadow::keep(Word& word, const Touch& touch) {
  if (word.more == 0) {
    more_.emplace_back();
    word.more = static_cast<std::uint32_t>(more_.size());
  }
  recent_more(word);  // forgets what a barrier has settled
  More& more = more_[word.more - 1];
  if (more.size() == more.capacity() && more.size() >= 16) thin_out(more);
  more.push_back(touch);
  word.more_writes |= touch.write();
  word.more_engine |= touch.by_engine();
}

// The same of the latest read.
void SharedShadow::replace_latest(Word& word, Reads& reads, const Touch& now) {
  const Touch& latest = reads.latest;
  const bool same_place = latest.with_group(0).what == now.with_group(0).what;
  if (same_place && joins_alike(reads)) {
    reads.alike_tick = latest.tick;
    reads.alike_lanes = latest.lanes;
    reads.alike_warps |= 1u << latest.group();
  } else {
    if (!same_place) keep_alike(word, reads);
    keep(word, latest);
  }
  reads.latest = now;
}

void SharedShadow::keep_alike(Word& word, Reads& reads) {
  for (std::uint32_t warps = std::exchange(reads.alike_warps, 0); warps != 0; warps &= warps - 1) {
    keep(word, reads.alike(static_cast<unsigned>(std::countr_zero(warps))));
  }
}

// If a thread touches the same bytes again and again, only its latest touch counts.
void SharedShadow::thin_out(More& more) {
  for (std::size_t newer = more.size(); newer-- > 0;) {
    for (std::size_t older = 0; older < newer; ++older) {
      const bool same_warp = ((more[older].what ^ more[newer].what) >> 36) == 0 && !more[older].by_engine();
      if (same_warp && (more[older].bytes() & ~more[newer].bytes()) == 0) {
        more[older].lanes &= ~more[newer].lanes;
        if (more[older].lanes == 0) more[older] = Touch{};
      }
    }
  }
  std::erase_if(more, [](const Touch& touch) { return touch.tick == 0; });
  if (more.size() > more.capacity() / 2) more.reserve(2 * more.capacity());
}

void SharedShadow::check_fenced(std::size_t index, unsigned bytes, const char* does, const void* pc) const {
  const Touch& write = words_[index].write;
  if ((write.by_engine() && !write.unfenced()) || (words_[index].pending & bytes) != 0) return;
  if (write.tick < clocks_.began() || (write.bytes() & bytes) == 0) return;
  const Block& running = *current_block;
  const auto check = [&](unsigned actor) {
    Cluster& cluster = running.cluster;
    if (cluster.shared_fences->between(actor, write.tick, running.actor(running.current))) return false;
    if (reported_before(FaultKind::missing_proxy_fence, pc)) return true;
    const unsigned thread = write.by_engine() ? cluster.started_by(actor, write.tick) : actor;
    report(FaultKind::missing_proxy_fence, pc,
           std::string(does) + " " + block_.shared.describe(index * 4) + ", which " +
               cluster.actor_name(running, thread) +
               (write.by_engine() ? " had copied by cp.async at " : " wrote at ") + place_of(write.pc()) +
               "; no fence_async_proxy() stands between");
    return true;
  };
  if (write.by_engine()) {
    check(write.group());
    return;
  }
  for (std::uint32_t lanes = write.lanes; lanes != 0; lanes &= lanes - 1) {
    if (check(write.group() * 32 + static_cast<unsigned>(std::countr_zero(lanes)))) return;
  }
}

void SharedShadow::mark_pending(std::size_t index, unsigned bytes, bool pending) {
  Word& word = words_[index];
  word.pending = static_cast<std::uint8_t>(pending ? word.pending | bytes : word.pending & ~bytes);
  reads_[index].settled = false;
}

void SharedShadow::mark_unread(std::size_t index, unsigned bytes, bool unread) {
  Word& word = words_[index];
  word.pending = static_cast<std::uint8_t>(unread ? word.pending | bytes << 4 : word.pending & ~(bytes << 4));
  if (!word.write.by_engine()) reads_[index].settled = false;
}

void SharedShadow::fill(std::size_t index, unsigned bytes, unsigned engine, Tick tick, bool unfenced,
                        const void* pc) {
  Word& word = words_[index];
  mark_pending(index, bytes, false);
  if ((word.write.bytes() & ~bytes) != 0) keep(word, word.write);
  word.write = Touch::make(pc, bytes, engine, true, true, tick, 0, false, unfenced);
  word.written |= bytes;
}

void SharedShadow::atomic(std::size_t index, unsigned thread, bool reads, const void* pc) {
  const Touch now = Touch::make(pc, whole_word, thread / 32, true, false, clocks_.now(),
                                std::uint32_t{1} << thread % 32, true);
  access(words_[index], index, now, thread, reads);
}

void SharedShadow::access(Word& word, std::size_t index, Touch now, unsigned thread, bool reads) {
  const bool write = now.write();
  Reads& known = reads_[index];
  Touch& latest = known.latest;
  known.settled = !write && is_settled(word, thread) && !word.write.by_engine();
  if (!write && is_settled(word, thread) && is_recent(latest) && latest.group() != now.group()) {
    return replace_latest(word, known, now);  // another warp
  }
  if (!check_written(word, index, now, thread, reads)) return;
  const unsigned bytes = now.bytes();
  if (!write) {
    if (latest.what == now.what && latest.tick == now.tick) {
      latest.lanes |= now.lanes;
    } else if (!is_recent(latest)) {
      known.alike_warps = 0;
      latest = now;
    } else if (latest.lanes == now.lanes && latest.group() == now.group() && (latest.bytes() & ~bytes) == 0) {
      if (latest.what != now.what) keep_alike(word, known);
      latest = now;
    } else {
      replace_latest(word, known, now);
    }
    return;
  }

  // Whatever races from now on with an older access to these bytes races with this write, too. Not so with an
  // atomic operation, as others do not race with it.
  const unsigned covered = now.atomic() ? 0 : bytes;
  bool found = conflict(latest, index, now, thread);
  for (std::uint32_t warps = known.alike_warps; warps != 0 && !found; warps &= warps - 1) {
    found = conflict(known.alike(static_cast<unsigned>(std::countr_zero(warps))), index, now, thread);
  }
  if (More* more = recent_more(word)) {
    for (auto touch = more->rbegin(); touch != more->rend() && !found; ++touch) {
      if (!touch->write()) found = conflict(*touch, index, now, thread);
    }
    std::erase_if(*more, [&](const Touch& touch) { return (touch.bytes() & ~covered) == 0; });
    word.more_writes = word.more_engine = false;
    for (const Touch& touch : *more) {
      word.more_writes |= touch.write();
      word.more_engine |= touch.by_engine();
    }
  }
  if ((latest.bytes() & ~covered) == 0) known = Reads{};
  word.written |= bytes;
  if (now.atomic() && word.write.what == now.what && word.write.tick == now.tick) {
    word.write.lanes |= now.lanes;  // like another lane of the warp just before
    return;
  }
  if (is_recent(word.write) && (word.write.bytes() & ~covered) != 0) keep(word, word.write);
  word.write = now;
}

bool SharedShadow::check_written(Word& word, std::size_t index, const Touch& now, unsigned thread,
                                 bool reads) {
  const bool write = now.write();
  const unsigned bytes = now.bytes();
  const void* pc = now.pc();
  if (word.write.tick < clocks_.began()) word.written = word.pending = 0;  // of another block

  if ((word.pending & bytes) != 0) {
    if (reported_before(FaultKind::async_not_arrived, pc)) return false;
    const unsigned lane = static_cast<unsigned>(std::countr_zero(word.write.lanes));
    report(FaultKind::async_not_arrived, pc,
           std::string(write ? "writes " : "reads ") + block_.shared.describe(index * 4) +
               ", to which the asynchronous copy started at " + place_of(word.write.pc()) + " by " +
               current_block->cluster.actor_name(*current_block, word.write.group() * 32 + lane) +
               " has not been waited for");
    return false;
  }
  if (write && (word.pending >> 4 & bytes) != 0) {
    if (!reported_before(FaultKind::race_shared, pc)) {
      report(FaultKind::race_shared, pc,
             std::string(now.atomic() ? "changes atomically " : "writes ") +
                 block_.shared.describe(index * 4 + static_cast<unsigned>(std::countr_zero(bytes))) +
                 ", which " + unread_by(block_, index * 4));
    }
    return false;
  }
  if (reads && (bytes & ~word.written) != 0 && !reported_before(FaultKind::uninitialised_shared, pc)) {
    const auto byte = static_cast<std::size_t>(std::countr_zero(bytes & ~word.written));
    report(
        FaultKind::uninitialised_shared, pc,
        "reads " + block_.shared.describe(index * 4 + byte) + ", which no thread of this block has written");
  }
  conflict(word.write, index, now, thread);

  // If bytes were accessed separately: the latest write to each.
  if (More* more = word.more_writes ? recent_more(word) : nullptr) {
    for (const Touch& touch : *more) {
      if (touch.write()) conflict(touch, index, now, thread);
    }
  }
  return true;
}

void SharedShadow::check_any_read(std::size_t index, unsigned bytes, unsigned thread, const void* pc) {
  check_written(
      words_[index], index,
      Touch::make(pc, bytes, thread / 32, false, false, clocks_.now(), std::uint32_t{1} << thread % 32),
      thread, true);
}

void SharedShadow::read_by_engine(std::size_t index, unsigned bytes, unsigned engine, Tick tick,
                                  const void* pc) {
  Reads& known = reads_[index];
  const Touch& latest = known.latest;
  const Touch now = Touch::make(pc, bytes, engine, false, true, tick, 0);
  known.settled = false;
  if (!is_recent(latest)) known.alike_warps = 0;
  // Who has seen what an engine did now has seen what it did before.
  const bool replaced = !is_recent(latest) ||
                        (latest.by_engine() && latest.group() == engine && (latest.bytes() & ~bytes) == 0);
  if (replaced) {
    known.latest = now;
  } else {
    replace_latest(words_[index], known, now);
  }
}

}  // namespace cpu_device
