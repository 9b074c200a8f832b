#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/harness/entry.hpp"
#include "common/harness/extent.hpp"

namespace harness {

enum class Layout { row_major, column_major };

// One product as the user asks for it: C = alpha * A * B + beta * C, A m x k, B k x n, C m x n.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // 0: dense
  float alpha = 1.0f, beta = 0.0f;
  Layout layout = Layout::row_major;
  // From one matrix of the batch to the next; without a value: rows (columns) times leading dimension. 0: one
  // A or B for the whole batch.
  std::optional<std::int64_t> stride_a = {}, stride_b = {}, stride_c = {};
  std::int64_t offset_a = 0, offset_b = 0, offset_c = 0;  // elements from a multiple of 256 bytes
};

// Kernels have int sizes, and a tile that reaches past the edge must not overflow.
constexpr std::int64_t max_dimension = std::int64_t{1} << 30;
constexpr std::int64_t max_batch = std::int64_t{1} << 20;
constexpr std::int64_t max_offset = 4095;

// Fills in missing leading dimensions (dense) and strides, and checks everything that does not depend on a
// device. Throws InputError for negative or absurd sizes, a leading dimension below the row (or column)
// length, a stride at which the matrices of a batch overlap, and a matrix whose size in bytes does not fit 63
// bits.
Problem checked(Problem problem);

// Throws an InputError that names the option unless 0 <= size <= limit.
void check_size(const char* option, std::int64_t size, std::int64_t limit = max_dimension);

// The problem as the steps see it, with inputs of this type. In place of pointers there are the offsets, in
// bytes from a null pointer: what steps decide by the alignment, they decide by these. A column-major product
// is the row-major product of the exchanged operands: C^T = B^T A^T, and the transpose of a column-major
// matrix is the same memory, read row by row.
AnyGemm to_row_major(const Problem& problem, Input input);

// Of an A or B that the whole batch shares: of one matrix.
Extent extent_a(const AnyGemm& gemm);
Extent extent_b(const AnyGemm& gemm);
Extent extent_c(const AnyGemm& gemm);

// "4096 x 4096 x 4096", and whatever is unusual: batch, leading dimensions, strides, offsets, alpha, beta,
// layout.
std::string to_string(const Problem& problem);

}  // namespace harness
