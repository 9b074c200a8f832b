#pragma once

// What has to lie in memory after a tile has been stored as a box (store_right.hpp), on both devices.

#include <cstring>

#include "tests/unit/boxes.hpp"

// Where a stored row ends: the first multiple of 16 bytes that is not before its last column.
template <typename T>
constexpr int stored_cols = (Batch::cols + 16 / sizeof(T) - 1) / (16 / sizeof(T)) * (16 / sizeof(T));

// Changes memory, which is Batch::memory() before, as the store does.
template <typename T>
void store_expected(std::vector<T>& memory, const BoxSize& size, const Box& box) {
  const auto inside = [](std::int64_t index, int extent) { return index >= 0 && index < extent; };
  for (std::int64_t i = 0; i < size.rows; ++i) {
    for (std::int64_t j = 0; j < size.cols; ++j) {
      const std::int64_t row = box.row + i, col = box.col + j;
      if (!inside(row, Batch::rows) || !inside(col, stored_cols<T>) || !inside(box.matrix, Batch::matrices)) {
        continue;
      }
      memory[box.matrix * Batch::stride + row * Batch::ld + col] =
          T(static_cast<float>(1 + (i * size.cols + j) % 251));
    }
  }
}

// The same bits, also where both are NaN.
template <typename T>
bool same_memory(const std::vector<T>& a, const T* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(T)) == 0;
}

// The bits of the matrix after lines of the same content have been stored.
inline std::vector<std::uint32_t> stored_lines(Swizzle swizzle, Convert) {
  std::vector<std::uint32_t> elements;
  for (int i = 0; i < Lines::size; ++i) elements.push_back(Lines::at(Lines::place(swizzle, i)).from);
  return elements;
}
