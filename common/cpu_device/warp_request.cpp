#include "common/cpu_device/warp_request.hpp"

#include <algorithm>

namespace cpu_device {

namespace {

constexpr unsigned banks = 32, bank_bytes = 4, sector_bytes = 32;

bool is_active(const WarpRequest& request, unsigned lane) { return (request.active >> lane & 1) != 0; }

// std::sort, but usually there is nothing to do.
template <typename Iterator>
void sort(Iterator begin, Iterator end) {
  if (!std::is_sorted(begin, end)) std::sort(begin, end);
}

// Calls found(first, end) with the numbers of the pieces of memory, SIZE bytes each, that the lanes touch:
// ascending, none twice.
template <unsigned SIZE, typename Found>
void for_each_piece(const WarpRequest& request, unsigned bytes, const Found& found) {
  // In sorted order, lanes touch ascending pieces; a lane's first may be the last of the lane before.
  std::array<std::uintptr_t, 32> addresses;
  std::size_t count = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (is_active(request, lane)) addresses[count++] = request.addresses[lane];
  }
  sort(addresses.begin(), addresses.begin() + count);
  std::uintptr_t next = 0;  // all pieces before this one have been found
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t first = std::max(next, addresses[i] / SIZE);
    const std::uintptr_t end = (addresses[i] + bytes - 1) / SIZE + 1;
    if (end <= first) continue;
    found(first, end);
    next = end;
  }
}

template <unsigned SIZE>
unsigned pieces(const WarpRequest& request, unsigned bytes) {
  unsigned result = 0;
  for_each_piece<SIZE>(request, bytes, [&](std::uintptr_t first, std::uintptr_t end) {
    result += static_cast<unsigned>(end - first);
  });
  return result;
}

template <unsigned SIZE>
unsigned pieces(const MemoryRows& rows) {
  std::uintptr_t result = 0, next = 0;  // all pieces before this one have been found
  for (std::uint32_t row = 0; row < rows.count; ++row) {
    const std::uintptr_t first = std::max(next, rows.begin(row) / SIZE);
    const std::uintptr_t end = (rows.begin(row) + rows.bytes - 1) / SIZE + 1;
    if (end <= first) continue;
    result += end - first;
    next = end;
  }
  return static_cast<unsigned>(result);
}

// Whether every active lane i wants the same as lane i ^ distance, if that is active.
bool neighbours_agree(const WarpRequest& request, unsigned distance) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned other = lane ^ distance;
    if (!is_active(request, lane) || !is_active(request, other)) continue;
    if (request.addresses[lane] != request.addresses[other]) return false;
  }
  return true;
}

// How many words lanes [begin, end) want of each bank.
std::array<unsigned, banks> words_of_banks(const WarpRequest& request, unsigned bytes, unsigned begin,
                                           unsigned end) {
  std::array<std::uintptr_t, 32 * 16 / bank_bytes + 32> words;  // enough even for misaligned accesses
  std::size_t count = 0;
  for (unsigned lane = begin; lane < end; ++lane) {
    if (!is_active(request, lane)) continue;
    const std::uintptr_t first = request.addresses[lane] / bank_bytes;
    const std::uintptr_t last = (request.addresses[lane] + bytes - 1) / bank_bytes;
    for (std::uintptr_t word = first; word <= last; ++word) words[count++] = word;
  }
  sort(words.begin(), words.begin() + count);
  const auto words_end = std::unique(words.begin(), words.begin() + count);
  std::array<unsigned, banks> wanted{};
  for (auto word = words.begin(); word != words_end; ++word) ++wanted[*word % banks];
  return wanted;
}

// Calls found() with each Part in which some lane takes part.
template <typename Found>
void for_each_part(const WarpRequest& request, unsigned bytes, const Found& found) {
  if (request.active == 0) return;
  if (bytes > 4 && bytes != 8 && bytes != 16) {  // no instruction moves so many: several that move 4 each
    WarpRequest piece = request;
    for (unsigned done = 0; done < bytes; done += 4) {
      const unsigned size = std::min(4u, bytes - done);
      found(Part{0, 31, done, done + size - 1, words_of_banks(piece, size, 0, 32)});
      for (std::uintptr_t& address : piece.addresses) address += 4;
    }
    return;
  }
  unsigned lanes = bytes <= 4 ? 32 : 32 * bank_bytes / bytes;  // of a part
  if (bytes > 4 && (neighbours_agree(request, 1) || neighbours_agree(request, 2))) lanes *= 2;
  for (unsigned begin = 0; begin < 32; begin += lanes) {
    const std::uint32_t in_part = lanes == 32 ? ~0u : ((1u << lanes) - 1) << begin;
    if ((request.active & in_part) == 0) continue;
    found(Part{begin, begin + lanes - 1, 0, bytes - 1, words_of_banks(request, bytes, begin, begin + lanes)});
  }
}

}  // namespace

unsigned sectors(const WarpRequest& request, unsigned bytes) { return pieces<sector_bytes>(request, bytes); }

unsigned distinct_bytes(const WarpRequest& request, unsigned bytes) { return pieces<1>(request, bytes); }

unsigned sectors(const MemoryRows& rows) { return pieces<sector_bytes>(rows); }

unsigned distinct_bytes(const MemoryRows& rows) { return pieces<1>(rows); }

std::vector<std::uintptr_t> sector_addresses(const WarpRequest& request, unsigned bytes) {
  std::vector<std::uintptr_t> addresses;
  for_each_piece<sector_bytes>(request, bytes, [&](std::uintptr_t first, std::uintptr_t end) {
    for (; first < end; ++first) addresses.push_back(first * sector_bytes);
  });
  return addresses;
}

unsigned Part::wavefronts() const { return *std::max_element(words.begin(), words.end()); }

std::vector<Part> parts(const WarpRequest& request, unsigned bytes) {
  std::vector<Part> found;
  for_each_part(request, bytes, [&](const Part& part) { found.push_back(part); });
  return found;
}

Wavefronts wavefronts(const WarpRequest& request, unsigned bytes) {
  Wavefronts result;
  for_each_part(request, bytes, [&](const Part& part) {
    result.wavefronts += part.wavefronts();
    ++result.ideal;
  });
  return result;
}

std::vector<Part> matrix_parts(const WarpRequest& request) {
  constexpr unsigned rows = 8, row_bytes = 16;  // of a matrix
  std::vector<Part> found;
  for (unsigned begin = 0; begin < 32; begin += rows) {
    if ((request.active >> begin & 0xff) == 0) continue;
    found.push_back(
        {begin, begin + rows - 1, 0, row_bytes - 1, words_of_banks(request, row_bytes, begin, begin + rows)});
  }
  return found;
}

Wavefronts matrix_wavefronts(const WarpRequest& request) {
  Wavefronts result;
  for (const Part& part : matrix_parts(request)) {
    result.wavefronts += part.wavefronts();
    ++result.ideal;
  }
  return result;
}

Wavefronts bulk_wavefronts(const MemoryRows& rows) {
  constexpr unsigned line = banks * bank_bytes;
  std::uint64_t lines = 0;
  for (std::uint32_t row = 0; row < rows.count; ++row) {
    const std::uintptr_t first = rows.begin(row);
    lines += (first + rows.bytes - 1) / line - first / line + 1;
  }
  return {lines, lines};
}

}  // namespace cpu_device
