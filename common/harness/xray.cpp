#include "common/harness/xray.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "common/harness/error.hpp"
#include "common/harness/panels.hpp"

namespace harness {

namespace {

using cpu_device::LaunchShape;
using cpu_device::Space;
using cpu_device::XrayCounts;
using cpu_device::XrayKernel;
using cpu_device::XrayReport;
using cpu_device::XrayRow;

// Above this many multiply-adds only a sample is observed: the slowest kernel takes a second or two.
constexpr std::int64_t max_products = std::int64_t{1} << 25;

// How many blocks a sample of a launch should have to take a few seconds: 9 at K = 4096, fewer if a block
// computes a lot, or has few threads to do it. A block's accesses grow with K, whatever the size of its tile.
std::int64_t sample_size(int k, double products_per_block, const dim3& block) {
  const double threads = static_cast<double>(block.x) * block.y * block.z;
  const double counts[] = {9.0 * (1 << 12) / k, 9.0 * (1 << 26) / products_per_block,
                           9.0 * (1 << 20) * threads / products_per_block};
  const double least = *std::min_element(std::begin(counts), std::end(counts));
  return static_cast<std::int64_t>(std::clamp(least, threads < 32 ? 2.0 : 4.0, 64.0));
}

// `count` evenly spread indices below `extent`, including the first and the last; all if there are no more.
std::vector<std::uint64_t> spread(std::int64_t extent, std::int64_t count) {
  std::vector<std::uint64_t> indices;
  count = std::min(count, extent);
  for (std::int64_t i = 0; i < count; ++i) {
    indices.push_back(static_cast<std::uint64_t>(count == 1 ? 0 : i * (extent - 1) / (count - 1)));
  }
  return indices;
}

std::uint64_t linear(const dim3& grid, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  return (z * grid.y + y) * grid.x + x;
}

// A lattice of at most `count` blocks, with the grid's corners if that is four or more.
std::vector<std::uint64_t> sample(const dim3& grid, std::int64_t count) {
  const std::int64_t in_z = std::min<std::int64_t>(grid.z, count >= 8 ? 2 : 1);
  count /= in_z;
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= count) ++side;
  // As many in x as in y; more in one if the grid has fewer in the other.
  std::int64_t in_x = std::min<std::int64_t>(grid.x, side);
  const std::int64_t in_y = std::min<std::int64_t>(grid.y, count / in_x);
  in_x = std::min<std::int64_t>(grid.x, count / in_y);
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t z : spread(grid.z, in_z)) {
    for (const std::uint64_t y : spread(grid.y, in_y)) {
      for (const std::uint64_t x : spread(grid.x, in_x)) blocks.push_back(linear(grid, x, y, z));
    }
  }
  return blocks;
}

double per_request(std::uint64_t count, const XrayCounts& c) {
  return c.requests == 0 ? 0 : static_cast<double>(count) / static_cast<double>(c.requests);
}

// 2 decimals, or none if both are zero.
std::string short_number(double value) {
  const std::string text = fmt::format("{:.2f}", value);
  return text.ends_with(".00") ? text.substr(0, text.size() - 3) : text;
}

std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

// 1234567 as "1 234 567".
std::string grouped(std::uint64_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{} {:03}", grouped(number / 1000), number % 1000);
}

// The part of the sectors that the lanes want.
std::string used(const XrayCounts& c) {
  if (c.sectors == 0) return "-";
  return fmt::format("{:.0f} %",
                     100.0 * static_cast<double>(c.bytes_used) / (32.0 * static_cast<double>(c.sectors)));
}

// line, source, operation, array, bytes, requests, lanes; then what depends on the memory. A long array name
// takes its room from the source.
constexpr const char* row_format = "{:>5}  {:<{}} {:<5} {:<{}} {:>5} {:>9} {:>5}";
constexpr std::size_t source_and_array = 48 + 8, least_array = 8, most_array = 28;
constexpr const char* global_format = " {:>9} {:>6} {:>10}\n";   // sectors, used, wavefronts
constexpr const char* shared_format = " {:>10} {:>5} {:>10}\n";  // wavefronts, ideal, conflicts

void print_heading(Space space, std::size_t array) {
  const std::size_t source = source_and_array - array;
  if (space == Space::global) {
    fmt::print(row_format, "line", "global memory", source, "", "array", array, "bytes", "requests", "lanes");
    fmt::print(global_format, "sectors", "used", "wavefronts");
  } else {
    fmt::print(row_format, "line", "shared memory", source, "", "array", array, "bytes", "requests", "lanes");
    fmt::print(shared_format, "wavefronts", "ideal", "conflicts");
  }
}

// Wavefronts of copies beyond those that the banks of shared memory need: reading their words takes that
// long.
std::uint64_t waiting_for_source(const XrayCounts& c) {
  return c.wavefronts - c.ideal_wavefronts - c.conflicts;
}

void print_row(const XrayRow& row, std::size_t array) {
  const XrayCounts& c = row.counts;
  const std::size_t source = source_and_array - array;
  fmt::print(row_format, row.place.line == 0 ? "?" : fmt::format("{}", row.place.line),
             cut(row.source, source), source, to_string(row.operation),
             cut(row.array.empty() ? "?" : row.array, array), array, row.bytes, c.requests,
             short_number(per_request(c.lanes, c)));
  if (row.space == Space::global) {
    fmt::print(global_format, short_number(per_request(c.sectors, c)), used(c),
               short_number(per_request(c.wavefronts, c)));
  } else {
    const bool slow_source = waiting_for_source(c) > 0;
    fmt::print(shared_format, short_number(per_request(c.wavefronts, c)),
               slow_source ? "-" : short_number(per_request(c.ideal_wavefronts, c)), c.conflicts);
  }
}

void print_rows(const XrayKernel& kernel, Space space) {
  const XrayCounts total = kernel.totals(space);
  if (total.requests == 0) return;
  std::size_t array = least_array;  // width of the column
  for (const XrayRow& row : kernel.rows) {
    if (row.space == space) array = std::clamp(row.array.size(), array, most_array);
  }
  print_heading(space, array);
  const std::string main_file = kernel.rows.front().place.file;  // in the kernel's heading
  std::string file = main_file;
  for (const XrayRow& row : kernel.rows) {
    if (row.space != space) continue;
    if (row.place.file != file) {
      file = row.place.file;
      fmt::print("       {}:\n", file.empty() ? "unknown place" : file);
    }
    print_row(row, array);
  }
  if (space == Space::global) {
    fmt::print("       total: {} requests for {} sectors, {} used, in {} wavefronts\n",
               grouped(total.requests), grouped(total.sectors), used(total), grouped(total.wavefronts));
  } else {
    fmt::print("       total: {} requests in {} wavefronts; ideal {}, bank conflicts {}\n",
               grouped(total.requests), grouped(total.wavefronts), grouped(total.ideal_wavefronts),
               grouped(total.conflicts));
    if (const std::uint64_t slow = waiting_for_source(total); slow > 0) {
      fmt::print(
          "       -: a copy takes as many wavefronts as its dearer side, here the words that it reads: {} "
          "more\n",
          grouped(slow));
    }
  }
}

// Bytes from the array's first; null for a lane that takes no part. A bulk copy has one.
nlohmann::json addresses_of(const cpu_device::XrayExample& request) {
  if (request.active == 0) return nlohmann::json::array({request.offset[0]});
  nlohmann::json addresses = nlohmann::json::array();
  for (unsigned lane = 0; lane < 32; ++lane) {
    const bool active = (request.active >> lane & 1) != 0;
    addresses.push_back(active ? nlohmann::json(request.offset[lane]) : nlohmann::json(nullptr));
  }
  return addresses;
}

// The example request, and how the memory serves it: in sectors, or in parts that the banks serve at once.
// Addresses are bytes from the array's first one, which begins a sector and is in bank 0.
nlohmann::json example_of(const XrayRow& row) {
  const cpu_device::XrayExample& example = row.example;
  if (example.active == 0) return nullptr;  // a bulk copy has no lanes to show
  cpu_device::WarpRequest request{example.active, {}};
  for (unsigned lane = 0; lane < 32; ++lane) {
    request.addresses[lane] = static_cast<std::uintptr_t>(example.offset[lane]);
  }
  nlohmann::json json{{"block", {example.block.x, example.block.y, example.block.z}},
                      {"warp", example.warp},
                      {"execution", example.execution},
                      {"addresses", addresses_of(example)}};
  if (row.space == Space::global) {
    for (const std::uintptr_t sector : cpu_device::sector_addresses(request, row.bytes)) {
      json["sectors"].push_back(
          static_cast<std::int64_t>(sector));  // a stray access may lie before the array
    }
    json["bytes_used"] = cpu_device::distinct_bytes(request, row.bytes);
    return json;
  }
  json["parts"] = nlohmann::json::array();
  const std::vector<cpu_device::Part> parts = row.operation == cpu_device::Operation::matrix
                                                  ? cpu_device::matrix_parts(request)
                                                  : cpu_device::parts(request, row.bytes);
  for (const cpu_device::Part& part : parts) {
    json["parts"].push_back({{"lanes", {part.first_lane, part.last_lane}},
                             {"bytes", {part.first_byte, part.last_byte}},
                             {"wavefronts", part.wavefronts()},
                             {"words_of_banks", part.words}});
  }
  return json;
}

}  // namespace

bool is_small(const AnyGemm& gemm) {
  return static_cast<double>(gemm.M) * gemm.N * gemm.K * gemm.batch <= max_products;
}

XrayPlan plan_xray(const Step& step, const AnyGemm& gemm, const std::optional<BlockIndex>& only) {
  const std::vector<LaunchShape> launches =
      cpu_device::launches_of([&] { run_in_panels(step.cpu_observed, gemm); });
  XrayPlan plan;
  if (only) {
    const auto [x, y, z] = *only;
    if (launches.empty()) {
      throw InputError(fmt::format("--block {},{}: this problem has no blocks, as C is empty", x, y));
    }
    const dim3& grid = launches[0].grid;
    if (x < 0 || y < 0 || z < 0 || x >= grid.x || y >= grid.y || z >= grid.z) {
      const bool flat = grid.z == 1;
      throw InputError(fmt::format("--block {},{}{}: the grid has {} x {}{} blocks; give 0,0{} to {},{}{}", x,
                                   y, z == 0 ? "" : fmt::format(",{}", z), grid.x, grid.y,
                                   flat ? "" : fmt::format(" x {}", grid.z), flat ? "" : ",0", grid.x - 1,
                                   grid.y - 1, flat ? "" : fmt::format(",{}", grid.z - 1)));
    }
    plan.blocks.push_back({linear(grid, static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y),
                                  static_cast<std::uint64_t>(z))});
    plan.all = launches.size() == 1 && launches[0].blocks() == 1;
    return plan;
  }
  if (is_small(gemm)) return plan;
  const double products = static_cast<double>(gemm.M) * gemm.N * gemm.K * gemm.batch;
  double blocks = 0;
  for (const LaunchShape& launch : launches) blocks += static_cast<double>(launch.blocks());
  for (const LaunchShape& launch : launches) {
    plan.blocks.push_back(sample(launch.grid, sample_size(gemm.K, products / blocks, launch.block)));
    plan.all = plan.all && plan.blocks.back().size() == launch.blocks();
  }
  return plan;
}

XrayReport run_xray(Device& device, const Step& step, const AnyGemm& gemm, const XrayPlan& plan) {
  cpu_device::Xray xray(plan.keep_requests);
  struct Observation {  // ends it even if the launch is refused
    explicit Observation(cpu_device::Xray& xray) { cpu_device::set_listener(&xray); }
    ~Observation() {
      cpu_device::select_blocks(std::nullopt);
      cpu_device::set_listener(nullptr);
    }
  };
  {
    const Observation observation(xray);
    if (!plan.all) cpu_device::select_blocks(plan.blocks);
    device.run(step, gemm);
  }
  return xray.report();
}

Observation Device::observe(const Step& step, const AnyGemm& gemm, const XrayPlan& plan) {
  return {run_xray(*this, step, gemm, plan), ""};
}

void print_xray(const XrayReport& report, bool verified) {
  const bool all = report.observed_blocks == report.blocks;
  fmt::print("\nX-ray of {} of {} blocks{}{}\n", report.observed_blocks, report.blocks,
             all ? "" : "; the others did not run",
             all || verified ? "" : ", so the result was not verified");
  if (report.kernels.empty()) return;
  fmt::print(
      "A request is an access by the lanes of one warp. Lanes, sectors (of 32 bytes) and wavefronts (passes\n"
      "through the L1 cache or the shared memory) are for a request on average. Used: how much of the "
      "sectors\n"
      "the lanes want. Ideal: wavefronts without bank conflicts.\n");
  for (const XrayKernel& kernel : report.kernels) {
    fmt::print("\n{}, {} threads a block, {}\n", kernel.name.empty() ? "unknown kernel" : kernel.name,
               kernel.threads_per_block, kernel.rows.front().place.file);
    print_rows(kernel, Space::global);
    print_rows(kernel, Space::shared);
  }
}

nlohmann::json to_json(const XrayReport& report, bool verified) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const XrayKernel& kernel : report.kernels) {
    nlohmann::json accesses = nlohmann::json::array();
    for (const XrayRow& row : kernel.rows) {
      nlohmann::json access{
          {"file", row.place.file},
          {"line", row.place.line},
          {"source", row.source},
          {"space", to_string(row.space)},
          {"operation", to_string(row.operation)},
          {"array", row.array},
          {"bytes", row.bytes},
          {"requests", row.counts.requests},
          {"lanes", row.counts.lanes},
          {"example", example_of(row)},
      };
      if (row.space == Space::global) {
        access["sectors"] = row.counts.sectors;
        access["bytes_used"] = row.counts.bytes_used;
        access["wavefronts"] = row.counts.wavefronts;
      } else {
        access["wavefronts"] = row.counts.wavefronts;
        access["ideal_wavefronts"] = row.counts.ideal_wavefronts;
        access["conflicts"] = row.counts.conflicts;
        access["lanes_during_copies"] = row.counts.lanes_during_copies;
      }
      for (const cpu_device::XrayRequest& request : row.requests) {
        access["requests_kept"].push_back({{"warp", request.where.warp},
                                           {"execution", request.where.execution},
                                           {"sequence", request.sequence},
                                           {"addresses", addresses_of(request.where)},
                                           {"words", request.words}});
      }
      accesses.push_back(std::move(access));
    }
    const XrayCounts global = kernel.totals(Space::global), shared = kernel.totals(Space::shared);
    kernels.push_back({
        {"kernel", kernel.name},
        {"threads_per_block", kernel.threads_per_block},
        {"accesses", std::move(accesses)},
        {"totals",
         {{"global_requests", global.requests},
          {"global_sectors", global.sectors},
          {"global_bytes_used", global.bytes_used},
          {"global_wavefronts", global.wavefronts},
          {"shared_requests", shared.requests},
          {"shared_wavefronts", shared.wavefronts},
          {"shared_ideal_wavefronts", shared.ideal_wavefronts},
          {"shared_conflicts", shared.conflicts}}},
    });
  }
  return {{"blocks", report.blocks},
          {"observed_blocks", report.observed_blocks},
          {"verified_blocks", verified && report.observed_blocks == report.blocks},
          {"kernels", std::move(kernels)}};
}

}  // namespace harness
