// Prints as JSON which lane holds which elements of the fragments in common/cuda/fragments.hpp, and how many
// of them share a register, for tools that draw it:
//   {"mma_tf32": {"a": {"rows": 16, "cols": 8, "packed": 1,
//                       "elements": [[[row, col], ...of a lane], ...of 32 lanes]}, ...}, ...}

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/cuda/fragments.hpp"

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

}  // namespace

int main() {
  using Mma = MmaTf32Shape;
  constexpr int size = 8;
  const json mma{{"a", matrix(Mma::a, Mma::a_elements, 1, Mma::M, Mma::K)},
                 {"b", matrix(Mma::b, Mma::b_elements, 1, Mma::K, Mma::N)},
                 {"c", matrix(Mma::c, Mma::c_elements, 1, Mma::M, Mma::N)}};
  const json maps{{"mma_tf32", mma}, {"ldmatrix", {{"m", matrix(ldmatrix_place, 2, 2, size, size)}}}};
  std::printf("%s\n", maps.dump().c_str());
  return 0;
}
