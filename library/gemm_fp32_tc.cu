// The library: a C interface around the last step's kernel. nvcc compiles it for the GPU; a C++ compiler, for
// the CPU device:
//
//   nvcc -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -I. -c library/gemm_fp32_tc.cu
//   g++ -std=c++20 -O3 -I. -x c++ -c library/gemm_fp32_tc.cu

#include <algorithm>
#include <exception>
#include <new>
#include <string>

#include "common/out_of_memory.hpp"
#include "library/gemm_fp32_tc.h"
#include "steps/47_every_shape/kernel.cu"  // the step that the library is made of

namespace {

constexpr int MOST_MATRICES = 1 << 15;  // of a batch, in one go: a grid has at most 65535 blocks in z
constexpr std::int64_t MOST_PARTS = 1 << 30;
constexpr std::size_t ALIGNMENT = 256;

// Addresses in a workspace, one after the other; or only how many bytes there are, if it begins nowhere.
class Carving {
 public:
  explicit Carving(char* begin) : begin_(begin) {}
  template <typename T>
  T* take(std::size_t elements) {
    char* const at = begin_ == nullptr ? nullptr : begin_ + bytes_;
    bytes_ += (elements * sizeof(T) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return reinterpret_cast<T*>(at);
  }
  SplitLines take_lines(int lines, int K, int batch) {
    const SplitSizes size(lines, K, batch);
    return {take<fp16>(size.parts), take<fp16>(size.counts), take<Line>(size.facts), size.pitch,
            size.counts_pitch};
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char* begin_;
  std::size_t bytes_ = 0;
};

struct Carved {
  Memory memory;
  Ledger* ledgers;  // [chunks]
};
int chunks_of(int batch) { return ceil_div(batch, MOST_MATRICES); }
Carved carve(Carving& from, int M, int N, int K, int batch) {
  const int matrices = std::min(batch, MOST_MATRICES);
  Carved c{};
  c.ledgers = from.take<Ledger>(chunks_of(batch));
  c.memory.refused = from.take<unsigned>(words_of_parts(M, N, matrices));
  if (K >= SHORTEST) {
    c.memory.a = from.take_lines(M, K, matrices);
    c.memory.b = from.take_lines(N, K, matrices);
  }
  return c;
}

bool too_large(int m, int n, int k, int batch) {
  constexpr int MOST = 1 << 30;
  return std::max({m, n, k}) > MOST ||
         parts_at_most(std::min(n, MOST), std::min(m, MOST), std::min(batch, MOST_MATRICES)) > MOST_PARTS;
}

}  // namespace

struct gemm_fp32_tc_handle {
  CUstream_st* stream = nullptr;
  Accuracy accuracy = Accuracy::checked;
  int device = 0;
  Workspace<char> own{"workspace"};
  char* given = nullptr;
  std::size_t given_bytes = 0;
  const Ledger* ledgers = nullptr;  // of the latest call, in device memory
  int chunks = 0;
  std::string message;
};

namespace {

#ifdef __CUDACC__

// While it lives, the handle's stream takes the launches.
class OnStream {
 public:
  explicit OnStream(const gemm_fp32_tc_handle& handle) : before_(launch_stream) {
    launch_stream = handle.stream;
  }
  OnStream(const OnStream&) = delete;
  ~OnStream() { launch_stream = before_; }

 private:
  cudaStream_t before_;
};
int current_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return device;
}
bool is_hopper(int device) {
  int major = 0, minor = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major == 9 && minor == 0;
}
void download(const gemm_fp32_tc_handle& handle, Ledger* to, const Ledger* from, int count) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, count * sizeof(Ledger), cudaMemcpyDeviceToHost, handle.stream));
  CUDA_CHECK(cudaStreamSynchronize(handle.stream));
}
void wait(const gemm_fp32_tc_handle& handle) { CUDA_CHECK(cudaStreamSynchronize(handle.stream)); }
// For the whole device: the stream may be gone.
void wait_for_device(const gemm_fp32_tc_handle& handle) {
  const int before = current_device();
  CUDA_CHECK(cudaSetDevice(handle.device));
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaSetDevice(before));
}
constexpr const char* built_for = "GPU";

#else

struct OnStream {
  explicit OnStream(const gemm_fp32_tc_handle&) {}
};
int current_device() { return 0; }
bool is_hopper(int) { return true; }
void download(const gemm_fp32_tc_handle&, Ledger* to, const Ledger* from, int count) {
  std::copy_n(from, count, to);
}
void wait(const gemm_fp32_tc_handle&) {}
void wait_for_device(const gemm_fp32_tc_handle&) {}
constexpr const char* built_for = "CPU device";

#endif

// No exception leaves the library.
template <typename Body>
gemm_fp32_tc_status_t guarded(std::string* message, const Body& body) noexcept {
  const auto say = [&](const char* what) {
    if (message == nullptr) return;
    try {
      *message = what;
    } catch (...) {
      message->clear();
    }
  };
  try {
    return body();
  } catch (const OutOfMemory& error) {
    say(error.what());
    return GEMM_FP32_TC_ALLOC_FAILED;
  } catch (const std::bad_alloc&) {
    say("not enough memory");
    return GEMM_FP32_TC_ALLOC_FAILED;
  } catch (const std::exception& error) {
    say(error.what());
    return GEMM_FP32_TC_EXECUTION_FAILED;
  }
}

}  // namespace

extern "C" {

gemm_fp32_tc_status_t gemm_fp32_tc_create(gemm_fp32_tc_handle_t* handle) {
  if (handle == nullptr) return GEMM_FP32_TC_INVALID_VALUE;
  *handle = nullptr;
  return guarded(nullptr, [&] {
    const int device = current_device();
    if (!is_hopper(device)) return GEMM_FP32_TC_NOT_SUPPORTED;
    *handle = new gemm_fp32_tc_handle;
    (*handle)->device = device;
    return GEMM_FP32_TC_SUCCESS;
  });
}

gemm_fp32_tc_status_t gemm_fp32_tc_destroy(gemm_fp32_tc_handle_t handle) {
  if (handle == nullptr) return GEMM_FP32_TC_SUCCESS;
  const gemm_fp32_tc_status_t status = guarded(nullptr, [&] {
    wait_for_device(*handle);
    return GEMM_FP32_TC_SUCCESS;
  });
  delete handle;
  return status;
}

gemm_fp32_tc_status_t gemm_fp32_tc_set_stream(gemm_fp32_tc_handle_t handle, CUstream_st* stream) {
  if (handle == nullptr) return GEMM_FP32_TC_INVALID_VALUE;
  // The handle's own workspace may still be in use there.
  return guarded(&handle->message, [&] {
    if (stream != handle->stream) wait(*handle);
    handle->stream = stream;
    return GEMM_FP32_TC_SUCCESS;
  });
}

gemm_fp32_tc_status_t gemm_fp32_tc_set_accuracy(gemm_fp32_tc_handle_t handle,
                                                gemm_fp32_tc_accuracy_t accuracy) {
  if (handle == nullptr || accuracy < GEMM_FP32_TC_FAST || accuracy > GEMM_FP32_TC_STRICT) {
    return GEMM_FP32_TC_INVALID_VALUE;
  }
  handle->accuracy = static_cast<Accuracy>(accuracy);
  return GEMM_FP32_TC_SUCCESS;
}

gemm_fp32_tc_status_t gemm_fp32_tc_set_workspace(gemm_fp32_tc_handle_t handle, void* memory, size_t bytes) {
  if (handle == nullptr || reinterpret_cast<std::uintptr_t>(memory) % ALIGNMENT != 0) {
    return GEMM_FP32_TC_INVALID_VALUE;
  }
  handle->given = static_cast<char*>(memory);
  handle->given_bytes = bytes;
  handle->chunks = 0;  // what the latest call has left may be gone
  return GEMM_FP32_TC_SUCCESS;
}

gemm_fp32_tc_status_t gemm_fp32_tc_workspace_size(int m, int n, int k, int batch_count, size_t* bytes) {
  if (bytes == nullptr || m < 0 || n < 0 || k < 0 || batch_count < 0) return GEMM_FP32_TC_INVALID_VALUE;
  if (too_large(m, n, k, batch_count)) return GEMM_FP32_TC_NOT_SUPPORTED;
  Carving carving(nullptr);
  carve(carving, n, m, k, batch_count);  // the kernel's matrices are row-major
  *bytes = carving.bytes();
  return GEMM_FP32_TC_SUCCESS;
}

gemm_fp32_tc_status_t gemm_fp32_tc_sgemm_strided_batched(
    gemm_fp32_tc_handle_t handle, gemm_fp32_tc_operation_t transa, gemm_fp32_tc_operation_t transb, int m,
    int n, int k, const float* alpha, const float* A, int lda, int64_t stridea, const float* B, int ldb,
    int64_t strideb, const float* beta, float* C, int ldc, int64_t stridec, int batch_count) {
  const auto is_operation = [](int op) { return op >= GEMM_FP32_TC_OP_N && op <= GEMM_FP32_TC_OP_C; };
  if (handle == nullptr || !is_operation(transa) || !is_operation(transb) || m < 0 || n < 0 || k < 0 ||
      batch_count < 0 || alpha == nullptr || beta == nullptr) {
    return GEMM_FP32_TC_INVALID_VALUE;
  }
  handle->message.clear();
  const bool a_transposed = transa != GEMM_FP32_TC_OP_N, b_transposed = transb != GEMM_FP32_TC_OP_N;
  if (lda < std::max(1, a_transposed ? k : m) || ldb < std::max(1, b_transposed ? n : k) ||
      ldc < std::max(1, m)) {
    return GEMM_FP32_TC_INVALID_VALUE;
  }
  if (too_large(m, n, k, batch_count)) return GEMM_FP32_TC_NOT_SUPPORTED;
  handle->chunks = 0;
  if (m == 0 || n == 0 || batch_count == 0) return GEMM_FP32_TC_SUCCESS;
  const int terms = *alpha == 0.0f ? 0 : k;  // A and B are not read then
  if (C == nullptr || (terms > 0 && (A == nullptr || B == nullptr))) return GEMM_FP32_TC_INVALID_VALUE;

  return guarded(&handle->message, [&] {
    if (current_device() != handle->device) {
      handle->message = "another device is current than when the handle was made";
      return GEMM_FP32_TC_INVALID_VALUE;
    }
    Carving measured(nullptr);
    carve(measured, n, m, terms, batch_count);
    if (handle->given != nullptr && handle->given_bytes < measured.bytes()) {
      handle->message = "the workspace has " + std::to_string(handle->given_bytes) +
                        " bytes, the call needs " + std::to_string(measured.bytes());
      return GEMM_FP32_TC_ALLOC_FAILED;
    }
    Carving carving(handle->given != nullptr ? handle->given : handle->own.at_least(measured.bytes()));
    Carved carved = carve(carving, n, m, terms, batch_count);

    // Column-major, C is what row-major would be C^T = op(B)^T op(A)^T: A and B change places.
    const OnStream on_stream(*handle);
    for (int first = 0; first < batch_count; first += MOST_MATRICES) {
      const Gemm g{n,
                   m,
                   terms,
                   std::min(batch_count - first, MOST_MATRICES),
                   *alpha,
                   B + first * strideb,
                   ldb,
                   strideb,
                   A + first * stridea,
                   lda,
                   stridea,
                   *beta,
                   C + first * stridec,
                   ldc,
                   stridec};
      carved.memory.ledger = carved.ledgers + first / MOST_MATRICES;
      multiply(g, {b_transposed, a_transposed}, handle->accuracy, carved.memory);
    }
    handle->ledgers = carved.ledgers;
    handle->chunks = chunks_of(batch_count);
    return GEMM_FP32_TC_SUCCESS;
  });
}

gemm_fp32_tc_status_t gemm_fp32_tc_sgemm(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_operation_t transa,
                                         gemm_fp32_tc_operation_t transb, int m, int n, int k,
                                         const float* alpha, const float* A, int lda, const float* B, int ldb,
                                         const float* beta, float* C, int ldc) {
  return gemm_fp32_tc_sgemm_strided_batched(handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0,
                                            beta, C, ldc, 0, 1);
}

gemm_fp32_tc_status_t gemm_fp32_tc_report(gemm_fp32_tc_handle_t handle, gemm_fp32_tc_report_t* report) {
  if (handle == nullptr || report == nullptr) return GEMM_FP32_TC_INVALID_VALUE;
  *report = {};
  return guarded(&handle->message, [&] {
    for (int chunk = 0; chunk < handle->chunks; ++chunk) {
      Ledger ledger;
      download(*handle, &ledger, handle->ledgers + chunk, 1);
      const auto taken = [&](Path path) { return ledger.taken[static_cast<int>(path)]; };
      report->fast += taken(Path::fast);
      report->few_terms += taken(Path::few_terms);
      report->lossy += taken(Path::lossy);
      report->special += taken(Path::special);
      report->short_k += taken(Path::short_k);
      report->unproved += taken(Path::unproved);
    }
    return GEMM_FP32_TC_SUCCESS;
  });
}

const char* gemm_fp32_tc_status_string(gemm_fp32_tc_status_t status) {
  switch (status) {
    case GEMM_FP32_TC_SUCCESS:
      return "success";
    case GEMM_FP32_TC_INVALID_VALUE:
      return "invalid value: a null pointer, a negative size or too small a leading dimension";
    case GEMM_FP32_TC_NOT_SUPPORTED:
      return "not supported: no Hopper GPU, or too large a problem";
    case GEMM_FP32_TC_ALLOC_FAILED:
      return "out of memory, or too small a workspace";
    case GEMM_FP32_TC_EXECUTION_FAILED:
      return "CUDA reports an error";
  }
  return "unknown status";
}

const char* gemm_fp32_tc_message(gemm_fp32_tc_handle_t handle) {
  return handle == nullptr ? "" : handle->message.c_str();
}

const char* gemm_fp32_tc_built_for(void) { return built_for; }

}  // extern "C"
