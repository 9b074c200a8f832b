#pragma once

// The clock of the multiprocessors as they count it themselves. While tensor cores work, it is lower than
// what the driver reads: docs/concepts/power.md.

namespace harness::gpu {

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
  struct Reading;
  void read(Reading* readings);

  int multiprocessors_ = 0;
  Reading* readings_ = nullptr;  // [2][multiprocessors_], in the GPU's memory
};

}  // namespace harness::gpu
