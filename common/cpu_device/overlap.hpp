#pragma once

// Launches that begin while earlier ones still run (common/cuda/dependent_launch.hpp). Here they run one
// after the other, and what each of them did to memory is kept for as long as a later one might meet it.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/dim3.hpp"
#include "common/cpu_device/report.hpp"

namespace cpu_device {

struct Block;
struct Launch;
class GlobalShadow;

// A checked launch, as those that may overlap with it see it.
//
// A launch that overlaps the one before begins when every block of that one has allowed it or ended. So what
// may still run at its beginning is the launch before, and whatever that one had not waited for when it let
// the next one begin. Who has waited knows that the launch before has ended, and with it everything that some
// thread of it has waited for. A launch that does not overlap begins when all others have ended.
struct LaunchRecord {
  using Ones = std::vector<std::shared_ptr<const LaunchRecord>>;  // the latest first

  const void* kernel = nullptr;
  dim3 grid, block, cluster;
  Ones before;      // that may still run when this one begins
  Ones after_wait;  // and those of them that may still run when it has waited for the one before
  std::map<std::uintptr_t, std::shared_ptr<GlobalShadow>> shadows;  // by the address of the allocation

  // Whether some thread has waited; whether before its block let the next launch begin.
  mutable std::atomic<bool> waited = false, waited_first = false;
  mutable std::atomic<const void*> let_next_begin = nullptr;  // where some thread did

  static std::shared_ptr<const LaunchRecord> latest();
  // Of what an actor did at `pc`, for a fault.
  Recorded recorded(unsigned actor, std::uint32_t cluster_number, const void* pc) const;
  // "thread (3,0,0) of block (1,0,0) of the launch before, pack,"
  std::string who(unsigned actor, std::uint32_t cluster_number, bool is_latest) const;
};

// A checked launch begins; `overlaps`: the one before.
std::shared_ptr<LaunchRecord> begin_record(const Launch& launch, bool overlaps);
// Everything that has been launched has ended.
void forget_past_launches();

// Which threads of a running cluster have waited for the launch before.
class LaunchWaits {
 public:
  void begin();  // a new cluster
  void add(unsigned thread, Tick tick);
  // Whether the thread itself has, or one that something orders before it.
  bool known_to(unsigned thread, const Clocks& clocks);

 private:
  struct Event {
    unsigned thread;
    Tick tick;
  };
  std::vector<Event> events_;
  std::vector<bool> known_;  // by thread
};

}  // namespace cpu_device
