#include "common/cpu_device/dynamic_parts.hpp"

namespace cpu_device {

namespace {

// Adds the parts of `shape`, whose beginning and name are those of `part`.
void add_parts(const Shape& shape, DynamicPart part, bool of_struct, std::vector<DynamicPart>& parts) {
  std::size_t pitch = shape.bytes;
  for (const std::size_t extent : shape.extents) {
    pitch /= extent;
    part.indices.push_back({part.name.size(), extent, pitch});
  }
  if (shape.inside == nullptr) {
    part.bytes = pitch;
    parts.push_back(std::move(part));
    return;
  }
  const auto* begin = static_cast<const std::byte*>(shape.inside->address);
  for (const Member& member : shape.inside->members) {
    DynamicPart inside = part;
    inside.name += of_struct ? "." : "::";
    inside.name += member.name;
    inside.begin += static_cast<std::size_t>(static_cast<const std::byte*>(member.address) - begin);
    add_parts(member.shape, std::move(inside), true, parts);
  }
}

}  // namespace

std::vector<DynamicPart> parts_of(const Shape& shape) {
  std::vector<DynamicPart> parts;
  if (shape.inside == nullptr) return parts;
  DynamicPart all;
  all.name = shape.inside->name;
  add_parts(shape, std::move(all), false, parts);
  return parts;
}

std::optional<std::size_t> DynamicPart::offset_of(std::size_t offset, std::vector<std::size_t>* which) const {
  if (offset < begin) return std::nullopt;
  offset -= begin;
  for (const Index& index : indices) {
    if (offset / index.pitch >= index.extent) return std::nullopt;
    if (which != nullptr) which->push_back(offset / index.pitch);
    offset %= index.pitch;
  }
  return offset < bytes ? std::optional(offset) : std::nullopt;
}

std::string DynamicPart::name_with(const std::vector<std::size_t>& which) const {
  std::string text;
  std::size_t done = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    text += name.substr(done, indices[i].after - done) + '[' + std::to_string(which[i]) + ']';
    done = indices[i].after;
  }
  return text + name.substr(done);
}

}  // namespace cpu_device
