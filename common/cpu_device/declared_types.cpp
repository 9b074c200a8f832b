#include "common/cpu_device/declared_types.hpp"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cpu_device/dwarf.hpp"

namespace cpu_device {

namespace {

class Declarations {
 public:
  Declarations() {
    image_ = program_image();
    entries_ = read_debug_entries({image_.data(), image_.size()});
    for (const auto& [place, entry] : entries_) {
      if (entry.tag == tag_variable) note_variable(entry);
    }
  }

  std::optional<std::string> element(const std::string& name, std::size_t tls_offset, std::size_t bytes,
                                     std::size_t offset) const {
    const auto here = at_.find(tls_offset);
    if (here != at_.end() && here->second.name == name) return inside(here->second.type, offset);
    const auto [first, last] = named_.equal_range(name);
    std::optional<std::string> found;
    for (auto it = first; it != last; ++it) {
      if (size_of(it->second) != bytes) continue;
      std::string text = inside(it->second, offset);
      if (found && *found != text) return std::nullopt;
      found = std::move(text);
    }
    return found;
  }

 private:
  struct Variable {
    std::string_view name;
    std::size_t type = 0;
  };

  const DebugEntry& entry(std::size_t place) const {
    static const DebugEntry none;
    const auto found = entries_.find(place);
    return found == entries_.end() ? none : found->second;
  }

  void note_variable(const DebugEntry& variable) {
    const DebugEntry& declared = variable.declaration == 0 ? variable : entry(variable.declaration);
    if (declared.name.empty() || declared.type == 0) return;
    if (variable.tls_offset || !variable.located) named_.emplace(declared.name, declared.type);
    if (variable.tls_offset) at_[*variable.tls_offset] = {declared.name, declared.type};
  }

  // The type without its typedefs, const and the like.
  std::size_t bare(std::size_t type) const {
    for (int most = 100; most > 0 && !entry(type).bytes && entry(type).tag != tag_array; --most) {
      if (entry(type).type == 0) break;
      type = entry(type).type;
    }
    return type;
  }

  std::vector<std::size_t> extents(const DebugEntry& array) const {
    std::vector<std::size_t> all;
    for (const std::size_t child : array.children) {
      if (entry(child).tag == tag_subrange) all.push_back(entry(child).extent);
    }
    return all;
  }

  std::size_t size_of(std::size_t type) const {
    const DebugEntry& of = entry(bare(type));
    if (of.tag != tag_array) return of.bytes.value_or(0);
    std::size_t bytes = size_of(of.type);
    for (const std::size_t extent : extents(of)) bytes *= extent;
    return bytes;
  }

  // What follows the name of a variable of the type.
  std::string inside(std::size_t type, std::size_t offset) const {
    const DebugEntry& of = entry(bare(type));
    if (of.tag == tag_array) {
      std::string text;
      std::size_t pitch = size_of(type);
      for (const std::size_t extent : extents(of)) {
        if (extent == 0 || pitch < extent) return plus_bytes(offset);
        pitch /= extent;
        text += '[' + std::to_string(offset / pitch) + ']';
        offset %= pitch;
      }
      return text + inside(of.type, offset);
    }
    if (of.tag != tag_structure && of.tag != tag_class) return plus_bytes(offset);
    std::size_t members = 0;
    const DebugEntry* found = nullptr;
    for (const std::size_t child : of.children) {
      const DebugEntry& member = entry(child);
      if (member.tag != tag_member || member.name.empty()) continue;
      ++members;
      if (offset - member.member_at < size_of(member.type)) found = &member;
    }
    // A struct of one number stands for it, as a bfloat16 does.
    const bool wraps = members == 1 && found != nullptr && entry(bare(found->type)).tag != tag_array;
    if (found == nullptr || wraps) return plus_bytes(offset);
    return '.' + std::string(found->name) + inside(found->type, offset - found->member_at);
  }

  std::vector<char> image_;
  std::map<std::size_t, DebugEntry> entries_;  // by place in .debug_info
  std::map<std::size_t, Variable> at_;         // by place in the TLS segment
  // With their types. AArch64's GCC does not say where a thread_local lies; nor do other compilations of the
  // same kernel, which have no debug information.
  std::multimap<std::string, std::size_t, std::less<>> named_;
};

}  // namespace

std::optional<std::string> element_of_shared(const std::string& name, std::size_t tls_offset,
                                             std::size_t bytes, std::size_t offset) {
  static const Declarations program;
  return program.element(name, tls_offset, bytes, offset);
}

std::string plus_bytes(std::size_t bytes) {
  return bytes == 0 ? "" : " + " + std::to_string(bytes) + " bytes";
}

}  // namespace cpu_device
