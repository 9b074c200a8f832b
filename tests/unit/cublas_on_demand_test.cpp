// cuBLAS as programs have it: loaded by the first call, from where the linker's paths lead. Needs no GPU.

#include <cublasLt.h>
#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace {

// Whether the library is in this process's memory.
bool loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  const std::string text(std::istreambuf_iterator<char>(maps), {});
  return text.find(library) != text.npos;
}

TEST(CublasOnDemand, TheFirstCallLoadsIt) {
  EXPECT_FALSE(loaded("libcublas.so"));
  EXPECT_FALSE(loaded("libcublasLt.so"));
  EXPECT_STRNE(cublasGetStatusString(CUBLAS_STATUS_SUCCESS),
               cublasGetStatusString(CUBLAS_STATUS_INVALID_VALUE));
  EXPECT_TRUE(loaded("libcublas.so"));
  EXPECT_TRUE(loaded("libcublasLt.so"));
}

// A result from each of the two libraries.
TEST(CublasOnDemand, CallsReachTheLibraries) {
  EXPECT_NE(cublasSetMathMode(nullptr, CUBLAS_DEFAULT_MATH), CUBLAS_STATUS_SUCCESS);
  cublasLtMatrixLayout_t layout = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 3, 4, 5), CUBLAS_STATUS_SUCCESS);
  const std::uint64_t seven = 7;
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &seven, sizeof seven),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &seven, 1),
            CUBLAS_STATUS_INVALID_VALUE);  // one byte is no row count
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
