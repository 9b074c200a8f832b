#pragma once

// What a matrix descriptor says: where the elements of an operand lie.

#include <cstdint>
#include <string>

#include "common/cpu_device/operand.hpp"
#include "common/cpu_device/wgmma.hpp"

namespace cpu_device {

constexpr std::uint32_t chunk_bytes = 16;  // which every layout leaves together

constexpr int terms_of(OperandType type) { return static_cast<int>(32 / bytes_of(type)); }

Operand described(const MatrixDescriptor& d, Major major, OperandType type);
// Why the hardware cannot follow it, "whose stride is no multiple of 16: 1000"; "": it can.
std::string why_wrong(const MatrixDescriptor& d);

// Calls f(where it lies, row, term) for each 16 bytes of an operand with so many rows; they hold elements of
// one row (K-major), or of one term.
template <typename F>
void for_chunks(const Operand& operand, Major major, OperandType type, int rows, F f) {
  const int step = static_cast<int>(chunk_bytes / bytes_of(type));
  const int row_step = major == Major::K ? 1 : step, term_step = major == Major::K ? step : 1;
  for (int row = 0; row < rows; row += row_step) {
    for (int term = 0; term < terms_of(type); term += term_step) f(operand.at(row, term), row, term);
  }
}

}  // namespace cpu_device
