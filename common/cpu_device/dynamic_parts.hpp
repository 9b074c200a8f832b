#pragma once

// A kernel's dynamic shared memory by the names of its members. Apart from member_names.hpp, which is
// compiled with every kernel that has such memory.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/cpu_device/member_names.hpp"

namespace cpu_device {

// A part of dynamic shared memory for which a kernel has a name: a member that is not itself a struct, in
// every element of the arrays around it, or the elements of a member that is an array.
struct DynamicPart {
  struct Index {
    std::size_t after;  // that many characters of the name
    std::size_t extent, pitch;
  };
  std::string name;            // "Tiles::A", "Ring::stages.A"
  std::vector<Index> indices;  // into the arrays, outermost first
  std::size_t begin = 0;       // of the first of them
  std::size_t bytes = 0;       // of each

  // Where in the part a byte of dynamic shared memory lies, with its indices in `which`; nullopt: elsewhere.
  std::optional<std::size_t> offset_of(std::size_t byte, std::vector<std::size_t>* which = nullptr) const;
  std::string name_with(const std::vector<std::size_t>& which) const;  // "Ring::stages[2].A[7][96]"
};

std::vector<DynamicPart> parts_of(const Shape& shape);

}  // namespace cpu_device
