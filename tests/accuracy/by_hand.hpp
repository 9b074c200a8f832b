#pragma once

// A matrix made by hand, on which step 47 errs by nearly as much as is proved and FP32 summation hardly at
// all.

#include "tests/accuracy/classes.hpp"

namespace accuracy {

// Of the first 128 products, the first makes up nearly all of |A||B|, of operands of which hi and lo lose
// most. From what is behind it in its block of 64 the tensor core cuts off nearly as much as it can, half a
// unit each, always towards zero; FP32 sums round it as often up as down. The guard sees nothing: it counts
// elements that matter in their lines, and so all of these do.
//
// Of the products behind them, each block has one or two, of just below 1/2 or 3/2 units of the sum's last
// place together. Added up first, both are rounded down by half a unit; added one by one, the first down, the
// two up.
inline Problem by_hand(int M, int N, int K) {
  Problem p{M, N, K, std::vector<float>(M * K), std::vector<float>(K * N)};
  const auto a_at = [](int k) {
    if (k == 0) return 1 + 0x1p-11f - 3 * 0x1p-23f;
    // Products just below 1 or 3 times what is 25 bits below the large one, and is kept in whole numbers.
    if (k < 128) return (static_cast<float>(k % 2 == 0 ? 3 : 1) - 0x1p-9f) * 0x1p-13f;
    if (k / 64 % 2 == 0) return k % 64 == 0 ? 63 * 0x1p-18f : 0;
    return k % 64 < 2 ? 191 * 0x1p-19f : 0;
  };
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < M; ++i) p.A[i * K + k] = a_at(k);
    for (int j = 0; j < N; ++j) p.B[k * N + j] = k == 0 ? a_at(0) : 0x1p-12f;
  }
  return p;
}

}  // namespace accuracy
