#include "common/harness/requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "common/harness/error.hpp"
#include "common/harness/npy.hpp"

namespace harness {

namespace {

// A size from up to two sources, an option and the arrays, which must agree.
std::int64_t agree(const char* option, const std::optional<std::int64_t>& given, std::int64_t in_file,
                   const std::string& file) {
  if (given && *given != in_file) {
    throw InputError(
        fmt::format("{} is {}, but {} has {}; leave out {}", option, *given, file, in_file, option));
  }
  return in_file;
}

// Rows, columns and batch of a matrix file, whose elements must be in the layout's order.
struct FileShape {
  std::int64_t rows, cols, batch;
};
FileShape file_shape(const std::string& path, Layout layout) {
  const NpyHeader header = read_npy_header(path);
  const std::size_t dimensions = header.shape.size();
  if (dimensions != 2 && dimensions != 3) {
    throw InputError(
        fmt::format("{}: has {} dimensions; give a matrix, or a batch of matrices", path, dimensions));
  }
  const bool batched = dimensions == 3;
  const FileShape shape{header.shape[batched], header.shape[batched + 1], batched ? header.shape[0] : 1};
  const bool either_order = !batched && (shape.rows <= 1 || shape.cols <= 1);
  if (layout == Layout::column_major && batched) {
    throw InputError(
        fmt::format("{}: a batch in column-major layout is not supported; use --layout row", path));
  }
  if (!either_order && header.fortran_order != (layout == Layout::column_major)) {
    throw InputError(
        header.fortran_order
            ? fmt::format("{}: is in Fortran order; use np.ascontiguousarray(array) or --layout col", path)
            : fmt::format("{}: is in C order; use np.asfortranarray(array) or --layout row", path));
  }
  return shape;
}

// default_shape: M, N and K if the options say nothing.
Problem problem_of(const Options& o, const std::array<std::int64_t, 3>& default_shape) {
  Problem p;
  if (o.layout != "row" && o.layout != "col") {
    throw InputError(fmt::format("unknown layout '{}'; use row or col", o.layout));
  }
  p.layout = o.layout == "row" ? Layout::row_major : Layout::column_major;
  p.alpha = o.alpha;
  p.beta = o.beta;
  p.lda = o.lda;
  p.ldb = o.ldb;
  p.ldc = o.ldc;
  p.batch = o.batch;
  p.stride_a = o.stride_a;
  p.stride_b = o.stride_b;
  p.stride_c = o.stride_c;
  p.offset_a = o.offset_a;
  p.offset_b = o.offset_b;
  p.offset_c = o.offset_c;
  if (o.size && (o.m || o.n || o.k)) throw InputError("give either --size or --m, --n and --k, not both");
  if (o.size) check_size(o.size_option, *o.size);
  const bool any = o.m || o.n || o.k;
  if (o.a.empty() != o.b.empty()) throw InputError("--a and --b belong together; give both or none");
  if (!o.c.empty() && o.a.empty()) throw InputError("--c needs --a and --b");
  if (!o.a.empty() && o.c.empty() && o.beta != 0) {
    throw InputError("--beta reads the old C; give it with --c");
  }
  if (!o.c.empty() && o.beta == 0) {
    throw InputError("--c is not read when beta is 0; give --beta, or leave out --c");
  }
  if (o.a.empty()) {
    if (any && !(o.m && o.n && o.k)) throw InputError("give all of --m, --n and --k, or --size");
    p.m = any ? *o.m : o.size.value_or(default_shape[0]);
    p.n = any ? *o.n : o.size.value_or(default_shape[1]);
    p.k = any ? *o.k : o.size.value_or(default_shape[2]);
    return checked(p);
  }
  const FileShape a = file_shape(o.a, p.layout), b = file_shape(o.b, p.layout);
  if (a.cols != b.rows) {
    throw InputError(fmt::format("{} is {} x {} and {} is {} x {}; A's columns must equal B's rows", o.a,
                                 a.rows, a.cols, o.b, b.rows, b.cols));
  }
  if (a.batch != b.batch) {
    throw InputError(
        fmt::format("{} holds {} matrices and {} holds {}; make them equal", o.a, a.batch, o.b, b.batch));
  }
  if (o.batch != 1 && o.batch != a.batch) {
    throw InputError(fmt::format("--batch is {}, but {} holds {}; leave out --batch", o.batch, o.a, a.batch));
  }
  const auto agree_with = [&](const char* option, const std::optional<std::int64_t>& given,
                              std::int64_t in_file, const std::string& file) {
    return o.size ? agree("--size", o.size, in_file, file) : agree(option, given, in_file, file);
  };
  p.m = agree_with("--m", o.m, a.rows, o.a);
  p.k = agree_with("--k", o.k, a.cols, o.a);
  p.n = agree_with("--n", o.n, b.cols, o.b);
  p.batch = a.batch;
  for (const auto& [option, stride] : {std::pair{"--stride-a", o.stride_a}, {"--stride-b", o.stride_b}}) {
    if (p.batch > 1 && stride == 0) {
      throw InputError(
          fmt::format("{} is 0, one matrix for all, but the files hold {}; leave it out", option, p.batch));
    }
  }
  if (!o.c.empty()) {
    const FileShape c = file_shape(o.c, p.layout);
    if (c.rows != p.m || c.cols != p.n || c.batch != p.batch) {
      throw InputError(fmt::format("{} is {} x {} ({}), but the product is {} x {} ({})", o.c, c.rows, c.cols,
                                   c.batch, p.m, p.n, p.batch));
    }
  }
  return checked(p);
}

// "i,j" or "i,j,k" of --block.
BlockIndex block_of(const std::string& text) {
  BlockIndex block{};
  std::size_t part = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const auto [rest, error] = std::from_chars(at, end, block[part++]);
    if (error == std::errc{} && rest == end && part >= 2) return block;
    if (error != std::errc{} || rest == end || *rest != ',' || part == block.size()) break;
    at = rest + 1;
  }
  throw InputError(fmt::format("--block is '{}'; give blockIdx.x and blockIdx.y, as in --block 0,1", text));
}

void check_xray_options(const Options& o) {
  if (!o.block.empty() && !o.xray) throw InputError("--block chooses what --xray observes; give --xray, too");
  if (o.requests && (!o.xray || o.json.empty())) {
    throw InputError("--requests writes every request that --xray sees; give --xray and --json, too");
  }
  if (!o.xray) return;
  if (o.repeat && *o.repeat > 1) throw InputError("--xray observes one run; leave out --repeat");
  if (!o.out.empty()) throw InputError("--xray may run only some of the blocks; leave out --out");
}

Protocol protocol_of(const std::string& option, Precision precision) {
  if (option == "auto") return traits(precision).tensor_cores ? Protocol::rested : Protocol::in_turn;
  if (option == "in-turn") return Protocol::in_turn;
  if (option == "rested") return Protocol::rested;
  if (option == "rested-only") return Protocol::rested_only;
  throw InputError(fmt::format("unknown --protocol '{}'; use auto, in-turn, rested or rested-only", option));
}

Accuracy accuracy_of(const std::string& option, const Step& step) {
  if (option.empty()) return Accuracy::checked;
  if (!(step.gpu ? step.gpu : step.cpu).has_accuracies()) {
    throw InputError("--accuracy is for steps that emulate FP32; this one has a single accuracy");
  }
  int mode = 0;
  for (const char* name : accuracy_names) {
    if (option == name) return static_cast<Accuracy>(mode);
    ++mode;
  }
  throw InputError(fmt::format("unknown --accuracy '{}'; use fast, checked or strict", option));
}

void check_schedule_options(const Options& o) {
  const char* option = o.schedules ? "--schedules" : "--schedule";
  if (o.all_orders && !o.check) throw InputError("--all-orders goes with --check");
  if (o.all_orders && o.schedule) throw InputError("give either --all-orders or --schedule, not both");
  if (o.all_orders && o.xray) throw InputError("--xray observes one run; leave out --all-orders");
  if (!o.schedules && !o.schedule) return;
  if (o.schedules && o.schedule) throw InputError("give either --schedules or --schedule, not both");
  if (!o.check) throw InputError(fmt::format("{} goes with --check", option));
  const int value = o.schedules.value_or(o.schedule.value_or(0)), least = o.schedules ? 1 : 0;
  const int most = o.all_orders ? 1000000 : 513;  // warps of the largest cluster, and none
  if (value < least || value > most) {
    throw InputError(fmt::format("{} is {}; give {} to {}", option, value, least, most));
  }
}

}  // namespace

std::vector<Request> requests_of(const Options& o, const Step& step, bool on_gpu) {
  check_xray_options(o);
  if (o.repeat && (*o.repeat < 0 || *o.repeat > 100000)) {
    throw InputError(fmt::format("--repeat is {}; give 0 to 100000", *o.repeat));
  }
  if (o.cache != "cold" && o.cache != "hot") {
    throw InputError(fmt::format("unknown --cache '{}'; use cold or hot", o.cache));
  }
  const Protocol protocol = protocol_of(o.protocol, step.precision());
  const Accuracy accuracy = accuracy_of(o.accuracy, step);
  check_schedule_options(o);
  const bool several = o.sweep || !o.cases.empty();
  if (several && !(o.a.empty() && o.b.empty() && o.c.empty() && o.out.empty())) {
    throw InputError("--a, --b, --c and --out hold one problem; leave out --sweep and --cases");
  }
  if (!o.out.empty() && o.out == o.json) throw InputError("--out and --json name the same file");
  if (o.sweep && !o.cases.empty()) throw InputError("give either --sweep or --cases, not both");
  if (several && (o.size || o.m || o.n || o.k)) {
    throw InputError("--sweep and --cases say the sizes; leave out --size, --m, --n and --k");
  }

  std::vector<Options> each;
  if (!o.cases.empty()) {
    each = read_cases(o.cases, o);
  } else if (o.sweep) {
    std::vector<std::int64_t> sizes = *o.sweep;
    if (sizes.empty()) {
      sizes = on_gpu ? std::vector<std::int64_t>{256, 512, 1024, 2048, 4096, 8192}
                     : std::vector<std::int64_t>{64, 128, 256, 512};
    }
    for (const std::int64_t size : sizes) {
      each.push_back(o);
      each.back().size = size;
      each.back().size_option = "--sweep";
    }
  } else {
    each.push_back(o);
  }
  std::vector<Request> requests;
  for (const Options& one : each) {
    const std::int64_t default_size = on_gpu ? 4096 : o.check ? 128 : 512;
    std::array<std::int64_t, 3> default_shape{default_size, default_size, default_size};
    if (o.xray) default_shape = {256, 256, 128};
    try {
      requests.push_back({problem_of(one, default_shape),
                          one.seed,
                          {one.a, one.b, one.c},
                          one.verify,
                          one.repeat.value_or(on_gpu ? 20 : 1),
                          one.cache == "cold",
                          protocol,
                          std::nullopt,
                          o.check ? o.schedules.value_or(o.all_orders ? 1000 : 4) : 1,
                          o.schedule ? std::optional(static_cast<unsigned>(*o.schedule)) : std::nullopt,
                          o.all_orders,
                          accuracy});
      if (o.xray) {
        Request& request = requests.back();
        const auto only = o.block.empty() ? std::nullopt : std::optional(block_of(o.block));
        const AnyGemm gemm = to_row_major(request.problem, step.input());
        if (step.elsewhere && !is_small(gemm)) throw InputError("that is too large to be observed elsewhere");
        request.xray = step.elsewhere ? XrayPlan{} : plan_xray(step, gemm, only);
        request.xray->keep_requests = o.requests;
        const Problem& p = request.problem;
        constexpr int most = 1 << 22;  // products: some ten megabytes of JSON
        if (o.requests && !only &&
            static_cast<double>(p.m * p.n) * static_cast<double>(p.k * p.batch) > most) {
          throw InputError(
              fmt::format("--requests keeps every request; give --block, or at most {} products", most));
        }
      }
    } catch (const InputError& error) {
      throw InputError(one.origin + error.what());
    }
  }
  return requests;
}

}  // namespace harness
