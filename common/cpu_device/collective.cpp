// Lanes that do something at once: they meet, and the last one to arrive does it for all.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/cpu_device/call_place.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/shuffle.hpp"

namespace cpu_device {

namespace {

const Collective syncwarp{"__syncwarp", false, true, nullptr};

std::uint32_t exited_lanes(const Block& block, const Rendezvous& r, unsigned warp) {
  const unsigned number = r.first / 32 + warp;
  return number < block.exited.size() ? block.exited[number] : ~0u;
}

// The lanes of one of its warps that have yet to arrive.
std::uint32_t to_come(const Block& block, const Rendezvous& r, unsigned warp) {
  const std::uint32_t gone = exited_lanes(block, r, warp);
  return r.mask & ~r.arrived[warp] & (r.operation->aligned ? ~0u : ~gone);
}

bool is_complete(const Block& block, const Rendezvous& r) {
  for (unsigned warp = 0; warp < r.warps; ++warp) {
    if (to_come(block, r, warp) != 0) return false;
  }
  return true;
}

void order(Block& block, const Rendezvous& r, unsigned warp) {
  const unsigned number = r.first / 32 + warp;
  const unsigned lanes = std::min(32u, block.launch.threads_per_block - number * 32);
  if (static_cast<unsigned>(std::popcount(r.arrived[warp])) == lanes) {
    block.clocks->warp_barrier(block.first_actor / 32 + number);
    return;
  }
  std::array<unsigned, 32> threads;
  unsigned count = 0;
  for (std::uint32_t left = r.arrived[warp]; left != 0; left &= left - 1) {
    threads[count++] = block.actor(number * 32) + static_cast<unsigned>(std::countr_zero(left));
  }
  block.clocks->barrier(std::span(threads.data(), count));
}

void finish(Block& block, Rendezvous& r) {
  ++block.cluster.progress;
  if (r.operation->execute != nullptr) {
    const unsigned last = block.current;
    r.operation->execute(block, r);
    block.current = last;
  }
  for (unsigned warp = 0; warp < r.warps && r.first / 32 + warp < block.passed.size(); ++warp) {
    if (block.clocks && r.operation->is_barrier) order(block, r, warp);
    if (~(r.arrived[warp] | exited_lanes(block, r, warp)) == 0) ++block.passed[r.first / 32 + warp];
    for (std::uint32_t lanes = r.arrived[warp]; lanes != 0; lanes &= lanes - 1) {
      wake(block, r.first + warp * 32 + static_cast<unsigned>(std::countr_zero(lanes)), r.warps == 1);
    }
  }
}

auto& open_ones(Block& block, unsigned thread) { return block.sync.open[thread / 128]; }

void close(Block& block, std::vector<std::unique_ptr<Rendezvous>>& open, std::size_t at) {
  block.sync.closed.push_back(std::move(open[at]));
  open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

void meet(const Collective& operation, unsigned warps, std::uint32_t mask, void* operand, int line,
          const void* pc) {
  Block& block = *current_block;
  const unsigned thread = block.current, first = thread / (32 * warps) * (32 * warps);
  if ((mask >> thread % 32 & 1) == 0) {
    report(FaultKind::missing_lane, pc,
           std::string("comes to ") + operation.name + " with the mask " + mask_text(mask) +
               ", which leaves it out itself");
    stop_launch();
  }
  auto& open = open_ones(block, thread);
  std::size_t at = 0;
  block.threads[thread].wait = {nullptr, pc, line};
  const auto is_the_one = [&](const Rendezvous& r) {
    return r.first == first && r.operation == &operation && r.mask == mask && r.warps == warps &&
           (!operation.aligned || same_place(block, r.present(), thread));
  };
  while (at < open.size() && !is_the_one(*open[at])) ++at;
  if (at == open.size()) {
    if (block.sync.closed.empty()) block.sync.closed.push_back(std::make_unique<Rendezvous>());
    open.push_back(std::move(block.sync.closed.back()));
    block.sync.closed.pop_back();
    Rendezvous& r = *open.back();
    r.operation = &operation;
    r.first = first;
    r.warps = warps;
    r.mask = mask;
    r.arrived.fill(0);
  }
  Rendezvous& r = *open[at];
  const unsigned index = thread - first;
  r.arrived[index / 32] |= 1u << index % 32;
  r.operands_[index] = operand;
  r.pcs_[index] = pc;
  block.threads[thread].wait = {&r, pc, line};
  if (is_complete(block, r)) {
    finish(block, r);
    close(block, open, at);
  }
  wait_for_wake();
}

std::string mask_text(std::uint32_t mask) { return fmt::format("0x{:08x}", mask); }

void leave_rendezvous(Block& block, unsigned thread) {
  auto& open = open_ones(block, thread);
  for (std::size_t at = 0; at < open.size();) {
    if (is_complete(block, *open[at])) {
      finish(block, *open[at]);
      close(block, open, at);
    } else {
      ++at;
    }
  }
}

std::string Rendezvous::awaited_by(const Block& block, unsigned) const {
  const unsigned thread = missing(block);
  const bool exists = thread < block.threads.size();
  return (exists ? thread_name(block, thread) : "thread number " + std::to_string(thread)) + " at " +
         operation->name;
}

unsigned Rendezvous::present() const {
  for (unsigned warp = 0; warp < warps; ++warp) {
    if (arrived[warp] != 0) return first + warp * 32 + static_cast<unsigned>(std::countr_zero(arrived[warp]));
  }
  return first;  // nobody
}

unsigned Rendezvous::missing(const Block& block) const {
  for (unsigned warp = 0; warp < warps; ++warp) {
    const std::uint32_t lanes = to_come(block, *this, warp);
    if (lanes != 0) return first + warp * 32 + static_cast<unsigned>(std::countr_zero(lanes));
  }
  return first;  // nobody
}

void barrier_warp(unsigned mask, int line) {
  meet(syncwarp, 1, mask, nullptr, line, __builtin_return_address(0));
}

// ---- Shuffles and reductions -----------------------------------------------------------------------------

namespace {

// The lane whose value `lane` gets; its own if there is none. PTX ISA, "shfl.sync".
unsigned source_lane(const Shuffle& shuffle, unsigned lane) {
  const unsigned width = static_cast<unsigned>(shuffle.width);
  const unsigned segment = lane & ~(width - 1), last = segment | (width - 1);
  const unsigned by = static_cast<unsigned>(shuffle.by);
  switch (shuffle.kind) {
    case Shuffle::Kind::index:
      return segment | (by & (width - 1));
    case Shuffle::Kind::up:
      return lane - segment >= by ? lane - by : lane;
    case Shuffle::Kind::down:
      return by <= last - lane ? lane + by : lane;
    case Shuffle::Kind::exclusive_or:
      return ((lane ^ by) & 31) <= last ? (lane ^ by) & 31 : lane;
  }
  return lane;
}

void exchange(Block& block, Rendezvous& r) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!r.has(lane)) continue;
    auto& mine = *static_cast<Shuffle*>(r.operand(lane));
    const unsigned source = source_lane(mine, lane);
    if (r.has(source)) {
      mine.result = static_cast<const Shuffle*>(r.operand(source))->value;
      continue;
    }
    poison(&mine.result, sizeof mine.result);
    if (reported_before(FaultKind::missing_lane, r.pc(lane))) continue;
    const unsigned thread = r.thread(source);
    const bool exists = thread < block.launch.threads_per_block;
    const bool named = (r.mask >> source & 1) != 0;
    const std::string why = !named   ? "the mask " + mask_text(r.mask) + " leaves out"
                            : exists ? "has left the kernel"
                                     : "does not exist";
    report(FaultKind::missing_lane, r.pc(lane),
           std::string("takes at ") + r.operation->name + " the value of " +
               (exists ? thread_name(block, thread) : "lane " + std::to_string(source)) + ", which " + why,
           block, r.thread(lane));
  }
}

// Of the mask's lanes that have not left the kernel. PTX ISA, "redux.sync".
void combine(Block&, Rendezvous& r) {
  const auto at = [&](unsigned lane) -> Reduction& { return *static_cast<Reduction*>(r.operand(lane)); };
  const auto first = static_cast<unsigned>(std::countr_zero(r.arrived[0]));
  const auto [kind, is_signed, value] = at(first);
  const auto number = [is_signed = is_signed](std::uint32_t bits) {
    return is_signed ? static_cast<std::int32_t>(bits) : std::int64_t{bits};
  };
  std::int64_t all = number(value);
  for (unsigned lane = first + 1; lane < 32; ++lane) {
    if (!r.has(lane)) continue;
    const std::int64_t more = number(at(lane).value);
    all = kind == Reduction::Kind::add   ? all + more
          : kind == Reduction::Kind::min ? std::min(all, more)
                                         : std::max(all, more);
  }
  for (unsigned lane = first; lane < 32; ++lane) {
    if (r.has(lane)) at(lane).value = static_cast<std::uint32_t>(all);
  }
}

constexpr std::array<Collective, 4> shuffles{{{"__shfl_sync", false, false, exchange},
                                              {"__shfl_up_sync", false, false, exchange},
                                              {"__shfl_down_sync", false, false, exchange},
                                              {"__shfl_xor_sync", false, false, exchange}}};
// By kind, of int and of unsigned: lanes that bring both do not meet.
constexpr std::array<Collective, 6> reductions{{{"__reduce_add_sync(int)", false, false, combine},
                                                {"__reduce_add_sync(unsigned)", false, false, combine},
                                                {"__reduce_min_sync(int)", false, false, combine},
                                                {"__reduce_min_sync(unsigned)", false, false, combine},
                                                {"__reduce_max_sync(int)", false, false, combine},
                                                {"__reduce_max_sync(unsigned)", false, false, combine}}};

}  // namespace

void shuffle(Shuffle& operand, unsigned mask, int line) {
  meet(shuffles[static_cast<unsigned>(operand.kind)], 1, mask, &operand, line, __builtin_return_address(0));
}

void reduce(Reduction& operand, unsigned mask, int line) {
  const Collective& operation = reductions[static_cast<unsigned>(operand.kind) * 2 + !operand.is_signed];
  meet(operation, 1, mask, &operand, line, __builtin_return_address(0));
}

}  // namespace cpu_device
