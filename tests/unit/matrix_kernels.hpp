#pragma once

// The kernels of matrix_test.cpp, which use mma and ldmatrix. Compiled twice, plain and observed, as a step's
// kernel is.

#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mma.hpp"
#include "common/step.hpp"

// x and y are the kernel's business, and so is n.
using MatrixKernel = void (*)(float* x, float* y, int n);

struct MatrixKernels {
  // Right ones.
  MatrixKernel product_tf32, product_bf16, product_cut_off, matrices, matrices_trans, rows_of_others;
  // Wrong ones.
  MatrixKernel mma_of_some, mma_elsewhere, unrounded, unrounded_b, ldmatrix_of_some, misaligned, outside,
      not_shared, unwritten, race;
};

extern const MatrixKernels plain_matrix_kernels, observed_matrix_kernels;
