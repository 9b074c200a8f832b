#include "common/cpu_device/bank_conflicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace cpu_device {

namespace {

constexpr unsigned banks = 32, bank_bytes = 4;

// Whether every active lane i wants the same as lane i ^ distance, if that is active.
bool neighbours_agree(const SharedRequest& request, unsigned distance) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned other = lane ^ distance;
    if ((request.active >> lane & 1) == 0 || (request.active >> other & 1) == 0) continue;
    if (request.addresses[lane] != request.addresses[other]) return false;
  }
  return true;
}

// The wavefronts that lanes [begin, end) take when served at once: as many as the bank has words to deliver
// that has most. 0 if none of them is active.
std::uint64_t wavefronts_of_part(const SharedRequest& request, unsigned bytes, unsigned begin, unsigned end) {
  std::array<std::uint32_t, 32 * 16 / bank_bytes> words;  // enough even for misaligned accesses
  std::size_t count = 0;
  for (unsigned lane = begin; lane < end; ++lane) {
    if ((request.active >> lane & 1) == 0) continue;
    const std::uint32_t first = request.addresses[lane] / bank_bytes;
    const std::uint32_t last = (request.addresses[lane] + bytes - 1) / bank_bytes;
    for (std::uint32_t word = first; word <= last; ++word) words[count++] = word;
  }
  std::sort(words.begin(), words.begin() + count);
  const auto words_end = std::unique(words.begin(), words.begin() + count);
  std::array<std::uint64_t, banks> wanted{};
  for (auto word = words.begin(); word != words_end; ++word) ++wanted[*word % banks];
  return *std::max_element(wanted.begin(), wanted.end());
}

}  // namespace

Wavefronts wavefronts(const SharedRequest& request, unsigned bytes) {
  Wavefronts result;
  if (bytes > 4 && bytes != 8 && bytes != 16) {  // no instruction moves so many: several that move 4 each
    SharedRequest part = request;
    for (unsigned done = 0; done < bytes; done += 4) {
      const Wavefronts w = wavefronts(part, std::min(4u, bytes - done));
      result.wavefronts += w.wavefronts;
      result.ideal += w.ideal;
      for (std::uint32_t& address : part.addresses) address += 4;
    }
    return result;
  }
  unsigned lanes = bytes <= 4 ? 32 : 32 * bank_bytes / bytes;  // of a part
  if (bytes > 4 && (neighbours_agree(request, 1) || neighbours_agree(request, 2))) lanes *= 2;
  for (unsigned begin = 0; begin < 32; begin += lanes) {
    const std::uint64_t part = wavefronts_of_part(request, bytes, begin, begin + lanes);
    result.wavefronts += part;
    result.ideal += part > 0;
  }
  return result;
}

void BankConflicts::Sum::add(const SharedRequest& request, unsigned bytes) {
  const Wavefronts w = cpu_device::wavefronts(request, bytes);
  add({1, w});
}

void BankConflicts::Sum::add(const Sum& other) {
  requests += other.requests;
  wavefronts.wavefronts += other.wavefronts.wavefronts;
  wavefronts.ideal += other.wavefronts.ideal;
}

void BankConflicts::Runner::end_block() {
  for (auto& [key, stream] : streams) {
    for (const SharedRequest& request : stream.open) stream.sum.add(request, std::get<2>(key.second));
    stream.open.clear();
    stream.closed = 0;
    stream.executions.fill(0);
  }
}

std::uint64_t BankConflicts::new_identity() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

BankConflicts::Runner& BankConflicts::runner_of_this_thread() {
  thread_local const std::uint64_t this_thread = new_identity();
  thread_local std::uint64_t instance = 0;  // which `runner` belongs to
  thread_local Runner* runner = nullptr;
  if (instance == identity_) return *runner;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Runner>& mine = runners_[std::this_thread::get_id()];
  if (mine == nullptr) mine = std::make_unique<Runner>();
  if (mine->os_thread != this_thread) {  // the id's last owner is gone
    mine->end_block();
    mine->os_thread = this_thread;
  }
  instance = identity_;
  runner = mine.get();
  return *runner;
}

void BankConflicts::on_access(const Access& access) {
  if (access.space != Space::shared) return;
  Runner& runner = runner_of_this_thread();
  if (runner.block != access.block) {
    runner.end_block();
    runner.block = access.block;
  }
  const unsigned lane = access.thread % 32;
  Stream& stream = runner.streams[{access.thread / 32, {access.pc, access.write, access.bytes}}];
  // Lanes get ahead of each other (up to a barrier), but a lane's accesses come in order: so requests become
  // complete in order, too.
  const std::uint64_t ahead = stream.executions[lane]++ - stream.closed;
  if (ahead == stream.open.size()) stream.open.emplace_back();
  SharedRequest& request = stream.open[ahead];
  request.active |= 1u << lane;
  request.addresses[lane] = static_cast<std::uint32_t>(access.address);
  if (request.active != ~0u) return;
  stream.sum.add(request, access.bytes);
  stream.open.pop_front();
  ++stream.closed;
}

std::vector<SharedTraffic> BankConflicts::results() {
  const std::lock_guard lock(mutex_);
  std::map<Instruction, Sum> by_instruction;
  for (auto& [id, runner] : runners_) {
    runner->end_block();
    for (const auto& [key, stream] : runner->streams) by_instruction[key.second].add(stream.sum);
  }
  std::vector<const void*> pcs;
  for (const auto& [instruction, sum] : by_instruction) pcs.push_back(std::get<0>(instruction));
  const std::vector<SourceLocation> places = source_locations(pcs);

  // One line of the source may have become several instructions. Unknown places stay apart.
  std::map<std::tuple<std::string, int, const void*, std::string, bool, unsigned>, Sum> by_place;
  std::size_t index = 0;
  for (const auto& [instruction, sum] : by_instruction) {
    const auto& [pc, write, bytes] = instruction;
    const SourceLocation& place = places[index++];
    by_place[{place.file, place.line, place.line == 0 ? pc : nullptr, place.function, write, bytes}].add(sum);
  }
  std::vector<SharedTraffic> results;
  for (const auto& [key, sum] : by_place) {
    const auto& [file, line, pc, function, write, bytes] = key;
    results.push_back({{function, file, line}, write, bytes, sum.requests, sum.wavefronts});
  }
  return results;
}

std::string to_table(const std::vector<SharedTraffic>& results) {
  std::string table = fmt::format("{:<44} {:<5} {:>5} {:>9} {:>10} {:>9} {:>6}\n", "place", "", "bytes",
                                  "requests", "wavefronts", "ideal", "ratio");
  for (const SharedTraffic& r : results) {
    const std::string place =
        r.place.line == 0 ? "unknown place" : fmt::format("{}:{}", r.place.file, r.place.line);
    table += fmt::format("{:<44} {:<5} {:>5} {:>9} {:>10} {:>9} {:>6.2f}\n", place,
                         r.write ? "write" : "read", r.bytes, r.requests, r.sum.wavefronts, r.sum.ideal,
                         r.sum.ideal == 0 ? 0.0 : static_cast<double>(r.sum.wavefronts) / r.sum.ideal);
  }
  return table;
}

}  // namespace cpu_device
