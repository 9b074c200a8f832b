#pragma once

// Bulk and tensor stores, from shared to global memory. They read their source when a thread waits for that,
// and write when it waits for that: at the latest moment that the rules allow.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/cpu_device/async_engine.hpp"

namespace cpu_device {

struct Block;
struct BoxPlace;

// Those that a thread has asked for and not waited for, oldest first.
struct BulkStores {
  struct Store {
    const std::byte* shared;
    CopiedRows rows;  // what of them is "read" is what is written in global memory
    unsigned group;
    const void* pc;
    bool has_read = false;
    std::vector<std::byte> bytes = {};  // what it has read

    // All of its box lies outside the matrix: it writes nothing, but nobody promises that it reads nothing.
    bool is_outside() const { return rows.read.rows == 0; }
    // Calls f(offset in shared memory, bytes there, offset in the rows) for each contiguous part of the
    // source that is stored; if nothing is, for each of what may be read.
    template <typename F>
    void for_source(F f) const {
      constexpr std::uint32_t group = 16;  // which the swizzle leaves together
      const auto row = [&](std::uint32_t at, std::uint32_t bytes) {
        if (rows.swizzle == Swizzle::none) return f(at, bytes, at);
        const std::uint32_t end = at + bytes;
        for (std::uint32_t i = at; i < end; i = (i / group + 1) * group) {
          const auto from = static_cast<std::uint32_t>(swizzled(rows.swizzle, i));
          f(from, std::min(end, (i / group + 1) * group) - i, i);
        }
      };
      rows.for_rows_read([&](std::size_t begin, const std::byte*) {
        row(static_cast<std::uint32_t>(begin), rows.read.row_bytes);
      });
      if (!is_outside()) return;
      for (std::uint32_t i = 0; i < rows.rows; ++i) row(i * rows.row_bytes, rows.row_bytes);
    }
  };
  std::vector<Store> waiting;
  unsigned groups = 0;  // closed so far
};
using BulkStoresOfBlock = std::map<unsigned, BulkStores>;  // by thread, of those that have asked for any

// All threads have left the kernel: the stores write. Those that nobody has seen reading their source are
// reported, as another block may have that memory by then.
void end_bulk_stores(Block& block);
// Some of what stores and wgmma have yet to read has been marked as read, by others: marks it again.
void mark_unread_again(const Block& block);
// Of a place in the block's shared memory that a store or a wgmma has yet to read: "a store that thread
// (0,0,0) asked for at ... has yet to read: nobody has waited for it".
std::string unread_by(const Block& block, std::size_t offset);

// ---- tensor_copy.cpp -------------------------------------------------------------------------------------

// Of the box of a tensor map that is to be copied from it, or stored to it; reports what is wrong with it,
// and ends the launch.
CopiedRows box_rows(const void* shared, const BoxPlace& place, bool stores, const void* pc);

// ---- async_engine.cpp ------------------------------------------------------------------------------------

// The same for a bulk copy or store.
CopiedRows bulk_rows(const void* shared, const void* global, std::uint32_t bytes, bool stores,
                     const void* pc);

}  // namespace cpu_device
