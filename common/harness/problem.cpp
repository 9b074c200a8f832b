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
  g.strideA = g.M * g.lda;
  g.strideB = g.K * g.ldb;
  g.strideC = g.M * g.ldc;
  return g;
}

Extent extent_a(const AnyGemm& g) { return {g.M, g.K, g.lda, g.batch, g.strideA}; }
Extent extent_b(const AnyGemm& g) { return {g.K, g.N, g.ldb, g.batch, g.strideB}; }
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
  if (p.alpha != 1.0f) text += fmt::format(" alpha {}", p.alpha);
  if (p.beta != 0.0f) text += fmt::format(" beta {}", p.beta);
  if (!rows) text += " col";
  return text;
}

}  // namespace harness
