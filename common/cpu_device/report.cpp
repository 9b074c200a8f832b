#include "common/cpu_device/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "common/cpu_device/cluster.hpp"

namespace cpu_device {

namespace {

constexpr std::size_t max_faults = 20;

std::mutex faults_mutex;
std::vector<Recorded> faults;         // to be taken
std::atomic<bool> any_faults{false};  // whether there are any: saves taking the lock

// Of the current launch: the running clusters, and the faults of those that are not the first of these.
struct OfCluster {
  std::vector<Recorded> own;
  std::vector<Recorded> seen_by_others;
};
std::set<std::uint64_t> running;
std::condition_variable cluster_ended;
std::map<std::uint64_t, OfCluster> waiting;

Recorded* find(std::vector<Recorded>& list, FaultKind kind, const void* pc) {
  for (Recorded& known : list) {
    if (known.pc == pc && known.fault.kind == kind) return &known;
  }
  return nullptr;
}

void add(std::vector<Recorded>& list, Recorded&& fault) {
  if (Recorded* known = find(list, fault.fault.kind, fault.pc)) {
    known->fault.times += fault.fault.times;
    known->values = std::max(known->values, fault.values);
  } else if (list.size() < max_faults) {
    list.push_back(std::move(fault));
  }
}

// The first cluster that does not count, because one before it could not go on.
std::uint64_t end_of(const Launch& launch) {
  const std::uint64_t last = launch.stop_after;
  return std::max(last, last + 1);  // the largest number: all clusters count
}

// Passes on the faults of the clusters before `end`. The mutex is held.
void hand_on(std::uint64_t end) {
  while (!waiting.empty() && waiting.begin()->first < end) {
    OfCluster& cluster = waiting.begin()->second;
    // In an order that does not depend on when others saw them.
    std::sort(cluster.seen_by_others.begin(), cluster.seen_by_others.end(), [](const auto& a, const auto& b) {
      return std::tie(a.fault.kind, a.pc) < std::tie(b.fault.kind, b.pc);
    });
    for (Recorded& fault : cluster.own) add(faults, std::move(fault));
    for (Recorded& fault : cluster.seen_by_others) add(faults, std::move(fault));
    waiting.erase(waiting.begin());
  }
  any_faults = !faults.empty();
}

std::string to_string(const dim3& index) { return fmt::format("({},{},{})", index.x, index.y, index.z); }

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
    case FaultKind::noncoherent_load:
      return "non-coherent load of what this launch writes";
    case FaultKind::launch_overlap:
      return "conflict with an overlapping launch";
    case FaultKind::async_not_arrived:
      return "use of shared memory before its asynchronous copy arrived";
    case FaultKind::copy_outlives_block:
      return "asynchronous copy that outlives its block";
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
    case FaultKind::workspace_left:
      return "workspace not zero again";
    case FaultKind::register_misuse:
      return "misuse of setmaxnreg";
    case FaultKind::tensor_map_misuse:
      return "tensor map that the hardware cannot read";
    case FaultKind::unrounded_operand:
      return "operand not rounded to TF32";
    case FaultKind::deadlock:
      return "deadlock";
    case FaultKind::no_progress:
      return "no progress";
    case FaultKind::peer_gone:
      return "access to a block that may not be there";
    case FaultKind::missing_proxy_fence:
      return "no fence between a write and an asynchronous copy";
    case FaultKind::wgmma_misuse:
      return "misuse of wgmma";
    case FaultKind::descriptor_misuse:
      return "matrix descriptor that does not describe its tile";
  }
  return "fault";
}

std::string describe(const Fault& fault) {
  std::string text =
      std::string(to_string(fault.kind)) + ": " + fault.where + ": " +
      (fault.kernel.empty() ? "" : "kernel " + fault.kernel + ", ") + "block " + to_string(fault.block) +
      " thread " + to_string(fault.thread) + " " + fault.detail +
      (fault.times > 1 ? " (and " + std::to_string(fault.times - 1) + " more at this line)" : "");
  for (const std::string& line : fault.table) text += "\n    " + line;
  return text;
}

bool reported_before(FaultKind kind, const void* pc) {
  std::vector<Recorded>& own = current_block->cluster.faults;
  if (Recorded* known = find(own, kind, pc)) {
    ++known->fault.times;
    return true;
  }
  if (!any_faults) return false;
  const std::lock_guard lock(faults_mutex);
  if (find(faults, kind, pc) == nullptr) return false;
  own.push_back({{kind, "", "", ""}, pc, nullptr, 0});  // counts; an earlier cluster has the message
  return true;
}

void report(FaultKind kind, const void* pc, std::string detail, const Block& block, unsigned thread) {
  if (reported_before(kind, pc)) return;
  if (current_block->box != nullptr) detail += " (" + current_block->box->text() + ")";
  add(current_block->cluster.faults,
      {{kind, "", "", std::move(detail), unflatten(block.number, block.launch.grid),
        unflatten(thread, block.launch.block)},
       pc,
       block.launch.kernel,
       thread});
}

void note_racing_write(const void* pc, const std::byte* word, unsigned bytes) {
  std::uint32_t before;
  std::memcpy(&before, word, sizeof before);
  current_block->cluster.racing_writes.push_back({pc, word, bytes, before});
}

void compare_racing_writes(Cluster& cluster) {
  for (const RacingWrite& write : cluster.racing_writes) {
    std::uint32_t after;
    std::memcpy(&after, write.word, sizeof after);
    bool equal = true;
    for (unsigned i = 0; i < 4; ++i) {
      if ((write.bytes >> i & 1) != 0 && ((after ^ write.before) >> 8 * i & 0xff) != 0) equal = false;
    }
    if (Recorded* race = find(cluster.faults, FaultKind::race_shared, write.pc)) {
      race->values = std::max(race->values, equal ? Values::equal : Values::different);
    }
  }
  cluster.racing_writes.clear();
}

void report(FaultKind kind, const void* pc, std::string detail) {
  report(kind, pc, std::move(detail), *current_block, current_block->current);
}

void report_later_block(const Launch& launch, FaultKind kind, const void* pc, std::string detail,
                        std::uint64_t block, unsigned thread) {
  const std::lock_guard lock(faults_mutex);
  std::vector<Recorded>& list = waiting[launch.cluster_of(block)].seen_by_others;
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

bool begin_next_cluster(Launch& launch, std::uint64_t& number) {
  const std::lock_guard lock(faults_mutex);
  if (launch.next == (launch.all ? launch.clusters() : launch.selected.size())) return false;
  number = launch.all ? launch.next : launch.selected[launch.next];
  if (number > launch.stop_after) return false;
  ++launch.next;
  running.insert(number);
  return true;
}

void end_cluster_faults(Cluster& cluster) {
  const std::lock_guard lock(faults_mutex);
  running.erase(cluster.number);
  if (!cluster.faults.empty()) waiting[cluster.number].own = std::exchange(cluster.faults, {});
  hand_on(running.empty() ? end_of(cluster.launch) : std::min(*running.begin(), end_of(cluster.launch)));
  cluster_ended.notify_all();
}

void wait_for_clusters_before(const Cluster& cluster) {
  std::unique_lock lock(faults_mutex);
  cluster_ended.wait(lock, [&] { return *running.begin() == cluster.number; });
}

void end_launch_faults(const Launch& launch) {
  const std::lock_guard lock(faults_mutex);
  hand_on(end_of(launch));
  waiting.clear();
}

void report_after_launch(Recorded fault) {
  const std::lock_guard lock(faults_mutex);
  add(faults, std::move(fault));
  any_faults = true;
}

std::string thread_name(const Block& block, unsigned thread) {
  return "thread " + to_string(unflatten(thread, block.launch.block));
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
    if (faults[i].values == Values::equal) fault.detail += "; both leave the same value there";
    result.push_back(std::move(fault));
  }
  faults.clear();
  any_faults = false;
  return result;
}

}  // namespace cpu_device
