// Where in the source: debug information maps return addresses to lines.

#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <sstream>
#include <system_error>

#include "common/cpu_device/report.hpp"

namespace cpu_device {

namespace {

// The program's load address, to which addr2line's addresses are relative.
std::uintptr_t load_address() {
  std::uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
        return 1;  // the first entry is the program itself
      },
      &address);
  return address;
}

// "void (anonymous namespace)::sgemm_prefetch<true>(Gemm)" becomes "sgemm_prefetch<true>".
std::string bare_name(std::string name) {
  const std::string anonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = name.find(anonymous)) != name.npos;) name.erase(at, anonymous.size());
  if (name.starts_with("void ")) name.erase(0, 5);
  int depth = 0;  // template arguments may contain parentheses
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

std::string project_relative(const std::string& file) {
  const auto path = std::filesystem::path(file).lexically_normal();
  const auto relative = path.lexically_relative(PROJECT_ROOT);
  return relative.empty() || *relative.begin() == ".." ? path.string() : relative.string();
}

}  // namespace

const void* after_entry(const void* function) { return static_cast<const char*>(function) + 1; }

std::string place_of(const void* pc) {
  const SourceLocation location = source_locations({pc})[0];
  return location.line == 0 ? "an unknown place" : location.file + ":" + std::to_string(location.line);
}

std::string function_name(const void* function) {
  if (function == nullptr) return "";
  const std::string name = source_locations({after_entry(function)})[0].function;
  return name == "??" ? "" : name;
}

namespace {

// Of each address: its place, then those of the calls that the compiler has inlined, innermost first.
using Calls = std::vector<std::vector<SourceLocation>>;

// addr2line, which reads the program's debug information once and then answers as long as this program runs.
class Addr2line {
 public:
  Addr2line() {
    std::error_code error;
    std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
    int ends[2];
    if (error || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    socket_ = ends[0];
    const char* const prefix = std::getenv("BINUTILS");  // for another processor's, in an emulator
    std::string name = std::string(prefix == nullptr ? "" : prefix) + "addr2line", options = "-aCfi",
                e = "-e";
    char* const words[] = {name.data(), options.data(), e.data(), program.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid;
    posix_spawnp(&pid, name.c_str(), &actions, nullptr, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }

  Calls ask(const std::vector<const void*>& pcs) {
    constexpr std::size_t at_once = 100;  // so that neither waits for the other to read
    Calls calls;
    for (std::size_t first = 0; first < pcs.size(); first += at_once) {
      ask({pcs.begin() + first, pcs.begin() + std::min(first + at_once, pcs.size())}, calls);
    }
    calls.resize(pcs.size());
    return calls;
  }

 private:
  void ask(std::span<const void* const> pcs, Calls& calls) {
    std::ostringstream questions;
    questions << std::hex;
    // A return address belongs to the instruction after the call, maybe to the next line; one byte before it
    // is the call.
    for (const void* pc : pcs) questions << reinterpret_cast<std::uintptr_t>(pc) - load_address() - 1 << '\n';
    questions << "0\n";  // where nothing is: its answer ends the others
    const std::string text = questions.str();
    if (send(socket_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) return;
    // For each address: a line "0x...", then for each inlined function, innermost first, its name
    // and its place.
    std::size_t addresses = 0;
    for (std::string name, place; next_line(name);) {
      if (name.starts_with("0x")) {
        if (++addresses <= pcs.size()) calls.emplace_back();
        continue;
      }
      if (!next_line(place) || addresses > pcs.size()) return;
      const std::size_t colon = place.rfind(':');
      const int line = colon == place.npos ? 0 : std::atoi(place.c_str() + colon + 1);
      const std::string file = line == 0 ? "" : project_relative(place.substr(0, colon));
      calls.back().push_back({bare_name(name), file, line});
    }
  }

  bool next_line(std::string& line) {
    std::size_t end;
    while ((end = said_.find('\n')) == said_.npos) {
      char piece[4096];
      const ssize_t got = read(socket_, piece, sizeof piece);
      if (got <= 0) return false;
      said_.append(piece, static_cast<std::size_t>(got));
    }
    line = said_.substr(0, end);
    said_.erase(0, end + 1);
    return true;
  }

  int socket_ = -1;
  std::string said_;  // and not yet read
};

Calls calls_at(const std::vector<const void*>& pcs) {
  static std::mutex mutex;
  static std::map<const void*, std::vector<SourceLocation>>
      known;  // the same few are asked for again and again
  const std::lock_guard lock(mutex);
  std::vector<const void*> unknown;
  std::ranges::copy_if(pcs, std::back_inserter(unknown), [&](const void* pc) { return !known.contains(pc); });
  if (!unknown.empty()) {
    static Addr2line addr2line;
    Calls found = addr2line.ask(unknown);
    for (std::size_t i = 0; i < unknown.size(); ++i) known[unknown[i]] = std::move(found[i]);
  }
  Calls calls;
  for (const void* pc : pcs) calls.push_back(known[pc]);
  return calls;
}

}  // namespace

std::vector<SourceLocation> inlined_calls(const void* pc) { return calls_at({pc})[0]; }

std::vector<SourceLocation> source_locations(const std::vector<const void*>& pcs) {
  std::vector<SourceLocation> locations;
  for (const std::vector<SourceLocation>& calls : calls_at(pcs)) {
    SourceLocation& location = locations.emplace_back();
    for (const SourceLocation& call : calls) {
      location.function = call.function;  // the outermost is the kernel
      // The innermost place outside of common/, which is in the step.
      if (call.line == 0 || (location.line > 0 && !location.file.starts_with("common/"))) continue;
      location.file = call.file;
      location.line = call.line;
    }
  }
  return locations;
}

}  // namespace cpu_device
