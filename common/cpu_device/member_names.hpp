#pragma once

// The names of a struct's members, which the X-ray shows where a kernel sees its dynamic shared memory as a
// struct. C++ has no way to ask for them; the compiler's text for a pointer to a member tells.

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cpu_device {

struct Member {
  std::string_view name;  // "Tiles::A"
  std::size_t offset = 0, bytes = 0;
};

// 0 where it cannot be told: no aggregate, or more than four members.
template <typename T>
constexpr std::size_t member_count() {
  if constexpr (!std::is_class_v<T> || !std::is_aggregate_v<T>) {
    return 0;
  } else if constexpr (requires { T{{}, {}, {}, {}, {}}; }) {
    return 0;
  } else if constexpr (requires { T{{}, {}, {}, {}}; }) {
    return 4;
  } else if constexpr (requires { T{{}, {}, {}}; }) {
    return 3;
  } else if constexpr (requires { T{{}, {}}; }) {
    return 2;
  } else {
    return 1;
  }
}

// Pointers to the members of an object, as a tuple.
template <typename T>
constexpr auto member_pointers(const T& object) {
  if constexpr (member_count<T>() == 1) {
    const auto& [a] = object;
    return std::tuple(&a);
  } else if constexpr (member_count<T>() == 2) {
    const auto& [a, b] = object;
    return std::tuple(&a, &b);
  } else if constexpr (member_count<T>() == 3) {
    const auto& [a, b, c] = object;
    return std::tuple(&a, &b, &c);
  } else if constexpr (member_count<T>() == 4) {
    const auto& [a, b, c, d] = object;
    return std::tuple(&a, &b, &c, &d);
  } else {
    return std::tuple();
  }
}

// Nobody defines it: only its address is used, at compile time.
template <typename T>
struct Nowhere {
  T object;
};
template <typename T>
extern const Nowhere<T> nowhere;

// "Tiles::A" out of "... [with auto POINTER = (& ...::value.{anonymous}::Tiles::A); ...".
template <auto POINTER>
constexpr std::string_view member_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.find(");", text.find("POINTER = ")));
  const std::size_t member = text.rfind("::");
  const std::size_t type = member == text.npos ? text.npos : text.rfind("::", member - 1);
  return type == text.npos ? std::string_view() : text.substr(type + 2);
}

template <typename T>
constexpr auto pointers_to_members = member_pointers(nowhere<T>.object);

template <typename T, std::size_t... I>
constexpr auto members_of(std::index_sequence<I...>) {
  constexpr auto& pointers = pointers_to_members<T>;
  std::array<Member, sizeof...(I)> members{
      Member{member_name<std::get<I>(pointers)>(), 0, sizeof(*std::get<I>(pointers))}...};
  const std::array<std::size_t, sizeof...(I)> alignments{
      alignof(std::remove_pointer_t<std::tuple_element_t<I, std::decay_t<decltype(pointers)>>>)...};
  std::size_t end = 0;
  for (std::size_t i = 0; i < sizeof...(I); ++i) {
    members[i].offset = (end + alignments[i] - 1) / alignments[i] * alignments[i];
    end = members[i].offset + members[i].bytes;
  }
  return members;
}

// The members of T, in order; none if they cannot be told.
template <typename T>
constexpr auto members = members_of<T>(std::make_index_sequence<member_count<T>()>());

}  // namespace cpu_device
