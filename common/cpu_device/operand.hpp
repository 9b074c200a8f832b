#pragma once

// The operands of a matrix instruction, A and B, where and as what they lie in memory.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/cuda/tensor_shape.hpp"

namespace cpu_device {

enum class OperandType : std::uint8_t { tf32, bf16, fp16 };

constexpr std::size_t bytes_of(OperandType type) { return type == OperandType::tf32 ? 4 : 2; }

// What a TF32 operand keeps of a float: 10 bits below the leading one. The rest is cut off.
constexpr std::uint32_t tf32_mask = 0xffffe000;

// The float that an operand's bits, of which it has 16 or 32, stand for; exact.
constexpr std::uint32_t float_bits(OperandType type, std::uint32_t bits) {
  if (type == OperandType::tf32) return bits & tf32_mask;
  if (type == OperandType::bf16) return bits << 16;
  const std::uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return sign | 0x7f800000 | fraction << 13;  // an infinity or a NaN
  if (exponent != 0) return sign | (exponent + 127 - 15) << 23 | fraction << 13;
  return sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
}

// Where an index leads: `pitch` bytes from one to the next, within groups that begin `group_pitch` bytes
// apart.
struct Stride {
  std::ptrdiff_t pitch;
  int group = 1 << 30;  // one group
  std::ptrdiff_t group_pitch = 0;

  constexpr std::ptrdiff_t offset(int i) const {
    if (i < group) return i * pitch;  // saves the divisions
    return i / group * group_pitch + i % group * pitch;
  }
};

// The elements of A [M][K], or of B as [N][K]. Either index may be the one whose elements are neighbours:
// terms (K-major) or rows (MN-major); groups are those of the core matrices that wgmma's descriptors
// describe.
struct Operand {
  const void* data;  // with a swizzle, at a multiple of alignment_of() it
  Stride rows, terms;
  Swizzle swizzle = Swizzle::none;
  std::ptrdiff_t first = 0;  // bytes from `data` to element (0, 0), as if there were no swizzle

  const std::byte* at(int row, int term) const {
    const auto offset = static_cast<std::size_t>(first + rows.offset(row) + terms.offset(term));
    return static_cast<const std::byte*>(data) + swizzled(swizzle, offset);
  }
  // The element's bits as its type has them, in the lower half if these are 16.
  std::uint32_t bits(OperandType type, int row, int term) const {
    return bits_at(type, first + rows.offset(row) + terms.offset(term));
  }
  std::uint32_t bits_at(OperandType type, std::ptrdiff_t offset) const {
    const auto* from =
        static_cast<const std::byte*>(data) + swizzled(swizzle, static_cast<std::size_t>(offset));
    if (type == OperandType::tf32) {
      std::uint32_t bits;
      std::memcpy(&bits, from, sizeof bits);
      return bits;
    }
    std::uint16_t bits;
    std::memcpy(&bits, from, sizeof bits);
    return bits;
  }
};

// Rows side by side in memory, each of K elements.
constexpr Operand rows_of(OperandType type, const void* data, int K) {
  const auto element = static_cast<std::ptrdiff_t>(bytes_of(type));
  return {data, {K * element}, {element}};
}

}  // namespace cpu_device
