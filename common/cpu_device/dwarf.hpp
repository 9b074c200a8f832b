#pragma once

// The debug information (DWARF 4) in a program's file: the entries that say which variables there are, and
// how these are declared.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace cpu_device {

// DWARF 4, section 7.5: only what somebody asks for.
enum Tag : std::uint64_t {
  tag_array = 0x01,
  tag_class = 0x02,
  tag_member = 0x0d,
  tag_structure = 0x13,
  tag_subrange = 0x21,
  tag_variable = 0x34,
};
// A variable, a type, a part of a type, or what lies around these. Views into the file.
struct DebugEntry {
  std::uint64_t tag = 0;  // maybe none of the above
  std::string_view name;
  std::size_t type = 0, declaration = 0;  // the places of other entries; 0: none
  std::optional<std::size_t> bytes;
  std::size_t extent = 0;                 // of a subrange
  std::size_t member_at = 0;              // bytes from the structure's first
  bool located = false;                   // whether it is said where the variable lies
  std::optional<std::size_t> tls_offset;  // in the program's TLS segment, if it lies there
  std::vector<std::size_t> children;
};

// The running program's file.
std::vector<char> program_image();

// By place. `image`: a file in ELF format. Leaves out what is not written in DWARF 4, or in a form that GCC
// does not use.
std::map<std::size_t, DebugEntry> read_debug_entries(std::string_view image);

}  // namespace cpu_device
