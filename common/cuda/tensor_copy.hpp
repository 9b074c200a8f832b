#pragma once

// Asynchronous copies of boxes, parts of a matrix in global memory, to shared memory (cp.async.bulk.tensor,
// the Tensor Memory Accelerator; compute capability 9.0 and newer). One thread requests a whole tile; the
// unit that copies knows the matrix by a tensor map, which the host makes. It reports the bytes that have
// arrived to an mbarrier. PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
//
// A kernel takes the map by value, as a parameter that stays where the launch has put it:
//
//     __global__ void sgemm_tiles(Gemm g, const __grid_constant__ TensorMap map_a)

#include "common/bf16.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/fp16.hpp"

#ifdef __CUDACC__

#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#include "common/cuda/check.hpp"
#include "common/cuda/tensor_shape.hpp"

// As in launch.hpp: another name for the linker than the CPU device's.
inline namespace on_gpu {

struct TensorMap {
  CUtensorMap map;
};
static_assert(alignof(TensorMap) >= 64 && sizeof(TensorMap) == sizeof(CUtensorMap));

// The driver's function, looked up at run time so that no program must be linked with the driver's library.
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  static const PFN_cuTensorMapEncodeTiled_v12000 encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                                &found));
#else
    CUDA_CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found));
#endif
    if (found != cudaDriverEntryPointSuccess) {
      throw CudaError("the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12.0");
    }
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
  }();
  return encoder;
}

inline CUtensorMapSwizzle tensor_map_swizzle(Swizzle swizzle) {
  return swizzle == Swizzle::of_128_bytes  ? CU_TENSOR_MAP_SWIZZLE_128B
         : swizzle == Swizzle::of_64_bytes ? CU_TENSOR_MAP_SWIZZLE_64B
         : swizzle == Swizzle::of_32_bytes ? CU_TENSOR_MAP_SWIZZLE_32B
                                           : CU_TENSOR_MAP_SWIZZLE_NONE;
}

// A batch of row-major matrices [batch][rows][cols] of float, bf16 or fp16, whose rows lie ld and whose
// matrices lie stride elements apart, and of which a kernel copies boxes [box_rows][box_cols]. Of an empty
// matrix nothing can be copied, not even zeros, but the map can be handed over. How the boxes lie in shared
// memory, and what becomes of the elements on their way: tensor_shape.hpp. Throws ImpossibleTensor if the
// hardware cannot copy like this (tensor_shape.hpp says what it wants: multiples of 16 bytes, above all),
// CudaError if the driver refuses the map.
template <typename T>
TensorMap tensor_map(const T* matrix, int rows, int cols, std::int64_t ld, int batch, std::int64_t stride,
                     int box_rows, int box_cols, Swizzle swizzle = Swizzle::none,
                     Convert convert = Convert::nothing, Fetch fetch = Fetch::as_rows_lie) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, fp16>);
  const TensorShape shape{matrix, sizeof(T), rows,     cols,    ld,     batch,
                          stride, box_rows,  box_cols, swizzle, convert};
  check_tensor_shape(shape);
  TensorMap result{};
  if (shape.empty()) return result;
  // Innermost first, and with one size more than pitches: the innermost elements lie side by side.
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows),
                              static_cast<cuuint64_t>(batch)};
  const cuuint64_t pitches[] = {static_cast<cuuint64_t>(shape.row_pitch()),
                                static_cast<cuuint64_t>(shape.matrix_pitch())};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows), 1};
  const cuuint32_t every_element[] = {1, 1, 1};
  const CUtensorMapDataType type = std::is_same_v<T, bf16>       ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                   : std::is_same_v<T, fp16>     ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                   : convert == Convert::to_tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                                                 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  // Where rows do not begin at lines, two pieces of 256 bytes would come for one row of a box: measured,
  // large BF16 products take up to a quarter longer.
  const bool in_lines = shape.row_pitch() % 128 == 0;
  const bool by_256 = fetch == Fetch::of_256_bytes || (fetch == Fetch::as_rows_lie && in_lines);
  const CUtensorMapL2promotion fetched =
      by_256 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  const CUresult status = tensor_map_encoder()(
      &result.map, type, 3, const_cast<T*>(matrix), sizes, pitches, box, every_element,
      CU_TENSOR_MAP_INTERLEAVE_NONE, tensor_map_swizzle(swizzle), fetched, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw CudaError("cuTensorMapEncodeTiled refuses %d x %d, leading dimension %" PRId64
                    ", batch %d, stride %" PRId64 ", box %d x %d: error %d",
                    rows, cols, ld, batch, stride, box_rows, box_cols, static_cast<int>(status));
  }
  return result;
}

// Fetches the map before the first copy needs it. By one thread.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
#if HAVE_MBARRIER
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// Starts copying the box whose upper left element is (row, col) of a matrix of the batch; its rows lie one
// right behind the other in shared memory, from a multiple of alignment_of(swizzle) bytes on. The box may
// reach beyond the matrix on any side: what is not in it becomes zeros. All bytes of the box, zeros too,
// count towards the mbarrier's current phase, in which a thread must announce them. A row may be any, but a
// column must lie a multiple of 16 bytes away from column 0: PTX does not say so; the hardware ends the
// kernel with an "illegal instruction".
__device__ __forceinline__ void tensor_copy(void* shared, const TensorMap& map, int col, int row, int matrix,
                                            std::uint64_t* barrier) {
#if HAVE_MBARRIER
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(&map), "r"(col), "r"(row), "r"(matrix), "r"(mbarrier_address(barrier))
      : "memory");
#else
  __trap();
#endif
}

}  // namespace on_gpu

#else

#include "common/cpu_device/tensor_copy.hpp"

#endif
