#include "common/cpu_device/global_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/global_shadow.hpp"
#include "common/cpu_device/guarded_memory.hpp"

namespace cpu_device {

namespace {

// Two bits for each byte of a word.
constexpr unsigned may_read = 1, may_write = 2;

// The permission for each of the word's bytes that are in `bytes` (bit i: byte i).
constexpr std::uint8_t for_bytes(unsigned bytes, unsigned permission) {
  const unsigned spread = (bytes & 1) | (bytes & 2) << 1 | (bytes & 4) << 2 | (bytes & 8) << 3;
  return static_cast<std::uint8_t>(spread * permission);
}

}  // namespace

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::vector<MatrixView> views;
  // One entry per 4-byte word, as soon as a view describes the allocation.
  std::unique_ptr<std::uint8_t[], Free> permission;
  std::shared_ptr<GlobalShadow> shadow;  // of the latest checked launch, if a view is writable
  std::vector<EarlierShadow> earlier;    // of launches that may still be running

  std::size_t words() const { return bytes / 4; }
};

namespace {

std::mutex allocations_mutex;  // for changes; there are none during a launch, so kernels read without it
std::map<std::uintptr_t, Allocation> allocations;  // by address

// The allocation that contains the address, or nullptr.
Allocation* find(std::uintptr_t address) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return address < allocation.begin + allocation.bytes ? &allocation : nullptr;
}

// The same during a launch, which allocates nothing: usually it is one of the latest found.
[[gnu::noinline]] Allocation* find_another(std::uintptr_t address, Cluster& cluster) {
  Allocation* found = find(address);
  if (found != nullptr) {
    auto& latest = cluster.latest_allocations;
    std::copy_backward(latest.begin(), latest.end() - 1, latest.end());
    latest.front() = found;
  }
  return found;
}
[[gnu::always_inline]] inline Allocation* find(std::uintptr_t address, Cluster& cluster) {
  for (Allocation* allocation : cluster.latest_allocations) {
    if (allocation != nullptr && address - allocation->begin < allocation->bytes) return allocation;
  }
  return find_another(address, cluster);
}

std::string shape(const MatrixView& view) {
  if (view.one_index) return view.name + " has " + std::to_string(view.cols) + " elements";
  return view.name + " is " + std::to_string(view.rows) + " x " + std::to_string(view.cols);
}

std::string element_name(const MatrixView& view, std::int64_t row, std::int64_t col) {
  return view.one_index ? fmt::format("{}[{}]", view.name, col)
                        : fmt::format("{}[{}][{}]", view.name, row, col);
}

// "A[3][80], but A is 100 x 80".
std::string describe_outside(const Allocation& allocation, std::uintptr_t address) {
  for (const MatrixView& view : allocation.views) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
    if (address < begin) {
      return std::to_string(begin - address) + " bytes before " + element_name(view, 0, 0) + "; " +
             shape(view);
    }
    const std::int64_t element = static_cast<std::int64_t>(address - begin) / view.element_bytes;
    const std::int64_t ld = std::max<std::int64_t>(view.leading_dimension, 1);
    const bool interleaved = view.rows > 1 && view.stride < ld;  // all first rows, then all second ones
    const std::int64_t in_unit = interleaved ? element % ld : element;
    const std::int64_t matrix = view.stride > 0 ? in_unit / view.stride : 0;
    const std::int64_t in_matrix = element - matrix * view.stride;
    if (matrix >= view.batch || in_matrix / ld >= view.rows) {
      const std::int64_t span = (view.rows - 1) * ld + view.cols;
      const std::int64_t last = (view.batch - 1) * view.stride + span;
      const bool in_gap = element < last;  // before the next matrix of the batch
      const std::int64_t beyond = in_gap ? in_matrix - span : element - last;
      return (beyond == 0 ? "right behind the end"
                          : fmt::format("{} bytes past the end", beyond * view.element_bytes)) +
             (in_gap ? fmt::format(" of matrix {}", matrix) : "") + " of " + view.name + "; " + shape(view);
    }
    return element_name(view, in_matrix / ld, in_matrix % ld) +
           (view.batch > 1 ? " of matrix " + std::to_string(matrix) : "") + ", but " + shape(view);
  }
  return "an address outside every matrix";
}

std::string describe_element(const Allocation& allocation, std::uintptr_t address) {
  if (allocation.views.empty()) {
    return "byte " + std::to_string(address - allocation.begin) + " of an allocation";
  }
  const std::string text = describe_outside(allocation, address);
  return text.substr(0, text.find(", but "));
}

// Reports what is wrong with an access to these bytes of a word. Returns false if they lie outside.
bool check_permission(Allocation& allocation, std::size_t word, unsigned bytes, bool write, const void* pc) {
  std::uint8_t& permission = allocation.permission[word];
  const std::uint8_t readable = for_bytes(bytes, may_read), writable = for_bytes(bytes, may_write);
  const std::uint8_t has = __atomic_load_n(&permission, __ATOMIC_RELAXED);
  const auto first = [&](std::uint8_t lacking) {  // the first byte that lacks it
    return allocation.begin + word * 4 + static_cast<unsigned>(std::countr_zero(lacking)) / 2;
  };
  const auto any = static_cast<std::uint8_t>(has | (has >> 1 & 0x55));
  if (const auto outside = static_cast<std::uint8_t>(~any & readable)) {
    report(FaultKind::out_of_bounds_global, pc,
           (write ? "writes " : "reads ") + describe_outside(allocation, first(outside)));
    return false;
  }
  if (const auto lacking = static_cast<std::uint8_t>(~has & writable); write && lacking != 0) {
    report(FaultKind::read_only, pc, "writes " + describe_element(allocation, first(lacking)));
  }
  // If only some blocks run, one of the others might have written it.
  const bool expected = current_block->launch.all;
  if (const auto lacking = static_cast<std::uint8_t>(~has & readable); !write && lacking != 0 && expected) {
    report(FaultKind::uninitialised_global, pc,
           "reads " + describe_element(allocation, first(lacking)) + ", which may hold anything");
  }
  if (write) __atomic_fetch_or(&permission, readable, __ATOMIC_RELAXED);
  return true;
}

void set_permission(Allocation& allocation, const MatrixView& view, unsigned permission) {
  if (view.rows == 0 || view.cols == 0) return;
  const std::size_t first = reinterpret_cast<std::uintptr_t>(view.data) - allocation.begin;
  for (std::int64_t matrix = 0; matrix < view.batch; ++matrix) {
    for (std::int64_t row = 0; row < view.rows; ++row) {
      const std::int64_t at = matrix * view.stride + row * view.leading_dimension;
      for_words(first + static_cast<std::size_t>(at) * view.element_bytes,
                static_cast<std::size_t>(view.cols) * view.element_bytes,
                [&](std::size_t word, unsigned bytes) {
                  std::uint8_t& bits = allocation.permission[word];
                  bits = static_cast<std::uint8_t>((bits & ~for_bytes(bytes, may_read | may_write)) |
                                                   for_bytes(bytes, permission));
                });
    }
  }
}

inline bool is_permitted(Allocation& allocation, std::size_t word, unsigned bytes, bool write,
                         const void* pc) {
  if (allocation.permission == nullptr) return true;
  const std::uint8_t needed = for_bytes(bytes, write ? may_read | may_write : may_read);
  const std::uint8_t has = __atomic_load_n(&allocation.permission[word], __ATOMIC_RELAXED);
  return (needed & ~has) == 0 || check_permission(allocation, word, bytes, write, pc);
}

inline void check_word(Allocation& allocation, std::size_t word, unsigned bytes, bool write, const void* pc) {
  if (!is_permitted(allocation, word, bytes, write, pc)) return;
  if (!allocation.earlier.empty()) check_earlier(allocation.earlier, word, {bytes, write, false}, pc);
  if (allocation.shadow != nullptr) allocation.shadow->access(word, bytes, write, false, pc);
}

}  // namespace

void* allocate(std::size_t bytes) {
  bytes = std::max(bytes, std::size_t{1});
  void* pointer = allocate_guarded(bytes);
  const std::lock_guard lock(allocations_mutex);
  Allocation& allocation = allocations[reinterpret_cast<std::uintptr_t>(pointer)];
  allocation.begin = reinterpret_cast<std::uintptr_t>(pointer);
  allocation.bytes = bytes;
  return pointer;
}

void release(void* pointer) {
  if (pointer == nullptr) return;
  forget_past_launches();  // as to free memory waits for the device
  const std::lock_guard lock(allocations_mutex);
  const auto found = allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
  release_guarded(pointer, found->second.bytes);
  allocations.erase(found);
}

void describe(const MatrixView& view) {
  const bool empty = view.rows == 0 || view.cols == 0 || view.batch == 0;
  const std::lock_guard lock(allocations_mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  Allocation* allocation = find(begin);
  const std::int64_t last =
      empty ? 0 : (view.batch - 1) * view.stride + (view.rows - 1) * view.leading_dimension + view.cols;
  if (allocation == nullptr ||
      begin + static_cast<std::size_t>(last) * view.element_bytes > allocation->begin + allocation->bytes) {
    throw std::invalid_argument("describe: " + view.name + " does not lie inside one allocation");
  }
  if (allocation->permission == nullptr) allocation->permission = zeroed<std::uint8_t>(allocation->words());
  std::vector<MatrixView>& views = allocation->views;
  const auto old =
      std::find_if(views.begin(), views.end(), [&](const auto& v) { return v.data == view.data; });
  if (old != views.end()) {
    set_permission(*allocation, *old, 0);
    views.erase(old);
  }
  set_permission(*allocation, view, (view.readable ? may_read : 0) | (view.writable ? may_write : 0));
  views.push_back(view);
}

void begin_global_accesses(LaunchRecord& record) {
  for (auto& [begin, allocation] : allocations) {
    allocation.earlier.clear();
    for (const auto& launch : record.before) {
      const auto found = launch->shadows.find(begin);
      if (found == launch->shadows.end()) continue;
      allocation.earlier.push_back({launch, found->second});
    }
    const auto writable = [](const MatrixView& view) { return view.writable; };
    if (std::none_of(allocation.views.begin(), allocation.views.end(), writable)) continue;
    allocation.shadow.reset();
    allocation.shadow = std::make_shared<GlobalShadow>(begin, allocation.words());
    record.shadows[begin] = allocation.shadow;
  }
}

bool check_global(std::uintptr_t address, unsigned bytes, bool write, const void* pc) {
  Allocation* allocation = find(address, current_block->cluster);
  if (allocation == nullptr || address + bytes > allocation->begin + allocation->bytes) return false;
  for_words(address - allocation->begin, bytes, [&](std::size_t word, unsigned mask) {
    if (word < allocation->words()) check_word(*allocation, word, mask, write, pc);
  });
  return true;
}

bool check_global_atomic(std::uintptr_t address, bool reads, bool writes, const void* pc) {
  Allocation* allocation = find(address, current_block->cluster);
  if (allocation == nullptr || address + 4 > allocation->begin + allocation->bytes) return false;
  const std::size_t word = (address - allocation->begin) / 4;
  if (allocation->permission != nullptr) {
    if (reads && !check_permission(*allocation, word, whole_word, false, pc)) return true;
    if (writes && !check_permission(*allocation, word, whole_word, true, pc)) return true;
  }
  if (!allocation->earlier.empty()) check_earlier(allocation->earlier, word, {whole_word, writes, true}, pc);
  if (allocation->shadow != nullptr) allocation->shadow->access(word, whole_word, writes, true, pc);
  return true;
}

bool request_global(std::uintptr_t address, unsigned bytes, bool write, bool by_bulk, const void* pc) {
  Allocation* allocation = find(address, current_block->cluster);
  if (allocation == nullptr || address + bytes > allocation->begin + allocation->bytes) return false;
  for_words(address - allocation->begin, bytes, [&](std::size_t word, unsigned mask) {
    if (word >= allocation->words() || !is_permitted(*allocation, word, mask, write, pc)) return;
    if (!allocation->earlier.empty()) check_earlier(allocation->earlier, word, {mask, write, false}, pc);
    if (allocation->shadow != nullptr) allocation->shadow->request(word, mask, write, by_bulk, pc);
  });
  return true;
}

void check_noncoherent(std::uintptr_t address, unsigned bytes, const void* pc) {
  Allocation* allocation = find(address, current_block->cluster);
  if (allocation == nullptr || allocation->shadow == nullptr) return;
  for_words(address - allocation->begin, bytes, [&](std::size_t word, unsigned mask) {
    if (word >= allocation->words()) return;
    check_earlier_writes(allocation->earlier, word, mask, pc);
    allocation->shadow->noncoherent_read(word, mask, pc);
  });
}

void finish_global(std::uintptr_t address, unsigned bytes, bool write, unsigned requester, unsigned actor,
                   Tick tick, const void* pc) {
  Allocation* allocation = find(address);
  if (allocation == nullptr || allocation->shadow == nullptr) return;
  for_words(address - allocation->begin, bytes, [&](std::size_t word, unsigned mask) {
    if (word < allocation->words()) allocation->shadow->finish(word, mask, write, requester, actor, tick, pc);
  });
}

std::optional<Recorded> last_writer(std::uintptr_t address) {
  Allocation* allocation = find(address);
  if (allocation == nullptr || allocation->shadow == nullptr) return std::nullopt;
  const auto [touch, wrote, asked_by] =
      allocation->shadow->conflict((address - allocation->begin) / 4, {whole_word, false, false});
  if (!touch.any()) return std::nullopt;
  return LaunchRecord::latest()->recorded(asked_by, touch.cluster(), touch.pc());
}

std::string describe_global(std::uintptr_t address) {
  const Allocation* allocation = find(address);
  return allocation == nullptr ? "outside of global memory" : describe_element(*allocation, address);
}

NamedArray global_array_at(std::uintptr_t address) {
  const Allocation* allocation = find(address);
  if (allocation == nullptr) return {};
  // The last view that begins at or before the address; the first view if none does.
  const MatrixView* at = nullptr;
  for (const MatrixView& view : allocation->views) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
    const bool better = at == nullptr || (begin <= address && view.data > at->data);
    if (better) at = &view;
  }
  if (at == nullptr) return {"", allocation->begin};
  return {at->name, reinterpret_cast<std::uintptr_t>(at->data)};
}

bool is_allocated(std::uintptr_t address, unsigned bytes) {
  const Allocation* allocation = find(address);
  return allocation != nullptr && address + bytes <= allocation->begin + allocation->bytes;
}

std::string describe_nearest(std::uintptr_t address) {
  constexpr std::uintptr_t near = 1 << 20;
  const Allocation* nearest = nullptr;
  std::uintptr_t least = near;
  for (const auto& [begin, allocation] : allocations) {
    const std::uintptr_t end = begin + allocation.bytes;
    const std::uintptr_t distance = address < begin ? begin - address : address >= end ? address - end : 0;
    if (distance >= least) continue;
    least = distance;
    nearest = &allocation;
  }
  if (nearest == nullptr) return "";
  if (!nearest->views.empty()) return describe_outside(*nearest, address);
  return std::to_string(least) + (address < nearest->begin ? " bytes before an allocation"
                                                           : " bytes past an allocation of " +
                                                                 std::to_string(nearest->bytes) + " bytes");
}

namespace {

const char* name_of(const Allocation& allocation) {
  return allocation.views.empty() ? "an allocation" : allocation.views.front().name.c_str();
}

}  // namespace

void name_nearest(std::uintptr_t address, char* text, std::size_t size) {
  for (const auto& [begin, allocation] : allocations) {
    const std::uintptr_t end = begin + allocation.bytes;
    const bool before = address < begin;
    const std::uintptr_t distance = before ? begin - address : address - end;
    if ((!before && address < end) || distance > guard_bytes) continue;
    if (!before && distance == 0) {
      std::snprintf(text, size, ", right behind the end of %s", name_of(allocation));
    } else {
      std::snprintf(text, size, ", %llu bytes %s of %s", static_cast<unsigned long long>(distance),
                    before ? "before the beginning" : "past the end", name_of(allocation));
    }
    return;
  }
}

int name_overrun(char* text, std::size_t size) {
  for (const auto& [begin, allocation] : allocations) {
    const Overrun overrun = overrun_of(reinterpret_cast<const void*>(begin), allocation.bytes);
    if (overrun == Overrun::none) continue;
    return std::snprintf(text, size, "%s of %s",
                         overrun == Overrun::after ? "past the end" : "before the beginning",
                         name_of(allocation));
  }
  return 0;
}

}  // namespace cpu_device
