#pragma once

#include <algorithm>
#include <cstdlib>
#include <thread>

// How many cores this program is to use: all, unless CPU_DEVICE_CORES says fewer, as where others run at
// once.
inline unsigned usable_cores() {
  const char* most = std::getenv("CPU_DEVICE_CORES");
  const int fewer = most == nullptr ? 0 : std::atoi(most);
  return fewer > 0 ? static_cast<unsigned>(fewer) : std::max(1u, std::thread::hardware_concurrency());
}
