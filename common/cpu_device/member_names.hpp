#pragma once

// The names of a struct's members, for reports about kernels that see their dynamic shared memory as a
// struct. C++ cannot be asked for them, but the compiler's text for a pointer to a member tells.

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace cpu_device {

struct Struct;

// An object, or arrays of arrays of objects.
struct Shape {
  std::size_t bytes = 0;                 // in all
  std::span<const std::size_t> extents;  // of the arrays, outermost first
  const Struct* inside = nullptr;        // nullptr: not a struct, or its members are not known
};

struct Member {
  std::string_view name;          // "A"
  const void* address = nullptr;  // in the object at Struct::address
  Shape shape;
};

struct Struct {
  std::string_view name;          // "Tiles"
  const void* address = nullptr;  // of an object that exists only for its members' addresses
  std::size_t bytes = 0;
  std::span<const Member> members;  // in order
};

// Converts to every base of T: members of bases are not supported.
template <typename T>
struct BaseOf {
  template <typename U>
    requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>)
  operator U() const;
};

// A tuple, without std::tuple's constructors: among these the compiler chooses for longer than it takes for a
// kernel.
template <std::size_t I, typename P>
struct Pointer {
  P value;
};
template <typename Indices, typename... P>
struct PointerList;
template <std::size_t... I, typename... P>
struct PointerList<std::index_sequence<I...>, P...> : Pointer<I, P>... {
  static constexpr std::size_t count = sizeof...(P);
};
template <typename... P>
using Pointers = PointerList<std::index_sequence_for<P...>, P...>;
template <std::size_t I, typename P>
constexpr P pointer(const Pointer<I, P>& of_list) {
  return of_list.value;
}

// Pointers to the members of an aggregate; none if it has more than 16 members, or bases. A line for each
// number of members, as C++ before C++26 has no pack of structured bindings, nor one of {}.
template <typename... M>
constexpr auto list_pointers(const M&... member) {
  return Pointers<const M*...>{{&member}...};
}
template <typename T>
constexpr auto member_pointers(const T& object) {
#define NAMES(...) __VA_ARGS__
#define MEMBERS(names, ...)                          \
  else if constexpr (requires { T{__VA_ARGS__}; }) { \
    const auto& [NAMES names] = object;              \
    return list_pointers(NAMES names);               \
  }
  // clang-format off
  if constexpr (!std::is_aggregate_v<T> || !std::is_class_v<T>) { return Pointers<>(); }
  else if constexpr (requires { T{BaseOf<T>{}}; }) { return Pointers<>(); }
  else if constexpr (requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) { return Pointers<>(); }
  MEMBERS((a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p), {},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h,i,j,k,l,m,n,o), {},{},{},{},{},{},{},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h,i,j,k,l,m,n), {},{},{},{},{},{},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h,i,j,k,l,m), {},{},{},{},{},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h,i,j,k,l), {},{},{},{},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h,i,j,k), {},{},{},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h,i,j), {},{},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h,i), {},{},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g,h), {},{},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f,g), {},{},{},{},{},{},{})
  MEMBERS((a,b,c,d,e,f), {},{},{},{},{},{})
  MEMBERS((a,b,c,d,e), {},{},{},{},{})
  MEMBERS((a,b,c,d), {},{},{},{})
  MEMBERS((a,b,c), {},{},{})
  MEMBERS((a,b), {},{})
  MEMBERS((a), {})
  else { return Pointers<>(); }
  // clang-format on
#undef MEMBERS
#undef NAMES
}

// Never read or written.
template <typename T>
struct Nowhere {
  T object;
};
template <typename T>
inline Nowhere<T> nowhere;

template <typename T>
constexpr auto pointers_to_members = member_pointers(nowhere<T>.object);

template <typename T>
constexpr std::size_t member_count = decltype(member_pointers(nowhere<T>.object))::count;

struct MemberNames {
  std::string_view type, member;
};

// "Tiles" and "A" out of "... [with auto POINTER = (& nowhere<...>....::object.{anonymous}::Tiles::A)...".
consteval MemberNames names_in(std::string_view text) {
  text = text.substr(text.find("POINTER = (") + 11);
  int depth = 1;
  std::size_t end = 0;
  for (; end < text.size() && depth > 0; ++end) depth += (text[end] == '(') - (text[end] == ')');
  text = text.substr(0, end - 1);
  const auto cut_last = [&] {  // what follows the last :: outside of <> and ()
    for (std::size_t i = text.size(); i > 1; --i) {
      depth += (text[i - 1] == '>' || text[i - 1] == ')') - (text[i - 1] == '<' || text[i - 1] == '(');
      if (depth != 0 || text.substr(i - 2, 2) != "::") continue;
      const std::string_view last = text.substr(i);
      text = text.substr(0, i - 2);
      return last;
    }
    return std::string_view();
  };
  const std::string_view member = cut_last(), type = cut_last();
  return {type, member};
}

template <auto POINTER>
consteval MemberNames names_of_member() {
  return names_in(__PRETTY_FUNCTION__);
}

template <typename T>
constexpr std::size_t extent_list[] = {0};
template <typename T, std::size_t N>
constexpr auto extent_list<T[N]> = [] {
  std::array<std::size_t, std::rank_v<T[N]>> list{N};
  for (std::size_t i = 1; i < list.size(); ++i) list[i] = extent_list<T>[i - 1];
  return list;
}();

template <typename T>
consteval Shape make_shape();

template <typename T, std::size_t... I>
consteval std::array<Member, sizeof...(I)> make_members(std::index_sequence<I...>) {
  constexpr auto& pointers = pointers_to_members<T>;
  return {Member{names_of_member<pointer<I>(pointers)>().member, pointer<I>(pointers),
                 make_shape<std::remove_cvref_t<decltype(*pointer<I>(pointers))>>()}...};
}
template <typename T>
constexpr auto members_of = make_members<T>(std::make_index_sequence<member_count<T>>());

template <typename T>
constexpr Struct struct_of = {names_of_member<pointer<0>(pointers_to_members<T>)>().type, &nowhere<T>.object,
                              sizeof(T), members_of<T>};

template <typename T>
consteval Shape make_shape() {
  using Inside = std::remove_all_extents_t<T>;
  Shape shape{sizeof(T), {}, nullptr};
  if constexpr (std::is_array_v<T>) shape.extents = extent_list<T>;
  if constexpr (member_count<Inside> > 0) shape.inside = &struct_of<Inside>;
  return shape;
}
template <typename T>
constexpr Shape shape_of = make_shape<T>();

}  // namespace cpu_device
