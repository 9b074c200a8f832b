#pragma once

// The registers of a block whose warpgroups hand some on (setmaxnreg). PTX ISA, "Miscellaneous Instructions:
// setmaxnreg".

#include <cstdint>
#include <vector>

#include "common/cpu_device/sync.hpp"

namespace cpu_device {

class Registers : public SyncObject {
 public:
  explicit Registers(const Block& block);
  // A warp, with all its lanes, gives up all registers but so many per thread, or takes as many as it lacks.
  void keep(Block& block, unsigned warp, unsigned per_thread, const void* pc);
  void take(Block& block, unsigned warp, unsigned per_thread, const void* pc);
  // Whether it waits for registers that others have yet to give up.
  bool is_waiting(unsigned warp) const { return warps_[warp].wanted != 0; }
  // What one warp of a warpgroup has done all four must do: reports if one has left the kernel without.
  // Returns whether there was anything to report.
  bool report_incomplete(const Block& block) const;
  std::string awaited_by(const Block& block, unsigned thread) const override;

 private:
  struct Change {
    bool takes;
    unsigned per_thread;
    const void* pc;
  };
  struct Warp {
    unsigned held;        // per thread
    unsigned wanted = 0;  // per thread; 0: it does not wait
    std::vector<Change> changes;
  };
  void grant(Block& block);
  std::vector<Warp> warps_;
  std::uint32_t free_ = 0;  // of the whole block, that nobody has
};

}  // namespace cpu_device
