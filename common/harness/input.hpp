#pragma once

// The types that A and B may have, and what the harness needs to know of each. What a step computes in is a
// different question; see precision.hpp.

#include <cstddef>
#include <type_traits>

#include "common/bf16.hpp"

namespace harness {

enum class Input { fp32, bf16 };

struct InputTraits {
  const char* name;
  std::size_t bytes;     // of an element
  int significand_bits;  // of an element, including the leading 1
};

inline constexpr InputTraits input_traits[] = {{"FP32", 4, 24}, {"BF16", 2, 8}};
constexpr const InputTraits& traits(Input input) { return input_traits[static_cast<int>(input)]; }

// The Input whose elements are T.
template <typename T>
constexpr Input input_of = [] {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16>);
  return std::is_same_v<T, float> ? Input::fp32 : Input::bf16;
}();

// Calls body(T{}) with the type of the elements.
template <typename Body>
decltype(auto) with_element(Input input, const Body& body) {
  switch (input) {
    case Input::bf16:
      return body(bf16{});
    case Input::fp32:
      break;
  }
  return body(float{});
}

}  // namespace harness
