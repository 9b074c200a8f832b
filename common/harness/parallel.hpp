#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/cores.hpp"

namespace harness {

// Calls body(i) for i in [0, count) on all cores.
template <typename Body>
void parallel(std::int64_t count, const Body& body) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i; (i = next++) < count;) body(i);
  };
  const auto cores = std::min<std::int64_t>(usable_cores(), count);
  std::vector<std::jthread> others;
  for (std::int64_t i = 1; i < cores; ++i) others.emplace_back(work);
  work();
}

}  // namespace harness
