#pragma once

// How far the orders of a kernel have been explored (cpu_device.hpp): apart from the rest, so that what is
// compiled with CUDA can hold it, too.

#include <cstdint>
#include <string>
#include <vector>

namespace cpu_device {

struct OrdersRun {
  bool more = false;                    // there is another run to be made
  bool whole = false;                   // the last run has reached its end
  bool best = false;                    // it is bad, and the shortest of these so far
  bool all = false;                     // all orders have been run
  std::uint64_t schedules = 0;          // so far, none of which is another with steps exchanged that commute
  std::uint64_t bad = 0;                // of these
  std::uint64_t steps = 0;              // of the longest
  std::uint64_t commuting = 0;          // choices that did not have to be tried
  std::vector<std::string> table = {};  // of the shortest bad one: a line for each step
};

}  // namespace cpu_device
