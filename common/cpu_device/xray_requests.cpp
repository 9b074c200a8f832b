// The X-ray's grouping: the accesses of lanes become requests of warps.

#include <algorithm>
#include <cstring>
#include <utility>

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

// So much that the next lane's addresses do not lie where the cache keeps this one's.
void Xray::Stream::Open::make_room(std::uint32_t wanted) {
  const std::uint32_t old_pitch = std::exchange(pitch, wanted > 8 ? wanted + 8 : wanted);
  room = wanted;
  if (addresses.size() < std::size_t{warpSize} * pitch) addresses.resize(std::size_t{warpSize} * pitch);
  for (unsigned lane = warpSize; lane-- > 1;) {
    const auto begin = addresses.begin() + lane * old_pitch;
    std::copy_backward(begin, begin + joined[lane], addresses.begin() + lane * pitch + joined[lane]);
  }
}

WarpRequest Xray::Stream::Open::request(std::size_t index) const {
  WarpRequest request;
  const bool whole = requests[index].joined == warpSize;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    if (!whole && joined[lane] <= index) continue;
    request.active |= 1u << lane;
    request.addresses[lane] = addresses.data()[lane * pitch + index];
  }
  return request;
}

// Counts request `index` of the stream.
void Xray::count(Runner& runner, const Key& key, Stream& stream, std::size_t index) {
  const Instruction& instruction = key.instruction;
  const Stream::Open& all = *stream.open;
  const OpenRequest& open = all.requests[index];
  const WarpRequest of_lanes = all.request(index);
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
  const Cost& own = cost(stream, instruction.space, of_lanes, instruction.bytes);
  count_side(runner, key, stream,
             {instruction.space, of_lanes, execution, open.sequence, own,
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
  stream.room = open.room;
  if (open.room > worth_keeping) open.addresses = {};
  empty(open.requests);
  empty(open.sources);
  open.words.clear();
  runner.spare.push_back(std::move(stream.open));
}

void Xray::begin(Runner& runner, const Key& key, Stream& stream) const {
  if (runner.spare.empty()) runner.spare.push_back(std::make_unique<Stream::Open>());
  stream.open = std::move(runner.spare.back());
  runner.spare.pop_back();
  Stream::Open& open = *stream.open;
  open.lanes = threads_ >= (key.warp + 1) * 32 ? ~0u : (1u << threads_ % 32) - 1;
  open.lane_count = static_cast<std::uint32_t>(__builtin_popcount(open.lanes));
  open.make_room(stream.room);
}

void Xray::begin_request(Runner& runner, const Key& key, Stream::Open& open) const {
  if (open.requests.size() == open.room) open.make_room(open.room < 64 ? 8 * open.room : 2 * open.room);
  open.requests.push_back({runner.running->sequence++});
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
  if (running.latest != nullptr) {
    auto& next = running.latest->second.next;
    next = {entry, next[0]};
  }
  return entry;
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

void Xray::on_access(const Access& access) { take(access); }

}  // namespace cpu_device
