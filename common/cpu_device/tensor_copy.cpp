#include "common/cpu_device/tensor_copy.hpp"

#include <algorithm>
#include <utility>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/bulk_stores.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/map_parameters.hpp"
#include "common/cpu_device/report.hpp"

namespace cpu_device {

namespace {

// How many of `box` indices from `first` on are inside [0, size), and how many come before those.
std::pair<std::uint32_t, std::uint32_t> inside(std::int64_t first, int box, int size) {
  const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, box);
  const std::int64_t end = std::clamp<std::int64_t>(size - first, begin, box);
  return {static_cast<std::uint32_t>(end - begin), static_cast<std::uint32_t>(begin)};
}

// Where a row of the matrix ends for a copy or a store, in elements.
int end_of_row(const TensorMap& map, bool stores) {
  if (!stores) return map.cols;
  const int together = 16 / map.element_bytes;
  return (map.cols + together - 1) / together * together;
}

}  // namespace

TensorMap make_tensor_map(const TensorShape& shape) {
  check_tensor_shape(shape);
  TensorMap map;
  if (shape.empty()) return map;
  map.data = static_cast<const std::byte*>(shape.matrix);
  map.row_pitch = shape.row_pitch();
  map.matrix_pitch = shape.matrix_pitch();
  map.rows = shape.rows;
  map.cols = shape.cols;
  map.batch = shape.batch;
  map.box_rows = shape.box_rows;
  map.box_cols = shape.box_cols;
  map.element_bytes = shape.element_bytes;
  map.swizzle = shape.swizzle;
  map.convert = shape.convert;
  return map;
}

void TensorMap::copy(const TensorMap& from) {
  data = from.data;
  row_pitch = from.row_pitch;
  matrix_pitch = from.matrix_pitch;
  rows = from.rows;
  cols = from.cols;
  batch = from.batch;
  box_rows = from.box_rows;
  box_cols = from.box_cols;
  element_bytes = from.element_bytes;
  swizzle = from.swizzle;
  convert = from.convert;
  if (current_block == nullptr) {
    owner = from.owner;
  } else {
    owner = from.owner == Owner::host ? Owner::parameter : Owner::thread;
  }
}

TensorMap::TensorMap(const TensorMap& from) { copy(from); }

TensorMap& TensorMap::operator=(const TensorMap& from) {
  copy(from);
  return *this;
}

std::string BoxPlace::text() const {
  const std::string_view name = global_array_at(reinterpret_cast<std::uintptr_t>(map->data)).name;
  return "the box of " + std::to_string(map->box_rows) + " x " + std::to_string(map->box_cols) + " at row " +
         std::to_string(row) + ", column " + std::to_string(col) + " of " +
         (map->batch > 1 ? "matrix " + std::to_string(matrix) + " of " : "") +
         (name.empty() ? "a matrix" : std::string(name));
}

namespace {

// The hardware reads a map from where the launch has put it, or from global memory.
void check_map_is_readable(const TensorMap& map, bool stores, const void* pc) {
  if (map.owner == TensorMap::Owner::thread) {
    report(FaultKind::tensor_map_misuse, pc,
           std::string(stores ? "stores" : "copies") +
               " by a tensor map in the thread's own memory, a copy that the kernel has made; it must be the "
               "parameter itself, or lie in global memory");
    return;
  }
  const Launch& launch = current_block->launch;
  if (!launch.checked || map.owner != TensorMap::Owner::parameter) return;
  const std::string& parameter = parameter_without_grid_constant(launch.kernel);
  const void* kernel = after_entry(launch.kernel);
  if (parameter.empty() || reported_before(FaultKind::tensor_map_misuse, kernel)) return;
  const BoxPlace* box = std::exchange(current_block->box, nullptr);  // it is not about this one
  report(FaultKind::tensor_map_misuse, kernel,
         "takes a tensor map in " + parameter +
             ", which is not const __grid_constant__: the compiler copies it into the thread's own memory");
  current_block->box = box;
}

}  // namespace

CopiedRows box_rows(const void* shared, const BoxPlace& place, bool stores, const void* pc) {
  const auto& [map_pointer, row, col, matrix] = place;
  const TensorMap& map = *map_pointer;
  if (map.data == nullptr) {
    report(FaultKind::out_of_bounds_global, pc,
           std::string(stores ? "stores" : "copies") +
               " by a tensor map that is that of an empty matrix, or has not been made");
    stop_launch();
  }
  check_map_is_readable(map, stores, pc);
  const unsigned alignment = alignment_of(map.swizzle);
  const bool shared_is_aligned = reinterpret_cast<std::uintptr_t>(shared) % alignment == 0;
  if (!shared_is_aligned || col * std::int64_t{map.element_bytes} % 16 != 0) {
    std::string what = (stores ? "stores to" : "copies from") +
                       std::string(" a column that is no multiple of 16 bytes away from column 0");
    if (!shared_is_aligned) {
      what = (stores ? "stores from" : "copies to") + std::string(" an address that is no multiple of ") +
             std::to_string(alignment);
      if (map.swizzle != Swizzle::none) {
        what += ", where the swizzle of " + std::to_string(bytes_of(map.swizzle)) +
                " bytes begins anew; the tile needs that alignment";
      }
    }
    report(FaultKind::misaligned, pc, what);
    stop_launch();
  }
  CopiedRows copied{static_cast<std::uint32_t>(map.box_rows),
                    map.box_cols * map.element_bytes,
                    {},
                    map.swizzle,
                    map.convert};
  const auto [rows, first_row] = inside(row, map.box_rows, map.rows);
  const auto [cols, first_col] = inside(col, map.box_cols, end_of_row(map, stores));
  if (rows > 0 && cols > 0 && matrix >= 0 && matrix < map.batch) {
    const std::int64_t first = matrix * map.matrix_pitch + (std::int64_t{row} + first_row) * map.row_pitch +
                               (std::int64_t{col} + first_col) * map.element_bytes;
    copied.read = {first_row,        rows,         first_col * map.element_bytes, cols * map.element_bytes,
                   map.data + first, map.row_pitch};
  }
  return copied;
}

void copy_box(void* shared, const TensorMap& map, int col, int row, int matrix, std::uint64_t* barrier) {
  const void* pc = __builtin_return_address(0);
  const BoxPlace place{&map, row, col, matrix};
  current_block->box = map.data == nullptr ? nullptr : &place;
  start_copy({{current_block, shared, barrier}}, box_rows(shared, place, false, pc), pc);
  current_block->box = nullptr;
}

void copy_box_multicast(void* shared, const TensorMap& map, int col, int row, int matrix,
                        std::uint64_t* barrier, std::uint16_t blocks) {
  const void* pc = __builtin_return_address(0);
  const BoxPlace place{&map, row, col, matrix};
  current_block->box = map.data == nullptr ? nullptr : &place;
  const CopiedRows rows = box_rows(shared, place, false, pc);
  start_copy(targets_of_multicast(shared, barrier, blocks, pc), rows, pc);
  current_block->box = nullptr;
}

}  // namespace cpu_device
