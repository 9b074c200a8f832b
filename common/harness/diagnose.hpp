#pragma once

// What diagnose.cpp and diagnose_nan.cpp share: elements of a kernel's matrices, one at a time.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/harness/device.hpp"

namespace harness {

// An element of C or of the old C.
inline float fetch(Device& device, const float* from) {
  float value = 0;
  device.download(&value, from, sizeof value);
  return value;
}

// `count` consecutive elements of A or B, from `offset` elements after the matrix's first.
inline std::vector<float> fetch_inputs(Device& device, const AnyGemm& g, const void* matrix,
                                       std::int64_t offset, int count = 1) {
  return with_element(g.input, [&]<typename T>(T) {
    std::vector<T> values(static_cast<std::size_t>(count));
    device.download(values.data(), g.behind(matrix, offset), values.size() * sizeof(T));
    return std::vector<float>(values.begin(), values.end());
  });
}

inline std::string dense_a_text(const AnyGemm& g) {
  return fmt::format("fits a leading dimension of A of {} (its row length) instead of {}", g.K, g.lda);
}

// What may have made `value`, a NaN in this column of C.
std::string diagnose_nan(Device& device, const AnyGemm& g, const float* c0, double tolerance,
                         std::int64_t matrix, std::int64_t col, float value);

}  // namespace harness
