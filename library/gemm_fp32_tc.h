/* SGEMM by tensor cores: C = alpha op(A) op(B) + beta C in FP32's accuracy, on Hopper, for C and C++.
 *
 * Arguments follow cuBLAS: matrices in device memory, column-major; op(X) is X or its transpose. A and B are
 * not read if alpha is 0, C is not read if beta is 0; C may not overlap A or B. alpha and beta are in host
 * memory. A call returns as soon as its work is in the handle's stream. A handle belongs to the device that was
 * current when it was created, and may be used by one thread at a time.
 *
 * Built for the CPU device, which needs no GPU, the library takes matrices in host memory instead.
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
  GEMM_FP32_TC_NOT_SUPPORTED,    /* no device of compute capability 9.0, or m, n, k or the parts of C above 2^30 */
  GEMM_FP32_TC_ALLOC_FAILED,     /* out of memory, or the workspace that was set is too small */
  GEMM_FP32_TC_EXECUTION_FAILED, /* CUDA reports an error, for example that there is no GPU */
} gemm_fp32_tc_status_t;

/* The values are those of cublasOperation_t; for real matrices C, the conjugate transpose, is T. */
typedef enum { GEMM_FP32_TC_OP_N = 0, GEMM_FP32_TC_OP_T = 1, GEMM_FP32_TC_OP_C = 2 } gemm_fp32_tc_operation_t;

typedef enum {
  GEMM_FP32_TC_FAST = 0,    /* FP16 products, unless k is short */
  GEMM_FP32_TC_CHECKED = 1, /* the default: FP32 where FP16 products may be less accurate than FP32 sums */
  GEMM_FP32_TC_STRICT = 2,  /* also where the error bound of FP32 sums is not proved to hold */
} gemm_fp32_tc_accuracy_t;

/* How many parts of C were computed by FP16 products, and how many in FP32 and why. A part has up to 128
 * rows and 64 columns of C. */
typedef struct {
  int64_t fast;      /* by FP16 products */
  int64_t few_terms; /* in FP32: an element is the sum of few products */
  int64_t lossy;     /* in FP32: an element is so small that bits lost by its operands may show */
  int64_t special;   /* in FP32: a row of op(A) or a column of op(B) has an infinity or a NaN */
  int64_t short_k;   /* in FP32: k is small */
  int64_t unproved;  /* in FP32, strict only: too many zeros for the proof */
} gemm_fp32_tc_report_t;

/* For the current device; the handle is null if that fails. */
gemm_fp32_tc_status_t gemm_fp32_tc_create(gemm_fp32_tc_handle_t* handle);
/* Waits for the handle's device. A null handle is allowed, and so is one whose stream has been destroyed. */
gemm_fp32_tc_status_t gemm_fp32_tc_destroy(gemm_fp32_tc_handle_t handle);

/* For subsequent calls; a null pointer is the default stream. Waits for the stream before, which must still
 * exist, and so cannot be captured in a graph. */
gemm_fp32_tc_status_t gemm_fp32_tc_set_stream(gemm_fp32_tc_handle_t handle, struct CUstream_st* stream);
gemm_fp32_tc_status_t gemm_fp32_tc_set_accuracy(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_accuracy_t accuracy);

/* Device memory for subsequent calls, aligned to 256 bytes; null: the handle's own again, which it allocates when
 * a call needs more than those before. Allocating waits for the device and cannot be captured in a graph. Calls
 * that may run at the same time need a workspace each. */
gemm_fp32_tc_status_t gemm_fp32_tc_set_workspace(gemm_fp32_tc_handle_t handle, void* memory, size_t bytes);
/* The bytes that a call with these sizes needs, whatever its operations. */
gemm_fp32_tc_status_t gemm_fp32_tc_workspace_size(int m, int n, int k, int batch_count, size_t* bytes);

/* C = alpha op(A) op(B) + beta C: op(A) is m x k, op(B) k x n, C m x n. */
gemm_fp32_tc_status_t gemm_fp32_tc_sgemm(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_operation_t transa,
                                         gemm_fp32_tc_operation_t transb, int m, int n, int k,
                                         const float* alpha, const float* A, int lda, const float* B, int ldb,
                                         const float* beta, float* C, int ldc);
/* The same for batch_count matrices each, whose first elements are strides apart, in elements. */
gemm_fp32_tc_status_t gemm_fp32_tc_sgemm_strided_batched(
    gemm_fp32_tc_handle_t handle, gemm_fp32_tc_operation_t transa, gemm_fp32_tc_operation_t transb, int m, int n,
    int k, const float* alpha, const float* A, int lda, int64_t stridea, const float* B, int ldb,
    int64_t strideb, const float* beta, float* C, int ldc, int64_t stridec, int batch_count);

/* How the latest call was computed; waits for it. */
gemm_fp32_tc_status_t gemm_fp32_tc_report(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_report_t* report);

/* What a status means. */
const char* gemm_fp32_tc_status_string(gemm_fp32_tc_status_t status);
/* Details of the handle's latest error, such as CUDA's message; "" if there are none. Valid until the next call. */
const char* gemm_fp32_tc_message(gemm_fp32_tc_handle_t handle);
/* "GPU" or "CPU device". */
const char* gemm_fp32_tc_built_for(void);

#ifdef __cplusplus
}
#endif

#endif
