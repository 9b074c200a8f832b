#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace harness {

// The header of a .npy file, checked.
struct NpyHeader {
  std::vector<std::int64_t> shape;  // empty for a 0-d array, which has one element
  bool fortran_order = false;       // true: the first index varies fastest
  std::int64_t data_offset = 0;     // bytes before the first element

  // The product of the sizes. It fits for every header that read_npy_header returned.
  std::int64_t elements() const;
};

// Reads and checks the header of a float32 ('<f4') array, format versions 1.0, 2.0 and 3.0. The file must be
// a regular file of exactly the size that the header promises. Does not read the data.
// Throws InputError, as read_npy_data does.
NpyHeader read_npy_header(const std::string& path);

// Reads the header.elements() floats that follow the header to `out`, in the order of the file.
void read_npy_data(const std::string& path, const NpyHeader& header, float* out);

// The header bytes of a float32 array, version 1.0, padded so that the data start 64-byte aligned.
// Throws std::invalid_argument for a negative size, or more dimensions than a version 1.0 header holds.
std::string npy_header_bytes(const std::vector<std::int64_t>& shape, bool fortran_order);

}  // namespace harness
