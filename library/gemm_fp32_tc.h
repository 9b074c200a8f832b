/* SGEMM by tensor cores: C = alpha op(A) op(B) + beta C in FP32's accuracy, on Hopper, for C and C++.
 *
 * Arguments are as cuBLAS has them: matrices in device memory, column-major; op is the matrix or its transpose;
 * A and B are not read if alpha is 0, C is not read if beta is 0. alpha and beta are in host memory. Calls
 * return when the work has been put into the handle's stream. A handle is for one device, the one that is
 * current when it is made, and for one thread at a time.
 *
 * Compiled for the CPU device, which needs no GPU, the library is the same for matrices in host memory.
 */
#ifndef GEMM_FP32_TC_H
#define GEMM_FP32_TC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gemm_fp32_tc_handle* gemm_fp32_tc_handle_t;
struct CUstream_st; /* cudaStream_t points to one */

typedef enum {
  GEMM_FP32_TC_SUCCESS = 0,
  GEMM_FP32_TC_INVALID_VALUE,    /* a null pointer, a size below 0, a leading dimension that is too small */
  GEMM_FP32_TC_NOT_SUPPORTED,    /* the device is not of compute capability 9.0, or the problem is too large */
  GEMM_FP32_TC_ALLOC_FAILED,     /* or the workspace that was set is too small */
  GEMM_FP32_TC_EXECUTION_FAILED, /* CUDA reports an error: gemm_fp32_tc_message() has it */
} gemm_fp32_tc_status_t;

/* With the values of cublasOperation_t. */
typedef enum { GEMM_FP32_TC_OP_N = 0, GEMM_FP32_TC_OP_T = 1, GEMM_FP32_TC_OP_C = 2 } gemm_fp32_tc_operation_t;

typedef enum {
  GEMM_FP32_TC_FAST = 0,    /* nothing is guarded */
  GEMM_FP32_TC_CHECKED = 1, /* the default: FP32 where FP16 products may be less accurate than FP32 sums */
  GEMM_FP32_TC_STRICT = 2,  /* and where it is not proved that the error bound of FP32 sums holds */
} gemm_fp32_tc_accuracy_t;

/* How many parts of C, each of up to 64 x 128 elements, were computed in which way, and why not the fast one. */
typedef struct {
  int64_t fast;      /* by FP16 products */
  int64_t few_terms; /* in FP32: an element is the sum of few products */
  int64_t lossy;     /* an element is small, and operands have lost bits that may show in it */
  int64_t special;   /* there is an infinity or a NaN */
  int64_t short_k;   /* k is small */
  int64_t unproved;  /* strict: there are too many zeros for the proof */
} gemm_fp32_tc_report_t;

gemm_fp32_tc_status_t gemm_fp32_tc_create(gemm_fp32_tc_handle_t* handle);
/* Waits for the handle's work. A null handle is allowed. */
gemm_fp32_tc_status_t gemm_fp32_tc_destroy(gemm_fp32_tc_handle_t handle);

/* Of the calls to come. The default stream is the null pointer. */
gemm_fp32_tc_status_t gemm_fp32_tc_set_stream(gemm_fp32_tc_handle_t handle, struct CUstream_st* stream);
gemm_fp32_tc_status_t gemm_fp32_tc_set_accuracy(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_accuracy_t accuracy);

/* Without one, the handle allocates device memory when a call needs more than those before; that waits for the
 * device and cannot be captured in a graph. `memory` begins at a multiple of 256 bytes; null: the handle's own
 * again. Calls that may run at the same time need a workspace each. */
gemm_fp32_tc_status_t gemm_fp32_tc_set_workspace(gemm_fp32_tc_handle_t handle, void* memory, size_t bytes);
gemm_fp32_tc_status_t gemm_fp32_tc_workspace_size(int m, int n, int k, int batch_count, size_t* bytes);

gemm_fp32_tc_status_t gemm_fp32_tc_sgemm(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_operation_t transa,
                                         gemm_fp32_tc_operation_t transb, int m, int n, int k,
                                         const float* alpha, const float* A, int lda, const float* B, int ldb,
                                         const float* beta, float* C, int ldc);
gemm_fp32_tc_status_t gemm_fp32_tc_sgemm_strided_batched(
    gemm_fp32_tc_handle_t handle, gemm_fp32_tc_operation_t transa, gemm_fp32_tc_operation_t transb, int m, int n,
    int k, const float* alpha, const float* A, int lda, int64_t stridea, const float* B, int ldb,
    int64_t strideb, const float* beta, float* C, int ldc, int64_t stridec, int batch_count);

/* Of the latest call; waits for it. */
gemm_fp32_tc_status_t gemm_fp32_tc_report(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_report_t* report);

/* What went wrong in the handle's latest call that failed; "" if none has. Valid until the next call. */
const char* gemm_fp32_tc_message(gemm_fp32_tc_handle_t handle);
/* "GPU" or "CPU device". */
const char* gemm_fp32_tc_built_for(void);

#ifdef __cplusplus
}
#endif

#endif
