#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.hpp"

namespace harness {

// How a batch of matrices lies in a buffer, row-major.
struct Extent {
  std::int64_t rows = 0, cols = 0, leading_dimension = 0, batch = 0, stride = 0;

  // What the buffer has to hold, the ends of the rows among it.
  std::size_t elements() const { return static_cast<std::size_t>(batch * stride); }
  HOST_DEVICE std::int64_t lines() const { return batch * rows; }
  // Where line number `line` of all the batch's rows begins.
  HOST_DEVICE std::int64_t offset_of_line(std::int64_t line) const {
    return line / rows * stride + line % rows * leading_dimension;
  }
  // Whether an element of a matrix lies there, and not the gap behind a row or something outside.
  HOST_DEVICE bool holds(std::int64_t offset) const {
    return offset >= 0 && stride > 0 && offset / stride < batch &&
           offset % stride / leading_dimension < rows && offset % stride % leading_dimension < cols;
  }
};

}  // namespace harness
