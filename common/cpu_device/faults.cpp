// Collects what went wrong in kernels, and says where: debug information maps return addresses to lines.

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ext/stdio_filebuf.h>
#include <filesystem>
#include <istream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "common/cpu_device/internal.hpp"

namespace cpu_device {

namespace {

constexpr std::size_t max_faults = 20;

std::mutex faults_mutex;
std::vector<Recorded> faults;         // to be taken
std::atomic<bool> any_faults{false};  // whether there are any: saves taking the lock

// Of the current launch: the running blocks, and the faults of those blocks that are not the first of these.
struct OfBlock {
  std::vector<Recorded> own;
  std::vector<Recorded> seen_by_others;
};
std::set<std::uint64_t> running;
std::condition_variable block_ended;
std::map<std::uint64_t, OfBlock> waiting;

Recorded* find(std::vector<Recorded>& list, FaultKind kind, const void* pc) {
  for (Recorded& known : list) {
    if (known.pc == pc && known.fault.kind == kind) return &known;
  }
  return nullptr;
}

void add(std::vector<Recorded>& list, Recorded&& fault) {
  if (Recorded* known = find(list, fault.fault.kind, fault.pc)) {
    known->fault.times += fault.fault.times;
  } else if (list.size() < max_faults) {
    list.push_back(std::move(fault));
  }
}

// The first block that does not count, because one before it could not go on.
std::uint64_t end_of(const Launch& launch) {
  const std::uint64_t last = launch.stop_after;
  return std::max(last, last + 1);  // the largest number: all blocks count
}

// Passes on the faults of the blocks before `end`. The mutex is held.
void hand_on(std::uint64_t end) {
  while (!waiting.empty() && waiting.begin()->first < end) {
    OfBlock& block = waiting.begin()->second;
    // In an order that does not depend on when other blocks saw them.
    std::sort(block.seen_by_others.begin(), block.seen_by_others.end(), [](const auto& a, const auto& b) {
      return std::tie(a.fault.kind, a.pc) < std::tie(b.fault.kind, b.pc);
    });
    for (Recorded& fault : block.own) add(faults, std::move(fault));
    for (Recorded& fault : block.seen_by_others) add(faults, std::move(fault));
    waiting.erase(waiting.begin());
  }
  any_faults = !faults.empty();
}

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

std::string to_string(const dim3& index) { return fmt::format("({},{},{})", index.x, index.y, index.z); }

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

// An address for which source_locations(), which looks at the byte before it, finds the function.
const void* after_entry(const void* function) { return static_cast<const char*>(function) + 1; }

}  // namespace

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds_global:
      return "out-of-bounds access to global memory";
    case FaultKind::out_of_bounds_shared:
      return "out-of-bounds access to shared memory";
    case FaultKind::array_index:
      return "array index out of bounds";
    case FaultKind::uninitialised_global:
      return "read of uninitialised global memory";
    case FaultKind::read_only:
      return "write to read-only memory";
    case FaultKind::host_pointer:
      return "access to host memory";
    case FaultKind::misaligned:
      return "misaligned access";
    case FaultKind::uninitialised_shared:
      return "read of uninitialised shared memory";
    case FaultKind::race_shared:
      return "data race on shared memory";
    case FaultKind::race_global:
      return "data race on global memory";
    case FaultKind::async_not_arrived:
      return "use of shared memory before its asynchronous copy arrived";
    case FaultKind::copy_outlives_block:
      return "asynchronous copy that outlives its block";
    case FaultKind::exit_before_barrier:
      return "thread exit before a barrier";
    case FaultKind::divergent_barrier:
      return "divergent barrier";
    case FaultKind::missing_lane:
      return "lane missing from a warp-wide operation";
    case FaultKind::barrier_misuse:
      return "misuse of a barrier";
    case FaultKind::mbarrier_misuse:
      return "misuse of an mbarrier";
    case FaultKind::flag_misuse:
      return "misuse of a flag";
    case FaultKind::unrounded_operand:
      return "operand not rounded to TF32";
    case FaultKind::unsupported:
      return "beyond the CPU device";
    case FaultKind::deadlock:
      return "deadlock";
  }
  return "fault";
}

std::string describe(const Fault& fault) {
  return std::string(to_string(fault.kind)) + ": " + fault.where + ": " +
         (fault.kernel.empty() ? "" : "kernel " + fault.kernel + ", ") + "block " + to_string(fault.block) +
         " thread " + to_string(fault.thread) + " " + fault.detail +
         (fault.times > 1 ? " (and " + std::to_string(fault.times - 1) + " more at this line)" : "");
}

bool reported_before(FaultKind kind, const void* pc) {
  std::vector<Recorded>& own = current_worker->faults;
  if (Recorded* known = find(own, kind, pc)) {
    ++known->fault.times;
    return true;
  }
  if (!any_faults) return false;
  const std::lock_guard lock(faults_mutex);
  if (find(faults, kind, pc) == nullptr) return false;
  own.push_back({{kind, "", "", ""}, pc, nullptr, 0});  // counts; an earlier block has the message
  return true;
}

void report(FaultKind kind, const void* pc, std::string detail, const Worker& worker, unsigned thread) {
  if (reported_before(kind, pc)) return;
  if (current_worker->box != nullptr) detail += " (" + current_worker->box->text() + ")";
  add(current_worker->faults, {{kind, "", "", std::move(detail), unflatten(worker.block, worker.launch->grid),
                                unflatten(thread, worker.launch->block)},
                               pc,
                               worker.launch->kernel,
                               thread});
}

void report(FaultKind kind, const void* pc, std::string detail) {
  report(kind, pc, std::move(detail), *current_worker, current_worker->current);
}

void report_later_block(const Launch& launch, FaultKind kind, const void* pc, std::string detail,
                        std::uint64_t block, unsigned thread) {
  const std::lock_guard lock(faults_mutex);
  std::vector<Recorded>& list = waiting[block].seen_by_others;
  if (Recorded* known = find(list, kind, pc)) {
    ++known->fault.times;
    if (std::tie(thread, detail) < std::tie(known->thread, known->fault.detail)) {
      known->thread = thread;
      known->fault.thread = unflatten(thread, launch.block);
      known->fault.detail = std::move(detail);
    }
    return;
  }
  list.push_back(
      {{kind, "", "", std::move(detail), unflatten(block, launch.grid), unflatten(thread, launch.block)},
       pc,
       launch.kernel,
       thread});
}

bool next_block(Worker& worker, std::uint64_t blocks) {
  Launch& launch = *worker.launch;
  const std::lock_guard lock(faults_mutex);
  if (launch.next == blocks) return false;
  const std::uint64_t block = launch.all ? launch.next : launch.selected[launch.next];
  if (block > launch.stop_after) return false;
  ++launch.next;
  worker.block = block;
  running.insert(block);
  return true;
}

void end_block_faults(Worker& worker) {
  const std::lock_guard lock(faults_mutex);
  running.erase(worker.block);
  if (!worker.faults.empty()) waiting[worker.block].own = std::exchange(worker.faults, {});
  hand_on(running.empty() ? end_of(*worker.launch) : std::min(*running.begin(), end_of(*worker.launch)));
  block_ended.notify_all();
}

void wait_for_blocks_before(const Worker& worker) {
  std::unique_lock lock(faults_mutex);
  block_ended.wait(lock, [&] { return *running.begin() == worker.block; });
}

void end_launch_faults(const Launch& launch) {
  const std::lock_guard lock(faults_mutex);
  hand_on(end_of(launch));
  waiting.clear();
}

std::string thread_name(const Worker& worker, unsigned thread) {
  return "thread " + to_string(unflatten(thread, worker.launch->block));
}

std::string block_name(const dim3& grid, std::uint64_t linear) {
  return "block " + to_string(unflatten(linear, grid));
}

std::vector<Fault> take_faults() {
  const std::lock_guard lock(faults_mutex);
  std::vector<const void*> pcs;
  for (const Recorded& recorded : faults) {
    pcs.push_back(recorded.pc);
    pcs.push_back(after_entry(recorded.kernel));
  }
  const std::vector<SourceLocation> places = source_locations(pcs);
  std::vector<Fault> result;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    Fault& fault = faults[i].fault;
    const SourceLocation& place = places[2 * i];
    const std::string& kernel = places[2 * i + 1].function;
    fault.kernel = kernel.substr(0, kernel.find('<'));
    fault.where = place.line == 0 ? "unknown place (--check tells the line)"
                                  : place.file + ":" + std::to_string(place.line);
    result.push_back(std::move(fault));
  }
  faults.clear();
  any_faults = false;
  return result;
}

std::string place_of(const void* pc) {
  static std::mutex mutex;
  static std::map<const void*, std::string> known;  // races report the same few places again and again
  const std::lock_guard lock(mutex);
  std::string& place = known[pc];
  if (place.empty()) {
    const SourceLocation location = source_locations({pc})[0];
    place = location.line == 0 ? "an unknown place" : location.file + ":" + std::to_string(location.line);
  }
  return place;
}

std::string function_name(const void* function) {
  if (function == nullptr) return "";
  const std::string name = source_locations({after_entry(function)})[0].function;
  return name == "??" ? "" : name;
}

std::vector<SourceLocation> source_locations(const std::vector<const void*>& pcs) {
  std::vector<SourceLocation> locations(pcs.size());
  if (pcs.empty()) return locations;
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return locations;
  const char* const prefix = std::getenv("BINUTILS");  // for another processor's, in an emulator
  std::ostringstream command;
  command << (prefix == nullptr ? "" : prefix) << "addr2line -aCfi -e '" << program << "'" << std::hex;
  // A return address belongs to the instruction after the call, maybe to the next line; one byte before it is
  // the call.
  for (const void* pc : pcs) {
    command << " 0x" << reinterpret_cast<std::uintptr_t>(pc) - load_address() - 1;
  }
  FILE* pipe = popen((command.str() + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return locations;
  __gnu_cxx::stdio_filebuf<char> output(pipe, std::ios::in);
  std::istream lines(&output);
  // For each address: a line "0x...", then for each inlined function, innermost first, its name
  // and its place.
  std::size_t addresses = 0;
  for (std::string name, place; std::getline(lines, name);) {
    if (name.starts_with("0x")) {
      ++addresses;
      continue;
    }
    std::getline(lines, place);
    SourceLocation& location = locations.at(addresses - 1);
    location.function = bare_name(name);  // the outermost is the kernel
    const std::size_t colon = place.rfind(':');
    const int line = colon == place.npos ? 0 : std::atoi(place.c_str() + colon + 1);
    // The innermost place outside of common/, which is in the step.
    if (line == 0 || (location.line > 0 && !location.file.starts_with("common/"))) continue;
    location.file = project_relative(place.substr(0, colon));
    location.line = line;
  }
  pclose(pipe);
  return locations;
}

}  // namespace cpu_device
