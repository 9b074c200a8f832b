// What the 32 lanes of a warp do with matrices: mma and ldmatrix.

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/report.hpp"
#include "common/cpu_device/tensor_core.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mma.hpp"

namespace cpu_device {

namespace {

constexpr unsigned all_lanes = 0xffffffff;

// ---- mma -------------------------------------------------------------------------------------------------

struct MmaOperand {  // of a lane
  float* d;
  const std::uint32_t *a, *b;
  bool unrounded;  // on purpose
};

// Element i of the fragment in these registers.
template <typename T>
T element(const std::uint32_t* registers, int i) {
  constexpr int packed = sizeof(std::uint32_t) / sizeof(T);  // in a register
  return static_cast<T>(registers[i / packed] >> 8 * sizeof(T) * (i % packed));
}

// A NaN is not a question of rounding: it may stand for what was never written, which is reported elsewhere.
bool is_unrounded(std::uint32_t bits) {
  return (bits & ~tf32_mask) != 0 && (bits & 0x7f800000) != 0x7f800000;
}

void report_unrounded(Block& block, const Rendezvous& r, unsigned lane, char matrix, Place at, int i,
                      std::uint32_t bits) {
  if (reported_before(FaultKind::unrounded_operand, r.pc(lane))) return;
  report(FaultKind::unrounded_operand, r.pc(lane),
         fmt::format(
             "brings {}[{}][{}] = {:.9g} in register {}, which has more bits than TF32: to_tf32() rounds "
             "it, and Unrounded::cut_off says that it is meant",
             matrix, at.row, at.col, std::bit_cast<float>(bits), i),
         block, r.thread(lane));
}

// T: an element of A and B, as bits.
template <typename Shape, OperandType TYPE, typename T>
void multiply(Block& block, Rendezvous& r) {
  static_assert(sizeof(T) == bytes_of(TYPE));
  std::array<std::array<T, Shape::K>, Shape::M> a;
  std::array<std::array<T, Shape::K>, Shape::N> b;  // each row is a column of B
  std::array<std::array<float, Shape::N>, Shape::M> d;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const MmaOperand*>(r.operand(lane));
    const int l = static_cast<int>(lane);
    const auto take = [&](char matrix, Place at, const std::uint32_t* registers, int i) {
      const T bits = element<T>(registers, i);
      if (TYPE == OperandType::tf32 && !operand.unrounded && is_unrounded(bits)) {
        report_unrounded(block, r, lane, matrix, at, i, bits);
      }
      return bits;
    };
    for (int i = 0; i < Shape::a_elements; ++i) {
      const Place at = Shape::a(l, i);
      a[at.row][at.col] = take('A', at, operand.a, i);
    }
    for (int i = 0; i < Shape::b_elements; ++i) {
      const Place at = Shape::b(l, i);
      b[at.col][at.row] = take('B', at, operand.b, i);
    }
    for (int i = 0; i < Shape::c_elements; ++i) {
      const Place at = Shape::c(l, i);
      d[at.row][at.col] = operand.d[i];
    }
  }
  multiply_add(arithmetic_of(TYPE), TYPE, Shape::M, Shape::N, Shape::K, rows_of(TYPE, a.data(), Shape::K),
               rows_of(TYPE, b.data(), Shape::K), d[0].data());
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const MmaOperand*>(r.operand(lane));
    for (int i = 0; i < Shape::c_elements; ++i) {
      const Place at = Shape::c(static_cast<int>(lane), i);
      operand.d[i] = d[at.row][at.col];
    }
  }
}

constexpr Collective mma_of_tf32{"mma_tf32", true, false,
                                 multiply<MmaTf32Shape, OperandType::tf32, std::uint32_t>};
constexpr Collective mma_of_bf16{"mma_bf16", true, false,
                                 multiply<MmaBf16Shape, OperandType::bf16, std::uint16_t>};

// ---- ldmatrix --------------------------------------------------------------------------------------------

constexpr int rows_of_matrix = 8;
constexpr unsigned row_bytes = 16;

struct LoadOperand {  // of a lane
  std::uint32_t* registers;
  const void* row;
};

using MatrixRow = std::array<std::uint16_t, row_bytes / sizeof(std::uint16_t)>;

// Reads the row that a lane points to, on the lane's behalf.
MatrixRow read_row(Block& block, const Rendezvous& r, unsigned lane) {
  const void* from = static_cast<const LoadOperand*>(r.operand(lane))->row;
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  block.current = r.thread(lane);
  if (find_shared(from, 1).block == nullptr) {
    report(FaultKind::out_of_bounds_shared, r.pc(lane),
           std::string("gives ") + r.operation->name + " the address of a row that is not in shared memory");
    stop_launch();
  }
  if (address % row_bytes != 0) {
    report(FaultKind::misaligned, r.pc(lane),
           std::string("gives ") + r.operation->name + " the address of a row that is no multiple of 16");
  }
  if (block.launch.checked) check_memory(address, row_bytes, false, r.pc(lane));
  MatrixRow row;
  std::memcpy(row.data(), from, row_bytes);
  return row;
}

template <int COUNT, bool TRANS>
void load(Block& block, Rendezvous& r) {
  std::array<std::array<MatrixRow, rows_of_matrix>, COUNT> matrices;
  CollectiveRequest request;
  request.pc = r.pc(0);
  request.operation = Operation::matrix;
  request.bytes = row_bytes;
  request.block = block.number;
  request.warp = r.first / 32;
  for (int m = 0; m < COUNT; ++m) {
    for (int row = 0; row < rows_of_matrix; ++row) {
      const auto lane = static_cast<unsigned>(ldmatrix_address_lane(m, row));
      matrices[m][row] = read_row(block, r, lane);
      request.active |= 1u << lane;
      request.addresses[lane] = find_shared(static_cast<const LoadOperand*>(r.operand(lane))->row, 1).offset;
      if (!block.async_copies[r.thread(lane)].waiting.empty()) request.during_copies |= 1u << lane;
    }
  }
  if (block.launch.checked) tell_request(request);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (int m = 0; m < COUNT; ++m) {
      std::uint32_t bits = 0;
      for (int i = 0; i < 2; ++i) {
        const int l = static_cast<int>(lane);
        const Place at = TRANS ? ldmatrix_trans_place(l, i) : ldmatrix_place(l, i);
        bits |= std::uint32_t{matrices[m][at.row][at.col]} << 16 * i;
      }
      static_cast<const LoadOperand*>(r.operand(lane))->registers[m] = bits;
    }
  }
}

// Indexed by half the number of matrices.
constexpr std::array<Collective, 3> loads{{{"ldmatrix", true, false, load<1, false>},
                                           {"ldmatrix", true, false, load<2, false>},
                                           {"ldmatrix", true, false, load<4, false>}}};
constexpr std::array<Collective, 3> trans_loads{{{"ldmatrix_trans", true, false, load<1, true>},
                                                 {"ldmatrix_trans", true, false, load<2, true>},
                                                 {"ldmatrix_trans", true, false, load<4, true>}}};

}  // namespace

void mma_tf32(float* d, const std::uint32_t* a, const std::uint32_t* b, bool unrounded, int line) {
  MmaOperand operand{d, a, b, unrounded};
  meet(mma_of_tf32, 1, all_lanes, &operand, line, __builtin_return_address(0));
}

void mma_bf16(float* d, const std::uint32_t* a, const std::uint32_t* b, int line) {
  MmaOperand operand{d, a, b, false};
  meet(mma_of_bf16, 1, all_lanes, &operand, line, __builtin_return_address(0));
}

void load_matrices(std::uint32_t* registers, int count, bool trans, const void* row, int line) {
  LoadOperand operand{registers, row};
  const Collective& operation = (trans ? trans_loads : loads)[static_cast<unsigned>(count) / 2];
  meet(operation, 1, all_lanes, &operand, line, __builtin_return_address(0));
}

}  // namespace cpu_device
