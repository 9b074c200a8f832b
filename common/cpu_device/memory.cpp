// "Global memory": the allocations, what may be touched in them, and who touched it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>

#include "common/cpu_device/internal.hpp"

namespace cpu_device {

namespace {

constexpr std::uint8_t may_read = 1, may_write = 2;

struct Free {
  void operator()(void* pointer) const { std::free(pointer); }
};

// Zeroed memory whose pages appear when they are touched.
template <typename T>
std::unique_ptr<T[], Free> zeroed(std::size_t count) {
  auto* words = static_cast<T*>(std::calloc(count, sizeof(T)));
  if (words == nullptr) throw std::bad_alloc();
  return std::unique_ptr<T[], Free>(words);
}

// A thread's access to a word, packed: block, thread, barriers passed, and a bit that says there was one.
struct Toucher {
  std::uint64_t bits;
  static Toucher current(const Worker& worker) {
    return {(worker.block << 32) | (std::uint64_t{worker.current} << 22) |
            ((worker.shadow->barriers_passed() & 0x1fffff) << 1) | 1};
  }
  bool any() const { return bits != 0; }
  std::uint64_t block() const { return bits >> 32; }
  unsigned thread() const { return static_cast<unsigned>(bits >> 22) & 1023; }
  // Within a block a barrier orders two accesses; nothing orders two blocks.
  bool races_with(Toucher other) const {
    if (!any() || !other.any()) return false;
    if (block() != other.block()) return true;
    const bool same_epoch = ((bits ^ other.bits) & 0x3fffff) == 0;
    return same_epoch && thread() != other.thread();
  }
};

// Who touched a word in this launch: enough to find every race, in whatever order threads and blocks run.
struct Touched {
  Toucher writer;              // the latest
  Toucher reader;              // the latest
  Toucher reader_same_block;   // the latest by another thread of that block
  Toucher reader_other_block;  // the latest by another block than that

  // Three readers stand for all, as in race.cpp.
  void read_by(Toucher now) {
    if (reader.any() && reader.block() != now.block()) {
      reader_other_block = reader;
      reader_same_block = Toucher{};
    } else if (reader.any() && reader.thread() != now.thread()) {
      reader_same_block = reader;
    }
    reader = now;
  }
};

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::vector<MatrixView> views;
  // One entry per 4-byte word, once a view says what lies here. Bits: may_read, may_write.
  std::unique_ptr<std::uint8_t[], Free> permission;
  std::unique_ptr<Touched[], Free> touched;  // where a view is writable

  std::size_t words() const { return bytes / 4; }
};

std::mutex allocations_mutex;  // changes only; kernels read the map, and nothing changes it during a launch
std::map<std::uintptr_t, Allocation> allocations;  // by begin

// Blocks on several cores touch the same words; a mutex serves every 64th.
std::array<std::mutex, 64> touched_mutexes;

// The allocation that holds the address, or nullptr.
Allocation* find(std::uintptr_t address) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return address < allocation.begin + allocation.bytes ? &allocation : nullptr;
}

std::string shape(const MatrixView& view) {
  return view.name + " is " + std::to_string(view.rows) + " x " + std::to_string(view.cols);
}

// "A[3][80], but A is 100 x 80".
std::string describe_outside(const Allocation& allocation, std::uintptr_t address) {
  for (const MatrixView& view : allocation.views) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
    if (address < begin) {
      return std::to_string(begin - address) + " bytes before " + view.name + "[0][0]; " + shape(view);
    }
    const std::int64_t element = static_cast<std::int64_t>(address - begin) / 4;
    const std::int64_t in_matrix = view.stride > 0 ? element % view.stride : element;
    const std::int64_t matrix = view.stride > 0 ? element / view.stride : 0;
    const std::int64_t ld = std::max<std::int64_t>(view.leading_dimension, 1);
    if (matrix >= view.batch || in_matrix / ld >= view.rows) {
      const std::int64_t last = (view.batch - 1) * view.stride + (view.rows - 1) * ld + view.cols;
      const std::string where = element == last
                                    ? "right behind the end"
                                    : std::to_string((element - last) * 4) + " bytes past the end";
      return where + " of " + view.name + "; " + shape(view);
    }
    return view.name + "[" + std::to_string(in_matrix / ld) + "][" + std::to_string(in_matrix % ld) + "]" +
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

std::string who(Toucher other) {
  return thread_name(*current_worker, other.thread()) + " of " +
         block_name(current_worker->launch->grid, other.block());
}

void check_word(Allocation& allocation, std::size_t word, bool write, const void* pc) {
  const std::uintptr_t address = allocation.begin + word * 4;
  if (allocation.permission != nullptr) {
    std::uint8_t& permission = allocation.permission[word];
    if (permission == 0) {
      report(FaultKind::out_of_bounds_global, pc,
             (write ? "writes " : "reads ") + describe_outside(allocation, address));
      return;
    }
    if (write && (permission & may_write) == 0) {
      report(FaultKind::read_only, pc, "writes " + describe_element(allocation, address));
    }
    if (!write && (__atomic_load_n(&permission, __ATOMIC_RELAXED) & may_read) == 0) {
      report(FaultKind::uninitialised_global, pc,
             "reads " + describe_element(allocation, address) + ", which may hold anything");
    }
    if (write) __atomic_fetch_or(&permission, may_read, __ATOMIC_RELAXED);
  }
  if (allocation.touched == nullptr) return;
  const Toucher now = Toucher::current(*current_worker);
  const std::lock_guard lock(touched_mutexes[word % touched_mutexes.size()]);
  Touched& touched = allocation.touched[word];
  const auto race = [&](Toucher other, const char* did) {
    if (!other.races_with(now)) return false;
    report(FaultKind::race_global, pc,
           (write ? "writes " : "reads ") + describe_element(allocation, address) + ", which " + who(other) +
               did + " in the same launch; nothing orders the two");
    return true;
  };
  race(touched.writer, " wrote");
  if (write) {
    for (const Toucher& reader : {touched.reader, touched.reader_same_block, touched.reader_other_block}) {
      if (race(reader, " read")) break;
    }
    touched.writer = now;
  } else {
    touched.read_by(now);
  }
}

}  // namespace

void* allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  if (bytes > PTRDIFF_MAX) throw std::bad_alloc();
  bytes = std::max(bytes, std::size_t{1});
  void* pointer = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (pointer == nullptr) throw std::bad_alloc();
  const std::lock_guard lock(allocations_mutex);
  Allocation& allocation = allocations[reinterpret_cast<std::uintptr_t>(pointer)];
  allocation.begin = reinterpret_cast<std::uintptr_t>(pointer);
  allocation.bytes = bytes;
  return pointer;
}

void release(void* pointer) {
  if (pointer == nullptr) return;
  {
    const std::lock_guard lock(allocations_mutex);
    allocations.erase(reinterpret_cast<std::uintptr_t>(pointer));
  }
  std::free(pointer);
}

void describe(const MatrixView& view) {
  const bool empty = view.rows == 0 || view.cols == 0 || view.batch == 0;
  const std::lock_guard lock(allocations_mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  Allocation* allocation = find(begin);
  const std::int64_t last =
      empty ? 0 : (view.batch - 1) * view.stride + (view.rows - 1) * view.leading_dimension + view.cols;
  if (allocation == nullptr ||
      begin + static_cast<std::size_t>(last) * 4 > allocation->begin + allocation->bytes) {
    throw std::invalid_argument("describe: " + view.name + " does not lie inside one allocation");
  }
  if (allocation->permission == nullptr) allocation->permission = zeroed<std::uint8_t>(allocation->words());
  if (view.writable && allocation->touched == nullptr) {
    allocation->touched = zeroed<Touched>(allocation->words());
  }
  const std::uint8_t permission = (view.readable ? may_read : 0) | (view.writable ? may_write : 0);
  std::uint8_t* first = allocation->permission.get() + (begin - allocation->begin) / 4;
  for (std::int64_t matrix = 0; !empty && matrix < view.batch; ++matrix) {
    for (std::int64_t row = 0; row < view.rows; ++row) {
      std::uint8_t* start = first + matrix * view.stride + row * view.leading_dimension;
      std::fill(start, start + view.cols, permission);
    }
  }
  allocation->views.push_back(view);
}

void forget_global_accesses() {
  for (auto& [begin, allocation] : allocations) {
    // New memory: of a large matrix only the part that the launch touches will take any.
    if (allocation.touched != nullptr) allocation.touched = zeroed<Touched>(allocation.words());
  }
}

bool check_global(std::uintptr_t address, unsigned bytes, bool write, const void* pc) {
  Allocation* allocation = find(address);
  if (allocation == nullptr || address + bytes > allocation->begin + allocation->bytes) return false;
  const std::size_t first = (address - allocation->begin) / 4;
  const std::size_t last = (address + bytes - 1 - allocation->begin) / 4;
  for (std::size_t word = first; word <= last && word < allocation->words(); ++word) {
    check_word(*allocation, word, write, pc);
  }
  return true;
}

NamedArray global_array_at(std::uintptr_t address) {
  const Allocation* allocation = find(address);
  if (allocation == nullptr) return {};
  // The last view that begins at or before the address; the first one if none does.
  const MatrixView* at = nullptr;
  for (const MatrixView& view : allocation->views) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
    const bool better = at == nullptr || (begin <= address && view.data > at->data);
    if (better) at = &view;
  }
  if (at == nullptr) return {"", allocation->begin};
  return {at->name, reinterpret_cast<std::uintptr_t>(at->data)};
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

}  // namespace cpu_device
