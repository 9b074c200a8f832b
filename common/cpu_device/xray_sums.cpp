// The X-ray's sums: what a request costs, added to what is known of its instruction and array.

#include <algorithm>

#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/xray.hpp"

namespace cpu_device {

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
  const std::array<std::uint64_t, 5> rank{32 - lanes, launches_, runner.running->block, key.warp,
                                          side.sequence};
  const bool better = sum.counts.requests == 0 || rank < sum.rank;
  if (better || keep_requests_) {
    XrayExample example{
        unflatten(runner.running->block, shape_.grid), key.warp, side.execution, request.active, {}};
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((request.active >> lane & 1) == 0 && !(bulk && lane == 0)) continue;
      example.offset[lane] = static_cast<std::int64_t>(request.addresses[lane] - array.begin);
    }
    if (keep_requests_) {
      XrayRequest kept{example, side.sequence, {}};
      if (side.words != nullptr) kept.words = *side.words;
      sum.requests.push_back({{launches_, runner.running->block, side.sequence}, std::move(kept)});
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

}  // namespace cpu_device
