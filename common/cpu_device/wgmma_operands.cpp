#include "common/cpu_device/wgmma_operands.hpp"

#include <fmt/format.h>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/observe.hpp"

namespace cpu_device {

// matrix_descriptor.hpp says what the distances mean.
Operand described(const MatrixDescriptor& d, Major major, OperandType type) {
  const auto element = static_cast<std::ptrdiff_t>(bytes_of(type));
  const auto line =
      static_cast<std::ptrdiff_t>(d.swizzle == Swizzle::none ? chunk_bytes : bytes_of(d.swizzle));
  const auto of_line = static_cast<int>(line / element);  // elements
  const std::ptrdiff_t leading = d.leading, stride = d.stride;
  const auto shift =
      static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(d.begin) % alignment_of(d.swizzle));
  const bool plain = d.swizzle == Swizzle::none;
  Operand operand{d.begin - shift, {}, {}, d.swizzle, shift};
  if (major == Major::K) {
    operand.rows = {line, 8, stride};
    operand.terms = plain ? Stride{element, of_line, leading} : Stride{element};
  } else {
    operand.rows = {element, of_line, plain ? stride : leading};
    operand.terms = {line, 8, plain ? leading : stride};
  }
  return operand;
}

std::string why_wrong(const MatrixDescriptor& d) {
  if (find_shared(d.begin, 1).block != current_block)
    return "that does not begin in this block's shared memory";
  const auto begin = reinterpret_cast<std::uintptr_t>(d.begin);
  if (begin % chunk_bytes != 0) return "that begins at an address that is no multiple of 16";
  if (d.leading % chunk_bytes != 0) {
    return fmt::format("whose leading distance is no multiple of 16: {}", d.leading);
  }
  if (d.stride % chunk_bytes != 0) return fmt::format("whose stride is no multiple of 16: {}", d.stride);
  constexpr unsigned end = 1 << 18;
  if (d.leading >= end || d.stride >= end) return "with a distance that is not below 2^18";
  const unsigned line = bytes_of(d.swizzle), atom = alignment_of(d.swizzle);
  if (line == 0 || begin % atom < line) return "";
  return fmt::format(
      "that begins {} bytes behind a multiple of {}, where the swizzle of {} bytes begins anew, and so "
      "not in the first of its eight lines",
      begin % atom, atom, line);
}

}  // namespace cpu_device
