#pragma once

// What a tensor map says (tensor_copy.hpp), and what the hardware wants of it. CUDA Driver API,
// "cuTensorMapEncodeTiled".

#include <cinttypes>
#include <cstddef>
#include <cstdint>

#include "common/formatted_error.hpp"
#include "common/host_device.hpp"

// How the rows of a box lie in shared memory. A swizzle permutes groups of 16 bytes within spans of 32, 64 or
// 128 bytes, each of which holds a row of the box: what would lie in group g of a span lies in group g XOR
// the number of the span's 128-byte line, modulo the groups in a span. PTX ISA, "Tensors: Swizzling Modes".
enum class Swizzle { none, of_32_bytes, of_64_bytes, of_128_bytes };

// The bytes within which groups change places; 0 without a swizzle.
HOST_DEVICE constexpr unsigned bytes_of(Swizzle swizzle) {
  return swizzle == Swizzle::of_128_bytes  ? 128
         : swizzle == Swizzle::of_64_bytes ? 64
         : swizzle == Swizzle::of_32_bytes ? 32
                                           : 0;
}

// The alignment of a box in shared memory, in bytes. With a swizzle, the period of its pattern: in a tile
// that begins elsewhere, only address arithmetic finds the elements.
HOST_DEVICE constexpr unsigned alignment_of(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 128 : 8 * bytes_of(swizzle);
}

// Where byte number `byte` lies, counted from a multiple of alignment_of(swizzle): bits 4 to 6 are flipped
// where bits 7 to 9 are set; with 64 bytes bits 4 and 5 by 7 and 8; with 32 bit 4 by bit 7.
HOST_DEVICE constexpr std::size_t swizzled(Swizzle swizzle, std::size_t byte) {
  return swizzle == Swizzle::none ? byte : byte ^ (byte >> 3 & (bytes_of(swizzle) - 16));
}

// What becomes of floats on their way.
enum class Convert {
  nothing,
  to_tf32,  // the nearest TF32 number; of two equally near ones that whose last bit is zero; NaN: 0x7fffe000
};

// How much of a row comes into the L2 at least, where a copy reads a piece of it.
enum class Fetch {
  as_rows_lie,  // 256 bytes, but 128, a line of the L2, where rows do not begin at lines
  of_128_bytes,
  of_256_bytes,
};

// A batch of row-major matrices, and the box that a copy takes out of one of them. Sizes are in elements.
struct TensorShape {
  const void* matrix;
  unsigned element_bytes;
  int rows, cols;
  std::int64_t ld;
  int batch;
  std::int64_t stride;  // from matrix to matrix; of a single one it may be anything
  int box_rows, box_cols;
  Swizzle swizzle = Swizzle::none;
  Convert convert = Convert::nothing;

  bool empty() const { return rows == 0 || cols == 0 || batch == 0; }
  std::int64_t row_pitch() const { return ld * element_bytes; }  // bytes, as is the next
  std::int64_t matrix_pitch() const { return batch > 1 ? stride * element_bytes : row_pitch(); }
};

using ImpossibleTensor = FormattedError<struct OfTensorShape>;

// Throws ImpossibleTensor, with the rule that is broken, if the hardware cannot copy like this.
inline void check_tensor_shape(const TensorShape& t) {
  constexpr int unit = 16;  // bytes
  constexpr int largest_side = 256;
  constexpr std::int64_t pitch_end = std::int64_t{1} << 40;
  const auto check_pitch = [&](const char* what, std::int64_t pitch) {
    const char* rule = pitch < 0                              ? "is negative"
                       : pitch >= pitch_end / t.element_bytes ? "is not below 2^40 bytes"
                       : pitch * t.element_bytes % unit != 0  ? "is no multiple of 16 bytes"
                                                              : nullptr;
    if (rule == nullptr) return;
    throw ImpossibleTensor("tensor map: the %s, %" PRId64 " elements of %u bytes, %s", what, pitch,
                           t.element_bytes, rule);
  };

  if (t.rows < 0 || t.cols < 0 || t.batch < 0) {
    throw ImpossibleTensor("tensor map: a size is negative: %d x %d, batch %d", t.rows, t.cols, t.batch);
  }
  if (t.box_rows < 1 || t.box_cols < 1 || t.box_rows > largest_side || t.box_cols > largest_side) {
    throw ImpossibleTensor("tensor map: the box is %d x %d; each side can be 1 to 256", t.box_rows,
                           t.box_cols);
  }
  if (t.box_cols * t.element_bytes % unit != 0) {
    throw ImpossibleTensor(
        "tensor map: a row of the box, %d elements of %u bytes, is no multiple of 16 bytes", t.box_cols,
        t.element_bytes);
  }
  if (const unsigned bytes = bytes_of(t.swizzle); bytes != 0 && t.box_cols * t.element_bytes != bytes) {
    throw ImpossibleTensor(
        "tensor map: a row of the box, %d elements of %u bytes, does not have the %u bytes that are swizzled",
        t.box_cols, t.element_bytes, bytes);
  }
  if (t.convert == Convert::to_tf32 && t.element_bytes != sizeof(float)) {
    throw ImpossibleTensor("tensor map: elements of %u bytes cannot be rounded to TF32, which are floats",
                           t.element_bytes);
  }
  if (t.empty()) return;  // of the matrix nothing will be read
  if (const auto address = reinterpret_cast<std::uintptr_t>(t.matrix); address % unit != 0) {
    throw ImpossibleTensor("tensor map: the address 0x%" PRIxPTR " is no multiple of 16 bytes", address);
  }
  check_pitch("leading dimension", t.ld);
  if (t.batch > 1) check_pitch("stride of the batch", t.stride);
}
