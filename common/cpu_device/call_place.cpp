#include "common/cpu_device/call_place.hpp"

#include <map>
#include <mutex>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/report.hpp"

namespace cpu_device {

namespace {

using Places = std::vector<std::string>;  // "file:line", innermost first

// Those of an address: of the call itself, then of the calls that the compiler has inlined.
const Places& places_at(const void* pc) {
  static std::mutex mutex;
  static std::map<const void*, Places> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(pc);
  if (is_new) {
    for (const SourceLocation& call : inlined_calls(pc)) {
      if (call.line > 0) found->second.push_back(call.file + ":" + std::to_string(call.line));
    }
  }
  return found->second;
}

// The last caller is what launches the kernel.
std::size_t callers(const Block& block, unsigned thread) {
  return block.calls.empty() ? 0 : std::max<std::size_t>(block.calls[thread].size(), 1) - 1;
}

Places places_of(const Block& block, unsigned thread) {
  Places all = places_at(block.threads[thread].wait.pc);
  for (std::size_t i = callers(block, thread); i > 0; --i) {
    const Places& around = places_at(block.calls[thread][i]);
    all.insert(all.end(), around.begin(), around.end());
  }
  return all;
}

}  // namespace

bool same_place(const Block& block, unsigned a, unsigned b) {
  const Wait &wait_a = block.threads[a].wait, &wait_b = block.threads[b].wait;
  if (wait_a.line != wait_b.line) return false;
  if (!block.launch.checked) return true;
  if (wait_a.pc == wait_b.pc && block.calls[a] == block.calls[b]) return true;
  return places_of(block, a) == places_of(block, b);
}

bool same_place(const void* pc_a, int line_a, const void* pc_b, int line_b) {
  if (line_a != line_b) return false;
  return pc_a == pc_b || !current_block->launch.checked || places_at(pc_a) == places_at(pc_b);
}

std::string place_with_calls(const Block& block, unsigned thread) {
  std::string text;
  for (const std::string& place : places_of(block, thread)) {
    if (place.starts_with("common/")) continue;
    text += (text.empty() ? "" : ", called at ") + place;
  }
  return text.empty() ? place_of(block.threads[thread].wait.pc) : text;
}

}  // namespace cpu_device
