// Every shape in BF16: step 37's pipeline with tiles of several sizes, of C or of C transposed, whose terms
// may be split among blocks; a model of their times chooses. Rows that TMA cannot reach are copied first.
//
// Needs     sm_90a: wgmma, setmaxnreg

#include <optional>

#include "steps/38_every_shape_bf16/choose.hpp"
#include "steps/38_every_shape_bf16/passes.hpp"
#include "steps/38_every_shape_bf16/tiles.hpp"

namespace {

// For experiments, whose edits reach this file: Choice{Tile::t128x64, 4, false} instead of
// std::nullopt makes it the choice for every product that has as many k-tiles.
constexpr std::optional<Choice> PINNED = std::nullopt;
constexpr bool OVERLAPS = true;  // launches begin while the one before ends

// The choice takes some microseconds, which counts for a small product: it is kept while the shape stays.
Choice choice_for(const ProductShape& shape) {
  static ProductShape last{};
  static Choice choice{};
  if (PINNED && PINNED->splits <= max(ceil_div(shape.K, K_TILE), 1)) return *PINNED;
  if (!(shape == last)) choice = choose(shape, multiprocessors()), last = shape;
  return choice;
}

void gemm(const GemmBf16& g) {
  static Workspace<float> workspace("sums of parts");
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  const passes::Operand a{g.A, g.M, g.K, g.batch, g.lda, g.strideA};
  const passes::Operand b{g.B, g.K, g.N, g.batch, g.ldb, g.strideB};
  const passes::Matrices<float> c{g.C, g.M, g.N, g.batch, g.ldc, g.strideC};
  // TMA stores rows in whole groups of 16 bytes.
  const bool c_is_aligned = fits_tensor_map(c) && g.N % 4 == 0;

  const auto copies = [](const passes::Operand& m) { return !fits_tensor_map(m); };
  const auto straddles = [&](const passes::Operand& m) { return !copies(m) && m.ld % passes::LINE != 0; };
  const bool by_eighths = copies(a) && passes::eighths_fit(a) && !(c_is_aligned && g.beta == 0.0f);
  const Choice choice = choice_for(
      {g.M, g.N, g.K, g.batch, g.beta != 0.0f, copies(a), copies(b), by_eighths, straddles(a), straddles(b)});
  const int splits = choice.splits;
  const std::int64_t ld = std::int64_t{ceil_div(g.N, 4)} * 4;  // of the sums of parts
  if (g.K == 0) return passes::add(g, 0, nullptr, ld, c_is_aligned, OVERLAPS);
  const bool adds = splits > 1;
  float* parts = nullptr;
  if (adds) parts = workspace.at_least(static_cast<std::size_t>(ld) * g.M * g.batch * splits);
  const auto [reachable_a, reachable_b] = passes::reachable(a, b, choice.apart > 1, OVERLAPS);
  const auto run = [&]<typename S>(S) {
    tiles::run<S>(g, reachable_a, reachable_b, choice, parts, c_is_aligned, OVERLAPS);
  };
  switch (choice.tile) {  //               BM   BN  STAGES BUFFERS
    case Tile::t128x256:
      run(tiles::Shape<128, 256, 3, 4>{});
      break;
    case Tile::t128x192:
      run(tiles::Shape<128, 192, 4>{});
      break;
    case Tile::t128x128:
      run(tiles::Shape<128, 128, 6>{});
      break;
    case Tile::t128x64:
      run(tiles::Shape<128, 64, 8>{});
      break;
    case Tile::t64x128:
      run(tiles::Shape<64, 128, 9>{});
      break;
    case Tile::t32x128:
      run(tiles::Shape<32, 128, 11>{});
      break;
    case Tile::t16x128:
      run(tiles::Shape<16, 128, 12>{});
      break;
  }
  if (adds) passes::add(g, splits, parts, ld, c_is_aligned, OVERLAPS);
}

}  // namespace
