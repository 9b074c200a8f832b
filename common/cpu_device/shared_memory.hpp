#pragma once

// A block's shared memory: the __shared__ variables, then dynamic shared memory. Places in it are byte
// offsets, as in an Access.

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/cpu_device/dynamic_parts.hpp"

namespace cpu_device {

struct Block;

// The smallest and the largest alignment that a kernel may ask of its dynamic shared memory.
constexpr std::size_t least_shared_alignment = 16, shared_alignment = 1024;

struct SharedAllocator {
  static constexpr std::size_t alignment = 2 * shared_alignment;
  using value_type = std::byte;
  template <typename>
  struct rebind {
    using other = SharedAllocator;
  };
  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment}));
  }
  void deallocate(std::byte* memory, std::size_t) { ::operator delete(memory, std::align_val_t{alignment}); }
  bool operator==(const SharedAllocator&) const = default;
};

// A __shared__ variable: on the CPU device a thread_local of the program, found in its symbol table.
struct SharedVariable {
  std::string name;        // "As"
  std::size_t tls_offset;  // from tls_base()
  std::size_t bytes;
};
const std::vector<SharedVariable>& shared_variables();  // sorted by offset
// Whether a function in the unnamed namespace, where kernels are, has this name; from the symbol table, too.
bool is_named(const void* function, std::string_view name);
// A __shared__ variable of this kernel; "": it has none.
std::string variable_of(const void* kernel);
std::byte* tls_base();  // of this OS thread
// Byte offsets from here on, a multiple of shared_alignment, are those of dynamic shared memory.
std::size_t tls_bytes();

// An array for which there is a name, in either memory.
struct NamedArray {
  std::string_view name;     // "A", "As"; lives as long as the array
  std::uintptr_t begin = 0;  // like addresses in an Access
};

class SharedMemory {
 public:
  // Of a block on this OS thread, which asks for so much dynamic shared memory.
  explicit SharedMemory(std::size_t dynamic_bytes);
  // Fills it with a NaN pattern, as a block must not see what it held before.
  void poison();

  std::size_t bytes() const { return variables_bytes_ + dynamic_bytes_; }

  // Where an access lies.
  struct Place {
    bool shared = false;  // or just past the end of a part of it
    bool inside = false;  // wholly in one variable, or in dynamic shared memory
    std::size_t offset = 0;
  };
  [[gnu::always_inline]] Place find(std::uintptr_t address, unsigned bytes) const {
    const std::size_t offset = address - reinterpret_cast<std::uintptr_t>(variables_begin_);
    if (offset < variables_bytes_) {
      const bool inside =
          offset % 4 + bytes <= left_[offset / 4] || offset + bytes <= end_of_variable(offset);
      return {true, inside, offset};
    }
    const std::size_t dynamic = address - reinterpret_cast<std::uintptr_t>(dynamic_begin_);
    return {dynamic < dynamic_bytes_ + slack, dynamic + bytes <= dynamic_bytes_, variables_bytes_ + dynamic};
  }
  // nullptr if these bytes are not all there.
  const std::byte* at(std::size_t offset, unsigned bytes) const;

  // Dynamic shared memory, which the block's first call puts at a multiple of `alignment`, but not of twice
  // as much, so that a kernel that needs more has to ask for it. nullptr: that call asked for too little.
  std::byte* dynamic(std::size_t alignment);
  // Puts it where another block has its own, if this one has not used it yet.
  void align_like(const SharedMemory& other);
  void name_dynamic(const Shape& shape);

  // "As + 132 bytes", "Ring::stages[2].A + 12 bytes".
  std::string describe(std::size_t offset) const;

  // The variable, or the part of dynamic shared memory ("dynamic" if it has no names).
  NamedArray array_at(std::size_t offset) const;

 private:
  std::size_t end_of_variable(std::size_t offset) const;  // 0: none is there

  std::byte* const variables_begin_;   // tls_base()
  const std::size_t variables_bytes_;  // tls_bytes()
  const std::vector<SharedVariable>& variables_;
  // Of the variable that holds all of a word: how many bytes of it there are from there on, 255 if more.
  const std::uint8_t* const left_;
  const std::size_t dynamic_bytes_;
  static constexpr std::size_t slack = 4096;         // so that an overrun stays harmless
  std::vector<std::byte, SharedAllocator> dynamic_;  // its room
  std::byte* dynamic_begin_;
  std::size_t dynamic_alignment_ = least_shared_alignment;
  bool dynamic_in_use_ = false;           // by the block
  const Shape* dynamic_shape_ = nullptr;  // as which a kernel sees it
  std::vector<DynamicPart> dynamic_parts_;
};

// Fills memory with the NaN that stands for what has not arrived or has never been written.
void poison(void* begin, std::size_t bytes);

}  // namespace cpu_device
