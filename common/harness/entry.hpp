#pragma once

// Erases the type of a step's inputs: a step takes a Gemm, a GemmBf16 and so on; the harness has one kind of
// problem, AnyGemm, and calls any step with it through an Entry.

#include <exception>

#include "common/accuracy.hpp"
#include "common/gemm.hpp"
#include "common/harness/precision.hpp"

namespace harness {

// Not a std::runtime_error: <stdexcept> takes long to compile.
struct WrongInput : std::exception {
  const char* what() const noexcept override {
    return "a step was given inputs of another type than its own";
  }
};

// A problem with inputs of any type.
struct AnyGemm : GemmOf<void> {
  Input input = Input::fp32;
  Accuracy accuracy = Accuracy::checked;  // for steps that have several

  AnyGemm() : GemmOf<void>{} {}
  template <typename T>
  AnyGemm(const GemmOf<T>& g)
      : GemmOf<void>{g.M, g.N,   g.K,       g.batch, g.alpha, g.A,   g.lda,    g.strideA,
                     g.B, g.ldb, g.strideB, g.beta,  g.C,     g.ldc, g.strideC},
        input(input_of<T>) {}

  // Throws WrongInput if the inputs have another type.
  template <typename T>
  GemmOf<T> as() const {
    if (input != input_of<T>) throw WrongInput();
    return {M,     N,       K,
            batch, alpha,   static_cast<const T*>(A),
            lda,   strideA, static_cast<const T*>(B),
            ldb,   strideB, beta,
            C,     ldc,     strideC};
  }

  std::size_t element_bytes() const { return traits(input).bytes; }
  // An address in an input, `elements` further on.
  const void* behind(const void* matrix, std::int64_t elements) const {
    return static_cast<const char*>(matrix) + elements * static_cast<std::int64_t>(element_bytes());
  }
};

// A step's function, which launches its kernel on the whole problem, and what it computes in; empty: there is
// none. Not a std::variant: <variant> takes long to compile.
class Entry {
 public:
  constexpr Entry() = default;
  constexpr Entry(void (*step)(const Gemm&), Precision precision = Precision::fp32)
      : takes_(Takes::fp32), fp32_(step), precision_(precision) {}
  constexpr Entry(void (*step)(const GemmBf16&), Precision precision = Precision::bf16)
      : takes_(Takes::bf16), bf16_(step), precision_(precision) {}
  constexpr Entry(Ways (*step)(const Gemm&, Accuracy), Precision precision)
      : takes_(Takes::fp32_and_accuracy), fp32_and_accuracy_(step), precision_(precision) {}

  constexpr explicit operator bool() const { return takes_ != Takes::nothing; }
  bool has_accuracies() const { return takes_ == Takes::fp32_and_accuracy; }
  Input input() const { return takes_ == Takes::bf16 ? Input::bf16 : Input::fp32; }
  Precision precision() const { return precision_; }

  Ways operator()(const AnyGemm& gemm) const {
    if (takes_ == Takes::fp32_and_accuracy) return fp32_and_accuracy_(gemm.as<float>(), gemm.accuracy);
    if (takes_ == Takes::fp32) fp32_(gemm.as<float>());
    if (takes_ == Takes::bf16) bf16_(gemm.as<bf16>());
    return {};
  }

 private:
  enum class Takes { nothing, fp32, bf16, fp32_and_accuracy } takes_ = Takes::nothing;
  union {
    void (*fp32_)(const Gemm&) = nullptr;
    void (*bf16_)(const GemmBf16&);
    Ways (*fp32_and_accuracy_)(const Gemm&, Accuracy);
  };
  Precision precision_ = Precision::fp32;
};

}  // namespace harness
