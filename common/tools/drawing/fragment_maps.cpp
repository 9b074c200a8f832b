// Prints as JSON which lane holds which elements of the fragments in common/cuda/fragments.hpp, and how many
// of them share a register, for tools that draw it:
//   {"mma_tf32": {"a": {"rows": 16, "cols": 8, "packed": 1,
//                       "elements": [[[row, col], ...of a lane], ...of 32 lanes]}, ...}, ...}
// and where the operands of wgmma in BF16 lie in a k-tile of 64 terms, in bytes from its beginning, with a
// swizzle of 128 bytes: of each k that is a multiple of 16 the pieces of 16 bytes that its descriptor leads
// to:
//   {"wgmma_bf16": {"a": {"stride": 1024, "leading": 0, "of_k": [[[row, k, address], ...], ...]},
//                   "b": {..., "of_k": [[[column, k, address], ...], ...]},
//                   "d": {"rows": 64, ...: as of a fragment, of 128 threads}}}

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/cpu_device/wgmma_operands.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/wgmma.hpp"

namespace {

using nlohmann::json;

template <typename Map>
json matrix(const Map& map, int elements, int packed, int rows, int cols) {
  json lanes = json::array();
  for (int lane = 0; lane < 32; ++lane) {
    json places = json::array();
    for (int i = 0; i < elements; ++i) {
      const Place at = map(lane, i);
      places.push_back(json::array({at.row, at.col}));
    }
    lanes.push_back(std::move(places));
  }
  return {{"rows", rows}, {"cols", cols}, {"packed", packed}, {"elements", std::move(lanes)}};
}

using cpu_device::OperandType;

constexpr int rows_of_a = 64, columns_of_b = 128, k_tile = 64;
constexpr unsigned line = 128, atom = 8 * line;  // bytes
alignas(atom) constinit std::byte tile[k_tile * 2 * columns_of_b];

// `step`: bytes from where the operand of a k begins to where that of the next does.
json operand(Major major, int rows, unsigned leading, unsigned step) {
  json of_k = json::array();
  const int terms = cpu_device::terms_of(OperandType::bf16);
  for (int k = 0; k < k_tile; k += terms) {
    const MatrixDescriptor descriptor{tile + k * step, Swizzle::of_128_bytes, leading, atom};
    json pieces = json::array();
    cpu_device::for_chunks(cpu_device::described(descriptor, major, OperandType::bf16), major,
                           OperandType::bf16, rows, [&](const std::byte* at, int row, int term) {
                             pieces.push_back(json::array({row, k + term, at - tile}));
                           });
    of_k.push_back(std::move(pieces));
  }
  return {{"leading", leading}, {"stride", atom}, {"of_k", std::move(of_k)}};
}

json sums() {
  json threads = json::array();
  for (int thread = 0; thread < 128; ++thread) {
    json places = json::array();
    for (int i = 0; i < columns_of_b / 2; ++i) {
      const auto [row, col] = wgmma_place(thread, i);
      places.push_back(json::array({row, col}));
    }
    threads.push_back(std::move(places));
  }
  return {{"rows", rows_of_a}, {"cols", columns_of_b}, {"packed", 1}, {"elements", std::move(threads)}};
}

}  // namespace

int main() {
  using Mma = MmaTf32Shape;
  constexpr int size = 8;
  const json mma{{"a", matrix(Mma::a, Mma::a_elements, 1, Mma::M, Mma::K)},
                 {"b", matrix(Mma::b, Mma::b_elements, 1, Mma::K, Mma::N)},
                 {"c", matrix(Mma::c, Mma::c_elements, 1, Mma::M, Mma::N)}};
  const json wgmma{{"a", operand(Major::K, rows_of_a, 0, 2)},
                   {"b", operand(Major::MN, columns_of_b, k_tile * line, line)},
                   {"d", sums()}};
  const json maps{{"mma_tf32", mma},
                  {"ldmatrix", {{"m", matrix(ldmatrix_place, 2, 2, size, size)}}},
                  {"wgmma_bf16", wgmma}};
  std::printf("%s\n", maps.dump().c_str());
  return 0;
}
