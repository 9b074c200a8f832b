#include "common/cpu_device/tile_layout.hpp"

#include <fmt/format.h>

#include <vector>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/report.hpp"
#include "common/cpu_device/tensor_copy.hpp"

namespace cpu_device {

void TileLayout::fill(std::size_t offset, std::size_t bytes, const BoxPlace* place, const void* pc) {
  std::erase_if(boxes_, [&](const auto& known) {
    return known.first < offset + bytes && offset < known.first + known.second.bytes;
  });
  if (place == nullptr) return;
  const TensorMap& map = *place->map;
  boxes_[offset] = {bytes,
                    map.data,
                    place->matrix,
                    place->row,
                    place->col,
                    static_cast<std::size_t>(map.box_cols) * map.element_bytes,
                    map.element_bytes,
                    map.swizzle,
                    pc};
}

std::string TileLayout::Element::text() const {
  const std::string_view name = global_array_at(reinterpret_cast<std::uintptr_t>(data)).name;
  return fmt::format("{}[{}][{}]", name.empty() ? "matrix" : name, row, col);
}

TileLayout::Element TileLayout::element_at(const Block& block, std::size_t offset) const {
  auto found = boxes_.upper_bound(offset);
  if (found == boxes_.begin()) return {};
  --found;
  const auto& [begin, box] = *found;
  if (offset >= begin + box.bytes || !block.shadow->is_filled_by_engine(offset / 4)) return {};
  const std::size_t byte = swizzled(box.swizzle, offset - begin);  // it is its own inverse
  return {box.data, box.matrix, box.row + static_cast<int>(byte / box.row_bytes),
          box.col + static_cast<int>(byte % box.row_bytes / box.element_bytes), box.pc};
}

std::string TileLayout::place_of_element(const Block& block, const Element& element) const {
  for (const auto& [begin, box] : boxes_) {
    const std::int64_t row = element.row - box.row, col = element.col - box.col;
    const auto byte =
        static_cast<std::int64_t>(box.row_bytes) * row + static_cast<std::int64_t>(box.element_bytes) * col;
    if (box.data != element.data || box.matrix != element.matrix || row < 0 || col < 0 ||
        col * static_cast<std::int64_t>(box.element_bytes) >= static_cast<std::int64_t>(box.row_bytes) ||
        byte >= static_cast<std::int64_t>(box.bytes)) {
      continue;
    }
    return block.shared.describe(begin + swizzled(box.swizzle, static_cast<std::size_t>(byte)));
  }
  return "";
}

std::string TileLayout::mismatch(const Block& block, const Operand& operand, Major major, OperandType type,
                                 bool is_a, int rows, int terms) const {
  if (boxes_.empty()) return "";
  const int of_chunk = static_cast<int>(16 / bytes_of(type));  // elements, which lie together in any layout
  const int row_step = major == Major::K ? 1 : of_chunk, term_step = major == Major::K ? of_chunk : 1;
  const auto offset_of = [&](int row, int term) {
    return block.shared.find(reinterpret_cast<std::uintptr_t>(operand.at(row, term)), 1).offset;
  };
  // K-major memory holds rows of the matrix, MN-major memory its columns.
  const auto row_in = [&](const Element& e) { return major == Major::K ? e.row : e.col; };
  const auto term_in = [&](const Element& e) { return major == Major::K ? e.col : e.row; };
  std::vector<Element> firsts, top;
  for (int row = 0; row < rows; row += row_step) firsts.push_back(element_at(block, offset_of(row, 0)));
  for (int term = 0; term < terms; term += term_step) top.push_back(element_at(block, offset_of(0, term)));
  for (int row = 0; row < rows; row += row_step) {
    for (int term = 0; term < terms; term += term_step) {
      const Element found = element_at(block, offset_of(row, term));
      const Element& of_row = firsts[static_cast<std::size_t>(row / row_step)];
      const Element& of_term = top[static_cast<std::size_t>(term / term_step)];
      if (found.data == nullptr || of_row.data == nullptr || of_term.data == nullptr) return "";
      bool fits = found.same_matrix(of_row) && found.same_matrix(of_term) &&
                  row_in(found) == row_in(of_row) && term_in(found) == term_in(of_term);
      for (int other = 0; fits && term == 0 && other < row; other += row_step) {
        const Element& earlier = firsts[static_cast<std::size_t>(other / row_step)];
        fits = !earlier.same_matrix(found) || row_in(earlier) != row_in(found);
      }
      for (int other = 0; fits && row == 0 && other < term; other += term_step) {
        const Element& earlier = top[static_cast<std::size_t>(other / term_step)];
        fits = !earlier.same_matrix(found) || term_in(earlier) != term_in(found);
      }
      if (fits) continue;
      Element wanted = firsts[0];
      (major == Major::K ? wanted.row : wanted.col) += row;
      (major == Major::K ? wanted.col : wanted.row) += term;
      const std::string there = place_of_element(block, wanted);
      return fmt::format(
          "by which its element [{}][{}] is at {}, where the copy asked for at {} has put {}; {}{}",
          is_a ? row : term, is_a ? term : row, block.shared.describe(offset_of(row, term)),
          place_of(found.pc), found.text(), wanted.text(),
          there.empty() ? " was to be expected" : " lies at " + there);
    }
  }
  return "";
}

}  // namespace cpu_device
