#pragma once

// Wavefronts as tests write and print them.

#include <cstdint>
#include <ostream>

#include "common/cpu_device/warp_request.hpp"

namespace cpu_device {
inline void PrintTo(const Wavefronts& w, std::ostream* out) {
  *out << w.wavefronts << " wavefronts, ideal " << w.ideal;
}
}  // namespace cpu_device

inline cpu_device::Wavefronts takes(std::uint64_t wavefronts, std::uint64_t ideal) {
  return {wavefronts, ideal};
}
