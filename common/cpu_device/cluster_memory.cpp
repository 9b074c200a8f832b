// The shared memory of a cluster's other blocks: where it lies, and how long it exists.

#include "common/cpu_device/cluster_memory.hpp"

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/cluster_calls.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/orders.hpp"

namespace cpu_device {

namespace {

std::string name_of(const Block& block) { return block_name(block.launch.grid, block.number); }

Block& block_at(unsigned rank, const void* pc) {
  Cluster& cluster = current_block->cluster;
  if (rank >= cluster.blocks.size()) {
    report(FaultKind::out_of_bounds_shared, pc,
           "asks for the shared memory of the block with rank " + std::to_string(rank) + " in a cluster of " +
               std::to_string(cluster.blocks.size()));
    stop_launch();
  }
  return *cluster.blocks[rank];
}

// What lies at `pointer` in the running block's shared memory, in that of another.
std::byte* counterpart(const void* pointer, Block& other, const void* pc) {
  const SharedPlace place = find_shared(pointer, 1);
  if (place.block == nullptr || !place.inside) {
    report(FaultKind::out_of_bounds_shared, pc, "maps an address that is not in its shared memory");
    stop_launch();
  }
  other.shared.align_like(place.block->shared);
  return const_cast<std::byte*>(other.shared.at(place.offset, 1));
}

}  // namespace

void check_exists(Block& running, Block& owner, const char* does, const void* pc) {
  if (&running == &owner) return;
  const unsigned actor = running.actor(running.current);
  if (owner.alive == 0) {
    report(FaultKind::peer_gone, pc,
           std::string(does) + " shared memory of " + name_of(owner) +
               ", all threads of which have left the kernel");
    stop_launch();
  }
  if (running.clocks == nullptr) return;
  if (!running.clocks->knows_of(actor, owner.rank) && !reported_before(FaultKind::peer_gone, pc)) {
    report(
        FaultKind::peer_gone, pc,
        std::string(does) + " shared memory of " + name_of(owner) +
            ", which may not have begun: no cluster barrier stands between the kernel's beginning and this");
  }
  owner.visits.note(actor, running.clocks->now(), pc);
}

void Visits::note(unsigned actor, Tick tick, const void* pc) {
  for (Visit& visit : visits_) {
    if (visit.actor != actor) continue;
    visit = {actor, tick, pc};
    return;
  }
  visits_.push_back({actor, tick, pc});
}

void Visits::thread_exits(Block& owner, unsigned thread) {
  if (visits_.empty()) return;
  std::erase_if(visits_, [&](const Visit& visit) {
    return owner.clocks->ordered(visit.actor, visit.tick, owner.actor(thread));
  });
  if (owner.alive > 0 || visits_.empty()) return;
  const Visit& visit = visits_.front();
  Block& visitor = owner.cluster.block_of(visit.actor);
  report(FaultKind::peer_gone, visit.pc,
         "touches shared memory of " + name_of(owner) +
             ", whose threads may have left the kernel by then: nothing orders this before",
         visitor, visit.actor - visitor.first_actor);
  visits_.clear();
}

unsigned cluster_block_rank() { return current_block->rank; }

unsigned cluster_size() { return current_block->launch.blocks_per_cluster; }

const void* map_shared(const void* pointer, unsigned rank) {
  const void* pc = __builtin_return_address(0);
  return counterpart(pointer, block_at(rank, pc), pc);
}

void mbarrier_arrive_remote(std::uint64_t* barrier, unsigned rank) {
  const void* pc = __builtin_return_address(0);
  Block& running = *current_block;
  Block& owner = block_at(rank, pc);
  check_exists(running, owner, "arrives at an mbarrier in", pc);
  if (Orders* orders = running.cluster.orders) {
    orders->before({.owner = &owner, .address = counterpart(barrier, owner, pc), .arrivals = 1}, pc);
  }
  Mbarrier& b = mbarrier_of(owner, counterpart(barrier, owner, pc), "arrives at", pc);
  if (running.clocks != nullptr) running.clocks->release(running.actor(running.current), b.arrivals);
  b.arrive(owner, pc);
}

void mbarrier_wait_cluster(std::uint64_t* barrier, unsigned parity) {
  wait_for_mbarrier(barrier, parity, false, __builtin_return_address(0));
}

std::vector<CopyTarget> targets_of_multicast(void* shared, std::uint64_t* barrier, std::uint16_t blocks,
                                             const void* pc) {
  Block& running = *current_block;
  std::vector<CopyTarget> targets;
  for (unsigned rank = 0; rank < 16; ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    Block& block = block_at(rank, pc);
    check_exists(running, block, "copies to", pc);
    targets.push_back({&block, counterpart(shared, block, pc), counterpart(barrier, block, pc)});
  }
  if (targets.empty()) {
    report(FaultKind::mbarrier_misuse, pc, "copies to no block of its cluster: the mask is 0");
    stop_launch();
  }
  return targets;
}

}  // namespace cpu_device
