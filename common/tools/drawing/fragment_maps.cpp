// Prints who holds what and where it lies as JSON, for tools that draw it:
// - of common/cuda/fragments.hpp, the elements of each lane, and how many of them share a register:
//   {"mma_tf32": {"a": {"rows": 16, "cols": 8, "packed": 1,
//                       "elements": [[[row, col], ...of a lane], ...of 32 lanes]}, ...}, ...}
// - of common/cuda/tf32.hpp, the place of each element in its row of a tile, for as many rows and elements as
//   it takes until the pattern repeats: {"places": {"swizzle_128B": [[place, ...of a row], ...], ...}}

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/cuda/fragments.hpp"
#include "common/cuda/tf32.hpp"

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

template <typename Shape>
json shape() {
  return {{"a", matrix(Shape::a, Shape::a_elements, Shape::packed, Shape::M, Shape::K)},
          {"b", matrix(Shape::b, Shape::b_elements, Shape::packed, Shape::K, Shape::N)},
          {"c", matrix(Shape::c, Shape::c_elements, 1, Shape::M, Shape::N)}};
}

template <typename PlaceOf>
json places(const PlaceOf& place_of) {
  constexpr int rows = 8, words = 32;  // a word for each bank
  json found = json::array();
  for (int row = 0; row < rows; ++row) {
    json of_row = json::array();
    for (int i = 0; i < words; ++i) of_row.push_back(place_of(row, i));
    found.push_back(std::move(of_row));
  }
  return found;
}

}  // namespace

int main() {
  constexpr int size = 8;
  const json maps{{"mma_tf32", shape<MmaTf32Shape>()},
                  {"mma_bf16", shape<MmaBf16Shape>()},
                  {"ldmatrix", {{"m", matrix(ldmatrix_place, 2, 2, size, size)}}},
                  {"ldmatrix_trans", {{"m", matrix(ldmatrix_trans_place, 2, 2, size, size)}}},
                  {"places", {{"swizzle_128B", places(swizzle_128B)}, {"swizzle_b", places(swizzle_b)}}}};
  std::printf("%s\n", maps.dump().c_str());
  return 0;
}
