#pragma once

// Which lane of a warp holds which element of the matrices of a warp-wide instruction: the maps of the PTX
// ISA, "Warp Level Matrix Instructions: Matrix Fragments for mma.m16n8k8" and "... for mma.m16n8k16", and of
// "ldmatrix". Functions of the lane (0 to 31) and the element's number in the lane's registers; for tests,
// pictures and the CPU device. A kernel seldom needs them: it has the formula where it loads.

#include "common/host_device.hpp"

struct Place {
  int row, col;
  constexpr bool operator==(const Place&) const = default;
};

// C and D [16][8] in four registers; of both shapes below. Rows lane/4 and lane/4 + 8, two neighbours in
// each.
HOST_DEVICE constexpr Place accumulator_place(int lane, int i) {
  return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
}

// mma.m16n8k8 of TF32: one element in each register.
struct MmaTf32Shape {
  static constexpr int M = 16, N = 8, K = 8;
  static constexpr int a_elements = 4, b_elements = 2, c_elements = 4;  // of a lane
  static constexpr int packed = 1;                                      // elements of A, B in a register

  // A [16][8]: rows lane/4 and + 8, columns lane%4 and + 4; the rows change first.
  static HOST_DEVICE constexpr Place a(int lane, int i) {
    return {lane / 4 + i % 2 * 8, lane % 4 + i / 2 * 4};
  }
  // B [8][8]: rows (k) lane%4 and + 4, column lane/4.
  static HOST_DEVICE constexpr Place b(int lane, int i) { return {lane % 4 + i * 4, lane / 4}; }
  static HOST_DEVICE constexpr Place c(int lane, int i) { return accumulator_place(lane, i); }
};

// mma.m16n8k16 of BF16: two elements in each register, that with the even number in the lower half.
struct MmaBf16Shape {
  static constexpr int M = 16, N = 8, K = 16;
  static constexpr int a_elements = 8, b_elements = 4, c_elements = 4;  // of a lane
  static constexpr int packed = 2;                                      // elements of A, B in a register

  // A [16][16]: rows lane/4 and + 8, columns lane%4*2 and its neighbour, and both + 8; neighbours change
  // first, then the rows.
  static HOST_DEVICE constexpr Place a(int lane, int i) {
    return {lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8};
  }
  // B [16][8]: rows (k) lane%4*2 and its neighbour, and both + 8; column lane/4.
  static HOST_DEVICE constexpr Place b(int lane, int i) {
    return {lane % 4 * 2 + i % 2 + i / 2 * 8, lane / 4};
  }
  static HOST_DEVICE constexpr Place c(int lane, int i) { return accumulator_place(lane, i); }
};

// ldmatrix: an 8x8 matrix of 16-bit elements in one register of each lane, element 0 in the lower half. Of a
// matrix of 32-bit elements [8][4] the register is one element, at row lane/4, column lane%4.
HOST_DEVICE constexpr Place ldmatrix_place(int lane, int i) { return {lane / 4, lane % 4 * 2 + i}; }
// With .trans: what lies at (row, col) in memory goes where (col, row) would have gone.
HOST_DEVICE constexpr Place ldmatrix_trans_place(int lane, int i) { return {lane % 4 * 2 + i, lane / 4}; }
// Whose address is that of a row (0 to 7) of matrix number `matrix` (0 to 3).
HOST_DEVICE constexpr int ldmatrix_address_lane(int matrix, int row) { return matrix * 8 + row; }
