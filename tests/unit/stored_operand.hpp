#pragma once

// What the tests of tensor cores share.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "common/cpu_device/tensor_core.hpp"

namespace {

using cpu_device::Operand;
using cpu_device::OperandType;
using cpu_device::TensorCoreArithmetic;
using Bits = std::uint32_t;

// The first products; the others are zero.
[[maybe_unused]] float sum_of(const TensorCoreArithmetic& model,
                              const std::vector<std::pair<float, float>>& products, float c,
                              std::size_t K = 8) {
  std::vector<Bits> a(K), b(K);
  for (std::size_t k = 0; k < products.size(); ++k) {
    a[k] = std::bit_cast<Bits>(products[k].first);
    b[k] = std::bit_cast<Bits>(products[k].second);
  }
  return multiply_add(model, a, b, c);
}

// An operand of any type: its bits, in memory as that type has them.
class Stored {
 public:
  Stored(OperandType type, std::size_t size) : type_(type), bytes_(size * bytes_of(type)) {}
  void set(std::size_t i, Bits bits) {
    std::memcpy(bytes_.data() + i * bytes_of(type_), &bits, bytes_of(type_));
  }
  Bits get(std::size_t i) const {
    Bits bits = 0;
    std::memcpy(&bits, bytes_.data() + i * bytes_of(type_), bytes_of(type_));
    return bits;
  }
  const void* data() const { return bytes_.data(); }
  // Row i of [...][K], as floats.
  std::vector<Bits> floats(int i, int K) const {
    std::vector<Bits> row;
    for (int k = 0; k < K; ++k)
      row.push_back(float_bits(type_, get(static_cast<std::size_t>(i) * static_cast<std::size_t>(K) +
                                          static_cast<std::size_t>(k))));
    return row;
  }

 private:
  OperandType type_;
  std::vector<std::byte> bytes_;
};

constexpr OperandType all_types[] = {OperandType::tf32, OperandType::bf16, OperandType::fp16};

}  // namespace
