#pragma once

// What the tests of tensor copies share on both devices: a batch of matrices, the boxes that are copied out
// of it, and what has to come. Their kernel is in fetch_box.hpp.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/unit/fetch_box.hpp"

// Padding lies between the rows and between the matrices, and a row ends at no multiple of 16 bytes.
struct Batch {
  static constexpr int rows = 37, cols = 42, matrices = 3;
  static constexpr std::int64_t ld = 48, stride = rows * ld + 16;
  static constexpr std::int64_t size = (matrices - 1) * stride + rows * ld;

  // Small enough to be exact as bf16, and never 0.
  static float at(int matrix, int row, int col) {
    return static_cast<float>(1 + (matrix * 101 + row * 37 + col * 5) % 251);
  }
  // As it lies in memory; what belongs to no matrix is NaN.
  template <typename T>
  static std::vector<T> memory() {
    std::vector<T> elements(size, T(std::numeric_limits<float>::quiet_NaN()));
    for (int matrix = 0; matrix < matrices; ++matrix) {
      for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) {
          elements[matrix * stride + row * ld + col] = T(at(matrix, row, col));
        }
      }
    }
    return elements;
  }
};

struct BoxSize {
  int rows, cols;
  int elements() const { return rows * cols; }
};
inline const std::vector<BoxSize> box_sizes{{8, 16}, {1, 8}, {3, 24}, {64, 64}, {256, 8}, {8, 256}};

// Inside, across each edge, right beside it, far away; and in matrices that do not exist.
inline std::vector<Box> boxes(const BoxSize& size) {
  std::vector<Box> all{{0, 0, Batch::matrices}, {0, 0, -1}};
  for (const int row : {0, 5, 33, 36, 37, -1, 1 - size.rows, -size.rows, 1'000'000'000, -1'000'000'000}) {
    for (const int col : {0, 8, 40, 48, -8, 8 - size.cols, -size.cols, 1'000'000'000, -1'000'000'000}) {
      for (const int matrix : {0, 2}) all.push_back({row, col, matrix});
    }
  }
  return all;
}

// Those that can be stored: none begins before the matrix.
inline std::vector<Box> stored_boxes(const BoxSize& size) {
  std::vector<Box> all = boxes(size);
  std::erase_if(all, [](const Box& box) { return box.row < 0 || box.col < 0 || box.matrix < 0; });
  return all;
}

// What has to lie in shared memory after the copy. Without a stride all matrices are the first one.
inline std::vector<float> expected(const BoxSize& size, const Box& box, bool has_stride = true) {
  const auto inside = [](std::int64_t index, int extent) { return index >= 0 && index < extent; };
  std::vector<float> elements;
  for (std::int64_t i = 0; i < size.rows; ++i) {
    for (std::int64_t j = 0; j < size.cols; ++j) {
      const std::int64_t row = box.row + i, col = box.col + j;
      elements.push_back(
          inside(row, Batch::rows) && inside(col, Batch::cols) && inside(box.matrix, Batch::matrices)
              ? Batch::at(has_stride ? box.matrix : 0, static_cast<int>(row), static_cast<int>(col))
              : 0.0f);
    }
  }
  return elements;
}

// The bits of a float, and of the TF32 number that a copy with Convert::to_tf32 makes of it.
struct Rounded {
  std::uint32_t from, to;
};
inline const std::vector<Rounded> roundings{
    {0x00000000, 0x00000000}, {0x80000000, 0x80000000}, {0x3f800000, 0x3f800000},
    {0x3f800fff, 0x3f800000}, {0x3f801000, 0x3f800000}, {0x3f801001, 0x3f802000},  // around a tie
    {0x3f802fff, 0x3f802000}, {0x3f803000, 0x3f804000}, {0x3f803001, 0x3f804000},
    {0xc0801000, 0xc0800000}, {0xc0803000, 0xc0804000}, {0x3fffffff, 0x40000000},
    {0x7f7fefff, 0x7f7fe000}, {0x7f7ff000, 0x7f800000}, {0xff7fffff, 0xff800000},  // too large for TF32
    {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000},                            // infinite
    {0x7fc00000, 0x7fffe000}, {0x7fffffff, 0x7fffe000}, {0xffc12345, 0x7fffe000},  // NaN
    {0x7f800001, 0x7fffe000}, {0x7f801fff, 0x7fffe000}, {0x7f802000, 0x7fffe000},
    {0x00000001, 0x00000000}, {0x00000fff, 0x00000000}, {0x00001000, 0x00000000},  // subnormal
    {0x00001001, 0x00002000}, {0x80003000, 0x80004000}, {0x007fffff, 0x00800000},
};

inline constexpr Swizzle all_swizzles[] = {Swizzle::none, Swizzle::of_32_bytes, Swizzle::of_64_bytes,
                                           Swizzle::of_128_bytes};

// 16 lines of 128 bytes, copied as one box whose rows are the bytes that the swizzle is about.
struct Lines {
  static constexpr int size = 512;
  static int cols(Swizzle swizzle) {
    return swizzle == Swizzle::of_32_bytes ? 8 : swizzle == Swizzle::of_64_bytes ? 16 : 32;
  }
  static int rows(Swizzle swizzle) { return size / cols(swizzle); }

  static const Rounded& at(int i) { return roundings[i * 7 % roundings.size()]; }
  static std::vector<float> memory() {
    std::vector<float> elements;
    for (int i = 0; i < size; ++i) elements.push_back(std::bit_cast<float>(at(i).from));
    return elements;
  }
  // Where element i lies in shared memory, from a multiple of 1024 bytes on. A group of 16 bytes is 4
  // elements.
  static int place(Swizzle swizzle, int i) {
    const int line = i / 32;
    if (swizzle == Swizzle::of_32_bytes) return i ^ line % 2 * 4;
    if (swizzle == Swizzle::of_64_bytes) return i ^ line % 4 * 4;
    if (swizzle == Swizzle::of_128_bytes) return i ^ line % 8 * 4;
    return i;
  }
  static std::vector<std::uint32_t> expected(Swizzle swizzle, Convert convert) {
    std::vector<std::uint32_t> elements(size);
    for (int i = 0; i < size; ++i) {
      elements[place(swizzle, i)] = convert == Convert::nothing ? at(i).from : at(i).to;
    }
    return elements;
  }
};
