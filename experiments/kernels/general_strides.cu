// A kernel for matrices whose rows and columns both have a stride, as in tensor libraries: rebuilt from the
// description by the author of a ladder on an RTX 3050. Otherwise step 02. STRIDES = 0 takes columns to
// be neighbours, as all steps do; STRIDES = 2 reads shape and strides of each tensor from global memory, as
// there: their number, the rank, is known at the launch only.

#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 32;     // a block computes TILE x TILE elements of C
constexpr int UNROLLED = 1;  // terms in a round of the loop
constexpr int STRIDES = 1;   // 0: none; 1: of columns, arguments of the kernel; 2: all, in global memory
constexpr int THREADS = TILE * TILE;
constexpr int MOST = 8;  // dimensions of a tensor

struct Tensor {
  std::int64_t shape[MOST], strides[MOST];  // the last two are the matrix's, those before them the batch's
};

struct ColumnStrides {
  std::int64_t A, B, C;
};

__global__ void set_tensors(Gemm g, Tensor* tensors) {
  tensors[0] = {{g.batch, g.M, g.K}, {g.strideA, g.lda, 1}};
  tensors[1] = {{g.batch, g.K, g.N}, {g.strideB, g.ldb, 1}};
  tensors[2] = {{g.batch, g.M, g.N}, {g.strideC, g.ldc, 1}};
}

// Where the batch's matrix begins in a tensor.
__device__ __forceinline__ std::int64_t matrix(const Tensor& tensor, int rank, std::int64_t batch) {
  std::int64_t offset = 0;
  for (int d = rank - 3; d >= 0; --d) {
    offset += batch % tensor.shape[d] * tensor.strides[d];
    batch /= tensor.shape[d];
  }
  return offset;
}

__global__ void sgemm_general_strides(Gemm g, ColumnStrides given, const Tensor* tensors, int rank) {
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  float* c;
  if constexpr (STRIDES == 2) {
    const Tensor &a = tensors[0], &b = tensors[1];
    const float* A = g.A + matrix(a, rank, blockIdx.z);
    const float* B = g.B + matrix(b, rank, blockIdx.z);
#pragma unroll UNROLLED
    for (int k = 0; k < g.K; ++k) {
      sum += A[row * a.strides[rank - 2] + k * a.strides[rank - 1]] *
             B[k * b.strides[rank - 2] + col * b.strides[rank - 1]];
    }
    c = g.C + matrix(tensors[2], rank, blockIdx.z) + row * tensors[2].strides[rank - 2] +
        col * tensors[2].strides[rank - 1];
  } else {
    const ColumnStrides apart = STRIDES ? given : ColumnStrides{1, 1, 1};
    const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
    const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
#pragma unroll UNROLLED
    for (int k = 0; k < g.K; ++k) {
      sum += A[row * g.lda + k * apart.A] * B[k * g.ldb + col * apart.B];
    }
    c = g.C + blockIdx.z * g.strideC + row * g.ldc + col * apart.C;
  }
  *c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * *c;
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const std::int64_t one = g.batch > 0 ? 1 : 0;  // the compiler cannot know
  static Workspace<Tensor> workspace("shapes and strides");
  Tensor* const tensors = workspace.at_least(3);  // of A, B and C
  if (STRIDES == 2) launch(set_tensors, dim3(1), dim3(1), 0, g, tensors);
  const ColumnStrides strides{one, one, one};
  launch(sgemm_general_strides, grid, dim3(TILE, TILE), 0, g, strides, tensors, 2 + static_cast<int>(one));
}

}  // namespace
