#pragma once

#include <cstdint>

// The NaN that fills everything a kernel must not read or write, whatever the size of an element: each half
// by itself is a NaN in BF16. It is a signalling NaN: arithmetic makes it quiet, so that what a kernel
// computed from it is not mistaken for it.
template <typename Word>
constexpr Word poison_pattern = static_cast<Word>(0x7fad7fad);

constexpr std::uint32_t poison_bits = poison_pattern<std::uint32_t>;
// The bits that arithmetic sets, one in each half.
constexpr std::uint32_t quiet_bits = 0x00400040;
