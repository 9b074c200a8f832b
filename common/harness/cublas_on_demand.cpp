// cuBLAS's functions, each of which loads the library when first called: it takes long to load, and most runs
// of a program have no GPU or time nothing on it. Programs link this file in place of the library.
//
// The library is looked for as if it were linked: by the program's run path, in LD_LIBRARY_PATH and where the
// system has it. If it is not found, the call throws DeviceUnavailable.

#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "common/harness/error.hpp"

namespace {

#define TEXT_OF(macro) TEXT(macro)
#define TEXT(text) #text
constexpr const char* cublas = "libcublas.so." TEXT_OF(CUBLAS_VER_MAJOR);
constexpr const char* cublas_lt = "libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR);

void* load(const char* library) {
  if (void* const handle = dlopen(library, RTLD_NOW)) return handle;
  throw harness::DeviceUnavailable(fmt::format(
      "cuBLAS, the baseline on a GPU, cannot be loaded: {}; install the CUDA toolkit, or name the "
      "library's folder in LD_LIBRARY_PATH",
      dlerror()));
}

// cuBLAS needs cublasLt, which its own run path may not lead to: that one is loaded first.
template <typename Function>
Function* find(Function*, const char* library, const char* name) {
  static void* const lt = load(cublas_lt);
  static void* const blas = load(cublas);
  if (void* const function = dlsym(library == cublas ? blas : lt, name)) {
    return reinterpret_cast<Function*>(function);
  }
  throw harness::DeviceUnavailable(
      fmt::format("{} has no {}; install the CUDA toolkit that this program was built with", library, name));
}

}  // namespace

// The parameters repeat the header's: the compiler refuses others.
#define ON_DEMAND(library, result, name, parameters, arguments)       \
  result name parameters {                                            \
    static const auto function = find(&name, library, TEXT_OF(name)); \
    return function arguments;                                        \
  }

extern "C" {

ON_DEMAND(cublas, const char*, cublasGetStatusString, (cublasStatus_t status), (status))
ON_DEMAND(cublas, cublasStatus_t, cublasCreate, (cublasHandle_t * handle), (handle))
ON_DEMAND(cublas, cublasStatus_t, cublasDestroy, (cublasHandle_t handle), (handle))
ON_DEMAND(cublas, cublasStatus_t, cublasSetMathMode, (cublasHandle_t handle, cublasMath_t mode),
          (handle, mode))
ON_DEMAND(cublas, cublasStatus_t, cublasGetMathMode, (cublasHandle_t handle, cublasMath_t* mode),
          (handle, mode))
ON_DEMAND(cublas, cublasStatus_t, cublasSgemmStridedBatched_64,
          (cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int64_t m, int64_t n,
           int64_t k, const float* alpha, const float* a, int64_t lda, long long int stride_a, const float* b,
           int64_t ldb, long long int stride_b, const float* beta, float* c, int64_t ldc,
           long long int stride_c, int64_t batch),
          (handle, of_a, of_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c,
           batch))
ON_DEMAND(cublas, cublasStatus_t, cublasGemmStridedBatchedEx_64,
          (cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int64_t m, int64_t n,
           int64_t k, const void* alpha, const void* a, cudaDataType type_a, int64_t lda,
           long long int stride_a, const void* b, cudaDataType type_b, int64_t ldb, long long int stride_b,
           const void* beta, void* c, cudaDataType type_c, int64_t ldc, long long int stride_c, int64_t batch,
           cublasComputeType_t compute, cublasGemmAlgo_t algorithm),
          (handle, of_a, of_b, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta, c,
           type_c, ldc, stride_c, batch, compute, algorithm))

ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmulDescCreate,
          (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute, cudaDataType_t scale),
          (operation, compute, scale))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation), (operation))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatrixLayoutCreate,
          (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld),
          (layout, type, rows, cols, ld))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatrixLayoutSetAttribute,
          (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
           size_t bytes),
          (layout, attribute, value, bytes))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmulPreferenceCreate,
          (cublasLtMatmulPreference_t * preference), (preference))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,
          (const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
           size_t size, size_t* written),
          (algorithm, attribute, value, size, written))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
          (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
           const void* value, size_t bytes),
          (preference, attribute, value, bytes))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference),
          (preference))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
          (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
           cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[],
           int* found),
          (handle, operation, a, b, c, d, preference, wanted, results, found))
ON_DEMAND(cublas_lt, cublasStatus_t, cublasLtMatmul,
          (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
           cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
           const void* c, cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
           const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
           cudaStream_t stream),
          (handle, operation, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d, algorithm,
           workspace, workspace_bytes, stream))

}  // extern "C"
