// Step 15: a kernel for every shape: a few tiles and splits along K, chosen by a model of their times.
//
// Idea      Tiles that are fast on large matrices leave most of a GPU idle on small ones, and waste work on
//           narrow ones. A library has many kernels, and its art is to choose among them.
// Change    Beside step 14's kernel (large_tiles.hpp, which can also compute tiles of C transposed) there is
//           one like step 11's for seven smaller tiles, with two to four buffers and with split-K, whose
//           parts are added up by a pair of blocks or by a second kernel (small_tiles.hpp), and one each for
//           a single row and a single column (vectors.hpp). choose.hpp estimates how long each would take,
//           and picks the fastest.
// Bound     Whatever bounds the chosen kernel; for small matrices, the launches themselves.
// Needs     sm_90+: mbarriers, tensor copies

#include "steps/15_every_shape/choose.hpp"
#include "steps/15_every_shape/large_tiles.hpp"
#include "steps/15_every_shape/small_tiles.hpp"
#include "steps/15_every_shape/vectors.hpp"

namespace {

void sgemm(const Gemm& g) {
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  if (g.M == 1) return vectors::run_row(g);
  if (g.N == 1) return vectors::run_column(g);
  const Choice choice = choose(g);
  switch (choice.tile) {
    case Tile::large:
      return large_tiles::run<false>(g, choice.parts);
    case Tile::large_swapped:
      return large_tiles::run<true>(g, choice.parts);
    //                                                BM   BN  BK TM TN LM STAGES BLOCKS
    case Tile::t128x128:
      return small_tiles::run<small_tiles::Shape<128, 128, 16, 8, 8, 8, 2, 2>>(g, choice.parts);
    case Tile::t128x96:
      return small_tiles::run<small_tiles::Shape<128, 96, 16, 8, 8, 8, 2, 2>>(g, choice.parts);
    case Tile::t64x128:
      return small_tiles::run<small_tiles::Shape<64, 128, 16, 8, 8, 8, 3, 4>>(g, choice.parts);
    case Tile::t64x64:
      return small_tiles::run<small_tiles::Shape<64, 64, 16, 8, 4, 4, 3, 3>>(g, choice.parts);
    case Tile::t64x32:
      return small_tiles::run<small_tiles::Shape<64, 32, 16, 4, 4, 8, 4, 4>>(g, choice.parts);
    case Tile::t32x64:
      return small_tiles::run<small_tiles::Shape<32, 64, 16, 4, 4, 4, 4, 4>>(g, choice.parts);
    case Tile::t16x256:
      return small_tiles::run<small_tiles::Shape<16, 256, 16, 4, 8, 2, 4, 3>>(g, choice.parts);
  }
}

}  // namespace
