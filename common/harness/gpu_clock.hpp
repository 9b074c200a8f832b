#pragma once

// The clock of the multiprocessors as they count it themselves. While tensor cores work, it is lower than
// what the driver reads: docs/concepts/power.md.

#include <cstdint>

namespace harness::gpu {

struct ClockReading {
  std::int64_t cycles;
  std::uint64_t ns;  // 0: no block was on this multiprocessor
};

class ClockCounter {
 public:
  ClockCounter();
  ClockCounter(const ClockCounter&) = delete;
  ~ClockCounter();

  // Each queues a kernel that reads, on every multiprocessor that has a block of it, the cycles counted so
  // far and the time.
  void start();
  void stop();
  // Cycles in a microsecond between the two, the median of the multiprocessors; waits for them. 0: unknown.
  double mhz() const;

 private:
  void read(ClockReading* readings);

  int multiprocessors_ = 0;
  ClockReading* readings_ = nullptr;  // [2][multiprocessors_], in the GPU's memory
};

}  // namespace harness::gpu
