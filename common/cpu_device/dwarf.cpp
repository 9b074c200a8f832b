#include "common/cpu_device/dwarf.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <utility>

namespace cpu_device {

namespace {

// DWARF 4, section 7.5: only what is read here.
enum Attribute : std::uint64_t {
  at_location = 0x02,
  at_name = 0x03,
  at_byte_size = 0x0b,
  at_upper_bound = 0x2f,
  at_member_location = 0x38,
  at_specification = 0x47,
  at_type = 0x49,
};
enum Form : std::uint64_t {
  form_addr = 0x01,
  form_block2 = 0x03,
  form_block4 = 0x04,
  form_data2 = 0x05,
  form_data4 = 0x06,
  form_data8 = 0x07,
  form_string = 0x08,
  form_block = 0x09,
  form_block1 = 0x0a,
  form_data1 = 0x0b,
  form_flag = 0x0c,
  form_sdata = 0x0d,
  form_strp = 0x0e,
  form_udata = 0x0f,
  form_ref_addr = 0x10,
  form_ref1 = 0x11,
  form_ref2 = 0x12,
  form_ref4 = 0x13,
  form_ref8 = 0x14,
  form_ref_udata = 0x15,
  form_sec_offset = 0x17,
  form_exprloc = 0x18,
  form_flag_present = 0x19,
  form_ref_sig8 = 0x20,
};
constexpr std::uint8_t op_const4u = 0x0c, op_const8u = 0x0e, op_form_tls = 0x9b, op_gnu_push_tls = 0xe0;

// Reads a part of a file. Beyond its end there are zeros.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return at_ >= bytes_.size(); }
  std::size_t at() const { return at_; }
  void go_to(std::size_t at) { at_ = at; }

  std::uint64_t number(unsigned bytes) {
    std::uint64_t value = 0;
    if (at_ < bytes_.size() && bytes_.size() - at_ >= bytes) std::memcpy(&value, &bytes_[at_], bytes);
    at_ += bytes;
    return value;
  }
  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !done(); shift += 7) {
      const std::uint64_t byte = number(1);
      if (shift < 64) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  std::string_view string() {
    if (done()) return {};
    const std::string_view text = bytes_.substr(at_, bytes_.find('\0', at_) - at_);
    at_ += text.size() + 1;
    return text;
  }
  std::string_view block(std::size_t bytes) {
    const std::string_view part = done() ? std::string_view() : bytes_.substr(at_, bytes);
    at_ += bytes;
    return part;
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

struct Value {
  std::uint64_t number = 0;
  std::string_view text;  // of a string or a block
};

class Sections {
 public:
  explicit Sections(std::string_view image) : image_(image) { find_sections(); }

  std::map<std::size_t, DebugEntry> entries() {
    Reader info(info_);
    while (!info.done()) {
      const std::size_t unit = info.at(), end = info.number(4) + unit + 4;
      if (end > info_.size()) break;  // 64-bit DWARF, too
      if (info.number(2) == 4) read_unit(info, unit, end);
      info.go_to(end);
    }
    return std::move(entries_);
  }

 private:
  using Abbreviation = std::pair<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>>;

  void find_sections() {
    Elf64_Ehdr header;
    if (image_.size() < sizeof header) return;
    std::memcpy(&header, image_.data(), sizeof header);
    const auto section = [&](std::size_t i) {
      Elf64_Shdr of;
      std::memcpy(&of, image_.data() + header.e_shoff + i * sizeof of, sizeof of);
      return of;
    };
    const std::string_view image(image_.data(), image_.size());
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr of = section(i);
      if (of.sh_type != SHT_PROGBITS || (of.sh_flags & SHF_COMPRESSED) != 0) continue;
      const std::string_view name = image_.data() + section(header.e_shstrndx).sh_offset + of.sh_name;
      for (const auto& [wanted, bytes] : {std::pair{".debug_info", &info_},
                                          {".debug_abbrev", &abbreviations_},
                                          {".debug_str", &strings_}}) {
        if (name == wanted) *bytes = image.substr(of.sh_offset, of.sh_size);
      }
    }
  }

  std::map<std::uint64_t, Abbreviation> read_abbreviations(std::size_t at) const {
    std::map<std::uint64_t, Abbreviation> all;
    Reader reader(abbreviations_);
    reader.go_to(at);
    while (const std::uint64_t code = reader.uleb()) {
      Abbreviation& one = all[code];
      one.first = reader.uleb() << 1;
      one.first |= reader.number(1);  // whether it has children
      while (!reader.done()) {
        const std::uint64_t attribute = reader.uleb(), form = reader.uleb();
        if (attribute == 0 && form == 0) break;
        one.second.emplace_back(attribute, form);
      }
    }
    return all;
  }

  // References are made relative to the section. nullopt: of a form that is not known.
  std::optional<Value> read_value(Reader& info, std::uint64_t form, std::size_t unit) const {
    switch (form) {
      case form_addr:
      case form_data8:
      case form_ref_sig8:
        return Value{info.number(8), {}};
      case form_data1:
      case form_flag:
        return Value{info.number(1), {}};
      case form_data2:
        return Value{info.number(2), {}};
      case form_data4:
      case form_sec_offset:
      case form_ref_addr:
        return Value{info.number(4), {}};
      case form_udata:
      case form_sdata:
        return Value{info.uleb(), {}};
      case form_flag_present:
        return Value{1, {}};
      case form_ref1:
        return Value{unit + info.number(1), {}};
      case form_ref2:
        return Value{unit + info.number(2), {}};
      case form_ref4:
        return Value{unit + info.number(4), {}};
      case form_ref8:
        return Value{unit + info.number(8), {}};
      case form_ref_udata:
        return Value{unit + info.uleb(), {}};
      case form_string:
        return Value{0, info.string()};
      case form_strp: {
        Reader strings(strings_);
        strings.go_to(info.number(4));
        return Value{0, strings.string()};
      }
      case form_block1:
        return Value{0, info.block(info.number(1))};
      case form_block2:
        return Value{0, info.block(info.number(2))};
      case form_block4:
        return Value{0, info.block(info.number(4))};
      case form_block:
      case form_exprloc:
        return Value{0, info.block(info.uleb())};
      default:
        return std::nullopt;
    }
  }

  void read_unit(Reader& info, std::size_t unit, std::size_t end) {
    const auto abbreviations = read_abbreviations(info.number(4));
    info.number(1);                    // the size of an address: 8
    std::vector<std::size_t> parents;  // the places of the entries around this one
    while (info.at() < end) {
      const std::size_t place = info.at();
      const std::uint64_t code = info.uleb();
      if (code == 0) {
        if (!parents.empty()) parents.pop_back();
        continue;
      }
      const auto found = abbreviations.find(code);
      if (found == abbreviations.end()) return;
      const auto& [tag_and_children, attributes] = found->second;
      DebugEntry entry;
      entry.tag = tag_and_children >> 1;
      for (const auto& [attribute, form] : attributes) {
        const std::optional<Value> value = read_value(info, form, unit);
        if (!value) return;
        set(entry, attribute, *value);
      }
      if (!parents.empty()) entries_[parents.back()].children.push_back(place);
      entries_[place] = std::move(entry);
      if ((tag_and_children & 1) != 0) parents.push_back(place);
    }
  }

  static void set(DebugEntry& entry, std::uint64_t attribute, const Value& value) {
    switch (attribute) {
      case at_name:
        entry.name = value.text;
        break;
      case at_type:
        entry.type = value.number;
        break;
      case at_specification:
        entry.declaration = value.number;
        break;
      case at_byte_size:
        entry.bytes = value.number;
        break;
      case at_upper_bound:
        entry.extent = value.number + 1;
        break;
      case at_member_location:
        entry.member_at = value.number;
        break;
      case at_location: {
        entry.located = true;
        Reader location(value.text);
        const std::uint64_t op = location.number(1);
        const std::uint64_t offset = location.number(op == op_const4u ? 4 : 8);
        const std::uint64_t last = location.number(1);
        const bool tls = last == op_form_tls || last == op_gnu_push_tls;
        if ((op == op_const4u || op == op_const8u) && tls) entry.tls_offset = offset;
        break;
      }
      default:
        break;
    }
  }

  std::string_view image_, info_, abbreviations_, strings_;
  std::map<std::size_t, DebugEntry> entries_;
};

}  // namespace

std::vector<char> program_image() {
  std::ifstream file("/proc/self/exe", std::ios::binary | std::ios::ate);
  std::vector<char> image(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0).read(image.data(), static_cast<std::streamsize>(image.size()));
  return image;
}

std::map<std::size_t, DebugEntry> read_debug_entries(std::string_view image) {
  return Sections(image).entries();
}

}  // namespace cpu_device
