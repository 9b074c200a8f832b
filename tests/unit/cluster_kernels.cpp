// Wrong kernels in clusters; the right ones are in cluster_right.hpp.

#include "tests/unit/cluster_right.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// n: 1: no barrier before the other block's memory is read, 2: none after.
__global__ void missing_cluster_barrier(float* x, float* y, int n) {
  auto& own = dynamic_shared<Peers>();
  const unsigned t = threadIdx.x, other = 1 - cluster_block_rank();
  own.values[t] = x[t];
  if (n != 1) cluster_sync();
  if (cluster_block_rank() == 0 && t == 0)
    y[0] = cluster_map_shared(own.values, other)[0];  // here: reads_peer
  if (n != 2) cluster_sync();
}

// The two blocks write one element without a barrier between.
__global__ void peers_race(float*, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  own.values[threadIdx.x] = 0.0f;
  cluster_sync();
  if (threadIdx.x == 0) cluster_map_shared(own.values, 0)[5] = 1.0f;  // here: peers_race
  cluster_sync();
  if (threadIdx.x == 0) y[0] = own.values[5];
}

// One block waits for an mbarrier that nobody arrives at, and the other for that block.
__global__ void one_block_waits(float*, float*, int) {
  auto& own = dynamic_shared<Peers>();
  init_full(own);
  cluster_sync();
  if (cluster_block_rank() == 1) mbarrier_wait(&own.full, 0);
  cluster_sync();  // here: one_block_waits
}

// What is for a block's own mbarriers, done to another's. n: 1: init, 2: arrive, 3: to one in global memory.
__global__ void others_mbarrier(float* x, float*, int n) {
  auto& own = dynamic_shared<Peers>();
  if (threadIdx.x == 0) init_full(own);
  cluster_sync();
  std::uint64_t* there = cluster_map_shared(&own.full, 1 - cluster_block_rank());
  if (n == 1) mbarrier_init(there, 1);                               // here: init_of_other
  if (n == 2) mbarrier_arrive(there);                                // here: arrive_at_other
  if (n == 3) mbarrier_arrive(reinterpret_cast<std::uint64_t*>(x));  // here: arrive_in_global
}

__shared__ float of_the_file[4];
__global__ void with_variable_of_file(float* x, float* y, int) {
  const unsigned t = threadIdx.x;
  of_the_file[t] = x[t];  // here: with_variable_of_file
  cluster_sync();
  y[t] = of_the_file[3 - t];
}

__global__ void arrive_twice(float*, float*, int) {
  cluster_arrive();
  cluster_arrive();  // here: arrive_twice
  cluster_wait();
}

__global__ void wait_without_arrival(float*, float*, int) {
  cluster_wait();  // here: wait_without_arrival
}

// n: 1: the rank is that of no block; 2: the address is not in shared memory.
__global__ void map_wrongly(float* x, float*, int n) {
  auto& own = dynamic_shared<Peers>();
  cluster_sync();
  if (n == 1) cluster_map_shared(own.values, cluster_size());  // here: map_rank
  if (n == 2) cluster_map_shared(x, 0);                        // here: map_global
}

// Only the block that asks for the copy announces its bytes.
__global__ void multicast_unannounced(float* x, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  init_full(own);
  cluster_sync();
  if (threadIdx.x == 0 && cluster_block_rank() == 0) {
    mbarrier_arrive_expect_tx(&own.full, 256);
    bulk_copy_multicast(own.values, x, 256, &own.full, 3);
  }
  mbarrier_wait(&own.full, 0);  // here: multicast_unannounced
  y[threadIdx.x] = own.values[threadIdx.x];
  cluster_sync();
}

__global__ void with_shared_variable(float* x, float* y, int) {
  __shared__ float values[64];
  values[threadIdx.x] = x[threadIdx.x];
  cluster_sync();
  y[threadIdx.x] = values[threadIdx.x];
}

TEST_KERNELS(sum_of_cluster, split_barrier, early_exits, ring, multicast, multicast_to_others, alone,
             missing_cluster_barrier, peers_race, one_block_waits, arrive_twice, wait_without_arrival,
             map_wrongly, multicast_unannounced, others_mbarrier, with_shared_variable,
             with_variable_of_file);

}  // namespace
