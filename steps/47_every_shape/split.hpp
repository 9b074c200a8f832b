#pragma once

// The splitting pass: all elements of A and B become hi and lo, as hi_lo.hpp has it, by one launch.

#include "steps/47_every_shape/split_lines.hpp"

// In an unnamed namespace, as the kernel is: a program holds all this for both devices.
namespace {

// How much there is of what SplitLines points to.
struct SplitSizes {
  SplitSizes(int lines, int K, int batch)
      : pitch(ceil_div(K, 64) * 64), counts_pitch(ceil_div(ceil_div(K, COUNTED_K), 8) * 8) {
    facts = static_cast<std::size_t>(lines) * batch;
    parts = facts * PARTS * pitch;
    counts = facts * counts_pitch;
  }
  std::size_t parts, counts, facts;  // elements
  std::int64_t pitch, counts_pitch;
};

namespace splitting {

// For lines of 513 to 1024 terms.
struct Short : FormOf<512, 16, 2> {};
// 1025 to 2048 terms: half as many lines, so that no clusters are needed.
struct Medium : FormOf<512, 8, 2> {};
// Up to 512 terms, or more than 2048.
struct Other : FormOf<256, 16, 6> {};

// Bytes of shared memory for each of so many blocks, each of which has so many slices. It asks for more than
// it needs where that keeps a multiprocessor from taking more than its share: blocks that begin early would
// crowd onto those that are free first.
template <class Form>
std::size_t shared_bytes(int slices, std::size_t blocks) {
  using S = Shared<Form>;
  constexpr std::size_t of_multiprocessor = 228 << 10, reserved = 1 << 10;  // for each block
  const std::size_t needed = sizeof(S) - (KEPT - (slices < KEPT ? slices : KEPT)) * sizeof(S::elements[0]);
  const std::size_t share = (blocks + multiprocessors() - 1) / multiprocessors();
  return max(needed + reserved, of_multiprocessor / (share + 1) + 1) - reserved;
}

template <class Form, bool ALIGNED, bool COUNTING>
void launch_split(const Operands& operands, int batch, unsigned* refused, int words, Ledger* ledger) {
  const Lines &a = operands.a_and_b[0].from, &b = operands.a_and_b[1].from;
  const int blocks = min(MOST_BLOCKS, ceil_div(a.K, Form::TERMS));  // of a cluster
  const unsigned strips = ceil_div(max(a.lines, b.lines), Form::STRIP);
  const int slices = ceil_div(a.K, blocks * Form::TERMS);
  launch(split_lines<Form, ALIGNED, COUNTING>,
         LaunchConfig{.grid = dim3(strips * blocks, 2, batch),
                      .block = dim3(Form::THREADS),
                      .shared_bytes = shared_bytes<Form>(slices, std::size_t{strips} * blocks * 2 * batch),
                      .cluster = dim3(blocks, 1, 1),
                      .overlaps_previous = true},
         operands, blocks, refused, words, ledger);
}

template <bool ALIGNED, bool COUNTING>
void launch_best(const Operands& operands, int batch, unsigned* refused, int words, Ledger* ledger) {
  const int K = operands.a_and_b[0].from.K;
  // Where a block has room for whole lines there are no clusters, whose blocks wait for each other. Of longer
  // lines, so many blocks are needed that it matters more how many fit.
  const auto launches = K <= Other::TERMS || K > Medium::TERMS ? launch_split<Other, ALIGNED, COUNTING>
                        : K <= Short::TERMS                    ? launch_split<Short, ALIGNED, COUNTING>
                                                               : launch_split<Medium, ALIGNED, COUNTING>;
  launches(operands, batch, refused, words, ledger);
}

}  // namespace splitting

// Splits A and B; aligned: both, to float4; counting: for the guard. The ledger and the refused parts are
// cleared on the way.
void split(const splitting::Operands& a_and_b, bool aligned, bool counting, int batch, unsigned* refused,
           int words, Ledger* ledger) {
  using namespace splitting;
  const auto launches = aligned    ? counting ? launch_best<true, true> : launch_best<true, false>
                        : counting ? launch_best<false, true>
                                   : launch_best<false, false>;
  launches(a_and_b, batch, refused, words, ledger);
}

}  // namespace
