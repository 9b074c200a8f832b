// Kernels that access memory, correctly and not.

#include "common/bf16.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "tests/unit/kernels.hpp"

namespace {

__global__ void copy_float4(float* x, float* y, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < static_cast<unsigned>(n)) {
    reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];  // here: copy_float4
  }
}

__global__ void copy_float2(float* x, float* y, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < static_cast<unsigned>(n)) {
    const float2 value = reinterpret_cast<const float2*>(x)[i];       // here: load_float2
    reinterpret_cast<float2*>(y)[i] = make_float2(value.x, value.y);  // here: store_float2
  }
}

__global__ void copy_float(float* x, float* y, int) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = x[i];  // here: load
  y[i] = value;              // here: store
}

__global__ void load_read_only(float* x, float* y, int) {
  const float4 v = __ldg(reinterpret_cast<const float4*>(x) + threadIdx.x);  // here: ldg_float4
  y[threadIdx.x] = __fmaf_rn(v.x, 2.0f, __ldg(x + threadIdx.x));             // here: ldg_float
}

__global__ void sum_float4(float* x, float* y, int) {
  const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];  // here: load_float4
  y[threadIdx.x] = v.x + v.y + v.z + v.w;                            // here: store_sum
}

__global__ void through_shared(float*, float* y, int n) {
  SHARED float slots[64];
  slots[threadIdx.x] = static_cast<float>(threadIdx.x);  // here: shared_store
  __syncthreads();
  y[threadIdx.x] = slots[n - 1 - threadIdx.x];  // here: shared_load
}

__global__ void float4_to_shared(float* x, float* y, int n) {
  SHARED float slots[128];
  const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];  // here: load_for_shared
  reinterpret_cast<float4*>(slots)[threadIdx.x] = v;                 // here: float4_to_shared
  __syncthreads();
  y[threadIdx.x] = slots[n - 1 - threadIdx.x];  // here: float_from_shared
}

// ---- Faulty kernels -------------------------------------------------------------------------------------

__global__ void write_at(float*, float* y, int n) {
  if (is_last()) y[n] = 1.0f;  // here: write_at
}

__global__ void read_at(float* x, float* y, int n) {
  if (is_last()) {
    const float value = x[n];  // here: read_at
    y[0] = value;
  }
}

__global__ void write_static_shared_at(float*, float* y, int n) {
  SHARED float slots[3];
  float* pointer = slots;
  if (!is_last()) return;
  pointer[0] = 1.0f;
  pointer[n] = 2.0f;  // here: write_static_shared_at
  y[0] = pointer[0];
}

__global__ void write_dynamic_shared_at(float*, float*, int n) {
  auto* slots = static_cast<float*>(cpu_device::dynamic_shared());
  if (is_last()) slots[n] = 1.0f;  // here: write_dynamic_shared_at
}

__global__ void index_static_shared(float*, float* y, int n) {
  SHARED float slots[16];
  SHARED float behind[16];
  if (!is_last()) return;
  for (int i = 0; i < 16; ++i) slots[i] = behind[i] = 1.0f;
  y[0] = slots[n];  // here: index_static_shared
  y[1] = behind[1];
}

__global__ void misaligned_float4(float* x, float* y, int n) {
  if (is_last()) {
    const float4 v = *reinterpret_cast<const float4*>(x + n);  // here: misaligned_float4
    y[0] = v.x + v.y + v.z + v.w;
  }
}

__global__ void misaligned_float(float* x, float* y, int n) {
  if (is_last()) {
    const char* address = reinterpret_cast<const char*>(x) + n;
    y[0] = *reinterpret_cast<const float*>(address);  // here: misaligned_float
  }
}

__global__ void read_unwritten_shared(float*, float* y, int n) {
  SHARED float slots[64];
  const unsigned t = thread_number();
  if (t < static_cast<unsigned>(n)) slots[t] = 1.0f;
  y[t] = slots[t];  // here: read_unwritten_shared
}

// Dynamic shared memory as structs. The last thread reads float number n of it, which nobody has written.

struct DynamicTiles {
  float A[4][8];
  float B[3];
  alignas(32) float C[2];
};
struct DynamicRing {
  struct Stage {
    float A[8], B[4];
  };
  Stage stages[2][3];
  unsigned long long full[2];
};

__global__ void read_dynamic_tiles(float*, float* y, int n) {
  auto& tiles = dynamic_shared<DynamicTiles>();
  if (is_last()) y[0] = reinterpret_cast<const float*>(&tiles)[n];  // here: read_dynamic_tiles
}
__global__ void read_dynamic_ring(float*, float* y, int n) {
  auto& ring = dynamic_shared<DynamicRing>();
  if (is_last()) y[0] = reinterpret_cast<const float*>(&ring)[n];  // here: read_dynamic_ring
}
__global__ void read_dynamic_array(float*, float* y, int n) {
  auto& stages = dynamic_shared<DynamicTiles[2]>();
  if (is_last()) y[0] = reinterpret_cast<const float*>(&stages)[n];  // here: read_dynamic_array
}

// __shared__ variables of several types. Those of one name and one size are told apart, too.

struct StaticTiles {
  float A[2][3];
  struct {
    double sum;
    bf16 parts[2][2];
  } stages[2];
  float last;
};

// Float number n. The compiler must not know that nobody writes.
__device__ float unwritten(float* floats, int n) {
  if (n < 0) floats[0] = 1.0f;
  return is_last() ? floats[n] : 0.0f;  // here: unwritten
}
__global__ void read_static_tiles(float*, float* y, int n) {
  SHARED StaticTiles tiles;
  y[0] = unwritten(tiles.A[0], n);
}
__global__ void read_static_rows(float*, float* y, int n) {
  SHARED float table[4][30];
  y[0] = unwritten(table[0], n);
}
__global__ void read_static_columns(float*, float* y, int n) {
  SHARED float table[10][3][4];
  y[0] = unwritten(table[0][0], n);
}
__global__ void read_static_scalar(float*, float* y, int n) {
  SHARED float alone;
  y[0] = unwritten(&alone, n);
}

template <unsigned ALIGNMENT>
struct alignas(ALIGNMENT) AlignedTile {
  float values[256];
};

// y: how far the memory is from a multiple of 2048 bytes, in each block.
template <unsigned ALIGNMENT>
__global__ void align_dynamic_shared(float*, float* y, int) {
  auto& tile = dynamic_shared<AlignedTile<ALIGNMENT>>();
  tile.values[threadIdx.x] = 1.0f;
  y[blockIdx.x] = static_cast<float>(reinterpret_cast<std::uintptr_t>(&tile) % 2048);
}

// Two types of one memory: y is what the second sees of what was written as the first. Block 0 uses the first
// alone.
template <unsigned FIRST, unsigned SECOND>
__forceinline__ void align_twice(float* y) {
  auto& first = dynamic_shared<AlignedTile<FIRST>>();
  first.values[0] = 3.0f;
  if (blockIdx.x == 0) return;
  y[blockIdx.x] = dynamic_shared<AlignedTile<SECOND>>().values[0];  // here: align_twice
}
__global__ void align_less_afterwards(float*, float* y, int) { align_twice<512, 32>(y); }
__global__ void align_more_afterwards(float*, float* y, int) { align_twice<64, 128>(y); }

// On a GPU the variable would lie before the tile.
__global__ void align_beside_static_shared(float*, float* y, int) {
  SHARED float beside[7];
  auto& tile = dynamic_shared<AlignedTile<1024>>();  // here: align_beside_static_shared
  beside[0] = tile.values[0] = 2.0f;
  y[0] = beside[threadIdx.x];
}

TEST_KERNELS(copy_float4, copy_float2, copy_float, load_read_only, sum_float4, through_shared,
             float4_to_shared, write_at, read_at, write_static_shared_at, write_dynamic_shared_at,
             index_static_shared, misaligned_float4, misaligned_float, read_unwritten_shared,
             read_dynamic_tiles, read_dynamic_ring, read_dynamic_array, read_static_tiles, read_static_rows,
             read_static_columns, read_static_scalar, align_dynamic_shared<1>, align_dynamic_shared<16>,
             align_dynamic_shared<128>, align_dynamic_shared<1024>, align_less_afterwards,
             align_more_afterwards, align_beside_static_shared)

}  // namespace
