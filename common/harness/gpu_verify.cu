// The reference product on the GPU.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/cuda/check.hpp"
#include "common/harness/gpu_buffer.hpp"
#include "common/harness/gpu_matrices.hpp"
#include "common/harness/panels.hpp"

namespace harness::gpu {

namespace {

struct Sum {
  unsigned long long max_error_bits;  // of doubles >= 0, which compare as their bits do
  unsigned long long max_relative_bits;
  unsigned long long max_over_bits;
  unsigned long long wrong;
  unsigned long long first_wrong;
  double error_along_product, product_squared;
};

constexpr int TILE = 32;  // of the verifying block, whose rows are warps

// Adds the values of a warp to *to.
__device__ void add_of_warp(double* to, double value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (threadIdx.x == 0) atomicAdd(to, value);  // once per warp
}

// One thread computes one element of the reference in double precision and judges C's. Simple tiles in shared
// memory: fast enough, and independent of everything they verify.
template <typename T>
__global__ void verify_kernel(GemmOf<T> g, const float* c0, double tolerance, Sum* verdict) {
  __shared__ double a_tile[TILE][TILE + 1];  // [row][k]
  __shared__ double b_tile[TILE][TILE];      // [k][col]
  const T* A = g.A + blockIdx.z * g.strideA;
  const T* B = g.B + blockIdx.z * g.strideB;
  const int tx = threadIdx.x, ty = threadIdx.y;
  const std::int64_t row = std::int64_t{blockIdx.y} * TILE + ty;
  const std::int64_t col = std::int64_t{blockIdx.x} * TILE + tx;
  double sum = 0, magnitude = 0;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    a_tile[ty][tx] = row < g.M && k0 + tx < g.K ? static_cast<float>(A[row * g.lda + k0 + tx]) : 0.0;
    b_tile[ty][tx] = k0 + ty < g.K && col < g.N ? static_cast<float>(B[(k0 + ty) * g.ldb + col]) : 0.0;
    __syncthreads();
    const int depth = min(TILE, g.K - k0);  // beyond it, a NaN in the matrix would give 0 * NaN
    for (int k = 0; k < depth; ++k) {
      const double product = a_tile[ty][k] * b_tile[k][tx];
      sum += product;
      magnitude += fabs(product);
    }
    __syncthreads();
  }
  const bool inside = row < g.M && col < g.N;
  const std::int64_t offset = blockIdx.z * g.strideC + row * g.ldc + col;
  const double old = c0 == nullptr || !inside ? 0.0 : static_cast<double>(g.beta) * c0[offset];
  const double product = static_cast<double>(g.alpha) * sum;
  const double reference = product + old;
  const float c = inside ? g.C[offset] : 0.0f;
  const Magnitude scale{magnitude, fabs(static_cast<double>(g.alpha)), fabs(old)};
  const double error = c - reference;
  const bool counts = inside && isfinite(error) && scale.total() > 0;
  add_of_warp(&verdict->error_along_product, counts ? error * product : 0.0);
  add_of_warp(&verdict->product_squared, counts ? product * product : 0.0);
  if (!inside) return;
  const double over = error_over_bound(c, reference, scale, tolerance);
  const auto keep_largest = [](unsigned long long* largest, double value) {
    atomicMax(largest, static_cast<unsigned long long>(__double_as_longlong(value)));
  };
  if (!isnan(error)) keep_largest(&verdict->max_error_bits, fabs(error));
  if (counts) keep_largest(&verdict->max_relative_bits, fabs(error) / scale.total());
  keep_largest(&verdict->max_over_bits, over);
  if (over <= 1) return;
  atomicAdd(&verdict->wrong, 1ull);
  atomicMin(&verdict->first_wrong,
            static_cast<unsigned long long>((blockIdx.z * std::int64_t{g.M} + row) * g.N + col));
}

double as_double(unsigned long long bits) {
  double value;
  static_assert(sizeof value == sizeof bits);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

Verdict verify(const AnyGemm& g, const float* c0, double tolerance) {
  Verdict verdict;
  if (g.N == 0) return verdict;
  const Sum none{0, 0, 0, 0, ~0ull, 0, 0};
  Result<Sum> result(none);
  for_each_panel(g, [&](const AnyGemm& panel, std::int64_t matrix, std::int64_t row) {
    result.set(none);
    const dim3 grid((panel.N + TILE - 1) / TILE, (panel.M + TILE - 1) / TILE, panel.batch);
    const float* panel_c0 = c0 == nullptr ? nullptr : c0 + (panel.C - g.C);
    with_element(g.input, [&]<typename T>(T) {
      verify_kernel<<<grid, dim3(TILE, TILE)>>>(panel.as<T>(), panel_c0, tolerance, result.pointer());
    });
    CUDA_CHECK(cudaGetLastError());
    const Sum sum = result.get();
    verdict.max_error = std::max(verdict.max_error, as_double(sum.max_error_bits));
    verdict.max_relative_error = std::max(verdict.max_relative_error, as_double(sum.max_relative_bits));
    verdict.max_error_over_bound = std::max(verdict.max_error_over_bound, as_double(sum.max_over_bits));
    verdict.error_along_product += sum.error_along_product;
    verdict.product_squared += sum.product_squared;
    verdict.wrong += static_cast<std::int64_t>(sum.wrong);
    if (sum.wrong == 0 || verdict.first_wrong >= 0) return;
    // The kernel counts elements from the panel's first.
    const auto index = static_cast<std::int64_t>(sum.first_wrong);
    const std::int64_t line = index / g.N;
    const std::int64_t whole = (matrix + line / panel.M) * g.M + row + line % panel.M;
    verdict.first_wrong = whole * g.N + index % g.N;
  });
  return verdict;
}

}  // namespace harness::gpu
