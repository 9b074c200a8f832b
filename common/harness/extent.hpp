#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.hpp"

namespace harness {

// The layout of a batch of row-major matrices in a buffer.
struct Extent {
  std::int64_t rows = 0, cols = 0, leading_dimension = 0, batch = 0, stride = 0;

  // What the buffer has to hold, including the gap after the last row.
  std::size_t elements() const {
    return batch == 0 ? 0 : static_cast<std::size_t>((batch - 1) * stride + rows * leading_dimension);
  }
  HOST_DEVICE std::int64_t lines() const { return batch * rows; }
  // Where row number `line`, counted through the whole batch, begins.
  HOST_DEVICE std::int64_t offset_of_line(std::int64_t line) const {
    return line / rows * stride + line % rows * leading_dimension;
  }
  // Whether that is an element of a matrix, not in the gap after a row or outside.
  HOST_DEVICE bool holds(std::int64_t offset) const {
    if (offset < 0 || batch == 0) return false;
    if (batch == 1) return offset / leading_dimension < rows && offset % leading_dimension < cols;
    if (stride == 0) return false;  // the matrices are empty
    if (interleaved()) {
      const std::int64_t in_row = offset % leading_dimension;
      return offset / leading_dimension < rows && in_row / stride < batch && in_row % stride < cols;
    }
    const std::int64_t in_matrix = offset % stride;
    return offset / stride < batch && in_matrix / leading_dimension < rows &&
           in_matrix % leading_dimension < cols;
  }
  // Whether the first rows of all matrices come before the second ones.
  HOST_DEVICE bool interleaved() const { return rows > 1 && stride < leading_dimension; }
};

}  // namespace harness
