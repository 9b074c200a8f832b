#include "common/harness/cublas.hpp"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "common/cuda/check.hpp"

namespace harness {

namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(fmt::format("{}: {}", call, cublasGetStatusString(status)));
}
#define CUBLAS_CHECK(call) check((call), #call)

// What cuBLAS calls a precision.
struct Mode {
  cudaDataType_t input;
  cublasComputeType_t compute;
  cublasMath_t math;
  const char* plain_call;
};
Mode mode_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION,
              "cublasGemmEx"};
    case Precision::tf32:
    case Precision::tf32_cut_off:
      return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_TF32_TENSOR_OP_MATH, "cublasGemmEx"};
    case Precision::fp32:
    case Precision::fp16x3:
    case Precision::fp32_emulated:
      break;
  }
  return {CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_PEDANTIC_MATH, "cublasSgemm"};
}

// Either of two environment variables would silently change what a precision means.
void check_environment(Precision precision) {
  const auto refuse = [&](const char* variable) {
    throw std::runtime_error(
        fmt::format("{} is set: cuBLAS would not compute in {}; unset it", variable, traits(precision).name));
  };
  const auto value_of = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string tf32 = value_of("NVIDIA_TF32_OVERRIDE"),
                    emulate = value_of("CUBLAS_EMULATE_SINGLE_PRECISION");
  // "0" forbids TF32, anything else asks for it.
  if (!tf32.empty() && (tf32 == "0") == (mode_of(precision).compute == CUBLAS_COMPUTE_32F_FAST_TF32))
    refuse("NVIDIA_TF32_OVERRIDE");
  if (!emulate.empty() && emulate != "0") refuse("CUBLAS_EMULATE_SINGLE_PRECISION");
}

// Tells the heuristic by how many bytes one of the matrices is aligned in all of the problems; unless told,
// it takes 256 for granted.
void set_alignment(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t matrix,
                   const std::vector<AnyGemm>& problems, const void* (*address_in)(const AnyGemm&)) {
  std::uint32_t bytes = 256;
  for (const AnyGemm& g : problems) {
    while (reinterpret_cast<std::uintptr_t>(address_in(g)) % bytes != 0) bytes /= 2;
  }
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, matrix, &bytes, sizeof bytes));
}

// What a candidate of the heuristic does, as far as it says: ", tiles of 64 x 128, K in 4 parts". In rows and
// columns of our C, which is its C^T.
std::string describe(const cublasLtMatmulAlgo_t& algorithm) {
  struct Tile {
    cublasLtMatmulTile_t id;
    int rows, cols;
  };
  static constexpr Tile tiles[] = {
      {CUBLASLT_MATMUL_TILE_32x32, 32, 32},     {CUBLASLT_MATMUL_TILE_32x64, 64, 32},
      {CUBLASLT_MATMUL_TILE_64x32, 32, 64},     {CUBLASLT_MATMUL_TILE_32x128, 128, 32},
      {CUBLASLT_MATMUL_TILE_128x32, 32, 128},   {CUBLASLT_MATMUL_TILE_64x64, 64, 64},
      {CUBLASLT_MATMUL_TILE_64x128, 128, 64},   {CUBLASLT_MATMUL_TILE_128x64, 64, 128},
      {CUBLASLT_MATMUL_TILE_64x256, 256, 64},   {CUBLASLT_MATMUL_TILE_256x64, 64, 256},
      {CUBLASLT_MATMUL_TILE_128x128, 128, 128}, {CUBLASLT_MATMUL_TILE_128x256, 256, 128},
      {CUBLASLT_MATMUL_TILE_256x128, 128, 256},
  };
  const auto ask = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    std::uint32_t value = 0;
    const auto status =
        cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, nullptr);
    return status == CUBLAS_STATUS_SUCCESS ? value : 0;
  };
  std::string text;
  const auto id = ask(CUBLASLT_ALGO_CONFIG_TILE_ID), parts = ask(CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  for (const Tile& tile : tiles) {
    if (tile.id == static_cast<int>(id)) text += fmt::format(", tiles of {} x {}", tile.rows, tile.cols);
  }
  if (parts > 1) text += fmt::format(", K in {} parts", parts);
  return text;
}

// cuBLAS is column-major: it sees our row-major A, B and C as their transposes, and C^T = B^T A^T.
cublasLtMatrixLayout_t make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                                   int batch, std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(cols), ld));
  CUBLAS_CHECK(
      cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
  CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                sizeof stride));
  return layout;
}

}  // namespace

struct Cublas::Impl {
  static constexpr std::size_t workspace_bytes = 64 << 20;

  Mode mode;
  cublasHandle_t handle = nullptr;
  cublasLtHandle_t lt = nullptr;
  void* workspace = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates;
  int chosen = -1;  // index into candidates; -1: the plain call
  std::string name;

  void forget() {
    for (cublasLtMatrixLayout_t* layout : {&a, &b, &c}) {
      if (*layout != nullptr) cublasLtMatrixLayoutDestroy(*layout);
      *layout = nullptr;
    }
    candidates.clear();
    chosen = -1;
  }

  void plain_call(const AnyGemm& g) {
    if (mode.math == CUBLAS_PEDANTIC_MATH) {
      sgemm(g.as<float>());
    } else {
      gemm_ex(g);
    }
  }

  void sgemm(const Gemm& g) {
    CUBLAS_CHECK(cublasSgemmStridedBatched_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, g.N, g.M, g.K, &g.alpha, g.B,
                                              g.ldb, g.strideB, g.A, g.lda, g.strideA, &g.beta, g.C, g.ldc,
                                              g.strideC, g.batch));
  }

  void gemm_ex(const AnyGemm& g) {
    CUBLAS_CHECK(cublasGemmStridedBatchedEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, g.N, g.M, g.K, &g.alpha, g.B,
                                               mode.input, g.ldb, g.strideB, g.A, mode.input, g.lda,
                                               g.strideA, &g.beta, g.C, CUDA_R_32F, g.ldc, g.strideC, g.batch,
                                               mode.compute, CUBLAS_GEMM_DEFAULT));
  }

  cublasStatus_t matmul(const AnyGemm& g, const cublasLtMatmulHeuristicResult_t& candidate) {
    return cublasLtMatmul(lt, operation, &g.alpha, g.B, a, g.A, b, &g.beta, g.C, c, g.C, c, &candidate.algo,
                          workspace, workspace_bytes, nullptr);
  }

  // Calls run(problem) `runs` times, with one problem after the other; returns the seconds per run. Clears
  // `well` if a run fails.
  template <typename Run>
  double sample(const Run& run, const std::vector<AnyGemm>& problems, int runs, bool& well) {
    cudaEvent_t start = nullptr, stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));
    for (int i = 0; i < runs; ++i, ++next) well = run(problems[next % problems.size()]) && well;
    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    return ms / 1e3 / runs;
  }

  // Seconds per run, the best of three samples; negative if the candidate fails. A sample has enough runs to
  // fill half a millisecond: the events' own time would be a large part of a single short run.
  template <typename Run>
  double time(const Run& run, const std::vector<AnyGemm>& problems) {
    bool well = true;
    sample(run, problems, 1, well);
    const double once = sample(run, problems, 1, well);
    const int runs = std::clamp(static_cast<int>(0.5e-3 / std::max(once, 1e-6)), 1, 100);
    double best = sample(run, problems, runs, well);
    for (int i = 1; i < 3; ++i) best = std::min(best, sample(run, problems, runs, well));
    return well ? best : -1;
  }

  std::size_t next = 0;  // the problem whose turn it is
};

Cublas::Cublas(Precision precision) : impl_(std::make_unique<Impl>()) {
  Impl& i = *impl_;
  check_environment(precision);
  i.mode = mode_of(precision);
  CUBLAS_CHECK(cublasCreate(&i.handle));
  CUBLAS_CHECK(cublasLtCreate(&i.lt));
  CUBLAS_CHECK(cublasLtMatmulDescCreate(&i.operation, i.mode.compute, CUDA_R_32F));
  CUDA_CHECK(cudaMalloc(&i.workspace, Impl::workspace_bytes));
}

Cublas::~Cublas() {
  impl_->forget();
  cublasLtMatmulDescDestroy(impl_->operation);
  cublasLtDestroy(impl_->lt);
  cublasDestroy(impl_->handle);
  cudaFree(impl_->workspace);
}

void Cublas::choose(const std::vector<AnyGemm>& alike) {
  Impl& i = *impl_;
  const AnyGemm& g = alike.at(0);
  i.forget();
  CUBLAS_CHECK(cublasSetMathMode(i.handle, i.mode.math));
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  CUBLAS_CHECK(cublasGetMathMode(i.handle, &math));
  if (math != i.mode.math) throw std::runtime_error("cuBLAS did not take the math mode that it was told");
  i.a = make_layout(i.mode.input, g.N, g.K, g.ldb, g.batch, g.strideB);
  i.b = make_layout(i.mode.input, g.K, g.M, g.lda, g.batch, g.strideA);
  i.c = make_layout(CUDA_R_32F, g.N, g.M, g.ldc, g.batch, g.strideC);
  cublasLtMatmulPreference_t preference = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  const std::size_t workspace = Impl::workspace_bytes;
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &workspace, sizeof workspace));
  // Its A is our B.
  const auto a = [](const AnyGemm& problem) { return problem.A; };
  const auto b = [](const AnyGemm& problem) { return problem.B; };
  const auto c = [](const AnyGemm& problem) -> const void* { return problem.C; };
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alike, b);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alike, a);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alike, c);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alike, c);
  std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(i.lt, i.operation, i.a, i.b, i.c, i.c, preference,
                                     static_cast<int>(found.size()), found.data(), &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_SUCCESS) i.candidates.assign(found.begin(), found.begin() + count);

  i.name = i.mode.plain_call;
  const auto plain_call = [&](const AnyGemm& problem) {
    i.plain_call(problem);
    return true;
  };
  // An idle GPU's clock rises only under load: the first candidate would seem slow.
  bool well = true;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100)) {
    i.sample(plain_call, alike, 1, well);
  }
  double best = i.time(plain_call, alike);
  for (std::size_t c = 0; c < i.candidates.size(); ++c) {
    const auto matmul = [&](const AnyGemm& problem) {
      return i.matmul(problem, i.candidates[c]) == CUBLAS_STATUS_SUCCESS;
    };
    const double seconds = i.time(matmul, alike);
    if (seconds < 0 || seconds >= best) continue;
    best = seconds;
    i.chosen = static_cast<int>(c);
    i.name = fmt::format("cublasLt heuristic {} of {}{}", c + 1, i.candidates.size(),
                         describe(i.candidates[c].algo));
  }
}

void Cublas::run(const AnyGemm& g) {
  Impl& i = *impl_;
  if (i.chosen < 0) {
    i.plain_call(g);
  } else {
    CUBLAS_CHECK(i.matmul(g, i.candidates[static_cast<std::size_t>(i.chosen)]));
  }
}

std::string Cublas::chosen() const { return impl_->name; }

}  // namespace harness
