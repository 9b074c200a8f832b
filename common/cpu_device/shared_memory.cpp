// Finds the kernels' __shared__ variables. On the CPU device these are thread_local variables of the program,
// so that its ELF symbol table has their names, offsets and sizes: enough to name a variable in a report, to
// notice reads of what no thread of the block has written, and to reset the contents for every block.

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/declared_types.hpp"
#include "common/cpu_device/dwarf.hpp"
#include "common/cpu_device/report.hpp"
#include "common/poison.hpp"

// A thread_local with a known name: the symbol table says where it lies in the thread's TLS block, the
// program where it lies in memory. And a variable that is not thread_local, for the rest of the program.
extern "C" {
__thread char cpu_device_tls_anchor;
char cpu_device_anchor;
}

namespace cpu_device {

namespace {

struct TlsLayout {
  std::size_t anchor_offset = 0;
  std::size_t bytes = 0;
  std::vector<SharedVariable> shared;
  std::vector<std::uint8_t> left;                // by word; see SharedMemory
  std::map<const void*, std::string> of_kernel;  // a shared variable of the kernel there
  std::map<const void*, std::string> functions;  // beside kernels, these included: the mangled names
};

// How the mangled names of variables begin that are local to a function in the unnamed namespace, or in that
// namespace itself. The kernels of steps are there, and nothing else in a program has thread_locals there.
constexpr std::string_view in_kernel = "_ZZN12_GLOBAL__N_1", beside_kernels = "_ZN12_GLOBAL__N_1";

std::string variable_name(const char* mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  const std::size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

TlsLayout read_layout() {
  const std::vector<char> image = program_image();
  TlsLayout layout;
  std::vector<std::string_view> variables;                             // by mangled name
  std::vector<std::pair<std::string_view, std::uintptr_t>> functions;  // a kernel may occur twice
  std::uintptr_t anchor = 0;
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return layout;
  std::memcpy(&header, image.data(), sizeof header);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image.data() + header.e_shoff);
  for (int s = 0; s < header.e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(image.data() + sections[s].sh_offset);
    const char* names = image.data() + sections[sections[s].sh_link].sh_offset;
    for (std::size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      const std::string_view name = names + symbols[i].st_name;
      if (name == "cpu_device_anchor") anchor = symbols[i].st_value;
      const auto type = ELF64_ST_TYPE(symbols[i].st_info);
      if (type == STT_FUNC && name.starts_with(beside_kernels))
        functions.emplace_back(name, symbols[i].st_value);
      if (type != STT_TLS) continue;
      layout.bytes = std::max<std::size_t>(layout.bytes, symbols[i].st_value + symbols[i].st_size);
      if (name == "cpu_device_tls_anchor") layout.anchor_offset = symbols[i].st_value;
      if (name.starts_with(in_kernel) || name.starts_with(beside_kernels)) {
        layout.shared.push_back({variable_name(name.data()), symbols[i].st_value, symbols[i].st_size});
        variables.push_back(name);
      }
    }
  }
  const std::uintptr_t loaded_at = reinterpret_cast<std::uintptr_t>(&cpu_device_anchor) - anchor;
  for (const auto& [function, value] : functions) {
    layout.functions[reinterpret_cast<const void*>(loaded_at + value)] = function;
    const std::string prefix = "_ZZ" + std::string(function.substr(2)) + "E";
    for (const std::string_view variable : variables) {
      if (!variable.starts_with(prefix)) continue;
      layout.of_kernel[reinterpret_cast<const void*>(loaded_at + value)] = variable_name(variable.data());
    }
  }
  std::sort(layout.shared.begin(), layout.shared.end(),
            [](const auto& a, const auto& b) { return a.tls_offset < b.tls_offset; });
  layout.bytes = (layout.bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
  layout.left.resize(layout.bytes / 4);
  for (const SharedVariable& variable : layout.shared) {
    const std::size_t end = variable.tls_offset + variable.bytes;
    for (std::size_t word = (variable.tls_offset + 3) / 4; word < end / 4; ++word) {
      layout.left[word] = static_cast<std::uint8_t>(std::min<std::size_t>(end - word * 4, 255));
    }
  }
  return layout;
}

const TlsLayout& layout() {
  static const TlsLayout read = read_layout();
  return read;
}

}  // namespace

const std::vector<SharedVariable>& shared_variables() { return layout().shared; }

std::string variable_of(const void* kernel) {
  const auto found = layout().of_kernel.find(kernel);
  return found == layout().of_kernel.end() ? "" : found->second;
}

bool is_named(const void* function, std::string_view name) {
  const auto found = layout().functions.find(function);
  if (found == layout().functions.end()) return false;
  name = name.substr(0, name.find('<'));  // GCC gives a template's arguments, too
  const std::string mangled = std::to_string(name.size()).append(name);
  const std::size_t at = found->second.find(mangled);
  if (at == std::string::npos) return false;
  const char next = found->second[at + mangled.size()];
  return next == 'E' || next == 'I';  // with template arguments
}

void name_dynamic_shared(const Shape& shape) { current_block->shared.name_dynamic(shape); }

void* dynamic_shared(std::size_t alignment) {
  Block& block = *current_block;
  if (alignment > 16) {
    if (const auto found = layout().of_kernel.find(block.launch.kernel); found != layout().of_kernel.end()) {
      report(FaultKind::misaligned, __builtin_return_address(0),
             "wants its dynamic shared memory at a multiple of " + std::to_string(alignment) +
                 " bytes, but the kernel's __shared__ variables, such as " + found->second +
                 ", lie before it");
      stop_launch();
    }
  }
  std::byte* begin = block.shared.dynamic(alignment);
  if (begin == nullptr) {
    report(FaultKind::misaligned, __builtin_return_address(0),
           "wants its dynamic shared memory at a multiple of " + std::to_string(alignment) +
               " bytes, after the block has used it with a smaller alignment; the first use must ask for the "
               "largest");
    stop_launch();
  }
  return begin;
}

std::size_t tls_bytes() { return layout().bytes; }

std::byte* tls_base() {
  auto* anchor = reinterpret_cast<std::byte*>(&cpu_device_tls_anchor);
  __asm__("" : "+r"(anchor));  // the compiler must not assume that nothing lies around it
  return anchor - layout().anchor_offset;
}

// A quiet NaN, as float, bfloat16 and half, that arithmetic never makes: a kernel that uses it visibly spoils
// its result.
void poison(void* begin, std::size_t bytes) {
  constexpr std::uint32_t nan = poison_bits | quiet_bits;
  auto* at = static_cast<std::byte*>(begin);
  for (; bytes >= 4; bytes -= 4, at += 4) std::memcpy(at, &nan, 4);
  std::memcpy(at, &nan, bytes);
}

SharedMemory::SharedMemory(std::size_t dynamic_bytes)
    : variables_begin_(tls_base()),
      variables_bytes_(tls_bytes()),
      variables_(shared_variables()),
      left_(layout().left.data()),
      dynamic_bytes_(dynamic_bytes),
      dynamic_(dynamic_bytes + slack + shared_alignment),
      dynamic_begin_(dynamic_.data() + least_shared_alignment) {}

void SharedMemory::poison() {
  for (const SharedVariable& variable : variables_) {
    cpu_device::poison(variables_begin_ + variable.tls_offset, variable.bytes);
  }
  cpu_device::poison(dynamic_begin_, dynamic_bytes_);
  dynamic_in_use_ = false;
}

std::byte* SharedMemory::dynamic(std::size_t alignment) {
  if (!dynamic_in_use_ && alignment != dynamic_alignment_) {
    dynamic_alignment_ = alignment;
    dynamic_begin_ = dynamic_.data() + alignment;
    cpu_device::poison(dynamic_begin_, dynamic_bytes_);
  }
  dynamic_in_use_ = true;
  return alignment <= dynamic_alignment_ ? dynamic_begin_ : nullptr;
}

std::size_t SharedMemory::end_of_variable(std::size_t offset) const {
  for (const SharedVariable& variable : variables_) {
    const std::size_t end = variable.tls_offset + variable.bytes;
    if (offset >= variable.tls_offset && offset < end) return end;
  }
  return 0;
}

void SharedMemory::align_like(const SharedMemory& other) {
  if (!dynamic_in_use_) dynamic(other.dynamic_alignment_);
}

void SharedMemory::name_dynamic(const Shape& shape) {
  if (dynamic_shape_ == &shape) return;
  dynamic_shape_ = &shape;
  dynamic_parts_ = parts_of(shape);
}

const std::byte* SharedMemory::at(std::size_t offset, unsigned bytes) const {
  if (offset + bytes <= variables_bytes_) return variables_begin_ + offset;
  const std::size_t dynamic = offset - variables_bytes_;
  return dynamic + bytes <= dynamic_bytes_ + slack ? dynamic_begin_ + dynamic : nullptr;
}

NamedArray SharedMemory::array_at(std::size_t offset) const {
  for (const SharedVariable& variable : variables_) {
    if (offset >= variable.tls_offset && offset < variable.tls_offset + variable.bytes) {
      return {variable.name, variable.tls_offset};
    }
  }
  if (offset >= variables_bytes_) {
    for (const DynamicPart& part : dynamic_parts_) {
      if (part.offset_of(offset - variables_bytes_)) return {part.name, variables_bytes_ + part.begin};
    }
  }
  return {"dynamic", variables_bytes_};
}

std::string SharedMemory::describe(std::size_t offset) const {
  for (const SharedVariable& variable : variables_) {
    if (offset >= variable.tls_offset && offset < variable.tls_offset + variable.bytes) {
      const std::size_t inside = offset - variable.tls_offset;
      return variable.name + element_of_shared(variable.name, variable.tls_offset, variable.bytes, inside)
                                 .value_or(" + " + std::to_string(inside) + " bytes");
    }
  }
  offset -= variables_bytes_;
  for (const DynamicPart& part : dynamic_parts_) {
    std::vector<std::size_t> which;
    if (const std::optional<std::size_t> inside = part.offset_of(offset, &which)) {
      return part.name_with(which) + plus_bytes(*inside);
    }
  }
  return "dynamic shared memory + " + std::to_string(offset) + " bytes";
}

}  // namespace cpu_device
