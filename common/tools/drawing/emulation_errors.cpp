// How far step 47 is from the exact product, computed by the model of tests/accuracy, and how far FP32
// summation: as JSON, for the values of pages. Errors are the largest |c - exact| / (|A||B|), in units of
// 2^-24.

#include <fmt/format.h>

#include "common/harness/entry.hpp"
#include "tests/accuracy/by_hand.hpp"
#include "tests/accuracy/errors.hpp"
#include "tests/accuracy/model.hpp"

namespace {

using accuracy::Problem;

constexpr int DRAWN = 128;  // rows and columns: some classes have special ones

// A class's first rows of A and columns of B.
Problem draw(const accuracy::Class& of, int lines, int K) {
  Problem p{DRAWN, DRAWN, K, std::vector<float>(DRAWN * K), std::vector<float>(K * DRAWN)};
  accuracy::Draw d(1 + K);
  of.fill(p, d);
  p.M = p.N = lines;
  p.A.resize(lines * K);
  for (int i = 0; i < K * lines; ++i) p.B[i] = p.B[i / lines * DRAWN + i % lines];
  return p;
}

struct Errors {
  double ours, fp32;
  bool fast;  // the guard lets it pass
};
Errors errors(const Problem& p, const model::Rules& rules = {}) {
  const model::Outcome o = model::run(p, rules);
  const accuracy::Exact e = accuracy::exact(p);
  return {accuracy::largest_error(e, o.C), accuracy::largest_error(e, accuracy::summed_in_fp32(p)),
          o.path == Path::fast};
}

bool first = true;
void print(const char* matrix, const char* change, int K, const Errors& e) {
  fmt::print(
      "{}\n {{\"matrix\": \"{}\", \"change\": \"{}\", \"k\": {}, \"ours\": {}, \"fp32\": {}, \"fast\": {}}}",
      first ? "" : ",", matrix, change, K, e.ours, e.fp32, e.fast);
  first = false;
}

}  // namespace

int main() {
  const std::vector<accuracy::Class> classes = accuracy::all_classes();
  const auto drawn = [&](const char* name, int lines, int K) {
    return draw(*std::ranges::find(classes, name, &accuracy::Class::name), lines, K);
  };
  const model::Rules stricter{.counted = COUNTED * 64};  // 2^-6 of the largest, not 2^-12
  fmt::print("[");
  for (const int K : {128, 4096}) print("by hand", "", K, errors(accuracy::by_hand(8, 8, K)));
  for (const auto& [change, rules] : std::initializer_list<std::pair<const char*, model::Rules>>{
           {"promoted half as often", {.promoted_every = 128}},
           {"promoted twice as often", {.promoted_every = 32}},
           {"stricter counts", stricter},
       }) {
    print("by hand", change, 128, errors(accuracy::by_hand(8, 8, 128), rules));
  }
  print("by hand", "sums in double", 4096, errors(accuracy::by_hand(8, 8, 4096), {.sums_in_double = true}));
  for (const char* name : {"softmax 4", "exponents +-12"}) {
    print(name, "", 512, errors(drawn(name, 64, 512)));
    print(name, "stricter counts", 512, errors(drawn(name, 64, 512), stricter));
  }
  const Problem uniform = drawn("uniform", DRAWN, 1024);
  print("uniform", "", 1024, errors(uniform));
  print("uniform", "sums in double", 1024, errors(uniform, {.sums_in_double = true}));

  // Of what the guard lets pass, what exceeds FP32 summation most.
  Errors worst{0, INFINITY, true};
  int at = 0;
  for (const accuracy::Class& of : classes) {
    for (const int K : of.Ks) {
      const Errors e = errors(draw(of, 32, K));
      if (e.fast && e.ours - e.fp32 > worst.ours - worst.fp32) worst = e, at = K;
    }
  }
  print("worst of the classes", "", at, worst);
  fmt::print("\n]\n");
  return 0;
}
