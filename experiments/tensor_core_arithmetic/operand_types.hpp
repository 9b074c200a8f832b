#pragma once

// The instructions that are asked, and the types of their operands, which are floats here whatever the type.

#include <bit>
#include <cstdint>

#include "common/cpu_device/tensor_core.hpp"
#include "common/cuda/fragments.hpp"

namespace tensor_core_arithmetic {

using cpu_device::OperandType;
using cpu_device::TensorCoreArithmetic;
using Bits = std::uint32_t;

constexpr int N = 8;  // columns, of all

struct Type {
  const char* name;
  OperandType operand;
  bool by_warpgroup;  // wgmma, not mma.sync
  int M, K;
  int fraction_bits;  // of an operand
  Bits mask;          // of an operand's bits as a float's, that it has
};
constexpr Type tf32{"tf32", OperandType::tf32, false, 16, MmaTf32Shape::K, 10, cpu_device::tf32_mask};
constexpr Type bf16_type{"bf16", OperandType::bf16, false, 16, MmaBf16Shape::K, 7, 0xffff0000};
constexpr Type wgmma_tf32_type{"wgmma_tf32", OperandType::tf32, true, 64, 8, 10, cpu_device::tf32_mask};
constexpr Type wgmma_bf16_type{"wgmma_bf16", OperandType::bf16, true, 64, 16, 7, 0xffff0000};
constexpr Type wgmma_fp16_type{"wgmma_fp16", OperandType::fp16, true, 64, 16, 10, cpu_device::tf32_mask};

// A float's bits as the type has them; what it does not have is cut off.
HOST_DEVICE Bits in_memory(OperandType type, Bits bits) {
  if (type == OperandType::tf32) return bits;
  if (type == OperandType::bf16) return bits >> 16;
  const Bits sign = bits >> 16 & 0x8000, fraction = bits >> 13 & 0x3ff;
  const int exponent = static_cast<int>(bits >> 23 & 255) - 127;
  if (exponent == 128) return sign | 0x7c00 | fraction;  // an infinity or a NaN
  if (exponent > 15) return sign | 0x7bff;
  if (exponent < -24) return sign;
  if (exponent < -14) return sign | (0x400 | fraction) >> (-14 - exponent);
  return sign | static_cast<Bits>(exponent + 15) << 10 | fraction;
}

// A number of that type, as a float's bits.
inline Bits fitted(const Type& type, Bits bits) {
  return type.operand == OperandType::fp16
             ? cpu_device::float_bits(OperandType::fp16, in_memory(type.operand, bits))
             : bits & type.mask;
}

}  // namespace tensor_core_arithmetic
