#include "common/cpu_device/warp_request.hpp"

#include <algorithm>

namespace cpu_device {

namespace {

constexpr unsigned banks = 32, bank_bytes = 4, sector_bytes = 32;

bool is_active(const WarpRequest& request, unsigned lane) { return (request.active >> lane & 1) != 0; }

// How many pieces of memory of SIZE bytes, at multiples of it, the lanes touch.
template <unsigned SIZE>
unsigned pieces(const WarpRequest& request, unsigned bytes) {
  // Sorted, the lanes touch ascending pieces, of which a lane's first may be the last of the lane before.
  std::array<std::uintptr_t, 32> addresses;
  std::size_t count = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (is_active(request, lane)) addresses[count++] = request.addresses[lane];
  }
  const auto addresses_end = addresses.begin() + count;
  if (!std::is_sorted(addresses.begin(), addresses_end)) std::sort(addresses.begin(), addresses_end);
  unsigned result = 0;
  std::uintptr_t next = 0;  // all pieces before have been counted
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t first = std::max(next, addresses[i] / SIZE);
    const std::uintptr_t end = (addresses[i] + bytes - 1) / SIZE + 1;
    if (end <= first) continue;
    result += static_cast<unsigned>(end - first);
    next = end;
  }
  return result;
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

// The wavefronts that lanes [begin, end) take when served at once: as many as the bank has words to deliver
// that has most. 0 if none of them is active.
std::uint64_t wavefronts_of_part(const WarpRequest& request, unsigned bytes, unsigned begin, unsigned end) {
  std::array<std::uintptr_t, 32 * 16 / bank_bytes> words;  // enough even for misaligned accesses
  std::size_t count = 0;
  for (unsigned lane = begin; lane < end; ++lane) {
    if (!is_active(request, lane)) continue;
    const std::uintptr_t first = request.addresses[lane] / bank_bytes;
    const std::uintptr_t last = (request.addresses[lane] + bytes - 1) / bank_bytes;
    for (std::uintptr_t word = first; word <= last; ++word) words[count++] = word;
  }
  std::sort(words.begin(), words.begin() + count);
  const auto words_end = std::unique(words.begin(), words.begin() + count);
  std::array<std::uint64_t, banks> wanted{};
  for (auto word = words.begin(); word != words_end; ++word) ++wanted[*word % banks];
  return *std::max_element(wanted.begin(), wanted.end());
}

}  // namespace

unsigned sectors(const WarpRequest& request, unsigned bytes) { return pieces<sector_bytes>(request, bytes); }

unsigned distinct_bytes(const WarpRequest& request, unsigned bytes) { return pieces<1>(request, bytes); }

Wavefronts wavefronts(const WarpRequest& request, unsigned bytes) {
  Wavefronts result;
  if (bytes > 4 && bytes != 8 && bytes != 16) {  // no instruction moves so many: several that move 4 each
    WarpRequest part = request;
    for (unsigned done = 0; done < bytes; done += 4) {
      const Wavefronts w = wavefronts(part, std::min(4u, bytes - done));
      result.wavefronts += w.wavefronts;
      result.ideal += w.ideal;
      for (std::uintptr_t& address : part.addresses) address += 4;
    }
    return result;
  }
  unsigned lanes = bytes <= 4 ? 32 : 32 * bank_bytes / bytes;  // of a part
  if (bytes > 4 && (neighbours_agree(request, 1) || neighbours_agree(request, 2))) lanes *= 2;
  for (unsigned begin = 0; begin < 32; begin += lanes) {
    const std::uint64_t part = wavefronts_of_part(request, bytes, begin, begin + lanes);
    result.wavefronts += part;
    result.ideal += part > 0;
  }
  return result;
}

}  // namespace cpu_device
