#pragma once

// Made-up accesses for the X-ray, and what it counted.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/xray.hpp"

namespace xray_test {

using cpu_device::Access;
using cpu_device::Space;
using cpu_device::Xray;
using cpu_device::XrayRow;

// Places need not exist: unknown ones stay apart.
inline const char code[8] = {};
constexpr auto nowhere = [](unsigned i) -> const void* { return code + i; };

inline Access access(unsigned place, std::uint64_t block, unsigned thread, unsigned element,
                     bool write = false, unsigned bytes = 4, Space space = Space::shared) {
  return {nowhere(place), element * std::uintptr_t{4}, bytes, space, write, block, thread};
}

inline std::vector<XrayRow> rows(Xray& xray) {
  std::vector<XrayRow> all;
  for (const cpu_device::XrayKernel& kernel : xray.report().kernels) {
    all.insert(all.end(), kernel.rows.begin(), kernel.rows.end());
  }
  return all;
}

// "requests wavefronts ideal", or "requests sectors bytes" of global memory, of each kind. Made-up addresses
// may lie in several arrays of this program: they count together.
inline std::vector<std::string> counts(Xray& xray) {
  std::vector<std::pair<std::string, cpu_device::XrayCounts>> sums;
  for (const XrayRow& row : rows(xray)) {
    const std::string kind =
        to_string(row.space) + std::string(" ") + to_string(row.operation) + " " + std::to_string(row.bytes);
    if (sums.empty() || sums.back().first != kind) sums.push_back({kind, {}});
    sums.back().second += row.counts;
  }
  std::vector<std::string> texts;
  for (const auto& [kind, c] : sums) {
    const bool global = kind.starts_with("global");
    texts.push_back(kind + ": " + std::to_string(c.requests) + " " +
                    std::to_string(global ? c.sectors : c.wavefronts) + " " +
                    std::to_string(global ? c.bytes_used : c.ideal_wavefronts));
  }
  return texts;
}

}  // namespace xray_test
