#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.hpp"

namespace harness {

// The layout of a batch of row-major matrices in a buffer.
struct Extent {
  std::int64_t rows = 0, cols = 0, leading_dimension = 0, batch = 0, stride = 0;

  // What the buffer has to hold, including the gap after the last row.
  std::size_t elements() const { return static_cast<std::size_t>(batch * stride); }
  HOST_DEVICE std::int64_t lines() const { return batch * rows; }
  // Where row number `line`, counted through the whole batch, begins.
  HOST_DEVICE std::int64_t offset_of_line(std::int64_t line) const {
    return line / rows * stride + line % rows * leading_dimension;
  }
  // Whether that is an element of a matrix, not in the gap after a row or outside.
  HOST_DEVICE bool holds(std::int64_t offset) const {
    return offset >= 0 && stride > 0 && offset / stride < batch &&
           offset % stride / leading_dimension < rows && offset % stride % leading_dimension < cols;
  }
};

}  // namespace harness
