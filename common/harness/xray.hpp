#pragma once

// --xray: which blocks of a problem to observe, and how to print and write what was seen.

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/cpu_device/xray.hpp"
#include "common/harness/device.hpp"

namespace harness {

// blockIdx.x, .y and .z.
using BlockIndex = std::array<std::int64_t, 3>;

// The blocks to run of each launch that the step makes for a problem.
struct XrayPlan {
  std::vector<std::vector<std::uint64_t>> blocks;  // linear, as select_blocks() takes them
  bool all = true;
  bool keep_requests = false;  // every request, for the JSON, not one example of each line
};

// What was seen: the report or, if it ran in another process, its JSON.
struct Observation {
  std::optional<cpu_device::XrayReport> report;
  std::string json;
};

// Whether the X-ray observes all blocks of this problem rather than a sample.
bool is_small(const AnyGemm& gemm);

// All blocks of a small problem, an evenly spread sample of a large one, or the block `only`, which must be
// in the first launch. Nothing runs yet. Throws InputError if there is no such block.
XrayPlan plan_xray(const Step& step, const AnyGemm& gemm, const std::optional<BlockIndex>& only);

// Runs the step on the planned blocks. The device must be a checking CPU device.
cpu_device::XrayReport run_xray(Device& device, const Step& step, const AnyGemm& gemm, const XrayPlan& plan);

// Tables of at most 120 columns: for each kernel what it did to global and to shared memory.
// `verified`: the result was compared with the reference.
void print_xray(const cpu_device::XrayReport& report, bool verified);

// What print_xray() prints, and an example for each line; common/cpu_device/xray.hpp says what the numbers
// are. An example:
//   block, warp, execution   which it is
//   addresses                of each lane, null if it takes no part
//   sectors, bytes_used      of global memory: where the wanted sectors begin, and how many bytes are wanted
//   parts                    of shared memory: what is served at once, in order; see Part in warp_request.hpp
//     lanes, bytes             the first and the last lane, and of each lane's bytes
//     wavefronts, words_of_banks
// Addresses are bytes from the array's first one, which is taken to begin a sector and to lie in bank 0. A
// bulk copy has no lanes: its example is null.
//
// If all requests were kept, `requests_kept` of each line has them in their order in the block: warp,
// execution and addresses (one for a bulk copy), `sequence` (their number in the block, over all lines), and
// the `words` that they read; see XrayRequest.
nlohmann::json to_json(const cpu_device::XrayReport& report, bool verified);

}  // namespace harness
