#include "common/judge/launches.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/untrusted.hpp"
#include "common/harness/panels.hpp"

// What the compiler has marked as kernels, and what calls a function with their parameters. A table that
// build.py makes of the object's symbols; a row without a name ends it.
struct Kernel {
  const char* name;
  const void* function;
  cpu_device::KernelBody spread;  // nullptr: nothing launches such a kernel
};
extern const Kernel exercise_kernels[] __attribute__((weak));

namespace judge {

namespace {

constexpr std::size_t most_launches = 10'000, most_bytes = 4096, page = 4096;

template <typename Found, typename Name>
const Kernel& kernel_where(const Found& found, const Name& name) {
  for (const Kernel* row = exercise_kernels; row != nullptr && row->name != nullptr; ++row) {
    if (!found(*row)) continue;
    if (row->spread != nullptr) return *row;
    throw std::runtime_error("launch: `" + name() +
                             "` is launched with other parameters than it has, or one's type is "
                             "computed from the template's parameters: write that type plainly");
  }
  throw std::runtime_error("launch: `" + name() + "` is no kernel");
}

nlohmann::json asked;  // by the host

void take(const cpu_device::Request& request) {
  const auto is_this = [&](const Kernel& row) { return row.function == request.kernel; };
  const Kernel& kernel = kernel_where(is_this, [&] { return cpu_device::function_name(request.kernel); });
  if (asked.size() == most_launches)
    throw std::runtime_error("launch: more than 10000 launches for one product");
  const auto& [grid, block, shared_bytes, cluster, overlaps_previous] = request.config;
  const auto* bytes = static_cast<const unsigned char*>(request.arguments);
  asked.push_back({{"kernel", kernel.name},
                   {"grid", {grid.x, grid.y, grid.z}},
                   {"block", {block.x, block.y, block.z}},
                   {"shared_bytes", shared_bytes},
                   {"cluster", {cluster.x, cluster.y, cluster.z}},
                   {"overlaps_previous", overlaps_previous},
                   {"arguments", std::vector<unsigned char>(bytes, bytes + request.bytes)}});
}

nlohmann::json to_launch;

dim3 extent(const nlohmann::json& json) {
  return {json.at(0).get<unsigned>(), json.at(1).get<unsigned>(), json.at(2).get<unsigned>()};
}

template <typename T>
void launch_all(const GemmOf<T>&) {
  for (const nlohmann::json& asks : std::exchange(to_launch, nlohmann::json::array())) {
    const std::string name = asks.at("kernel");
    const Kernel& kernel =
        kernel_where([&](const Kernel& row) { return row.name == name; }, [&] { return name; });
    // As many as a kernel may take, whatever the host says.
    alignas(64) unsigned char arguments[most_bytes] = {};
    const std::vector<unsigned char> said = asks.at("arguments");
    std::copy_n(said.begin(), std::min(said.size(), most_bytes), arguments);
    const LaunchConfig config{extent(asks.at("grid")), extent(asks.at("block")),
                              asks.at("shared_bytes").get<std::size_t>(), extent(asks.at("cluster")),
                              asks.at("overlaps_previous").get<bool>()};
    cpu_device::request_launch({kernel.function, config, arguments, most_bytes}, kernel.spread);
  }
}

}  // namespace

nlohmann::json launches_of(const harness::Entry& entry, const Order& order) {
  struct Reserved {
    void* at;
    std::size_t bytes;
    explicit Reserved(const Place& place)
        : at(reinterpret_cast<void*>(place.buffer / page * page)),
          bytes((place.buffer % page + place.bytes + page - 1) / page * page) {
      constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
      // It fails if something of this process lies there, by chance: then nothing else can.
      if (mmap(at, bytes, PROT_NONE, flags, -1, 0) != at) bytes = 0;
    }
    ~Reserved() {
      if (bytes > 0) munmap(at, bytes);
    }
  };
  const Reserved a(order.a), b(order.b), c(order.c);
  asked = nlohmann::json::array();
  cpu_device::set_request_taker(take);
  harness::run_in_panels(entry, order.gemm);
  return std::move(asked);
}

harness::Entry launcher(harness::Input input) {
  if (input == harness::Input::bf16) return launch_all<bf16>;
  return launch_all<float>;
}

void set_launches(nlohmann::json launches) { to_launch = std::move(launches); }

}  // namespace judge
