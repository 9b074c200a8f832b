#include "common/cpu_device/block.hpp"

#include "common/cpu_device/cluster.hpp"

namespace cpu_device {

Block::Block(Launch& launch_, Cluster& cluster_, unsigned rank_, Clocks* clocks_, GridOrder* grid_order_)
    : launch(launch_),
      cluster(cluster_),
      watch(launch_.checked ? Watch::checked : Watch::unchecked),
      rank(rank_),
      first_actor(clocks_ == nullptr ? 0 : clocks_->first_thread(rank_)),
      shared(launch_.shared_bytes),
      clocks(clocks_),
      grid_order(grid_order_) {
  if (clocks != nullptr) shadow = std::make_unique<SharedShadow>(*this);
}

void Block::begin(std::uint64_t block_number) {
  number = block_number;
  index = unflatten(number, launch.grid);
  const unsigned count = launch.threads_per_block;
  const unsigned warps = (count + warpSize - 1) / warpSize;
  threads.assign(count, Thread{});
  async_copies.resize(count);
  for (AsyncCopies& copies : async_copies) {
    copies.waiting.clear();
    copies.groups = 0;
    copies.asked = 0;
  }
  bulk_stores.clear();
  tile_layout.begin();
  for (auto& unit : matrix_units) unit = nullptr;
  has_matrix_units = false;
  if (launch.checked) {
    calls.resize(count);
    for (auto& of_thread : calls) {
      of_thread.clear();
      of_thread.reserve(4);  // here, as a fiber that allocates touches more of its stack
    }
  }
  ready.assign(warps, 0);
  ready_next.assign(warps, ~0u);
  exited.assign(warps, 0);
  passed.resize(warps);
  if (count % warpSize != 0) {
    ready_next.back() = (1u << count % warpSize) - 1;
    exited.back() = ~ready_next.back();
  }
  places.assign(clocks == nullptr ? 0 : warps, 0);
  turns_matter = false;
  turns = 0;
  alive = count;
  box = nullptr;
  lets_next_begin = false;
  registers = nullptr;
  spin.end();
  sync.new_block();
  visits.begin();
  engine.new_block();
  shared.poison();
}

}  // namespace cpu_device
