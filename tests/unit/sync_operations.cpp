#include "tests/unit/sync_operations.hpp"

#include "common/cpu_device/internal.hpp"

using cpu_device::Rendezvous;
using cpu_device::Worker;

namespace {

constexpr unsigned all_lanes = 0xffffffff;

void add_up(Worker&, Rendezvous& r) {
  float sum = 0.0f;
  for (unsigned i = 0; i < 128; ++i) sum += *static_cast<float*>(r.operand(i));
  for (unsigned i = 0; i < 128; ++i) *static_cast<float*>(r.operand(i)) = sum;
}
const cpu_device::Collective sum_of_warpgroup{"sum_of_warpgroup", true, false, add_up};

struct Load {
  const float* from;
  float value;
};
void load_all(Worker& worker, Rendezvous& r) {
  cpu_device::CollectiveRequest request{r.pc(0),
                                        cpu_device::Space::shared,
                                        cpu_device::Operation::load,
                                        sizeof(float),
                                        worker.block,
                                        r.first / 32,
                                        r.arrived[0],
                                        {}};
  for (unsigned lane = 0; lane < 32; ++lane) {
    auto& load = *static_cast<Load*>(r.operand(lane));
    worker.current = r.thread(lane);
    if (worker.launch->checked) {
      cpu_device::check_memory(reinterpret_cast<std::uintptr_t>(load.from), sizeof(float), false, r.pc(lane));
    }
    request.addresses[lane] = cpu_device::shared_offset(load.from);
    load.value = *load.from;
  }
  cpu_device::tell_request(request);
}
const cpu_device::Collective load_of_warp{"load_of_warp", true, false, load_all};

}  // namespace

void warpgroup_sum(float* operand, int line) {
  cpu_device::meet(sum_of_warpgroup, 4, all_lanes, operand, line, __builtin_return_address(0));
}

float warp_load(const float* from, int line) {
  Load load{from, 0.0f};
  cpu_device::meet(load_of_warp, 1, all_lanes, &load, line, __builtin_return_address(0));
  return load.value;
}
