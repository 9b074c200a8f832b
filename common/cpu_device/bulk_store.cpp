#include "common/cpu_device/bulk_store.hpp"

#include <cstring>

#include "common/cpu_device/bulk_stores.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"

namespace cpu_device {

namespace {

using Store = BulkStores::Store;

std::byte* written(const std::byte* global) { return const_cast<std::byte*>(global); }

void mark_source(const Store& store, bool unread) {
  store.for_source([&](std::uint32_t offset, std::uint32_t bytes, std::uint32_t) {
    mark_unread(store.shared + offset, bytes, unread);
  });
}

// The running thread asks for it.
void start(const void* shared, const CopiedRows& rows, const void* pc) {
  Block& block = *current_block;
  BulkStores& stores = block.bulk_stores[block.current];
  Store store{static_cast<const std::byte*>(shared), rows, stores.groups, pc};
  if (rows.bytes() == 0) return;
  if (block.launch.checked) {
    // From here on the store may read and write at any time. What it reads matters only if it is stored.
    if (!store.is_outside()) {
      store.for_source([&](std::uint32_t offset, std::uint32_t bytes, std::uint32_t) {
        check_memory(reinterpret_cast<std::uintptr_t>(store.shared + offset), bytes, false, pc);
        check_fenced(store.shared + offset, bytes, "has a store read", pc);
      });
    }
    mark_source(store, true);
    rows.for_rows_read([&](std::size_t, const std::byte* global) {
      check_store_target(reinterpret_cast<std::uintptr_t>(global), rows.read.row_bytes, pc);
    });
  }
  rows.for_rows_read(
      [&](std::size_t, const std::byte* global) { poison(written(global), rows.read.row_bytes); });
  stores.waiting.push_back(std::move(store));
}

void read_source(Store& store) {
  store.has_read = true;
  if (store.is_outside()) return;
  store.bytes.resize(store.rows.bytes());
  store.for_source([&](std::uint32_t offset, std::uint32_t bytes, std::uint32_t at) {
    std::memcpy(store.bytes.data() + at, store.shared + offset, bytes);
  });
}

void write_target(const Store& store) {
  store.rows.for_rows_read([&](std::size_t offset, const std::byte* global) {
    std::memcpy(written(global), store.bytes.data() + offset, store.rows.read.row_bytes);
  });
}

// What the running thread's stores read, it has seen them read.
void finish_read(Block& block, Store& store) {
  if (store.has_read) return;
  read_source(store);
  if (!block.launch.checked) return;
  mark_source(store, false);
  mark_unread_again(block);
  if (store.is_outside()) return;
  store.for_source([&](std::uint32_t offset, std::uint32_t bytes, std::uint32_t) {
    check_memory(reinterpret_cast<std::uintptr_t>(store.shared + offset), bytes, false, store.pc);
  });
}

void finish_write(Block& block, const Store& store) {
  write_target(store);
  if (!block.launch.checked) return;
  const unsigned actor = block.actor(block.current);
  store.rows.for_rows_read([&](std::size_t, const std::byte* global) {
    finish_global(reinterpret_cast<std::uintptr_t>(global), store.rows.read.row_bytes, true, actor, actor,
                  block.clocks->now(), store.pc);
  });
}

}  // namespace

void bulk_store(void* global, const void* shared, std::uint32_t bytes) {
  const void* pc = __builtin_return_address(0);
  start(shared, bulk_rows(shared, global, bytes, true, pc), pc);
}

void store_box(const TensorMap& map, int col, int row, int matrix, const void* shared) {
  const void* pc = __builtin_return_address(0);
  const BoxPlace place{&map, row, col, matrix};
  current_block->box = map.data == nullptr ? nullptr : &place;
  if (row < 0 || col < 0 || matrix < 0) {
    report(FaultKind::out_of_bounds_global, pc,
           "stores a box that begins before its matrix; the hardware ends the kernel with an illegal "
           "instruction");
    stop_launch();
  }
  start(shared, box_rows(shared, place, true, pc), pc);
  current_block->box = nullptr;
}

void bulk_store_commit() { ++current_block->bulk_stores[current_block->current].groups; }

void bulk_store_wait(unsigned pending, bool only_read) {
  Block& block = *current_block;
  BulkStores& stores = block.bulk_stores[block.current];
  auto store = stores.waiting.begin();
  for (; store != stores.waiting.end() && store->group + pending < stores.groups; ++store) {
    finish_read(block, *store);
    if (!only_read) finish_write(block, *store);
  }
  if (!only_read) stores.waiting.erase(stores.waiting.begin(), store);
}

void end_bulk_stores(Block& block) {
  for (auto& [thread, stores] : block.bulk_stores) {
    block.current = thread;
    for (Store& store : stores.waiting) {
      if (!store.has_read) {
        report(FaultKind::copy_outlives_block, store.pc,
               "asked for a store of " + std::to_string(store.rows.bytes()) +
                   " bytes, and nobody has waited until it has read them when the block ends "
                   "(bulk_store_wait_read); by then they may be another block's");
        read_source(store);
      }
      write_target(store);
    }
  }
}

void mark_unread_again(const Block& block) {
  for (const auto& [thread, stores] : block.bulk_stores) {
    for (const Store& store : stores.waiting) {
      if (!store.has_read) mark_source(store, true);
    }
  }
  for (const auto& unit : block.matrix_units) {
    if (unit != nullptr) unit->mark_unread_again();
  }
}

std::string unread_by(const Block& block, std::size_t offset) {
  for (const auto& unit : block.matrix_units) {
    const std::string text = unit == nullptr ? "" : unit->unread_by(block, offset);
    if (!text.empty()) return text;
  }
  for (const auto& [thread, stores] : block.bulk_stores) {
    for (const Store& store : stores.waiting) {
      bool covers = false;
      store.for_source([&](std::uint32_t begin, std::uint32_t bytes, std::uint32_t) {
        covers |=
            offset - block.shared.find(reinterpret_cast<std::uintptr_t>(store.shared + begin), bytes).offset <
            bytes;
      });
      if (covers && !store.has_read) {
        return "a store that " + thread_name(block, thread) + " asked for at " + place_of(store.pc) +
               " has yet to read: nobody has waited for it";
      }
    }
  }
  return "a store has yet to read";
}

}  // namespace cpu_device
