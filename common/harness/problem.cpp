#include "common/harness/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/harness/error.hpp"

namespace harness {

namespace {

// The command line turns every number that is too large into the largest one.
std::string as_typed(std::int64_t number) {
  if (number == std::numeric_limits<std::int64_t>::max()) return "2^63 - 1 or more";
  if (number == std::numeric_limits<std::int64_t>::min()) return "-2^63 or less";
  return fmt::format("{}", number);
}

// Fills in and checks one leading dimension; `lines` rows (columns) of `length` elements.
std::int64_t leading_dimension(const char* option, std::int64_t given, std::int64_t length,
                               std::int64_t lines, std::int64_t batch) {
  if (given < 0) throw InputError(fmt::format("{} is {}; it cannot be negative", option, as_typed(given)));
  if (given == 0) given = std::max<std::int64_t>(length, 1);
  if (given < length) {
    throw InputError(
        fmt::format("{} is {}, below the line length {}; give at least {}", option, given, length, length));
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(lines, given, &bytes) || __builtin_mul_overflow(bytes, batch, &bytes) ||
      __builtin_mul_overflow(bytes, std::int64_t{64}, &bytes)) {
    throw InputError(
        fmt::format("a matrix of {} x {} elements, {} times, does not fit an address space; "
                    "make the sizes or {} smaller",
                    lines, as_typed(given), batch, option));
  }
  return given;
}

// Fills in and checks one stride.
std::int64_t batch_stride(const char* option, const std::optional<std::int64_t>& given, std::int64_t length,
                          std::int64_t lines, std::int64_t ld, std::int64_t batch, bool written) {
  if (!given) return lines * ld;
  const std::int64_t stride = *given;
  if (stride < 0) throw InputError(fmt::format("{} is {}; it cannot be negative", option, as_typed(stride)));
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(stride, std::max<std::int64_t>(batch, 1), &bytes) ||
      __builtin_add_overflow(bytes, lines * ld, &bytes) ||
      __builtin_mul_overflow(bytes, std::int64_t{64}, &bytes)) {
    throw InputError(
        fmt::format("{} matrices, {} elements apart, do not fit an address space; make {} smaller", batch,
                    as_typed(stride), option));
  }
  if (batch <= 1 || lines == 0 || length == 0 || (stride == 0 && !written)) return stride;
  const std::int64_t span = (lines - 1) * ld + length;  // of one matrix
  const bool interleaved = stride >= length && (batch - 1) * stride + length <= ld;
  if (stride < span && !interleaved) {
    throw InputError(fmt::format("{} is {}, at which the matrices of the batch overlap; give at least {}{}",
                                 option, stride, span, written ? "" : ", or 0 for one matrix"));
  }
  return stride;
}

const void* from_null(std::int64_t elements, std::size_t element_bytes) {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(elements) * element_bytes);
}

}  // namespace

void check_size(const char* option, std::int64_t size, std::int64_t limit) {
  if (size < 0) throw InputError(fmt::format("{} is {}; a size cannot be negative", option, as_typed(size)));
  if (size > limit) {
    throw InputError(
        fmt::format("{} is {}, which is too large; the limit is {}", option, as_typed(size), limit));
  }
}

Problem checked(Problem p) {
  check_size("--m", p.m, max_dimension);
  check_size("--n", p.n, max_dimension);
  check_size("--k", p.k, max_dimension);
  check_size("--batch", p.batch, max_batch);
  const bool rows = p.layout == Layout::row_major;
  p.lda = leading_dimension("--lda", p.lda, rows ? p.k : p.m, rows ? p.m : p.k, p.batch);
  p.ldb = leading_dimension("--ldb", p.ldb, rows ? p.n : p.k, rows ? p.k : p.n, p.batch);
  p.ldc = leading_dimension("--ldc", p.ldc, rows ? p.n : p.m, rows ? p.m : p.n, p.batch);
  p.stride_a =
      batch_stride("--stride-a", p.stride_a, rows ? p.k : p.m, rows ? p.m : p.k, p.lda, p.batch, false);
  p.stride_b =
      batch_stride("--stride-b", p.stride_b, rows ? p.n : p.k, rows ? p.k : p.n, p.ldb, p.batch, false);
  p.stride_c =
      batch_stride("--stride-c", p.stride_c, rows ? p.n : p.m, rows ? p.m : p.n, p.ldc, p.batch, true);
  check_size("--offset-a", p.offset_a, max_offset);
  check_size("--offset-b", p.offset_b, max_offset);
  check_size("--offset-c", p.offset_c, max_offset);
  return p;
}

AnyGemm to_row_major(const Problem& p, Input input) {
  AnyGemm g;
  g.input = input;
  const bool swap = p.layout == Layout::column_major;
  g.M = static_cast<int>(swap ? p.n : p.m);
  g.N = static_cast<int>(swap ? p.m : p.n);
  g.K = static_cast<int>(p.k);
  g.batch = static_cast<int>(p.batch);
  g.alpha = p.alpha;
  g.beta = p.beta;
  g.lda = swap ? p.ldb : p.lda;
  g.ldb = swap ? p.lda : p.ldb;
  g.ldc = p.ldc;
  g.strideA = (swap ? p.stride_b : p.stride_a).value_or(g.M * g.lda);
  g.strideB = (swap ? p.stride_a : p.stride_b).value_or(g.K * g.ldb);
  g.strideC = p.stride_c.value_or(g.M * g.ldc);
  g.A = from_null(swap ? p.offset_b : p.offset_a, g.element_bytes());
  g.B = from_null(swap ? p.offset_a : p.offset_b, g.element_bytes());
  g.C = static_cast<float*>(const_cast<void*>(from_null(p.offset_c, sizeof(float))));
  return g;
}

Extent extent_a(const AnyGemm& g) {
  return {g.M, g.K, g.lda, g.strideA == 0 ? std::min(g.batch, 1) : g.batch, g.strideA};
}
Extent extent_b(const AnyGemm& g) {
  return {g.K, g.N, g.ldb, g.strideB == 0 ? std::min(g.batch, 1) : g.batch, g.strideB};
}
Extent extent_c(const AnyGemm& g) { return {g.M, g.N, g.ldc, g.batch, g.strideC}; }

std::string to_string(const Problem& p) {
  const bool rows = p.layout == Layout::row_major;
  std::string text = fmt::format("{} x {} x {}", p.m, p.n, p.k);
  if (p.batch != 1) text += fmt::format(" batch {}", p.batch);
  const auto unusual = [](std::int64_t ld, std::int64_t length) {
    return ld != std::max<std::int64_t>(length, 1);
  };
  if (unusual(p.lda, rows ? p.k : p.m)) text += fmt::format(" lda {}", p.lda);
  if (unusual(p.ldb, rows ? p.n : p.k)) text += fmt::format(" ldb {}", p.ldb);
  if (unusual(p.ldc, rows ? p.n : p.m)) text += fmt::format(" ldc {}", p.ldc);
  const auto add_stride = [&](const char* name, const std::optional<std::int64_t>& stride,
                              std::int64_t usual) {
    if (p.batch > 1 && stride && *stride != usual) text += fmt::format(" {} {}", name, *stride);
  };
  add_stride("stride-a", p.stride_a, (rows ? p.m : p.k) * p.lda);
  add_stride("stride-b", p.stride_b, (rows ? p.k : p.n) * p.ldb);
  add_stride("stride-c", p.stride_c, (rows ? p.m : p.n) * p.ldc);
  if (p.offset_a != 0) text += fmt::format(" offset-a {}", p.offset_a);
  if (p.offset_b != 0) text += fmt::format(" offset-b {}", p.offset_b);
  if (p.offset_c != 0) text += fmt::format(" offset-c {}", p.offset_c);
  if (p.alpha != 1.0f) text += fmt::format(" alpha {}", p.alpha);
  if (p.beta != 0.0f) text += fmt::format(" beta {}", p.beta);
  if (!rows) text += " col";
  return text;
}

}  // namespace harness
