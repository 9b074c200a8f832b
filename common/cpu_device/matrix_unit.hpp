#pragma once

// wgmma that a block's warpgroups have begun and not yet all waited for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/wgmma.hpp"

namespace cpu_device {

struct Block;
class Rendezvous;

// Of one warpgroup. What four warps count, each counts for itself: they wait apart.
class MatrixUnit {
 public:
  static constexpr unsigned warps = 4, threads = 128;

  explicit MatrixUnit(unsigned first_thread) : first_(first_thread) {}
  // All threads of the warpgroup begin one.
  void begin(Block& block, const Rendezvous& r);
  void fence(unsigned warp) { ++fences_[warp]; }
  void commit(unsigned warp) { ++groups_[warp]; }
  // A warp waits for its groups but the latest `pending`.
  void wait(Block& block, unsigned warp, unsigned pending);
  // All threads have left the kernel: reports what nobody has waited for.
  void end_block(Block& block) const;

  // The running thread touches its stack, which holds its registers: reports sums that a wgmma still adds to,
  // and writes to registers of A that one still reads.
  void check_access(Block& block, std::uintptr_t address, bool write, const void* pc);
  bool holds_sums() const { return pending_sums_ > 0; }

  // Of a place in the block's shared memory: the wgmma that has yet to read it, for reports; "": none.
  std::string unread_by(const Block& block, std::size_t offset) const;
  // Marks again what is yet to be read, after some of it has been read by another.
  void mark_unread_again() const;

 private:
  using OfWarps = std::array<unsigned, warps>;
  // The sums of all threads: D [64][N].
  struct Sums {
    std::array<float*, threads> at;
    int count;                              // of a thread
    std::vector<float> values;              // once all has been added; or, delivered, as they were then
    std::array<bool, warps> delivered;      // to each warp
    OfWarps group;                          // of the latest wgmma that adds to them
    OfWarps fences = {};                    // of each warp, when they were delivered
    const void* pc;                         // of that wgmma
    std::array<bool, warps> reported = {};  // touched too early
  };
  struct Work {
    Wgmma operands;  // of the first thread
    Operand a, b;
    std::vector<std::uint32_t> registers;                 // A, packed [64][K], if it comes from there
    std::array<const std::uint32_t*, threads> from = {};  // where each thread holds its own
    Sums* sums;
    OfWarps group;
    const void* pc;
    bool done = false;
    Tick tick = 0;  // when it had read
    std::array<bool, warps> covered = {};
  };

  Sums& take_sums(Block& block, const Rendezvous& r);
  void add(Block& block, Work& work);
  void deliver(Block& block, unsigned warp, unsigned pending);

  const unsigned first_;
  std::deque<Work> work_;
  std::vector<std::unique_ptr<Sums>> sums_;
  unsigned pending_sums_ = 0;  // of sums_ and warps, those that are not delivered
  OfWarps groups_ = {}, fences_ = {};
  unsigned engine_ = 0;  // the actor that reads operands; 0: none yet
};
using MatrixUnits = std::array<std::unique_ptr<MatrixUnit>, 8>;  // of a block's warpgroups

}  // namespace cpu_device
