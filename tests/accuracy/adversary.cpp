// Looks for matrices on which a kernel that emulates FP32 errs by more than FP32 summation plus 32 (in units
// of 2^-24): climbs from classes of matrices that come near, changing the elements of one k at a time. The
// search runs on a model of the kernel (model.hpp); what it finds is given to the kernel, on the CPU device.
//
//   adversary [TRIES [SEED]]      exit status 1 if a rule is broken; TRIES: of each climb
//   adversary --rejected TEXT     wants a rule broken, with TEXT in the message: for planted bugs
//
// The rules:
//   - of all that the guard lets pass, nothing errs by more than FP32 summation plus 32, nor above the bound
//     that is proved, 52 + K / 59
//   - the kernel takes the model's way, and on the fast one gives the model's bits
//   - nor does the kernel compute worse than FP32 summation plus 32 what is worst without one of its guards
//   - if the model is weakened, the search finds matrices that break the first rule
//   - matrices made by hand (by_hand.hpp) take the fast path and err by more than 32, the more the larger K
//   is,
//     but not above the bound
//
// Only the bound is proved. The 32 are as far as climbs of some thousand tries come; longer ones come
// further.

#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "common/harness/entry.hpp"
#include "tests/accuracy/by_hand.hpp"
#include "tests/accuracy/classes.hpp"
#include "tests/accuracy/errors.hpp"
#include "tests/accuracy/model.hpp"

extern const harness::Entry run_on_cpu;

namespace {

using accuracy::Draw;
using accuracy::Problem;

constexpr int M = 8, N = 8;
constexpr double more_than_summation = 32;
constexpr float largest = 0x1p60f, least = 0x1p-60f;  // so that FP32 sums neither overflow nor underflow

double proved(int K) { return 52 + K / 59.0; }  // of the fast path

struct Score {
  double ours = 0, summation = 0;
  double excess() const { return ours - summation; }
};
Score score(const Problem& p, const std::vector<float>& C) {
  const accuracy::Exact e = accuracy::exact(p);
  return {accuracy::largest_error(e, C), accuracy::largest_error(e, accuracy::summed_in_fp32(p))};
}

// One change: what happens to the elements at one k, in all rows of A and columns of B or in some.
void change(Problem& p, Draw& d) {
  enum { shift_between, shift_a, shift_b, copy, exchange, flip, worst_mantissa, to_zero, draw, kinds };
  const int kind = d.below(kinds), k = d.below(p.K);
  const int other = d.below(2) == 0 ? p.K - 1 - d.below(4) : d.below(p.K);
  const int by = d.below(25) - 12;
  const bool some = d.below(2) == 0;  // half of the lines
  const auto mantissa = [&] { return 1.0 + 0x1p-11 - 0x1p-23 * (1 + 2 * d.below(8)); };
  const auto edit = [&](float& x, float& at_other, bool of_a) {
    if (some && d.below(2) == 0) return;
    switch (kind) {
      case shift_between:
        x = std::ldexp(x, of_a ? by : -by);
        break;
      case shift_a:
      case shift_b:
        if (of_a == (kind == shift_a)) x = std::ldexp(x, by);
        break;
      case copy:
        x = at_other;
        break;
      case exchange:
        std::swap(x, at_other);
        break;
      case flip:
        if (of_a) x = -x;
        break;
      case worst_mantissa:
        if (x != 0) x = static_cast<float>(std::ldexp(mantissa(), std::ilogb(x)));
        break;
      case to_zero:
        if (of_a) x = 0;
        break;
      case draw:
        x = static_cast<float>(std::ldexp(d.normal(), by));
        break;
    }
    if (x != 0 && !(std::fabs(x) < largest && std::fabs(x) > least)) x = 1;
  };
  for (int i = 0; i < p.M; ++i) edit(p.A[i * p.K + k], p.A[i * p.K + other], true);
  for (int j = 0; j < p.N; ++j) edit(p.B[k * p.N + j], p.B[other * p.N + j], false);
}

struct Found {
  Problem problem;
  Score score;
  int passed = 0;  // tries that the guard let pass
};

// Climbs towards the largest excess over FP32 summation among what the guard lets pass, until it is above
// `enough`.
Found climb(Problem p, int tries, std::uint64_t seed, const model::Rules& rules, double enough = INFINITY) {
  Draw d(seed);
  const auto look = [&](const Problem& q) -> std::optional<Score> {
    const model::Outcome o = model::run(q, rules);
    if (o.path != Path::fast) return {};
    return score(q, o.C);
  };
  Found best{p, look(p).value_or(Score{0, INFINITY})};
  for (int i = 0; i < tries && best.score.excess() <= enough; ++i) {
    Problem q = best.problem;
    for (int changes = 1 + d.below(3); changes > 0; --changes) change(q, d);
    const std::optional<Score> s = look(q);
    if (!s) continue;
    ++best.passed;
    if (s->excess() >= best.score.excess()) best.problem = std::move(q), best.score = *s;
  }
  return best;
}

Problem draw_class(const char* name, int K, std::uint64_t seed) {
  Problem p{M, N, K, std::vector<float>(M * K), std::vector<float>(K * N)};
  Draw d(seed);
  for (const accuracy::Class& of : accuracy::all_classes()) {
    if (of.name == name) of.fill(p, d);
  }
  return p;
}

// By the kernel. "": no rule is broken.
std::string try_kernel(const Problem& p, bool above_summation = false) {
  std::vector<float> C(p.M * p.N);
  run_on_cpu(Gemm{p.M, p.N, p.K, 1, 1.0f, p.A.data(), p.K, 0, p.B.data(), p.N, 0, 0.0f, C.data(), p.N, 0});
  const Score s = score(p, C);
  if (!above_summation && !(s.excess() <= more_than_summation)) {
    return fmt::format("less accurate than FP32 summation: {:.2f}, not {:.2f}", s.ours, s.summation);
  }
  if (s.ours > proved(p.K)) return fmt::format("above the bound that is proved: {:.2f}", s.ours);
  const model::Outcome o = model::run(p);
  const bool fast = latest_ledger->taken[static_cast<int>(Path::fast)] > 0;
  if (fast != (o.path == Path::fast)) return "the kernel takes another way than its model";
  if (!fast) return "";
  for (std::size_t i = 0; i < C.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(C[i]) != std::bit_cast<std::uint32_t>(o.C[i])) {
      return fmt::format("C[{}][{}] is {:a}, the model has {:a}", i / p.N, i % p.N, C[i], o.C[i]);
    }
  }
  return "";
}

struct Start {
  const char* of;
  int K;
};

}  // namespace

int main(int argc, char** argv) {
  const bool rejected = argc == 3 && std::strcmp(argv[1], "--rejected") == 0;
  const std::uint64_t seed = !rejected && argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 7;
  const int tries = argc > 1 && !rejected ? std::atoi(argv[1]) : rejected ? 500 : 2500;
  if (argc > 3 || tries <= 0) {
    fmt::print(stderr, "usage: adversary [TRIES [SEED] | --rejected TEXT]\n");
    return 2;
  }
  int broken = 0;
  bool found = false;
  const auto conclude = [&](const std::string& what, const Found& f, std::string why) {
    fmt::print("{:51} ours {:12.2f}, FP32 {:7.2f}, {:6} passed  {}\n", what, f.score.ours, f.score.summation,
               f.passed, why);
    broken += !why.empty();
    found = found || (rejected && why.find(argv[2]) != std::string::npos);
  };

  for (const auto& [of, K] : std::initializer_list<Start>{{"normal", 96},
                                                          {"positive", 128},
                                                          {"positive", 192},
                                                          {"worst mantissas", 128},
                                                          {"apart, neighbours", 128},
                                                          {"apart, neighbours", 256},
                                                          {"outlier last", 128},
                                                          {"exponents +-12", 256}}) {
    const Found f = climb(draw_class(of, K, 1), tries, seed, {});
    std::string why = f.score.excess() > more_than_summation ? "less accurate than FP32 summation"
                      : f.score.ours > proved(K)             ? "above the bound that is proved"
                                                             : try_kernel(f.problem);
    conclude(fmt::format("{}, K = {}", of, K), f, std::move(why));
  }
  for (const int K : {128, 4096}) {
    const Problem p = accuracy::by_hand(M, N, K);
    const model::Outcome o = model::run(p);
    const Found f{p, score(p, o.C), o.path == Path::fast};
    conclude(fmt::format("by hand, K = {}", K), f,
             f.passed == 0                         ? "the guard refuses it"
             : f.score.excess() <= 0.7 * proved(K) ? "not near the bound"
                                                   : try_kernel(p, true));
  }
  struct Weakened {
    const char* what;
    Start from;
    model::Rules rules;
  };
  for (const auto& [guard, from, rules] : std::initializer_list<Weakened>{
           {"few terms", {"normal", 128}, {.least_terms = 0}},
           {"few terms", {"one in 64", 256}, {.least_terms = 0}},
           {"lossy operands", {"far apart", 128}, {.least_shown = 0}},
       }) {
    const Found f = climb(draw_class(from.of, from.K, 1), tries / 5, seed + 1, rules);
    conclude(fmt::format("no guard against {}: {}, K = {}", guard, from.of, from.K), f,
             try_kernel(f.problem));
  }
  for (const auto& [what, from, rules] : std::initializer_list<Weakened>{
           {"lossy operands not looked at", {"far apart", 128}, {.least_shown = 0}},
           {"threshold for what shows inverted", {"far apart", 128}, {.shown_inverted = true}},
           {"lo not scaled", {"apart, neighbours", 128}, {.lo_scale = 1}},
           {"sums never promoted", {"positive", 1024}, {.promoted_every = 1 << 20}},
       }) {
    if (rejected) break;
    const Found f = climb(draw_class(from.of, from.K, 1), 20 * tries, seed + 2, rules, more_than_summation);
    conclude(fmt::format("weakened: {}", what), f,
             f.score.excess() > more_than_summation ? "" : "the search finds nothing");
  }
  if (rejected && !found) fmt::print("error: no rule is broken with '{}'\n", argv[2]);
  return rejected ? !found : broken > 0;
}
