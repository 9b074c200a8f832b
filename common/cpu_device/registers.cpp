#include "common/cpu_device/registers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/warpgroup_registers.hpp"

namespace cpu_device {

namespace {

constexpr unsigned of_an_sm = 64 * 1024, of_a_thread = 256;
constexpr unsigned warps_per_group = 4;

// What a thread has at launch: as many as leave room for what __launch_bounds__ asks for, in eights. (Of a
// kernel without __launch_bounds__ the compiler ignores setmaxnreg.)
unsigned given_at_launch(const Launch& launch) {
  LaunchBounds bounds = launch_bounds_of(launch.kernel);
  if (bounds.threads == 0) bounds.threads = launch.threads_per_block;
  return std::min(of_a_thread, of_an_sm / (bounds.threads * bounds.blocks) / 8 * 8);
}

const char* name_of(bool takes) { return takes ? "warpgroup_reg_alloc" : "warpgroup_reg_dealloc"; }

}  // namespace

Registers::Registers(const Block& block)
    : warps_(block.ready.size(), Warp{given_at_launch(block.launch), 0, {}}) {}

void Registers::keep(Block& block, unsigned warp, unsigned per_thread, const void* pc) {
  Warp& w = warps_[warp];
  w.changes.push_back({false, per_thread, pc});
  if (per_thread > w.held) {
    report(
        FaultKind::register_misuse, pc,
        fmt::format("gives up all but {} registers per thread, but has no more than {}", per_thread, w.held),
        block, warp * warpSize);
    return;
  }
  free_ += (w.held - per_thread) * warpSize;
  w.held = per_thread;
  grant(block);
}

void Registers::take(Block& block, unsigned warp, unsigned per_thread, const void* pc) {
  Warp& w = warps_[warp];
  w.changes.push_back({true, per_thread, pc});
  if (per_thread < w.held) {
    report(FaultKind::register_misuse, pc,
           fmt::format("takes up to {} registers per thread, but has {} already", per_thread, w.held), block,
           warp * warpSize);
    return;
  }
  w.wanted = per_thread;
  grant(block);
}

void Registers::grant(Block& block) {
  for (unsigned warp = 0; warp < warps_.size(); ++warp) {
    Warp& w = warps_[warp];
    if (w.wanted == 0 || (w.wanted - w.held) * warpSize > free_) continue;
    free_ -= (w.wanted - w.held) * warpSize;
    w.held = w.wanted;
    w.wanted = 0;
    ++block.cluster.progress;
    for (unsigned i = warp * warpSize; i < std::min<std::size_t>((warp + 1) * warpSize, block.threads.size());
         ++i) {
      if (block.threads[i].wait.on == this) wake(block, i, false);
    }
  }
}

bool Registers::report_incomplete(const Block& block) const {
  for (unsigned warp = 0; warp < warps_.size(); ++warp) {
    const unsigned first = warp / warps_per_group * warps_per_group;
    const unsigned end = std::min<unsigned>(first + warps_per_group, static_cast<unsigned>(warps_.size()));
    const std::vector<Change>& own = warps_[warp].changes;
    for (unsigned other = first; other < end; ++other) {
      const std::vector<Change>& others = warps_[other].changes;
      for (std::size_t i = 0; i < own.size(); ++i) {
        const bool also = i < others.size();
        if (also && others[i].takes == own[i].takes && others[i].per_thread == own[i].per_thread) continue;
        if (also && other < warp) continue;  // reported the other way round
        if (!also && block.exited[other] != ~0u) continue;
        const std::string what = also ? fmt::format("comes to {} ({}) at {}", name_of(others[i].takes),
                                                    others[i].per_thread, place_of(others[i].pc))
                                      : std::string("does not");
        report(
            FaultKind::register_misuse, own[i].pc,
            fmt::format("comes to {} ({}) with its warp, but the warp of {}, of the same four, {}; all four "
                        "warps of a warpgroup must",
                        name_of(own[i].takes), own[i].per_thread, thread_name(block, other * warpSize), what),
            block, warp * warpSize);
        return true;
      }
    }
  }
  return false;
}

std::string Registers::awaited_by(const Block&, unsigned thread) const {
  const Warp& w = warps_[thread / warpSize];
  return fmt::format(
      "{} registers for each thread of its warp, which has {}; of those that other warps of the block have "
      "given up {} are left for each of its threads",
      w.wanted, w.held, free_ / warpSize);
}

// ---- What the kernel calls -------------------------------------------------------------------------------

namespace {

template <bool TAKES>
void change(Block& block, Rendezvous& r) {
  if (block.registers == nullptr) block.registers = std::make_unique<Registers>(block);
  const unsigned warp = r.first / warpSize, per_thread = *static_cast<const unsigned*>(r.operand(0));
  (block.registers.get()->*(TAKES ? &Registers::take : &Registers::keep))(block, warp, per_thread, r.pc(0));
}

constexpr Collective keeping{"warpgroup_reg_dealloc", true, false, change<false>};
constexpr Collective taking{"warpgroup_reg_alloc", true, false, change<true>};

}  // namespace

void keep_registers(unsigned per_thread, int line) {
  meet(keeping, 1, 0xffffffff, &per_thread, line, __builtin_return_address(0));
}

void take_registers(unsigned per_thread, int line) {
  const void* pc = __builtin_return_address(0);
  meet(taking, 1, 0xffffffff, &per_thread, line, pc);
  Block& block = *current_block;
  if (!block.registers->is_waiting(block.current / warpSize)) return;
  block.threads[block.current].wait = {block.registers.get(), pc, line};
  wait_for_wake();
}

}  // namespace cpu_device
