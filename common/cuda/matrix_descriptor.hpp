#pragma once

// How wgmma is told where an operand lies in shared memory: by a matrix descriptor of 64 bits. PTX ISA,
// "Asynchronous Warpgroup Level Matrix Instructions: Matrix Descriptor Format", "Strides".
//
// An operand is A [M][K] or B [K][N]; below, a row is one of A, or a column of B. Its elements are K-major in
// memory if those of a row lie side by side, terms of one sum, and MN-major if rows do (A column-major, B
// row-major).
//
// The smallest piece is a core matrix: eight lines of 16 bytes. K-major, a line is a part of a row; MN-major,
// of a k. With a swizzle of S bytes, lines lie S bytes apart, S / 16 core matrices side by side, and these
// 8 * S bytes make an atom, within which 16-byte groups change places (tensor_shape.hpp): that is what a
// tensor copy of a box with rows of S bytes leaves in shared memory, eight of its rows in each atom. Without
// a swizzle a core matrix is 128 contiguous bytes, and an atom by itself. The distances, in bytes:
//
//                stride                                leading
//   K-major      from eight rows to the next eight     between core matrices along k; not used with a
//                                                      swizzle, whose atom holds all of an instruction's k
//   MN-major     from eight k to the next eight        between atoms along a line, S / 2 rows of 16 bits
//                                                      further on; without a swizzle the two exchange roles

#include <cstddef>
#include <cstdint>

#include "common/cuda/tensor_shape.hpp"

enum class Major { K, MN };

// The bits of a descriptor; addresses and distances are multiples of 16 below 2^18, and stored divided by 16:
//   0 to 13    where the operand begins in shared memory
//   16 to 29   leading
//   32 to 45   stride
//   49 to 51   how far the pattern of the swizzle is shifted: 0, as tiles lie at multiples of alignment_of()
//   62, 63     the swizzle: none, 128, 64 or 32 bytes, in this order
HOST_DEVICE constexpr std::uint64_t descriptor_bits(std::uint32_t address, Swizzle swizzle, unsigned leading,
                                                    unsigned stride) {
  const auto field = [](std::uint32_t bytes) { return std::uint64_t{(bytes & 0x3ffff) >> 4}; };
  const std::uint64_t mode = swizzle == Swizzle::none           ? 0
                             : swizzle == Swizzle::of_128_bytes ? 1
                             : swizzle == Swizzle::of_64_bytes  ? 2
                                                                : 3;
  return field(address) | field(leading) << 16 | field(stride) << 32 | mode << 62;
}
