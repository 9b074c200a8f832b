#pragma once

// What tensor copies have laid out in a block's shared memory, and whether a matrix descriptor describes it.

#include <cstddef>
#include <map>
#include <string>

#include "common/cpu_device/operand.hpp"
#include "common/cuda/matrix_descriptor.hpp"

namespace cpu_device {

struct BoxPlace;
struct Block;

class TileLayout {
 public:
  void begin() { boxes_.clear(); }
  // A copy fills so many bytes from an offset in shared memory on: with a box of a tensor map, or with
  // something else (nullptr).
  void fill(std::size_t offset, std::size_t bytes, const BoxPlace* place, const void* pc);
  // Whether the elements of an operand of so many rows and terms, of which copies have brought all, are a
  // tile of a matrix, which this wants of them: those of a row are of one row of the matrix (or of one
  // column), those of a term of one column, and no two are the same. Which rows and columns these are does
  // not matter. If they are not: what is wrong, "element (0, 64) is at ... by it, where ...".
  std::string mismatch(const Block& block, const Operand& operand, Major major, OperandType type, bool is_a,
                       int rows, int terms) const;

 private:
  struct Box {
    std::size_t bytes;
    const void* data;  // of the matrix
    int matrix, row, col;
    std::size_t row_bytes, element_bytes;
    Swizzle swizzle;
    const void* pc;
  };
  // An element of a matrix.
  struct Element {
    const void* data = nullptr;
    int matrix = 0, row = 0, col = 0;
    const void* pc = nullptr;  // of the copy
    bool same_matrix(const Element& other) const { return data == other.data && matrix == other.matrix; }
    std::string text() const;  // "A[3][80]"
  };
  // At an offset in shared memory; without `data`: something else.
  Element element_at(const Block& block, std::size_t offset) const;
  // Where an element lies: "Tiles::A[0] + 272 bytes"; "": nowhere.
  std::string place_of_element(const Block& block, const Element& element) const;
  std::map<std::size_t, Box> boxes_;  // by offset
};

}  // namespace cpu_device
