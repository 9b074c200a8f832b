#include "common/cpu_device/matrix_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "common/cpu_device/bulk_stores.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/observe.hpp"
#include "common/cpu_device/tensor_core.hpp"
#include "common/cpu_device/wgmma_operands.hpp"
#include "common/cuda/fragments.hpp"
#include "common/cuda/wgmma.hpp"

namespace cpu_device {

namespace {

constexpr int M = 64;
constexpr int registers_of_a = 4;  // of a thread

const Wgmma& operands_of(const Rendezvous& r, unsigned index) {
  return *static_cast<const Wgmma*>(r.operand(index));
}

// The registers of A that a thread brings, as rows of a matrix.
template <typename Shape>
void take_fragment(std::uint32_t* matrix, int thread, const std::uint32_t* registers) {
  constexpr int packed = Shape::packed, bits = 32 / packed;
  for (int i = 0; i < Shape::a_elements; ++i) {
    const Place at = Shape::a(thread % warpSize, i);
    const int element = (thread / warpSize * 16 + at.row) * Shape::K + at.col;
    const std::uint32_t value = registers[i / packed] >> bits * (i % packed);
    std::memcpy(reinterpret_cast<std::byte*>(matrix) + element * bits / 8, &value, bits / 8);
  }
}

bool same(const MatrixDescriptor& x, const MatrixDescriptor& y) {
  return x.begin == y.begin && x.swizzle == y.swizzle && x.leading == y.leading && x.stride == y.stride;
}

[[noreturn]] void refuse(const Rendezvous& r, unsigned index, FaultKind kind, const std::string& detail) {
  report(kind, r.pc(index), detail, *current_block, r.thread(index));
  stop_launch();
}

void check_descriptor(const Rendezvous& r, char matrix, const MatrixDescriptor& d) {
  const std::string wrong = why_wrong(d);
  if (wrong.empty()) return;
  refuse(r, 0, FaultKind::descriptor_misuse,
         fmt::format("brings to {} a descriptor of {} {}", r.operation->name, matrix, wrong));
}

void check_layout(const Rendezvous& r, char matrix, const Operand& operand, Major major, int rows) {
  if (reported_before(FaultKind::descriptor_misuse, r.pc(0))) return;
  const OperandType type = operands_of(r, 0).type;
  const std::string wrong = current_block->tile_layout.mismatch(*current_block, operand, major, type,
                                                                matrix == 'A', rows, terms_of(type));
  if (wrong.empty()) return;
  report(FaultKind::descriptor_misuse, r.pc(0),
         fmt::format("brings to {} a descriptor of {} {}", r.operation->name, matrix, wrong), *current_block,
         r.thread(0));
}

}  // namespace

// ---- Sums ------------------------------------------------------------------------------------------------

// Those that the threads bring, which may be ones that an earlier wgmma still adds to.
MatrixUnit::Sums& MatrixUnit::take_sums(Block& block, const Rendezvous& r) {
  const Wgmma& first = operands_of(r, 0);
  const auto known = std::find_if(sums_.begin(), sums_.end(), [&](const auto& sums) {
    return sums->at[0] == first.sums && sums->count == first.count;
  });
  const bool is_new = known == sums_.end();
  if (is_new) {
    sums_.push_back(std::make_unique<Sums>());
    sums_.back()->count = first.count;
    sums_.back()->values.resize(static_cast<std::size_t>(M * 2 * first.count));
    sums_.back()->delivered.fill(true);
  }
  Sums& sums = is_new ? *sums_.back() : **known;
  for (unsigned thread = 0; thread < threads; ++thread) {
    const unsigned warp = thread / warpSize;
    float* own = operands_of(r, thread).sums;
    if (!is_new && !sums.delivered[warp]) continue;
    bool changed = is_new || sums.at[thread] != own;
    sums.at[thread] = own;
    for (int i = 0; i < sums.count; ++i) {
      const WgmmaPlace at = wgmma_place(static_cast<int>(thread), i);
      float& value = sums.values[static_cast<std::size_t>(at.row * 2 * sums.count + at.col)];
      changed |= std::bit_cast<std::uint32_t>(value) != std::bit_cast<std::uint32_t>(own[i]);
      value = own[i];
    }
    if (changed && fences_[warp] == (is_new ? 0 : sums.fences[warp]) &&
        !reported_before(FaultKind::wgmma_misuse, r.pc(thread))) {
      report(FaultKind::wgmma_misuse, r.pc(thread),
             fmt::format("comes to {} with sums that it has written to, and no wgmma_fence() stands between",
                         r.operation->name),
             block, r.thread(thread));
    }
    poison(own, sizeof(float) * static_cast<std::size_t>(sums.count));
  }
  for (unsigned warp = 0; warp < warps; ++warp) {
    pending_sums_ += sums.delivered[warp];
    sums.delivered[warp] = false;
  }
  sums.group = groups_;
  sums.pc = r.pc(0);
  return sums;
}

// To the threads of a warp for which all that is added to them has been waited for.
void MatrixUnit::deliver(Block& block, unsigned warp, unsigned pending) {
  for (const auto& sums : sums_) {
    if (sums->delivered[warp] || sums->group[warp] + pending >= groups_[warp]) continue;
    for (unsigned thread = warp * warpSize; thread < (warp + 1) * warpSize; ++thread) {
      if (block.has_exited(first_ + thread)) continue;
      float* to = sums->at[thread];
      float nan;
      poison(&nan, sizeof nan);
      for (int i = 0; i < sums->count; ++i) {
        const WgmmaPlace at = wgmma_place(static_cast<int>(thread), i);
        const bool touched = std::memcmp(&to[i], &nan, sizeof nan) != 0;
        if (touched && !reported_before(FaultKind::wgmma_misuse, sums->pc)) {
          report(FaultKind::wgmma_misuse, sums->pc,
                 "writes to sums that this wgmma adds to, before it has waited for it (wgmma_wait)", block,
                 first_ + thread);
        }
        to[i] = sums->values[static_cast<std::size_t>(at.row * 2 * sums->count + at.col)];
      }
    }
    sums->delivered[warp] = true;
    sums->fences[warp] = fences_[warp];
    --pending_sums_;
  }
}

void MatrixUnit::check_access(Block& block, std::uintptr_t address, bool write, const void* pc) {
  const unsigned thread = block.current - first_, warp = thread / warpSize;
  // The number of the element, if it is one of these.
  const auto element = [&](const void* first, int count) -> std::optional<std::uintptr_t> {
    const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(first);
    if (first == nullptr || offset >= sizeof(float) * static_cast<std::size_t>(count)) return std::nullopt;
    return offset / sizeof(float);
  };
  const auto touched = [&](const std::string& what, const OfWarps& group) {
    if (reported_before(FaultKind::wgmma_misuse, pc)) return;
    report(FaultKind::wgmma_misuse, pc,
           what + (group[warp] < groups_[warp]
                       ? ": nobody has waited for its group (wgmma_wait)"
                       : ": its group has not been closed (wgmma_commit), so no wait covers it"));
  };
  for (const auto& sums : sums_) {
    if (sums->delivered[warp]) continue;
    const auto sum = element(sums->at[thread], sums->count);
    if (!sum) continue;
    return touched(fmt::format("{} sum {} of those that the wgmma begun at {} still adds to",
                               write ? "writes to" : "reads", *sum, place_of(sums->pc)),
                   sums->group);
  }
  if (!write) return;
  for (const Work& work : work_) {
    const auto number = element(work.from[thread], registers_of_a);
    if (!number || work.covered[warp]) continue;
    return touched(fmt::format("writes to register {} of A, which the wgmma begun at {} still reads", *number,
                               place_of(work.pc)),
                   work.group);
  }
}

// ---- One wgmma -------------------------------------------------------------------------------------------

void MatrixUnit::begin(Block& block, const Rendezvous& r) {
  const Wgmma& first = operands_of(r, 0);
  const bool in_registers = first.registers != nullptr;
  for (unsigned thread = 1; thread < threads; ++thread) {
    const Wgmma& other = operands_of(r, thread);
    if ((in_registers || same(first.a, other.a)) && same(first.b, other.b) && first.adds == other.adds)
      continue;
    refuse(r, thread, FaultKind::wgmma_misuse,
           fmt::format("comes to {} with other operands than {}: all threads of a warpgroup bring the same "
                       "descriptors",
                       r.operation->name, thread_name(block, first_)));
  }
  if (!in_registers) check_descriptor(r, 'A', first.a);
  check_descriptor(r, 'B', first.b);

  Work work{first, {}, described(first.b, first.b_major, first.type), {}, {}, nullptr, groups_, r.pc(0)};
  if (in_registers) {
    work.registers.resize(M * 8);
    for (unsigned thread = 0; thread < threads; ++thread) {
      const auto take =
          first.type == OperandType::tf32 ? take_fragment<MmaTf32Shape> : take_fragment<MmaBf16Shape>;
      work.from[thread] = operands_of(r, thread).registers;
      take(work.registers.data(), static_cast<int>(thread), work.from[thread]);
    }
    work.a = rows_of(first.type, work.registers.data(), terms_of(first.type));
  } else {
    work.a = described(first.a, first.a_major, first.type);
  }
  work.sums = &take_sums(block, r);

  if (block.launch.checked) {
    if (!in_registers) check_layout(r, 'A', work.a, first.a_major, M);
    check_layout(r, 'B', work.b, first.b_major, 2 * first.count);
  }
  const std::string does = fmt::format("has {} read", first.name);
  // A warp multiplies 16 rows of A by all of B.
  const auto check = [&](const std::byte* at, char matrix, unsigned first_warp, unsigned end_warp) {
    const SharedPlace place = find_shared(at, chunk_bytes);
    if (place.block != &block || !place.inside) {
      refuse(r, 0, FaultKind::out_of_bounds_shared,
             fmt::format(
                 "has {} read 16 bytes of {} that, by its descriptor, lie outside of every array in shared "
                 "memory",
                 r.operation->name, matrix));
    }
    if (!block.launch.checked) return;
    for (unsigned warp = first_warp; warp < end_warp; ++warp) {
      block.current = first_ + warp * warpSize;
      check_async_read(place, chunk_bytes, does.c_str(), r.pc(warp * warpSize));
    }
    mark_unread(at, chunk_bytes, true);
  };
  if (!in_registers) {
    for_chunks(work.a, first.a_major, first.type, M, [&](const std::byte* at, int row, int) {
      const unsigned warp = static_cast<unsigned>(row) / 16;
      check(at, 'A', warp, warp + 1);
    });
  }
  for_chunks(work.b, first.b_major, first.type, 2 * first.count,
             [&](const std::byte* at, int, int) { check(at, 'B', 0, warps); });
  work_.push_back(std::move(work));
}

// Reads the operands, and adds.
void MatrixUnit::add(Block& block, Work& work) {
  const Wgmma& operands = work.operands;
  const OperandType type = operands.type;
  const int N = 2 * operands.count, K = terms_of(type);
  if (!work.registers.empty()) work.a.data = work.registers.data();
  std::vector<float>& values = work.sums->values;
  if (!operands.adds) std::fill(values.begin(), values.end(), 0.0f);
  multiply_add(arithmetic_of(type), type, M, N, K, work.a, work.b, values.data());
  work.done = true;
  if (!block.launch.checked) return;
  if (engine_ == 0) engine_ = block.clocks->new_engine(block.rank);
  Clock nobody;
  work.tick = block.clocks->engine_release(engine_, nobody);
  const auto read = [&](const std::byte* at, int, int) {
    read_by_engine(at, chunk_bytes, engine_, work.tick, work.pc);
  };
  if (work.registers.empty()) for_chunks(work.a, operands.a_major, type, M, read);
  for_chunks(work.b, operands.b_major, type, N, read);
}

void MatrixUnit::wait(Block& block, unsigned warp, unsigned pending) {
  bool any = false;
  Tick seen = 0;
  for (Work& work : work_) {
    if (work.group[warp] + pending >= groups_[warp]) break;
    if (!work.done) {
      add(block, work);
      any = true;
    }
    work.covered[warp] = true;
    seen = std::max(seen, work.tick);
  }
  if (any && block.launch.checked) cpu_device::mark_unread_again(block);
  deliver(block, warp, pending);
  if (seen != 0) {
    Clock clock(engine_ + 1);
    clock[engine_] = seen;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      block.clocks->acquire(block.actor(first_ + warp * warpSize + lane), clock);
    }
  }
  const auto all = [](const Work& work) {
    return std::all_of(work.covered.begin(), work.covered.end(), [](bool covered) { return covered; });
  };
  while (!work_.empty() && all(work_.front())) work_.pop_front();
}

void MatrixUnit::end_block(Block& block) const {
  for (const Work& work : work_) {
    if (work.done || reported_before(FaultKind::wgmma_misuse, work.pc)) continue;
    report(
        FaultKind::wgmma_misuse, work.pc,
        fmt::format("begins {}, for which nobody has waited when the block ends (wgmma_commit, wgmma_wait)",
                    work.operands.name),
        block, first_);
  }
}

std::string MatrixUnit::unread_by(const Block& block, std::size_t offset) const {
  for (const Work& work : work_) {
    if (work.done) continue;
    bool covers = false;
    const auto look = [&](const std::byte* at, int, int) {
      covers |=
          offset - block.shared.find(reinterpret_cast<std::uintptr_t>(at), chunk_bytes).offset < chunk_bytes;
    };
    const Wgmma& operands = work.operands;
    if (work.registers.empty()) for_chunks(work.a, operands.a_major, operands.type, M, look);
    for_chunks(work.b, operands.b_major, operands.type, 2 * operands.count, look);
    if (covers) {
      return fmt::format(
          "the {} that the warpgroup of {} began at {} has yet to read: nobody has waited for it "
          "(wgmma_wait)",
          operands.name, thread_name(block, first_), place_of(work.pc));
    }
  }
  return "";
}

void MatrixUnit::mark_unread_again() const {
  for (const Work& work : work_) {
    if (work.done) continue;
    const auto mark = [](const std::byte* at, int, int) { mark_unread(at, chunk_bytes, true); };
    const Wgmma& operands = work.operands;
    if (work.registers.empty()) for_chunks(work.a, operands.a_major, operands.type, M, mark);
    for_chunks(work.b, operands.b_major, operands.type, 2 * operands.count, mark);
  }
}

// ---- What the kernel calls -------------------------------------------------------------------------------

namespace {

constexpr std::uint32_t all_lanes = 0xffffffff;

MatrixUnit& unit_of(Block& block, unsigned thread) {
  const unsigned group = thread / MatrixUnit::threads;
  auto& unit = block.matrix_units[group];
  block.has_matrix_units = true;
  if (unit == nullptr) unit = std::make_unique<MatrixUnit>(group * MatrixUnit::threads);
  return *unit;
}

void begin(Block& block, Rendezvous& r) { unit_of(block, r.first).begin(block, r); }

unsigned warp_of(const Rendezvous& r) { return r.first / warpSize % MatrixUnit::warps; }

void fence(Block& block, Rendezvous& r) { unit_of(block, r.first).fence(warp_of(r)); }
void commit(Block& block, Rendezvous& r) { unit_of(block, r.first).commit(warp_of(r)); }
void wait(Block& block, Rendezvous& r) {
  unit_of(block, r.first).wait(block, warp_of(r), *static_cast<const unsigned*>(r.operand(0)));
}

// By type, as Rendezvous are told apart by these.
constexpr Collective of_tf32{"wgmma_tf32", true, false, begin};
constexpr Collective of_bf16{"wgmma_bf16", true, false, begin};
constexpr Collective of_fp16{"wgmma_fp16", true, false, begin};
constexpr Collective fencing{"wgmma_fence", true, false, fence};
constexpr Collective committing{"wgmma_commit", true, false, commit};
constexpr Collective waiting{"wgmma_wait", true, false, wait};

}  // namespace

void wgmma(const Wgmma& operands, int line) {
  const Collective& operation = operands.type == OperandType::tf32   ? of_tf32
                                : operands.type == OperandType::bf16 ? of_bf16
                                                                     : of_fp16;
  meet(operation, MatrixUnit::warps, all_lanes, const_cast<Wgmma*>(&operands), line,
       __builtin_return_address(0));
}

void wgmma_fence(int line) { meet(fencing, 1, all_lanes, nullptr, line, __builtin_return_address(0)); }
void wgmma_commit(int line) { meet(committing, 1, all_lanes, nullptr, line, __builtin_return_address(0)); }
void wgmma_wait(unsigned pending, int line) {
  meet(waiting, 1, all_lanes, &pending, line, __builtin_return_address(0));
}

}  // namespace cpu_device
