#pragma once

// What the memories need to serve one access by the lanes of a warp at once, as the hardware counts it: the
// model behind the X-ray. Tests hold it to the counters of an H200.

#include <array>
#include <cstdint>
#include <vector>

namespace cpu_device {

// One access by the lanes of a warp at once, with the same number of bytes for each.
struct WarpRequest {
  std::uint32_t active = 0;                    // bit i: lane i takes part
  std::array<std::uintptr_t, 32> addresses{};  // bytes
};

// ---- Global memory -------------------------------------------------------------------------------------

// How many 32-byte sectors the lanes touch. A sector counts once, however many lanes want it.
unsigned sectors(const WarpRequest& request, unsigned bytes);

// The addresses of these sectors, in order.
std::vector<std::uintptr_t> sector_addresses(const WarpRequest& request, unsigned bytes);

// How many bytes the lanes want, each counted once.
unsigned distinct_bytes(const WarpRequest& request, unsigned bytes);

// The same for rows in memory, `pitch` bytes apart, as a bulk copy reads them.
struct MemoryRows {
  std::uintptr_t address;
  std::uint32_t count, bytes;  // of each
  std::int64_t pitch;          // not negative
  std::uintptr_t begin(std::uint32_t row) const {
    return address + static_cast<std::uintptr_t>(row) * static_cast<std::uintptr_t>(pitch);
  }
};
unsigned sectors(const MemoryRows& rows);
unsigned distinct_bytes(const MemoryRows& rows);

// ---- The banks, of shared memory and of the L1 cache ---------------------------------------------------

struct Wavefronts {
  std::uint64_t wavefronts = 0;
  std::uint64_t ideal = 0;  // without bank conflicts
  bool operator==(const Wavefronts&) const = default;
};

// There are 32 banks, each of which delivers one 4-byte word per wavefront, to however many lanes want that
// word. Up to 4 bytes are served for the whole warp at once, 8 bytes in two half-warps, 16 bytes in four
// quarter-warps. If every active lane i wants the same as lane i ^ 1 (or every one the same as lane i ^ 2),
// two parts become one; inactive lanes do not matter. Measured on an H200.
Wavefronts wavefronts(const WarpRequest& request, unsigned bytes);

// What is served at once: the bytes [first_byte, last_byte] of lanes [first_lane, last_lane]; these are all
// of a lane's bytes unless no instruction moves so many.
struct Part {
  unsigned first_lane, last_lane;
  unsigned first_byte, last_byte;
  std::array<unsigned, 32> words;  // wanted of each bank; their maximum is the part's wavefronts
  unsigned wavefronts() const;
};

// The parts with any active lane. Their wavefronts add up to the request's; without bank conflicts each takes
// one.
std::vector<Part> parts(const WarpRequest& request, unsigned bytes);

// Of an ldmatrix, whose lanes give the addresses of 16-byte rows: the eight rows of a matrix are served at
// once, like eight lanes with 16 bytes each, and in one wavefront if they lie in different banks; two
// matrices never are. To be held against a GPU's counters.
Wavefronts matrix_wavefronts(const WarpRequest& request);
std::vector<Part> matrix_parts(const WarpRequest& request);

// Of a bulk copy, which has no lanes: a wavefront for each 128-byte line that a row touches.
Wavefronts bulk_wavefronts(const MemoryRows& rows);

}  // namespace cpu_device
