// The X-ray's report: the sums of all OS threads put together, instructions resolved to source lines.

#include <algorithm>
#include <fstream>
#include <tuple>

#include "common/cpu_device/global_memory.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/xray.hpp"

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

XrayCounts XrayKernel::totals(Space space) const {
  XrayCounts sum;
  for (const XrayRow& row : rows) {
    if (row.space == space) sum += row.counts;
  }
  return sum;
}

XrayReport Xray::report() {
  const std::lock_guard lock(mutex_);
  std::map<SumKey, Sum> sums;
  for (auto& [id, runner] : runners_) {
    end_blocks(*runner);
    for (const auto& [key, sum] : runner->sums) sums[key].add(sum);
  }
  std::vector<const void*> pcs;
  for (const auto& [key, sum] : sums) pcs.push_back(key.instruction.pc);
  for (const auto& [key, sum] : sums) pcs.push_back(after_entry(key.kernel));  // for function_name(), at once
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
