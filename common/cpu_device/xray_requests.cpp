// The X-ray's grouping: the accesses of lanes become requests of warps.

#include <algorithm>
#include <cstring>

#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/xray.hpp"

namespace cpu_device {

namespace {

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

std::size_t Xray::Hash::operator()(const Key& key) const {
  const Instruction& i = key.instruction;
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(i.pc) * 0x9e3779b97f4a7c15u;
  bits ^= (std::uint64_t{key.warp} << 32) + (i.bytes << 4) + (static_cast<unsigned>(i.space) << 3) +
          static_cast<unsigned>(i.operation);
  bits *= 0xbf58476d1ce4e5b9u;
  return bits ^ (bits >> 32);
}

// Counts request `index` of the stream.
void Xray::count(Runner& runner, const Key& key, Stream& stream, std::size_t index) {
  const Instruction& instruction = key.instruction;
  const Stream::Open& all = *stream.open;
  const OpenRequest& open = all.requests[index];
  const std::uint64_t execution = stream.before + index;
  const std::vector<std::uint32_t>* words = keep_requests_ ? &all.words[index] : nullptr;
  std::uint64_t reading = 0;
  if (instruction.operation == Operation::copy) {
    WarpRequest source{0, all.sources[index]};
    for (unsigned lane = 0; lane < warpSize; ++lane) {
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
  const Cost& own = cost(stream, instruction.space, open.of_lanes, instruction.bytes);
  count_side(runner, key, stream,
             {instruction.space, open.of_lanes, execution, open.sequence, own,
              std::max(own.banks.wavefronts, reading), open.during_copies, words});
}

// Counts the requests that lack lanes, as no more lanes will join them, and starts over.
void Xray::count_open(Runner& runner, const Key& key, Stream& stream) {
  if (stream.open == nullptr) return;
  Stream::Open& open = *stream.open;
  for (; stream.complete < open.requests.size(); ++stream.complete) {
    count(runner, key, stream, stream.complete);
  }
  stream.before += open.requests.size();
  stream.complete = 0;
  constexpr std::size_t worth_keeping = 1024;  // the memory of that many requests, as many warps may wait
  const auto empty = [](auto& all) {
    all.clear();
    if (all.capacity() > worth_keeping) all.shrink_to_fit();
  };
  open.joined.fill(0);
  empty(open.requests);
  empty(open.sources);
  open.words.clear();
  runner.spare.push_back(std::move(stream.open));
}

void Xray::begin(Runner& runner, const Key& key, Stream& stream) const {
  if (runner.spare.empty()) runner.spare.push_back(std::make_unique<Stream::Open>());
  stream.open = std::move(runner.spare.back());
  runner.spare.pop_back();
  stream.open->lanes = threads_ >= (key.warp + 1) * 32 ? ~0u : (1u << threads_ % 32) - 1;
}

void Xray::begin_request(Runner& runner, const Key& key, Stream::Open& open) const {
  open.requests.push_back({runner.running->sequence++, 0, {}});
  if (key.instruction.operation == Operation::copy) open.sources.emplace_back();
  if (keep_requests_) open.words.emplace_back();
}

void Xray::add_words(Stream::Open& open, std::size_t index, const Access& access) {
  const unsigned lane = access.thread % 32;
  std::vector<std::uint32_t>& words = open.words[index];
  if (!access.copy && !access.write) read_words(words, lane, access.space, access.address, access.bytes);
  if (access.source != 0) read_words(words, lane, Space::global, access.source, access.bytes);
}

void Xray::end_block(Runner& runner, Running& running) {
  runner.running = &running;
  for (Running::Streams& streams : running.warps) {
    for (auto& [key, stream] : streams) {
      count_open(runner, key, stream);
      stream.before = 0;
    }
  }
  running.sequence = 0;
  running.block = Running::none;
}

void Xray::end_blocks(Runner& runner) {
  for (Running& running : runner.blocks) end_block(runner, running);
}

std::uint64_t Xray::new_identity() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

Xray::Runner& Xray::find_runner() {
  constinit thread_local static std::uint64_t this_thread = 0;
  if (this_thread == 0) this_thread = new_identity();
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Runner>& mine = runners_[std::this_thread::get_id()];
  if (mine == nullptr) mine = std::make_unique<Runner>();
  if (mine->os_thread != this_thread) {  // the id's previous owner is gone
    end_blocks(*mine);
    mine->os_thread = this_thread;
  }
  return *mine;
}

[[gnu::always_inline]] inline Xray::Runner& Xray::runner_of_this_thread() {
  constinit thread_local static std::uint64_t instance = 0;  // to which `runner` belongs
  constinit thread_local static Runner* runner = nullptr;
  if (instance != identity_) [[unlikely]] {
    runner = &find_runner();
    instance = identity_;
  }
  return *runner;
}

void Xray::on_launch(const LaunchShape& shape) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, runner] : runners_) {
    end_blocks(*runner);
    runner->blocks.clear();  // they refer to the previous kernel's sums
    runner->running = nullptr;
  }
  ++launches_;
  shape_ = shape;
  threads_ = shape.block.x * shape.block.y * shape.block.z;
  blocks_ += shape.blocks();
}

void Xray::switch_to(Runner& runner, std::uint64_t block) {
  const auto find = [&](std::uint64_t wanted) {
    return std::find_if(runner.blocks.begin(), runner.blocks.end(),
                        [&](const Running& running) { return running.block == wanted; });
  };
  auto found = find(block);
  if (found == runner.blocks.end()) found = find(Running::none);
  runner.running = found == runner.blocks.end() ? &runner.blocks.emplace_back() : &*found;
  runner.running->block = block;
}

[[gnu::always_inline]] inline Xray::Runner& Xray::runner_in(std::uint64_t block) {
  Runner& runner = runner_of_this_thread();
  if (runner.running == nullptr || runner.running->block != block) switch_to(runner, block);
  return runner;
}

void Xray::on_warp_end(std::uint64_t block, std::uint32_t warp) {
  Runner& runner = runner_in(block);
  if (warp >= runner.running->warps.size()) return;  // it accessed nothing
  for (auto& [key, stream] : runner.running->warps[warp]) count_open(runner, key, stream);
}

void Xray::on_block_end(std::uint64_t block) {
  Runner& runner = runner_in(block);
  end_block(runner, *runner.running);
  ++observed_blocks_;
}

Xray::Entry* Xray::find_stream(Running& running, Key key) {
  if (running.warps.size() <= key.warp) running.warps.resize(key.warp + 1);
  auto* entry = &*running.warps[key.warp].try_emplace(key).first;
  if (running.latest != nullptr) running.latest->second.next = entry;
  return entry;
}

// Of a key that is made only if it has to be looked up.
[[gnu::always_inline]] inline Xray::Entry& Xray::entry_of(Running& running, const void* pc,
                                                          std::uint32_t bytes, Space space,
                                                          Operation operation, std::uint32_t warp) {
  Entry* entry = running.latest == nullptr ? nullptr : running.latest->second.next;
  const auto is_it = [&](const Key& key) {
    const Instruction& i = key.instruction;
    return i.pc == pc && i.bytes == bytes && i.space == space && i.operation == operation && key.warp == warp;
  };
  if (entry == nullptr || !is_it(entry->first)) [[unlikely]] {
    entry = find_stream(running, {{pc, bytes, space, operation}, warp});
  }
  running.latest = entry;
  return *entry;
}

void Xray::on_request(const CollectiveRequest& collective) {
  Runner& runner = runner_in(collective.block);
  auto& [key, stream] = entry_of(*runner.running, collective.pc, collective.bytes, collective.space,
                                 collective.operation, collective.warp);
  count_open(runner, key, stream);  // no more lanes will join these
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
             {collective.space, request, stream.before++, runner.running->sequence++, cost,
              cost.banks.wavefronts, collective.during_copies, &words});
}

void Xray::on_access(const Access& access) {
  if (access.copy && access.space == Space::global)
    return;  // the other side comes next, and includes this one
  Runner& runner = runner_in(access.block);
  const Operation operation = access.copy    ? Operation::copy
                              : access.write ? Operation::store
                                             : Operation::load;
  auto& [key, stream] =
      entry_of(*runner.running, access.pc, access.bytes, access.space, operation, access.thread / 32);
  if (stream.epoch != access.epoch) {  // all lanes have passed a barrier
    count_open(runner, key, stream);
    stream.epoch = access.epoch;
  }
  if (stream.open == nullptr) [[unlikely]]
    begin(runner, key, stream);
  Stream::Open& open = *stream.open.get();
  const unsigned lane = access.thread % 32;
  const std::size_t index = open.joined.data()[lane]++;
  if (open.requests.data() + index == std::to_address(open.requests.end())) begin_request(runner, key, open);
  OpenRequest& request = open.requests.data()[index];
  request.of_lanes.addresses.data()[lane] = access.address;
  request.of_lanes.active |= 1u << lane;
  if (access.during_copies) request.during_copies |= 1u << lane;
  if (access.copy) open.sources[index][lane] = access.source;
  if (keep_requests_ && access.bytes % word_bytes == 0) add_words(open, index, access);
  if (request.of_lanes.active != open.lanes) return;
  count(runner, key, stream, stream.complete++);
  if (stream.complete == open.requests.size()) count_open(runner, key, stream);  // others use the memory
}

}  // namespace cpu_device
