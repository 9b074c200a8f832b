#include "common/cuda/clock.hpp"

#include <atomic>

namespace cpu_device {

std::int64_t calls_counted() {
  static std::atomic<std::int64_t> calls = 0;
  return ++calls;
}

}  // namespace cpu_device
