#include "common/cpu_device/global_shadow.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_memory.hpp"

namespace cpu_device {

namespace {

using Touch = GlobalShadow::Touch;
using Older = GlobalShadow::Older;

// Inside a cluster the clocks tell what is ordered; between two, what one has let the other know.
bool races(const Touch& other, unsigned bytes, const Block& block) {
  if (!other.any() || (other.bytes() & bytes) == 0) return false;
  if (other.pending()) return true;
  const unsigned thread = block.actor(block.current);
  if (other.cluster() != cluster_number(block.cluster.number)) {
    return !block.grid_order->seen(other.cluster(), other.actor(), other.tick, thread);
  }
  return !block.clocks->ordered(other.actor(), other.tick, thread);
}

// The thread of this launch that made an access, or asked for it.
struct Culprit {
  explicit Culprit(const Touch& touch) : Culprit(touch, touch.actor()) {}
  Culprit(const Touch& touch, unsigned actor) {
    const Block& block = *current_block;
    const unsigned rank = block.clocks->block_of(actor);
    thread = actor - block.clocks->first_thread(rank);
    number = block.launch.block_in(touch.cluster(), rank);
  }
  std::string name() const {
    return thread_name(*current_block, thread) + " of " + block_name(current_block->launch.grid, number);
  }
  unsigned thread;
  std::uint64_t number;  // of its block
};

void report_race(const Older& earlier, const std::string& element, bool write, const void* pc) {
  const Block& block = *current_block;
  const Launch& launch = block.launch;
  const auto& [other, other_wrote, asked_by] = earlier;
  const Culprit culprit(other, asked_by);
  const bool pending = other.pending() && other.cluster() == cluster_number(block.cluster.number);
  const auto [other_thread, other_block] = std::pair(culprit.thread, culprit.number);
  const auto text = [&](bool writes, unsigned thread, std::uint64_t number, bool wrote, const void* at) {
    std::string text = (writes ? "writes " : "reads ") + element + ", which ";
    if (pending) {
      return text + (wrote ? "a store that " : "a copy that ") + thread_name(block, thread) + " of " +
             block_name(launch.grid, number) + " asked for at " + place_of(at) + " has yet to " +
             (wrote ? "write" : "read") + ": nobody has waited for it";
    }
    return text + thread_name(block, thread) + " of " + block_name(launch.grid, number) +
           (wrote ? " wrote" : " read") + " in the same launch at " + place_of(at) +
           "; nothing orders the two";
  };
  if (other.cluster() > block.cluster.number) {  // as if the clusters had run one after the other
    report_later_block(launch, FaultKind::race_global, other.pc(),
                       text(other_wrote, block.current, block.number, write, pc), other_block, other_thread);
    return;
  }
  if (reported_before(FaultKind::race_global, pc)) return;
  report(FaultKind::race_global, pc, text(write, other_thread, other_block, other_wrote, other.pc()));
}

// Whether a thread wrote this, and no fence stands between that and the running thread.
bool is_unfenced(const Touch& write, unsigned bytes, const Block& block) {
  if (!write.any() || (write.bytes() & bytes) == 0 || write.by_store()) return false;
  const unsigned thread = block.actor(block.current);
  if (write.cluster() == cluster_number(block.cluster.number)) {
    return !block.cluster.global_fences->between(write.actor(), write.tick, thread);
  }
  return !block.grid_order->fenced(write.cluster(), write.actor(), write.tick, thread);
}

// Reads that the running thread has seen are no longer needed, now that it reads these bytes itself.
void thin_out(std::vector<Older>& reads, unsigned bytes, const Block& block) {
  std::erase_if(reads, [&](const Older& o) {
    return (o.touch.bytes() & ~bytes) == 0 && !races(o.touch, bytes, block);
  });
}

}  // namespace

GlobalShadow::AllOlder* GlobalShadow::Stripe::older_of(const Touched& touched) {
  return touched.older == 0 ? nullptr : &older[touched.older - 1];
}

GlobalShadow::AllOlder& GlobalShadow::Stripe::make_older(Touched& touched) {
  if (touched.older == 0) {
    if (unused.empty()) {
      older.emplace_back();
      unused.push_back(static_cast<std::uint32_t>(older.size()));
    }
    touched.older = unused.back();
    unused.pop_back();
  }
  return older[touched.older - 1];
}

void GlobalShadow::Stripe::drop_older(Touched& touched) {
  unused.push_back(touched.older);
  touched.older = 0;
}

void GlobalShadow::access(std::size_t word, unsigned bytes, bool write, bool atomic, const void* pc) {
  const Block& block = *current_block;
  const Touch now =
      Touch::make(pc, bytes, block.actor(block.current), block.cluster.number, block.clocks->now(), atomic);
  Stripe& stripe = stripes_[word % stripes_.size()];
  const std::lock_guard lock(stripe.mutex);
  Touched& touched = touched_[word];
  AllOlder* older = stripe.older_of(touched);
  // Atomic operations on a word come one after the other. So what follows one of them follows all before it:
  // the last block may make a counter zero by an ordinary store. Those before this index in older->writes are
  // meant.
  const auto follows = [&](const Touch& touch) {
    return touch.atomic() && (bytes & ~touch.bytes()) == 0 && !races(touch, bytes, block);
  };
  std::size_t followed = !atomic && older != nullptr ? older->writes.size() : 0;
  if (!follows(touched.write)) {
    while (followed > 0 && !follows(older->writes[followed - 1].touch)) --followed;
  }
  const auto check = [&](const Older& other, std::size_t index) {
    if (other.touch.atomic() && (atomic || (other.write && index < followed))) return false;
    if (!races(other.touch, bytes, block)) return false;
    report_race(other, element(word, bytes), write, pc);
    return true;
  };
  const auto keep = [&](const Touch& touch, bool wrote) {
    if (older == nullptr) older = &stripe.make_older(touched);
    std::vector<Older>& same = older->of(wrote);
    if (!wrote && same.size() == same.capacity() && same.size() >= 16) thin_out(same, bytes, block);
    same.push_back({touch, wrote, touch.actor()});
  };
  const auto covered = [&](const Touch& touch) { return (touch.bytes() & ~bytes) == 0; };
  // Whatever races with an earlier write races with this one, too, except when the two are unordered atomic
  // operations.
  const auto replaced = [&](const Touch& touch) {
    return covered(touch) && !(atomic && touch.atomic() && races(touch, bytes, block));
  };

  constexpr std::size_t latest = -1;
  check({touched.write, true, touched.write.actor()}, latest);
  for (std::size_t i = 0; older != nullptr && i < older->writes.size(); ++i) check(older->writes[i], i);
  if (write) {
    bool found = check({touched.read, false, touched.read.actor()}, latest);
    for (std::size_t i = 0; older != nullptr && i < older->reads.size() && !found; ++i) {
      found = check(older->reads[i], latest);
    }
    for (const bool wrote : {true, false}) {
      if (older != nullptr)
        std::erase_if(older->of(wrote), [&](const Older& o) { return replaced(o.touch); });
    }
    if (touched.write.any() && !replaced(touched.write)) keep(touched.write, true);
    if (covered(touched.read)) touched.read = Touch{};
    touched.write = now;
    if (!stripe.noncoherent.empty()) {
      const auto load = stripe.noncoherent.find(&touched);
      if (load != stripe.noncoherent.end()) check_noncoherent(load->second, now, false, word);
    }
  } else {
    const bool same = touched.read.where == now.where && touched.read.actor() == now.actor();
    // Whatever races with an earlier read that this one has seen races with this one, too.
    if (touched.read.bytes() != 0 && !(same && covered(touched.read)) &&
        (!covered(touched.read) || races(touched.read, touched.read.bytes(), block))) {
      keep(touched.read, false);
    }
    touched.read = now;
  }
  if (older != nullptr && older->writes.empty() && older->reads.empty()) stripe.drop_older(touched);
}

void GlobalShadow::request(std::size_t word, unsigned bytes, bool write, bool by_bulk, const void* pc) {
  const Block& block = *current_block;
  Stripe& stripe = stripes_[word % stripes_.size()];
  const std::lock_guard lock(stripe.mutex);
  Touched& touched = touched_[word];
  AllOlder& older = stripe.make_older(touched);
  const auto check = [&](const Older& o) {
    if (races(o.touch, bytes, block)) {
      report_race(o, element(word, bytes), write, pc);
    } else if (by_bulk && o.write && is_unfenced(o.touch, bytes, block) &&
               !reported_before(FaultKind::missing_proxy_fence, pc)) {
      report(FaultKind::missing_proxy_fence, pc,
             (write ? "has a store overwrite " : "has a copy read ") + element(word, bytes) + ", which " +
                 Culprit(o.touch, o.asked_by).name() + " wrote at " + place_of(o.touch.pc()) +
                 "; no fence_async_proxy_global() stands between");
    }
  };
  check({touched.write, true, touched.write.actor()});
  for (const Older& o : older.writes) check(o);
  if (write) {
    check({touched.read, false, touched.read.actor()});
    for (const Older& o : older.reads) check(o);
  }
  const unsigned thread = block.actor(block.current);
  Touch pending = Touch::make(pc, bytes, thread, block.cluster.number, block.clocks->now());
  pending.what |= Touch::is_pending;
  if (write && !stripe.noncoherent.empty()) {
    const auto load = stripe.noncoherent.find(&touched);
    if (load != stripe.noncoherent.end()) check_noncoherent(load->second, pending, false, word);
  }
  older.of(write).push_back({pending, write, thread});
}

void GlobalShadow::finish(std::size_t word, unsigned bytes, bool write, unsigned requester, unsigned actor,
                          Tick tick, const void* pc) {
  Stripe& stripe = stripes_[word % stripes_.size()];
  const std::lock_guard lock(stripe.mutex);
  const std::uint64_t cluster = current_block->cluster.number;
  AllOlder* const all = stripe.older_of(touched_[word]);
  if (all == nullptr) return;
  std::vector<Older>& older = all->of(write);
  const auto request = std::find_if(older.begin(), older.end(), [&](const Older& o) {
    return o.touch.pending() && o.asked_by == requester && o.touch.bytes() == bytes && o.touch.pc() == pc &&
           o.touch.cluster() == cluster_number(cluster);
  });
  if (request == older.end()) return;  // a write has replaced it, and was reported
  Touch done = Touch::make(pc, bytes, actor, cluster, tick);
  if (write) done.what |= Touch::is_store;
  request->touch = done;
  // Whoever has seen this has seen what the same actor did before.
  std::erase_if(older, [&](const Older& o) {
    return !o.touch.pending() && o.touch.where == done.where && o.touch.actor() == actor &&
           o.touch.tick < tick && (o.touch.bytes() & ~bytes) == 0;
  });
}

std::string GlobalShadow::element(std::size_t word, unsigned bytes) const {
  return describe_global(begin_ + word * 4 + static_cast<unsigned>(std::countr_zero(bytes)));
}

// ---- Non-coherent loads ----------------------------------------------------------------------------------

// The running thread makes one of the two accesses, and the other has been made: the place of the later one
// is reported, if the clusters had run one after the other.
void GlobalShadow::check_noncoherent(const Touch& load, const Touch& write, bool load_is_later,
                                     std::size_t word) const {
  const Launch& launch = current_block->launch;
  const unsigned bytes = load.bytes() & write.bytes();
  if (bytes == 0) return;
  if (load.cluster() != write.cluster()) load_is_later = load.cluster() > write.cluster();
  const Touch &at = load_is_later ? load : write, &other = load_is_later ? write : load;
  const bool is_running = at.cluster() == cluster_number(current_block->cluster.number);
  if (is_running && reported_before(FaultKind::noncoherent_load, at.pc())) return;
  const Culprit culprit(at);
  const std::string what = element(word, bytes);
  const std::string text =
      (load_is_later ? "reads " + what + " by a non-coherent load (__ldg), which "
                     : "writes " + what + ", which ") +
      Culprit(other).name() + (load_is_later ? " writes" : " reads by a non-coherent load (__ldg)") +
      " in the same launch at " + place_of(other.pc()) + "; what such a load finds may be out of date";
  if (is_running) {
    report(FaultKind::noncoherent_load, at.pc(), text);
  } else {
    report_later_block(launch, FaultKind::noncoherent_load, at.pc(), text, culprit.number, culprit.thread);
  }
}

void GlobalShadow::noncoherent_read(std::size_t word, unsigned bytes, const void* pc) {
  const Block& block = *current_block;
  const Touch now =
      Touch::make(pc, bytes, block.actor(block.current), block.cluster.number, block.clocks->now());
  Stripe& stripe = stripes_[word % stripes_.size()];
  const std::lock_guard lock(stripe.mutex);
  Touched& touched = touched_[word];
  if (touched.write.any()) check_noncoherent(now, touched.write, true, word);
  if (const AllOlder* older = stripe.older_of(touched)) {
    for (const Older& o : older->writes) check_noncoherent(now, o.touch, true, word);
  }
  Touch& known = stripe.noncoherent[&touched];
  if (!known.any() || now.cluster() < known.cluster() || (bytes & ~known.bytes()) != 0) known = now;
}

Older GlobalShadow::conflict(std::size_t word, const Planned& access) {
  Stripe& stripe = stripes_[word % stripes_.size()];
  const std::lock_guard lock(stripe.mutex);
  const Touched& touched = touched_[word];
  const auto conflicts = [&](const Touch& touch) {
    return (touch.bytes() & access.bytes) != 0 && !(access.atomic && touch.atomic());
  };
  if (conflicts(touched.write)) return {touched.write, true, touched.write.actor()};
  if (access.write && conflicts(touched.read)) return {touched.read, false, touched.read.actor()};
  AllOlder* const older = stripe.older_of(touched);
  if (older == nullptr) return {};
  for (const bool wrote : {true, false}) {
    if (!wrote && !access.write) break;
    for (const Older& one : older->of(wrote)) {
      if (conflicts(one.touch)) return one;
    }
  }
  return {};
}

}  // namespace cpu_device
