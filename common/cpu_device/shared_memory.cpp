// Finds the kernels' __shared__ variables. On the CPU device they are thread-locals of the program, so its
// ELF symbol table tells their names, offsets and sizes: enough to name a variable in a report, to notice
// reads of what no thread of the block wrote, and to give every block fresh contents.

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "common/cpu_device/internal.hpp"
#include "common/poison.hpp"

// A thread-local with a known name: the symbol table says where it lies in the thread's block, the program
// where it lies in memory.
extern "C" {
__thread char cpu_device_tls_anchor;
}

namespace cpu_device {

namespace {

struct TlsLayout {
  std::size_t anchor_offset = 0;
  std::size_t bytes = 0;
  std::vector<SharedVariable> shared;
};

// How the mangled name of a variable begins that is local to a function in the unnamed namespace, or in that
// namespace itself: a step's kernels are there, and nothing else in a program has thread-locals there.
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
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  TlsLayout layout;
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return layout;
  std::memcpy(&header, image.data(), sizeof header);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image.data() + header.e_shoff);
  for (int s = 0; s < header.e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(image.data() + sections[s].sh_offset);
    const char* names = image.data() + sections[sections[s].sh_link].sh_offset;
    for (std::size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_TLS) continue;
      layout.bytes = std::max<std::size_t>(layout.bytes, symbols[i].st_value + symbols[i].st_size);
      const std::string_view name = names + symbols[i].st_name;
      if (name == "cpu_device_tls_anchor") layout.anchor_offset = symbols[i].st_value;
      if (name.starts_with(in_kernel) || name.starts_with(beside_kernels)) {
        layout.shared.push_back({variable_name(name.data()), symbols[i].st_value, symbols[i].st_size});
      }
    }
  }
  std::sort(layout.shared.begin(), layout.shared.end(),
            [](const auto& a, const auto& b) { return a.tls_offset < b.tls_offset; });
  return layout;
}

const TlsLayout& layout() {
  static const TlsLayout read = read_layout();
  return read;
}

}  // namespace

const std::vector<SharedVariable>& shared_variables() { return layout().shared; }

void name_dynamic_shared(std::span<const Member> members) {
  if (current_worker != nullptr) current_worker->dynamic_members = members;
}

std::size_t tls_bytes() { return (layout().bytes + 15) / 16 * 16; }

std::byte* tls_base() {
  auto* anchor = reinterpret_cast<std::byte*>(&cpu_device_tls_anchor);
  __asm__("" : "+r"(anchor));  // more lies around it than the compiler knows
  return anchor - layout().anchor_offset;
}

// A quiet NaN that no arithmetic makes, as float, bfloat16 and half: a kernel that uses it spoils its result
// visibly.
void poison(void* begin, std::size_t bytes) {
  constexpr std::uint32_t nan = poison_bits | quiet_bits;
  for (std::size_t i = 0; i < bytes; i += 4) {
    std::memcpy(static_cast<std::byte*>(begin) + i, &nan, std::min<std::size_t>(4, bytes - i));
  }
}

void poison_shared(Worker& worker) {
  for (const SharedVariable& variable : shared_variables()) {
    poison(tls_base() + variable.tls_offset, variable.bytes);
  }
  poison(worker.dynamic_shared.data(), worker.launch->shared_bytes);
}

NamedArray shared_array_at(std::size_t offset) {
  for (const SharedVariable& variable : shared_variables()) {
    if (offset >= variable.tls_offset && offset < variable.tls_offset + variable.bytes) {
      return {variable.name, variable.tls_offset};
    }
  }
  const std::size_t dynamic = tls_bytes();
  if (current_worker != nullptr) {
    for (const Member& member : current_worker->dynamic_members) {
      const std::size_t begin = dynamic + member.offset;
      const bool inside = offset >= begin && offset < begin + member.bytes;
      if (inside && !member.name.empty()) return {member.name, begin};
    }
  }
  return {"dynamic", dynamic};
}

std::string describe_shared(std::size_t offset) {
  for (const SharedVariable& variable : shared_variables()) {
    if (offset >= variable.tls_offset && offset < variable.tls_offset + variable.bytes) {
      return variable.name + " + " + std::to_string(offset - variable.tls_offset) + " bytes";
    }
  }
  return "dynamic shared memory + " + std::to_string(offset - tls_bytes()) + " bytes";
}

}  // namespace cpu_device
