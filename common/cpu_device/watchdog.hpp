#pragma once

// Notices threads that go on without an end: a loop whose step is 0, a spin on memory that nobody will
// change.

#include <csignal>
#include <cstdint>
#include <ctime>
#include <string>

#include "common/cpu_device/sync.hpp"

namespace cpu_device {

// Watches the fibers of this OS thread, as long as it lives.
class Watchdog {
 public:
  Watchdog();
  Watchdog(const Watchdog&) = delete;
  ~Watchdog();

 private:
  bool armed_ = false;
  timer_t timer_{};
};

// What shows that an OS thread's fibers go on: one hands on to another, one leaves the kernel.
struct Life {
  volatile std::uint64_t switches = 0, exits = 0;
};
extern constinit thread_local Life life;

// Whether the running thread has gone on for too long. It reports that at the next place that the device
// knows, or, if it comes to none, wherever it is.
extern constinit thread_local volatile std::sig_atomic_t overdue;
[[noreturn]] void report_overdue(const void* pc);

// A thread that reads one address at one place again and again, and does nothing else, lets others run: as
// with a flag (grid_flag.hpp) it goes on when nothing else in the cluster can happen, and the clusters before
// it have finished. Each time that it finds nothing new it reads twice as often as before, as it may merely
// count; if it finds nothing some four million times, it never will.
class Spin : public SyncObject {
 public:
  // A read by the running thread, by far the most frequent event of a checked launch.
  void read(std::uintptr_t address, unsigned thread, const void* pc) {
    const std::uint64_t key =
        address ^ reinterpret_cast<std::uintptr_t>(pc) << 16 ^ std::uint64_t{thread} << 54;
    if (key != key_) {
      if (resumed_) note_success();
      key_ = key;
      left_ = patience;
    } else if (--left_ == 0) {
      pause(pc);
    }
  }
  // The thread has done something else than to read.
  void end() { key_ = 0; }
  std::string awaited_by(const Block& block, unsigned thread) const override;

 private:
  static constexpr unsigned patience = 1000;
  void pause(const void* pc);
  void note_success();
  std::uint64_t key_ = 0;
  unsigned left_ = patience;  // reads
  bool resumed_ = false;      // the thread has let others run, and goes on
};

}  // namespace cpu_device
