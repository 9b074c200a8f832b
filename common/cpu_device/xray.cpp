#include "common/cpu_device/xray.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <tuple>

#include "common/cpu_device/internal.hpp"

namespace cpu_device {

namespace {

// Lines of source files, stripped; "" for a line that does not exist.
class Sources {
 public:
  const std::string& line(const std::string& file, int number) {
    const auto [found, is_new] = files_.try_emplace(file);
    std::vector<std::string>& lines = found->second;
    if (is_new) read(file, lines);
    const std::size_t index = static_cast<std::size_t>(number) - 1;
    return number >= 1 && index < lines.size() ? lines[index] : nothing_;
  }

 private:
  static void read(const std::string& file, std::vector<std::string>& lines) {
    std::ifstream stream(file.starts_with('/') ? file : std::string(PROJECT_ROOT) + "/" + file);
    for (std::string line; std::getline(stream, line);) {
      const std::size_t first = line.find_first_not_of(" \t");
      const std::size_t last = line.find_last_not_of(" \t\r");
      lines.push_back(first == line.npos ? "" : line.substr(first, last - first + 1));
    }
  }

  std::map<std::string, std::vector<std::string>> files_;
  const std::string nothing_;
};

constexpr unsigned word_bytes = 4;

// Copies what a lane of a request is about to read to that lane's words, unless the access is narrower than a
// word. `address`: in shared memory, the offset into the block's.
void read_words(std::vector<std::uint32_t>& words, unsigned lane, Space space, std::uintptr_t address,
                unsigned bytes) {
  const std::size_t count = bytes / word_bytes;
  if (words.empty()) words.resize(warpSize * count);
  const std::byte* memory = readable(space, address, bytes);
  if (memory != nullptr) std::memcpy(&words[lane * count], memory, count * word_bytes);
}

}  // namespace

const char* to_string(Space space) { return space == Space::global ? "global" : "shared"; }

const char* to_string(Operation operation) {
  switch (operation) {
    case Operation::load:
      return "load";
    case Operation::store:
      return "store";
    case Operation::copy:
      return "copy";
    case Operation::matrix:
      return "ldmatrix";
  }
  return "?";
}

XrayCounts& XrayCounts::operator+=(const XrayCounts& other) {
  requests += other.requests;
  lanes += other.lanes;
  sectors += other.sectors;
  bytes_used += other.bytes_used;
  wavefronts += other.wavefronts;
  ideal_wavefronts += other.ideal_wavefronts;
  conflicts += other.conflicts;
  lanes_during_copies += other.lanes_during_copies;
  return *this;
}

XrayCounts XrayKernel::totals(Space space) const {
  XrayCounts sum;
  for (const XrayRow& row : rows) {
    if (row.space == space) sum += row.counts;
  }
  return sum;
}

std::size_t Xray::Hash::operator()(const Key& key) const {
  const Instruction& i = key.instruction;
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(i.pc) * 0x9e3779b97f4a7c15u;
  bits ^= (std::uint64_t{key.warp} << 32) + (i.bytes << 4) + (static_cast<unsigned>(i.space) << 3) +
          static_cast<unsigned>(i.operation);
  bits *= 0xbf58476d1ce4e5b9u;
  return bits ^ (bits >> 32);
}

void Xray::Sum::add(const Sum& other) {
  if (counts.requests == 0) {
    *this = other;
    return;
  }
  counts += other.counts;
  if (other.rank < rank) {
    rank = other.rank;
    example = other.example;
  }
  requests.insert(requests.end(), other.requests.begin(), other.requests.end());
  first_launch = std::min(first_launch, other.first_launch);
  threads_per_block = std::max(threads_per_block, other.threads_per_block);
}

void Xray::count_side(Runner& runner, const Key& key, Stream& stream, const Side& side) {
  const WarpRequest& request = side.request;
  const bool bulk = request.active == 0;
  const std::uintptr_t address =
      request.addresses[bulk ? 0 : static_cast<unsigned>(__builtin_ctz(request.active))];
  const bool global = side.space == Space::global;
  const NamedArray array = global ? global_array_at(address) : shared_array_at(address);
  Stream::Latest& latest = stream.latest[static_cast<unsigned>(side.space)];
  if (latest.sum == nullptr || latest.begin != array.begin) {
    Sum& sum = runner.sums[{shape_.kernel, key.instruction, side.space, std::string(array.name)}];
    if (sum.counts.requests == 0) sum.first_launch = launches_;
    latest.sum = &sum;
    latest.begin = array.begin;
  }
  Sum& sum = *latest.sum;
  sum.threads_per_block = std::max(sum.threads_per_block, shape_.block.x * shape_.block.y * shape_.block.z);

  const auto lanes = static_cast<unsigned>(__builtin_popcount(request.active));
  const std::array<std::uint64_t, 5> rank{32 - lanes, launches_, runner.block, key.warp, side.sequence};
  const bool better = sum.counts.requests == 0 || rank < sum.rank;
  if (better || keep_requests_) {
    XrayExample example{unflatten(runner.block, shape_.grid), key.warp, side.execution, request.active, {}};
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((request.active >> lane & 1) == 0 && !(bulk && lane == 0)) continue;
      example.offset[lane] = static_cast<std::int64_t>(request.addresses[lane] - array.begin);
    }
    if (keep_requests_) {
      XrayRequest kept{example, side.sequence, {}};
      if (side.words != nullptr) kept.words = *side.words;
      sum.requests.push_back({{launches_, runner.block, side.sequence}, std::move(kept)});
    }
    if (better) sum.rank = rank, sum.example = example;
  }

  ++sum.counts.requests;
  sum.counts.lanes += lanes;
  sum.counts.wavefronts += side.wavefronts;
  if (global) {
    sum.counts.sectors += side.cost.sectors;
    sum.counts.bytes_used += side.cost.bytes_used;
  } else {
    const Wavefronts& banks = side.cost.banks;
    sum.counts.ideal_wavefronts += banks.ideal;
    sum.counts.conflicts += banks.wavefronts - banks.ideal;
    if (key.instruction.operation != Operation::copy) {
      sum.counts.lanes_during_copies += static_cast<unsigned>(__builtin_popcount(side.during_copies));
    }
  }
}

// Usually each lane wants what it wanted last time, all of them the same number of bytes further on. Then the
// request meets other banks, but just as many, and other sectors, but just as many if that number is a
// multiple of their size.
const Xray::Cost& Xray::cost(Stream& stream, Space space, const WarpRequest& request, unsigned bytes) {
  constexpr unsigned word = 4, sector = 32;
  Stream::Latest& latest = stream.latest[static_cast<unsigned>(space)];
  const auto first = static_cast<unsigned>(__builtin_ctz(request.active));
  const std::uintptr_t further = request.addresses[first] - latest.request.addresses[first];
  bool alike = request.active == latest.request.active && further % word == 0;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    const bool idle = (request.active >> lane & 1) == 0;
    alike &= idle | (request.addresses[lane] - latest.request.addresses[lane] == further);
  }
  if (!alike) {
    latest.cost = {wavefronts(request, bytes)};
    if (space == Space::global) latest.cost.bytes_used = distinct_bytes(request, bytes);
  }
  if (space == Space::global && (!alike || further % sector != 0)) {
    latest.cost.sectors = sectors(request, bytes);
  }
  latest.request = request;
  return latest.cost;
}

// Counts request `index` of the stream.
void Xray::count(Runner& runner, const Key& key, Stream& stream, std::size_t index) {
  const Instruction& instruction = key.instruction;
  const OpenRequest& open = stream.requests[index];
  const std::uint64_t execution = stream.before + index;
  const std::vector<std::uint32_t>* words = keep_requests_ ? &stream.words[index] : nullptr;
  WarpRequest request{open.active, {}};
  for (std::uint32_t lanes = open.active; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(lanes));
    request.addresses[lane] = stream.addresses[lane][index];
  }
  std::uint64_t reading = 0;
  if (instruction.operation == Operation::copy) {
    WarpRequest source;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      if ((open.active >> lane & 1) == 0) continue;
      source.addresses[lane] = (*stream.sources)[lane][index];
      if (source.addresses[lane] != 0) source.active |= 1u << lane;
    }
    if (source.active != 0) {  // a copy of zeros reads nothing
      const Cost& of_source = cost(stream, Space::global, source, instruction.bytes);
      reading = of_source.banks.wavefronts;
      count_side(runner, key, stream,
                 {Space::global, source, execution, open.sequence, of_source, reading, 0, words});
    }
    words = nullptr;
  }
  const Cost& own = cost(stream, instruction.space, request, instruction.bytes);
  count_side(runner, key, stream,
             {instruction.space, request, execution, open.sequence, own,
              std::max(own.banks.wavefronts, reading), open.during_copies, words});
}

// Counts the requests that lack lanes, as no more lanes will join them, and starts over.
void Xray::count_open(Runner& runner, const Key& key, Stream& stream) {
  for (; stream.complete < stream.requests.size(); ++stream.complete) {
    count(runner, key, stream, stream.complete);
  }
  stream.before += stream.requests.size();
  stream.complete = 0;
  constexpr std::size_t worth_keeping = 1024;  // the memory of that many requests, as there are many streams
  const auto empty = [](auto& all) {
    all.clear();
    if (all.capacity() > worth_keeping) all.shrink_to_fit();
  };
  empty(stream.requests);
  stream.words.clear();
  for (auto& of_lane : stream.addresses) empty(of_lane);
  if (stream.sources != nullptr) {
    for (auto& of_lane : *stream.sources) empty(of_lane);
  }
}

void Xray::end_block(Runner& runner) {
  for (Runner::Streams& streams : runner.warps) {
    for (auto& [key, stream] : streams) {
      count_open(runner, key, stream);
      stream.before = 0;
    }
  }
  runner.sequence = 0;
}

std::uint64_t Xray::new_identity() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

[[gnu::always_inline]] inline Xray::Runner& Xray::runner_of_this_thread() {
  constinit thread_local static std::uint64_t this_thread = 0;
  constinit thread_local static std::uint64_t instance = 0;  // to which `runner` belongs
  constinit thread_local static Runner* runner = nullptr;
  if (instance == identity_) return *runner;
  if (this_thread == 0) this_thread = new_identity();
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Runner>& mine = runners_[std::this_thread::get_id()];
  if (mine == nullptr) mine = std::make_unique<Runner>();
  if (mine->os_thread != this_thread) {  // the id's previous owner is gone
    end_block(*mine);
    mine->os_thread = this_thread;
  }
  instance = identity_;
  runner = mine.get();
  return *runner;
}

[[gnu::always_inline]] inline std::uint32_t Xray::lanes_of(std::uint32_t warp) const {
  const std::uint32_t threads = shape_.block.x * shape_.block.y * shape_.block.z;
  if (launches_ == 0 || threads >= (warp + 1) * 32) return ~0u;  // no launch: nobody knows
  return (1u << threads % 32) - 1;
}

void Xray::on_launch(const LaunchShape& shape) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, runner] : runners_) {
    end_block(*runner);
    runner->warps.clear();  // they refer to the previous kernel's sums
    runner->latest = nullptr;
  }
  ++launches_;
  shape_ = shape;
  blocks_ += shape.blocks();
}

void Xray::on_warp_end(std::uint64_t, std::uint32_t warp) {
  Runner& runner = runner_of_this_thread();
  if (warp >= runner.warps.size()) return;  // it accessed nothing
  for (auto& [key, stream] : runner.warps[warp]) count_open(runner, key, stream);
}

void Xray::on_block_end(std::uint64_t) {
  end_block(runner_of_this_thread());
  ++observed_blocks_;
}

[[gnu::always_inline]] inline Xray::Runner& Xray::runner_in(std::uint64_t block) {
  Runner& runner = runner_of_this_thread();
  if (runner.block != block) {
    end_block(runner);
    runner.block = block;
  }
  return runner;
}

[[gnu::always_inline]] inline Xray::Stream& Xray::stream_of(Runner& runner, const Key& key) {
  auto* entry = runner.latest == nullptr ? nullptr : runner.latest->second.next;
  if (entry == nullptr || entry->first != key) {
    if (runner.warps.size() <= key.warp) runner.warps.resize(key.warp + 1);
    entry = &*runner.warps[key.warp].try_emplace(key).first;
    if (runner.latest != nullptr) runner.latest->second.next = entry;
  }
  runner.latest = entry;
  return entry->second;
}

void Xray::on_request(const CollectiveRequest& collective) {
  Runner& runner = runner_in(collective.block);
  const Key key{{collective.pc, collective.bytes, collective.space, collective.operation}, collective.warp};
  Stream& stream = stream_of(runner, key);
  if (!stream.requests.empty()) count_open(runner, key, stream);  // no more lanes will join these
  const WarpRequest request{collective.active, collective.addresses};
  const auto& [count, bytes, pitch] = collective.rows;
  Cost cost;
  if (request.active == 0) {
    const MemoryRows bulk = count > 0 ? MemoryRows{request.addresses[0], count, bytes, pitch}
                                      : MemoryRows{request.addresses[0], 1, collective.bytes, 0};
    cost = {bulk_wavefronts(bulk), sectors(bulk), distinct_bytes(bulk)};
  } else if (collective.operation == Operation::matrix) {
    cost = {matrix_wavefronts(request)};
  } else {
    cost = {wavefronts(request, collective.bytes), sectors(request, collective.bytes),
            distinct_bytes(request, collective.bytes)};
  }
  std::vector<std::uint32_t> words;
  if (keep_requests_ && collective.operation == Operation::matrix) {
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      if (request.active >> lane & 1)
        read_words(words, lane, collective.space, request.addresses[lane], collective.bytes);
    }
  }
  count_side(runner, key, stream,
             {collective.space, request, stream.before++, runner.sequence++, cost, cost.banks.wavefronts,
              collective.during_copies, &words});
}

void Xray::on_access(const Access& access) {
  if (access.copy && access.space == Space::global)
    return;  // the other side comes next, and includes this one
  Runner& runner = runner_in(access.block);
  const Operation operation = access.copy    ? Operation::copy
                              : access.write ? Operation::store
                                             : Operation::load;
  const Key key{{access.pc, access.bytes, access.space, operation}, access.thread / 32};
  Stream& stream = stream_of(runner, key);
  if (stream.epoch != access.epoch) {  // all lanes have passed a barrier
    count_open(runner, key, stream);
    stream.epoch = access.epoch;
  }
  const unsigned lane = access.thread % 32;
  std::vector<std::uintptr_t>& of_lane = stream.addresses[lane];
  const std::size_t index = of_lane.size();
  if (index == stream.requests.size()) {
    stream.requests.push_back({runner.sequence++});
    if (keep_requests_) stream.words.emplace_back();
  }
  of_lane.push_back(access.address);
  OpenRequest& request = stream.requests[index];
  request.active |= 1u << lane;
  if (access.during_copies) request.during_copies |= 1u << lane;
  if (access.copy) {
    if (stream.sources == nullptr) stream.sources = std::make_unique<Stream::Addresses>();
    (*stream.sources)[lane].push_back(access.source);
  }
  if (keep_requests_ && access.bytes % word_bytes == 0) {
    std::vector<std::uint32_t>& words = stream.words[index];
    if (operation == Operation::load) read_words(words, lane, access.space, access.address, access.bytes);
    if (access.source != 0) read_words(words, lane, Space::global, access.source, access.bytes);
  }
  if (request.active != lanes_of(key.warp)) return;
  count(runner, key, stream, stream.complete++);
  if (stream.complete == stream.requests.size()) count_open(runner, key, stream);  // reuses the memory
}

XrayReport Xray::report() {
  const std::lock_guard lock(mutex_);
  std::map<SumKey, Sum> sums;
  for (auto& [id, runner] : runners_) {
    end_block(*runner);
    for (const auto& [key, sum] : runner->sums) sums[key].add(sum);
  }
  std::vector<const void*> pcs;
  for (const auto& [key, sum] : sums) pcs.push_back(key.instruction.pc);
  const std::vector<SourceLocation> places = source_locations(pcs);

  std::map<const void*, std::string> kernels;
  for (const auto& [key, sum] : sums) {
    if (!kernels.contains(key.kernel)) kernels[key.kernel] = function_name(key.kernel);
  }

  // A source line may have become several instructions. Unknown places are kept apart.
  using RowKey =
      std::tuple<std::string, std::string, int, const void*, Space, Operation, std::string, unsigned>;
  std::map<RowKey, Sum> rows;
  std::size_t index = 0;
  for (const auto& [key, sum] : sums) {
    const SourceLocation& place = places[index++];
    const Instruction& i = key.instruction;
    rows[{kernels[key.kernel], place.file, place.line, place.line == 0 ? i.pc : nullptr, key.side,
          i.operation, key.array, i.bytes}]
        .add(sum);
  }

  XrayReport report{blocks_, observed_blocks_, {}};
  std::map<std::string, std::uint64_t> first_launch;  // of each kernel
  Sources sources;
  for (const auto& [key, sum] : rows) {
    const auto& [kernel, file, line, pc, space, operation, array, bytes] = key;
    if (report.kernels.empty() || report.kernels.back().name != kernel)
      report.kernels.push_back({kernel, 0, {}});
    XrayKernel& last = report.kernels.back();
    last.threads_per_block = std::max(last.threads_per_block, sum.threads_per_block);
    auto kept = sum.requests;
    std::ranges::stable_sort(kept, {}, [](const auto& request) { return request.first; });
    std::vector<XrayRequest> requests;
    for (auto& [when, request] : kept) requests.push_back(std::move(request));
    last.rows.push_back({{kernel, file, line},
                         sources.line(file, line),
                         space,
                         operation,
                         array,
                         bytes,
                         sum.counts,
                         sum.example,
                         std::move(requests)});
    const auto [first, is_new] = first_launch.try_emplace(kernel, sum.first_launch);
    if (!is_new) first->second = std::min(first->second, sum.first_launch);
  }
  std::stable_sort(report.kernels.begin(), report.kernels.end(),
                   [&](const auto& a, const auto& b) { return first_launch[a.name] < first_launch[b.name]; });
  return report;
}

}  // namespace cpu_device
