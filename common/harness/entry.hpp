#pragma once

// Erases the type of a step's inputs: a step takes a Gemm, a GemmBf16 and so on; the harness has one kind of
// problem, AnyGemm, and calls any step with it through an Entry.

#include <exception>
#include <variant>

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
// none.
class Entry {
 public:
  constexpr Entry() = default;
  template <typename T>
  constexpr Entry(void (*step)(const GemmOf<T>&), Precision precision = usual_precision(input_of<T>))
      : step_(step), precision_(precision) {}
  constexpr Entry(Ways (*step)(const Gemm&, Accuracy), Precision precision)
      : step_(step), precision_(precision) {}

  constexpr explicit operator bool() const { return step_.index() != 0; }
  // Whether the step takes an Accuracy.
  bool has_accuracies() const { return std::holds_alternative<WithAccuracy>(step_); }
  Input input() const { return has_accuracies() ? Input::fp32 : static_cast<Input>(step_.index() - 1); }
  Precision precision() const { return precision_; }

  Ways operator()(const AnyGemm& gemm) const {
    if (has_accuracies()) return std::get<WithAccuracy>(step_)(gemm.as<float>(), gemm.accuracy);
    with_element(input(), [&]<typename T>(T) { std::get<Function<T>>(step_)(gemm.as<T>()); });
    return {};
  }

 private:
  template <typename T>
  using Function = void (*)(const GemmOf<T>&);
  using WithAccuracy = Ways (*)(const Gemm&, Accuracy);
  std::variant<std::monostate, Function<float>, Function<bf16>, WithAccuracy> step_;  // in the order of Input
  Precision precision_ = Precision::fp32;
};

}  // namespace harness
