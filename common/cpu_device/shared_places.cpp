// Places in the shared memory of a cluster's blocks: what they are called, and what copies do there.

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"

namespace cpu_device {

std::string describe_shared(const void* shared) {
  const SharedPlace place = find_shared(shared, 1);
  const std::string name = place.block->shared.describe(place.offset);
  return place.block == current_block
             ? name
             : name + " of " + block_name(place.block->launch.grid, place.block->number);
}

void mark_pending(const void* shared, unsigned bytes, bool pending) {
  const SharedPlace place = find_shared(shared, bytes);
  if (!place.inside) return;
  for_words(place.offset, bytes,
            [&](std::size_t word, unsigned mask) { place.block->shadow->mark_pending(word, mask, pending); });
}

void check_fenced(const void* shared, unsigned bytes, const char* does, const void* pc) {
  const SharedPlace place = find_shared(shared, bytes);
  if (!place.inside) return;
  for_words(place.offset, bytes, [&](std::size_t word, unsigned mask) {
    place.block->shadow->check_fenced(word, mask, does, pc);
  });
}

void mark_unread(const void* shared, unsigned bytes, bool unread) {
  const SharedPlace place = find_shared(shared, bytes);
  if (!place.inside) return;
  for_words(place.offset, bytes,
            [&](std::size_t word, unsigned mask) { place.block->shadow->mark_unread(word, mask, unread); });
}

void check_async_read(const SharedPlace& place, unsigned bytes, const char* does, const void* pc) {
  const Block& block = *current_block;
  SharedShadow& shadow = *place.block->shadow;
  for_words(place.offset, bytes, [&](std::size_t word, unsigned mask) {
    shadow.check_read(word, mask, block.actor(block.current), pc);
    shadow.check_fenced(word, mask, does, pc);
  });
}

void read_by_engine(const void* shared, unsigned bytes, unsigned engine, Tick tick, const void* pc) {
  const SharedPlace place = find_shared(shared, bytes);
  for_words(place.offset, bytes, [&](std::size_t word, unsigned mask) {
    place.block->shadow->mark_unread(word, mask, false);
    place.block->shadow->read_by_engine(word, mask, engine, tick, pc);
  });
}

void fill_shared(const void* shared, unsigned bytes, unsigned engine, Tick tick, bool unfenced,
                 const void* pc) {
  const SharedPlace place = find_shared(shared, bytes);
  for_words(place.offset, bytes, [&](std::size_t word, unsigned mask) {
    place.block->shadow->fill(word, mask, engine, tick, unfenced, pc);
  });
}

NamedArray shared_array_at(std::size_t offset) {
  return current_block == nullptr ? NamedArray{"dynamic", tls_bytes()}
                                  : current_block->shared.array_at(offset);
}

const std::byte* readable(Space space, std::uintptr_t address, unsigned bytes) {
  if (space == Space::shared) return current_block->shared.at(address, bytes);
  return is_allocated(address, bytes) ? reinterpret_cast<const std::byte*>(address) : nullptr;
}

}  // namespace cpu_device
