// Prints as JSON what each block of step 14 does, by the functions of its kernel, for tools that draw it:
//   schedules SLABS LEAST_BLOCKS MOST_BLOCKS LEAST_TILES MOST_TILES
//   by blocks, by tiles: [[tile, first, last, tile, first, last, ...of a block], ...of all blocks]

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "steps/14_stream_k/kernel.cu"

namespace {

using Pieces = std::vector<int>;

__global__ void list_work(Gemm g, Pieces* of_block) {
  const Schedule schedule(g);
  Work work;
  for (int piece = 0; find_work(schedule, piece, work); ++piece) {
    of_block[blockIdx.x].insert(of_block[blockIdx.x].end(), {work.tile, work.first, work.last});
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) return 2;
  const auto number = [&](int n) { return std::atoi(arguments[n]); };
  nlohmann::json found = nlohmann::json::array();
  for (int blocks = number(2); blocks <= number(3); ++blocks) {
    nlohmann::json by_tiles = nlohmann::json::array();
    for (int tiles = number(4); tiles <= number(5); ++tiles) {
      Gemm g{};
      g.M = tiles * BM, g.N = BN, g.K = number(1) * BK, g.batch = 1;
      std::vector<Pieces> pieces(static_cast<std::size_t>(blocks));
      launch(list_work, dim3(blocks), dim3(1), 0, g, pieces.data());
      by_tiles.push_back(pieces);
    }
    found.push_back(by_tiles);
  }
  std::printf("%s\n", found.dump().c_str());
  return 0;
}
