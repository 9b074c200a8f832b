#pragma once

// Right kernels in clusters, with one block of 64 threads after the other, for both devices: cluster_test.cpp
// and gpu_cluster_test.cu say what they compute.

#include "common/cuda/cluster.hpp"
#include "common/cuda/dynamic_shared.hpp"

namespace {

struct Peers {
  float values[64];
  std::uint64_t full;
};

__device__ void init_full(Peers& own) {
  if (threadIdx.x != 0) return;
  mbarrier_init(&own.full, 1);
  mbarrier_fence_init();
}

// Each block sums up what all blocks of its cluster have.
__global__ void sum_of_cluster(float* x, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  const unsigned t = threadIdx.x;
  own.values[t] = x[blockIdx.x * 64 + t];
  cluster_sync();
  float sum = 0.0f;
  for (unsigned rank = 0; rank < cluster_size(); ++rank) sum += cluster_map_shared(own.values, rank)[t];
  y[blockIdx.x * 64 + t] = sum;
  cluster_sync();
}

// Arriving and waiting with something between: each block gives its values to the next one.
__global__ void split_barrier(float* x, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  const unsigned t = threadIdx.x, next = (cluster_block_rank() + 1) % cluster_size();
  cluster_arrive();
  const float value = 2.0f * x[blockIdx.x * 64 + t];
  cluster_wait();
  cluster_map_shared(own.values, next)[t] = value;
  cluster_arrive();
  float nothing = 0.0f;
  for (int i = 0; i < 10; ++i) nothing += 0.0f * x[i];
  cluster_wait();
  y[blockIdx.x * 64 + t] = own.values[t] + nothing;
}

// Some threads leave early; the others still meet.
__global__ void early_exits(float* x, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  const unsigned t = threadIdx.x;
  if (t >= 32) return;
  own.values[t] = x[t];
  cluster_sync();
  y[blockIdx.x * 64 + t] = cluster_map_shared(own.values, cluster_size() - 1 - cluster_block_rank())[t];
  cluster_sync();
}

// A number goes round the ring of blocks n times by remote arrivals: who has waited writes to the next block.
__global__ void ring(float*, float* y, int n) {
  auto& own = dynamic_shared<Peers>();
  const unsigned rank = cluster_block_rank(), size = cluster_size(), next = (rank + 1) % size;
  init_full(own);
  cluster_sync();
  if (threadIdx.x == 0) {
    float* there = cluster_map_shared(own.values, next);
    for (int i = 0; i < n; ++i) {
      float value = 0.0f;
      if (rank > 0 || i > 0) {
        mbarrier_wait_cluster(&own.full, (rank > 0 ? i : i - 1) % 2);
        value = own.values[0];
      }
      if (rank + 1 < size || i + 1 < n) {
        there[0] = value + 1.0f;
        mbarrier_arrive_remote(&own.full, next);
      } else {
        y[0] = value + 1.0f;
      }
    }
  }
  cluster_sync();
}

// One block's copy comes to all.
__global__ void multicast(float* x, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  const unsigned t = threadIdx.x;
  init_full(own);
  cluster_sync();
  if (t == 0) {
    mbarrier_arrive_expect_tx(&own.full, 256);
    if (cluster_block_rank() == 0) {
      bulk_copy_multicast(own.values, x, 256, &own.full,
                          static_cast<std::uint16_t>((1u << cluster_size()) - 1));
    }
  }
  mbarrier_wait(&own.full, 0);
  y[blockIdx.x * 64 + t] = own.values[t];
  cluster_sync();
}

// One block's copy comes to all others; it loads its own values.
__global__ void multicast_to_others(float* x, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  const unsigned t = threadIdx.x;
  init_full(own);
  cluster_sync();
  if (cluster_block_rank() == 0) {
    own.values[t] = x[t];
    if (t == 0 && cluster_size() > 1) {
      bulk_copy_multicast(own.values, x, 256, &own.full,
                          static_cast<std::uint16_t>((1u << cluster_size()) - 2));
    }
  } else {
    if (t == 0) mbarrier_arrive_expect_tx(&own.full, 256);
    mbarrier_wait(&own.full, 0);
  }
  y[blockIdx.x * 64 + t] = own.values[t];
  cluster_sync();
}

// A cluster of one: all of this works there, too.
__global__ void alone(float* x, float* y, int) {
  auto& own = dynamic_shared<Peers>();
  own.values[threadIdx.x] = x[threadIdx.x];
  cluster_sync();
  y[threadIdx.x] = cluster_map_shared(own.values, cluster_block_rank())[63 - threadIdx.x];
}

}  // namespace
