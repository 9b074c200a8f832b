#pragma once

// A place in the program in 32 bits, for race detection, which keeps one with every word of memory.

#include <cstdint>

extern "C" char cpu_device_anchor;  // in shared_memory.cpp

namespace cpu_device {

// No program is so large that its places are 2 GiB from each other.
inline std::uint32_t packed_pc(const void* pc) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pc) -
                                    reinterpret_cast<std::uintptr_t>(&cpu_device_anchor));
}

inline const void* unpacked_pc(std::uint32_t packed) {
  return &cpu_device_anchor + static_cast<std::int32_t>(packed);
}

}  // namespace cpu_device
