// One kernel template for the design space of C = alpha * A * B + beta * C in TF32 by mma.sync.m16n8k8 on
// sm_90a. Aligned sizes: M, N multiples of 256, K of 32. A design is a template argument (Design);
// designs.cuh names them.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

enum class Load { cp_async, tma };
// How a lane's B fragments leave shared memory, and what lies there.
//   lds32     [k][n], chunks of 16 bytes XOR 2 * (k % 4): one LDS.32 per register
//   lds128    [n / 32][k][32], chunks XOR k % 8: one LDS.128 is one register of 4 mma's (columns permuted)
//   transpose the same bytes, but B is the operand with 16 rows (C^T = B^T A^T): LDS.64 is half a fragment
//   ldmatrix  [n][k] as A: B was transposed by a pass of its own
//   packed    fragment order, A too: LDS.128 is a fragment of A, or two of B; written by a pass
enum class B { lds32, lds128, transpose, ldmatrix, packed };
// Rounding to TF32: not at all (the hardware truncates), + 0x1000 or cvt.rna after the load, by the pass, or
// by the TMA itself, whose tensor maps of type TFLOAT32 round while copying.
enum class Round { none, add, cvt, pass, tma };
enum class Blocks { plain, persistent, stream_k };

struct Design {
  int BM = 128, BN = 256, BK = 32, WM = 64, WN = 64, stages = 4;
  Load load = Load::cp_async;
  B b = B::lds128;
  Round round = Round::add;
  Blocks blocks = Blocks::plain;
  int per_sm = 1;         // blocks that share a multiprocessor
  int buffers = 2;        // of fragments in registers; 0: rolling, B::transpose only (see there)
  int band = 8;           // tiles of M that blocks in a row visit together
  bool producer = false;  // TMA: a warpgroup of its own asks for the copies
  int slack = 1;        // slabs by which the slowest warp may lag before whoever refills a stage has to wait
  bool swizzle = true;  // TMA: false leaves rows where they are, 128 bytes apart
  bool lone_warp = false;  // producer: one warp, without setmaxnreg
  bool free_running =
      false;  // cp.async: mbarriers instead of wait_group and __syncthreads (implied by producer)
  bool heads_first = false;  // stream-K: a block's first part of a tile before all else
  int cluster = 1;           // TMA: blocks (along M) that share B's tile by multicast

  __host__ __device__ constexpr int warps() const { return BM / WM * (BN / WN); }
  __host__ __device__ constexpr bool barriers() const {
    return load == Load::tma || free_running || producer;
  }
  __host__ __device__ constexpr int loaders() const {
    return load == Load::tma ? 1 : producer ? 128 : warps() * 32;
  }
  __host__ __device__ constexpr int threads() const {
    return warps() * 32 + (!producer ? 0 : lone_warp ? 32 : 128);
  }
  __host__ __device__ constexpr int stage_floats() const { return (BM + BN) * BK; }
  __host__ __device__ constexpr int shared_bytes() const { return stages * stage_floats() * 4 + 2048; }
  __host__ __device__ constexpr bool swapped() const { return b == B::transpose; }
};

struct Params {
  CUtensorMap map_a, map_b;
  const float *A, *B;  // [M][K]; [K][N], or [N][K] for B::ldmatrix, or packed
  float* C;            // [M][N]
  int M, N, K;
  float alpha, beta;
  float4* partial;  // stream-K: [block][warp][register / 4][lane]
  unsigned* ready;  // stream-K: [block][warp], the launch that wrote `partial`
  unsigned launch;
  long long* clock;  // {cycles, nanoseconds} of block 0, or null
};

struct Segment {
  int row, col, k_begin, k_end, kind;  // kind: 0 whole tile, 1 first part of one, 2 last part
};
constexpr int MAX_SEGMENTS = 72;

namespace dev {
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void copy16(uint32_t to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Arrives at the mbarrier once all copies that this thread has started are complete.
__device__ __forceinline__ void arrive_after_copies(uint32_t b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
__device__ __forceinline__ void ldmatrix4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void lds128(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint32_t address) {
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void lds64(uint32_t& a, uint32_t& b, uint32_t address) {
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(address) : "memory");
}
__device__ __forceinline__ void lds32(uint32_t& a, uint32_t address) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(address) : "memory");
}
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&x)[4], const uint32_t (&y)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}
template <Round R>
__device__ __forceinline__ void round_tf32(uint32_t& r) {
  if constexpr (R == Round::add) r += 0x1000u;
  if constexpr (R == Round::cvt) asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(r)));
}
__device__ __forceinline__ void barrier_init(uint32_t b, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t b) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(b) : "memory");
}
// Arrives at the same barrier of another block of the cluster.
__device__ __forceinline__ void barrier_arrive_at(uint32_t b, int block) {
  asm volatile(
      "{.reg .b32 remote;\n mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(b),
      "r"(block)
      : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t b, unsigned parity) {
  asm volatile(
      "{.reg .pred done;\n AGAIN:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;}" ::"r"(b),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void tma2(uint32_t to, const CUtensorMap& map, int x, int y, uint32_t b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(b)
      : "memory");
}
__device__ __forceinline__ void tma3(uint32_t to, const CUtensorMap& map, int x, int y, int z, uint32_t b) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2,%3,%4}], [%5];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(b)
      : "memory");
}
__device__ __forceinline__ void tma3_multicast(uint32_t to, const CUtensorMap& map, int x, int y, int z,
                                               uint32_t b, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2,%3,%4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(b), "h"(blocks)
      : "memory");
}
__device__ __forceinline__ void bulk(uint32_t to, const float* from, int bytes, uint32_t b) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(b)
      : "memory");
}
__device__ __forceinline__ long long nanoseconds() {
  long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ __forceinline__ int cluster_rank() {
  int r;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
}  // namespace dev

// Tile number -> its first row and column: bands of `band` tiles of M, in a band down before across.
template <Design D>
__device__ __forceinline__ void place(int tile, const Params& p, Segment& s) {
  const int tiles_m = (p.M + D.BM - 1) / D.BM, tiles_n = (p.N + D.BN - 1) / D.BN;
  const int band = tile / (D.band * tiles_n), rest = tile - band * D.band * tiles_n;
  const int height = min(D.band, tiles_m - band * D.band);
  s.row = (band * D.band + rest % height) * D.BM;
  s.col = rest / height * D.BN;
}

// What a block does, one Segment each; returns how many. Every thread calls it; thread j writes segment j.
template <Design D>
__device__ __forceinline__ int plan(const Params& p, Segment* list, int thread) {
  const int tiles = ((p.M + D.BM - 1) / D.BM) * ((p.N + D.BN - 1) / D.BN), slabs = p.K / D.BK;
  const int blocks = gridDim.x, block = blockIdx.x;
  Segment s{0, 0, 0, slabs, 0};
  if constexpr (D.blocks == Blocks::plain) {
    if (thread == 0) place<D>(block, p, s), list[0] = s;
    return 1;
  }
  const bool cut = D.blocks == Blocks::stream_k && tiles % blocks != 0 && tiles > blocks;
  if (!cut) {
    const int count = block < tiles ? (tiles - block + blocks - 1) / blocks : 0;
    if (thread < count) place<D>(block + thread * blocks, p, s), list[thread] = s;
    return count;
  }
  // The last one to two waves are cut into one range of slabs for each block; a tile has at most two parts.
  const int whole = (tiles / blocks - 1), first_cut = whole * blocks;
  const int total = (tiles - first_cut) * slabs;
  const int begin = static_cast<int>(static_cast<long long>(total) * block / blocks);
  const int end = static_cast<int>(static_cast<long long>(total) * (block + 1) / blocks);
  const int head = end % slabs, tail = begin % slabs;  // slabs of the part begun; slabs that others did
  const int inner_first = (begin + slabs - 1) / slabs, inner = end / slabs - inner_first;
  const int n_head = head > 0, n_tail = tail > 0, count = n_head + whole + inner + n_tail;
  if (thread < count) {
    int j = thread;
    // A block's first part of a tile comes before its last part of another, so nobody waits for long; both
    // come after the whole tiles, in which all blocks are at about the same k and share what they read from
    // L2.
    const int before = D.heads_first ? 0 : whole;
    if (j >= before && j < before + n_head) {
      place<D>(first_cut + end / slabs, p, s), s.k_end = head, s.kind = 1;
    } else if ((j -= j < before ? 0 : n_head) < whole) {
      place<D>(block + j * blocks, p, s);
    } else if ((j -= whole) < inner) {
      place<D>(first_cut + inner_first + j, p, s);
    } else {
      place<D>(first_cut + begin / slabs, p, s), s.k_begin = tail, s.kind = 2;
    }
    list[thread] = s;
  }
  return count;
}

template <Design D>
__global__ void __launch_bounds__(D.threads(), D.per_sm) gemm(const __grid_constant__ Params p) {
  constexpr int BM = D.BM, BN = D.BN, BK = D.BK, S = BK / 8, STAGES = D.stages;
  constexpr int WARPS = D.warps(), WARPS_N = BN / D.WN;
  constexpr bool SWAP = D.swapped(), TMA = D.load == Load::tma;
  constexpr int I = (SWAP ? D.WN : D.WM) / 16,
                J = (SWAP ? D.WM : D.WN) / 8;  // mma's of a warp: I x J per 8 k
  constexpr int A_BYTES = BM * BK * 4, B_BYTES = BN * BK * 4, STAGE = A_BYTES + B_BYTES;
  constexpr int F = D.buffers;
  static_assert(BK == 16 || BK == 32);
  static_assert(D.WN % 32 == 0 && D.WM % 16 == 0 && (F == 0 || S % F == 0));
  static_assert(F > 0 || (SWAP && D.round != Round::add && D.round != Round::cvt));
  static_assert(!(D.b == B::lds32 && TMA) && !(D.b == B::packed && !TMA));
  constexpr bool BARRIERS = D.barriers();
  static_assert(D.swizzle || (TMA && SWAP));
  static_assert(D.slack == 1 || (BARRIERS && !D.producer));
  static_assert(D.cluster == 1 || (TMA && D.blocks == Blocks::plain && (D.b == B::lds128 || SWAP)));

  extern __shared__ __align__(1024) unsigned char shared_raw[];
  const uint32_t base = dev::shared_address(shared_raw);
  unsigned char* after = shared_raw + STAGES * STAGE;
  const uint32_t full = base + STAGES * STAGE, empty = full + 64;  // mbarriers, 8 bytes each
  Segment* list = reinterpret_cast<Segment*>(after + 128);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;

  long long cycles = 0, nanoseconds = 0;
  if (p.clock && blockIdx.x == 0 && thread == 0) cycles = clock64(), nanoseconds = dev::nanoseconds();
  const int segments = plan<D>(p, list, thread);
  if (BARRIERS && thread == 0) {
    for (int i = 0; i < STAGES; ++i) {
      dev::barrier_init(full + 8 * i, D.loaders());
      dev::barrier_init(empty + 8 * i, WARPS * D.cluster);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if constexpr (D.cluster > 1) dev::cluster_sync();

  // ---- Copying: a stream of slabs through all segments, ahead of the computation
  struct Loader {
    int segment, k, stage;
    unsigned parity;
  };
  Loader in_registers{0, list[0].k_begin, 0, 1};
  // One thread's alone: kept in shared memory, so that it takes no registers of all the others.
  Loader& in_memory = *reinterpret_cast<Loader*>(after + 1600);
  constexpr bool IN_MEMORY = TMA && !D.producer;
  if (IN_MEMORY && thread == 0) in_memory = in_registers;
  static_assert(128 + MAX_SEGMENTS * sizeof(Segment) <= 1600);
  [[maybe_unused]] const float *a_from = nullptr, *b_from = nullptr;
  [[maybe_unused]] uint32_t a_to = 0, b_to = 0;
  constexpr int CA = BK / 4;                                // chunks of 16 bytes in a row of A's tile
  constexpr int CB = D.b == B::ldmatrix ? BK / 4 : BN / 4;  // and of B's
  constexpr int ROWS_A = D.load == Load::tma ? 8 : D.loaders() / CA,
                ROWS_B = D.load == Load::tma ? 8 : D.loaders() / CB;  // rows that the loaders copy in a pass
  [[maybe_unused]] const int loader = D.producer ? thread & 127 : thread;
  auto swizzle_row = [](int row) { return !D.swizzle ? 0 : BK == 32 ? row & 7 : (row >> 1) & 3; };
  auto begin_segment = [&](int number) {
    const Segment& s = list[number];
    const int ra = loader / CA, ca = loader % CA, rb = loader / CB, cb = loader % CB;
    a_from = p.A + static_cast<size_t>(s.row + ra) * p.K + s.k_begin * BK + ca * 4;
    b_from = D.b == B::ldmatrix ? p.B + static_cast<size_t>(s.col + rb) * p.K + s.k_begin * BK + cb * 4
                                : p.B + static_cast<size_t>(s.k_begin * BK + rb) * p.N + s.col + cb * 4;
  };
  if constexpr (!TMA) {
    static_assert(ROWS_A % 8 == 0 && BM % ROWS_A == 0 && (D.b != B::lds32 || ROWS_B % 4 == 0));
    const int ra = loader / CA, ca = loader % CA, rb = loader / CB, cb = loader % CB;
    a_to = ra * BK * 4 + ((ca ^ swizzle_row(ra)) << 4);
    if constexpr (D.b == B::ldmatrix) b_to = rb * BK * 4 + ((cb ^ swizzle_row(rb)) << 4);
    if constexpr (D.b == B::lds32) b_to = rb * BN * 4 + ((cb ^ (2 * (rb & 3))) << 4);
    if constexpr (D.b == B::lds128 || SWAP)
      b_to = cb / 8 * BK * 128 + rb * 128 + (((cb & 7) ^ (rb & 7)) << 4);
    begin_segment(0);
  }
  // Starts the copies of the next slab, if there is one. TMA: by the calling thread alone.
  auto load_next = [&] {
    Loader l = IN_MEMORY ? in_memory : in_registers;
    const bool more = l.segment < segments;
    if constexpr (TMA) {
      if (!more) return false;
      const Segment& s = list[l.segment];
      const uint32_t a = base + l.stage * STAGE, b = a + A_BYTES, bar = full + 8 * l.stage;
      dev::barrier_wait(empty + 8 * l.stage, l.parity);
      dev::barrier_expect(bar, STAGE);
      if constexpr (D.b == B::packed) {
        const int slabs = p.K / BK;
        dev::bulk(a, p.A + (static_cast<size_t>(s.row / BM) * slabs + l.k) * (BM * BK), A_BYTES, bar);
        dev::bulk(b, p.B + (static_cast<size_t>(s.col / BN) * slabs + l.k) * (BN * BK), B_BYTES, bar);
      } else {
        dev::tma2(a, p.map_a, l.k * BK, s.row, bar);
        if constexpr (D.b == B::ldmatrix) {
          dev::tma2(b, p.map_b, l.k * BK, s.col, bar);
        } else if constexpr (D.cluster == 1) {
          dev::tma3(b, p.map_b, 0, l.k * BK, s.col / 32, bar);
        } else {  // this block's share of B, to all blocks of the cluster
          const int rank = dev::cluster_rank();
          constexpr int PART = B_BYTES / D.cluster;
          dev::tma3_multicast(b + rank * PART, p.map_b, 0, l.k * BK,
                              s.col / 32 + rank * (BN / 32 / D.cluster), bar, (1u << D.cluster) - 1);
        }
      }
    } else if (more) {
      if constexpr (BARRIERS) dev::barrier_wait(empty + 8 * l.stage, l.parity);
      const uint32_t a = base + l.stage * STAGE + a_to, b = base + l.stage * STAGE + A_BYTES + b_to;
#pragma unroll
      for (int i = 0; i < BM / ROWS_A; ++i)
        dev::copy16(a + i * ROWS_A * BK * 4, a_from + static_cast<size_t>(i * ROWS_A) * p.K);
      if constexpr (D.b == B::ldmatrix) {
#pragma unroll
        for (int i = 0; i < BN / ROWS_B; ++i)
          dev::copy16(b + i * ROWS_B * BK * 4, b_from + static_cast<size_t>(i * ROWS_B) * p.K);
        b_from += BK;
      } else {
        constexpr int PITCH = D.b == B::lds32 ? BN * 4 : 128;
#pragma unroll
        for (int i = 0; i < BK / ROWS_B; ++i) {
          const uint32_t flip = D.b == B::lds32 ? 0 : ((i * ROWS_B) & 7) << 4;
          dev::copy16((b ^ flip) + i * ROWS_B * PITCH, b_from + static_cast<size_t>(i * ROWS_B) * p.N);
        }
        b_from += static_cast<size_t>(BK) * p.N;
      }
      a_from += BK;
      if constexpr (BARRIERS) dev::arrive_after_copies(full + 8 * l.stage);
    } else if (D.producer) {
      return false;
    }
    if (more && ++l.k == list[l.segment].k_end && ++l.segment < segments) {
      l.k = list[l.segment].k_begin;
      if constexpr (!TMA) begin_segment(l.segment);
    }
    if constexpr (!BARRIERS) dev::commit();
    if (++l.stage == STAGES) l.stage = 0, l.parity ^= 1;
    (IN_MEMORY ? in_memory : in_registers) = l;
    return true;
  };

  if constexpr (D.producer) {
    if (warp >= WARPS) {
      if constexpr (!D.lone_warp) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(TMA ? 24 : 40));
      if (!TMA || (warp == WARPS && lane == 0)) {
        while (load_next()) {
        }
      }
      if constexpr (!TMA) dev::wait_copies<0>();
      if constexpr (D.cluster > 1) dev::cluster_sync();
      return;
    }
    if constexpr (!D.lone_warp) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(TMA ? 240 : 232));
  } else if constexpr (TMA) {
    if (thread == 0) {
      for (int i = 0; i < STAGES - D.slack; ++i) load_next();
    }
    __syncwarp();
  } else {
    for (int i = 0; i < STAGES - D.slack; ++i) load_next();
  }

  // ---- Fragments
  const int wm = warp / WARPS_N * D.WM, wn = warp % WARPS_N * D.WN, g = lane / 4, t = lane % 4;
  uint32_t x[F ? F : 1][I][4], y[F ? F : 1][F ? J : 4][2];  // operands with 16 rows and with 8 columns
  float acc[I][J][4];
  // Byte offsets in a stage of what this lane reads at k = 0.
  uint32_t x_at, y_at;
  {
    const int row16 = (lane & 15), hi16 = lane >> 4;                       // ldmatrix.x4 for 16 rows x 8 k
    const int row8 = (lane & 7) + (lane >> 4) * 8, hi8 = (lane >> 3) & 1;  // and for 2 x 8 columns x 8 k
    const uint32_t mat16 = row16 * BK * 4 + ((hi16 ^ swizzle_row(row16)) << 4);
    const uint32_t mat8 = row8 * BK * 4 + ((hi8 ^ swizzle_row(row8)) << 4);
    if constexpr (SWAP) {
      y_at = wm * BK * 4 + mat8;
      const int chunk = (g >> 2) + 4 * ((g >> 1) & 1);
      x_at = A_BYTES + wn / 32 * BK * 128 + t * 128 + ((chunk ^ (D.swizzle ? t : 0)) << 4) +
             (g & 1) * 8;  // k = t; second tile: chunk + 2
    } else {
      x_at = wm * BK * 4 + mat16;
      if constexpr (D.b == B::ldmatrix) y_at = A_BYTES + wn * BK * 4 + mat8;
      if constexpr (D.b == B::lds128) {
        const int chunk = (g >> 1) | ((g & 1) << 2);
        y_at = A_BYTES + wn / 32 * BK * 128 + t * 128 + ((chunk ^ t) << 4);
      }
      if constexpr (D.b == B::lds32) {  // column 8 j + g, chunk 2 j + g / 4: XOR 2 t reaches into j
        y_at = A_BYTES + t * BN * 4 + wn * 4 + (g >> 2) * 16 + (g & 3) * 4;
      }
      if constexpr (D.b == B::packed) {
        x_at = wm * BK * 4 + lane * 16;
        y_at = A_BYTES + wn * BK * 4 + lane * 16;
      }
    }
  }
  // B::transpose: one of the operands with 16 rows; two of those with 8 columns, into y[0][pair % 2 * 2 ...].
  auto load_x = [&](int f, uint32_t stage, int s, int i) {
    const uint32_t at = ((stage + x_at) ^ ((i & 1) << 5)) + i / 2 * BK * 128 + s * 1024;
    dev::lds64(x[f][i][0], x[f][i][1], at);
    dev::lds64(x[f][i][2], x[f][i][3], (at ^ (D.swizzle ? 64 : 0)) + 512);
  };
  [[maybe_unused]] auto load_pair = [&](uint32_t stage, int s, int pair) {
    uint32_t r[4];
    dev::ldmatrix4(r, ((stage + y_at) ^ (s << 5)) + pair * 16 * BK * 4);
    const int at = pair % 2 * 2;
    y[0][at][0] = r[0], y[0][at][1] = r[1], y[0][at + 1][0] = r[2], y[0][at + 1][1] = r[3];
  };
  auto load_fragments = [&](int f, uint32_t stage, int s) {
    if constexpr (SWAP) {
#pragma unroll
      for (int i = 0; i < I; ++i) load_x(f, stage, s, i);
    } else if constexpr (D.b == B::packed) {
#pragma unroll
      for (int i = 0; i < I; ++i)
        dev::lds128(x[f][i][0], x[f][i][1], x[f][i][2], x[f][i][3], stage + x_at + (i * S + s) * 512);
    } else {
      const uint32_t at = (stage + x_at) ^ (s << 5);
#pragma unroll
      for (int i = 0; i < I; ++i) dev::ldmatrix4(x[f][i], at + i * 16 * BK * 4);
    }
    if constexpr (SWAP || D.b == B::ldmatrix) {
      const uint32_t at = (stage + y_at) ^ (s << 5);
#pragma unroll
      for (int j = 0; j < J; j += 2) {
        uint32_t r[4];
        dev::ldmatrix4(r, at + j * 8 * BK * 4);
        y[f][j][0] = r[0], y[f][j][1] = r[1], y[f][j + 1][0] = r[2], y[f][j + 1][1] = r[3];
      }
    } else if constexpr (D.b == B::lds128) {  // XOR 64: k + 4
#pragma unroll
      for (int j = 0; j < J; j += 4) {
        const uint32_t at = stage + y_at + j / 4 * BK * 128 + s * 1024;
        dev::lds128(y[f][j][0], y[f][j + 1][0], y[f][j + 2][0], y[f][j + 3][0], at);
        dev::lds128(y[f][j][1], y[f][j + 1][1], y[f][j + 2][1], y[f][j + 3][1],
                    ((stage + y_at) ^ 64) + j / 4 * BK * 128 + s * 1024 + 512);
      }
    } else if constexpr (D.b == B::lds32) {
#pragma unroll
      for (int j = 0; j < J; ++j) {
        // XOR of chunk bits 1, 2 by t; j's low two bits stand there
        const uint32_t at = stage + ((y_at + (j >> 2) * 128) ^ (((j & 3) ^ t) << 5)) + s * 8 * BN * 4;
        dev::lds32(y[f][j][0], at);
        dev::lds32(y[f][j][1], at + 4 * BN * 4);
      }
    } else {
#pragma unroll
      for (int j = 0; j < J; j += 2)
        dev::lds128(y[f][j][0], y[f][j][1], y[f][j + 1][0], y[f][j + 1][1],
                    stage + y_at + (j / 2 * S + s) * 512);
    }
  };
  auto multiply = [&](int f) {
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) dev::round_tf32<D.round>(x[f][i][e]);
#pragma unroll
    for (int j = 0; j < J; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) dev::round_tf32<D.round>(y[f][j][e]);
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int jj = 0; jj < J; ++jj) {
        const int j = i % 2 ? J - 1 - jj : jj;
        dev::mma(acc[i][j], x[f][i], y[f][j]);
      }
  };

  // ---- The stream of slabs
  int stage = 0;
  unsigned parity = 0;
  uint32_t here = base;
  bool more = segments > 0;  // slabs to come
  auto arrived = [&] {
    if constexpr (BARRIERS) {
      dev::barrier_wait(full + 8 * stage, parity);
    } else {
      dev::wait_copies<STAGES - 2>();
      __syncthreads();
    }
  };
  auto advance = [&] {
    here += STAGE;
    if (++stage == STAGES) stage = 0, parity ^= 1, here = base;
  };
  if constexpr (F == 2) {
    if (more) arrived();
    load_fragments(0, here, 0);
  }
  if constexpr (F == 0) {
    static_assert(J % 4 == 0);
    if (more) arrived();
#pragma unroll
    for (int i = 0; i < I; ++i) load_x(0, here, 0, i);
    load_pair(here, 0, 0);
  }
  for (int segment = 0; segment < segments; ++segment) {
    const int k_end = list[segment].k_end;
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < J; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[i][j][e] = 0;
#pragma unroll 1
    for (int k = list[segment].k_begin; k < k_end; ++k) {
      more = k + 1 < k_end || segment + 1 < segments;
      if constexpr (F == 1) arrived();
      const uint32_t release = empty + 8 * stage;
      if constexpr (F == 0) {
        // Rolling: pairs of columns one ahead; a fragment of x is overwritten by the next step's after its
        // last use.
#pragma unroll
        for (int s = 0; s < S; ++s) {
          if constexpr (D.producer) {
          } else if constexpr (!TMA) {
            if (s == (BARRIERS ? S / 2 : 0)) load_next();
          } else {
            if (s == S / 2) {
              if (thread == 0) load_next();
              __syncwarp();
            }
          }
#pragma unroll
          for (int pair = 0; pair < J / 2; ++pair) {
            const bool last = pair == J / 2 - 1;
            if (last && s == S - 1) {
              advance();
              if (more) arrived();
            }
            if (!last)
              load_pair(here, s, pair + 1);
            else
              load_pair(here, (s + 1) % S, 0);
#pragma unroll
            for (int i = 0; i < I; ++i) {
              dev::mma(acc[i][2 * pair], x[0][i], y[0][pair % 2 * 2]);
              dev::mma(acc[i][2 * pair + 1], x[0][i], y[0][pair % 2 * 2 + 1]);
              if (last) load_x(0, here, (s + 1) % S, i);
            }
          }
        }
      } else {
#pragma unroll
        for (int s = 0; s < S; ++s) {
          if constexpr (F == 2) {
            if (s < S - 1) {
              load_fragments((s + 1) & 1, here, s + 1);
            } else {
              advance();
              if (more) arrived();
              load_fragments(0, here, 0);
            }
          } else {
            load_fragments(0, here, s);
          }
          if constexpr (D.producer) {
          } else if constexpr (!TMA) {
            if (s == (BARRIERS ? S / 2 : 0)) load_next();
          } else {
            if (s == S / 2) {
              if (thread == 0) load_next();
              __syncwarp();
            }
          }
          multiply(F == 2 ? s & 1 : 0);
        }
      }
      if constexpr (F == 1) advance();
      if constexpr (BARRIERS) {
        if constexpr (D.cluster == 1) {
          if (lane == 0) dev::barrier_arrive(release);
        } else {
          if (lane < D.cluster) dev::barrier_arrive_at(release, lane);
        }
      }
    }
    // ---- What becomes of the sums
    const Segment now = list[segment];
    if constexpr (D.blocks == Blocks::stream_k) {
      constexpr int QUADS = I * J;
      if (now.kind == 1) {
        float4* to = p.partial + (static_cast<size_t>(blockIdx.x) * WARPS + warp) * QUADS * 32 + lane;
#pragma unroll
        for (int i = 0; i < I; ++i)
#pragma unroll
          for (int j = 0; j < J; ++j)
            to[(i * J + j) * 32] = make_float4(acc[i][j][0], acc[i][j][1], acc[i][j][2], acc[i][j][3]);
        __threadfence();
        __syncwarp();
        if (lane == 0)
          asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p.ready + blockIdx.x * WARPS + warp),
                       "r"(p.launch)
                       : "memory");
        continue;
      }
      if (now.kind == 2) {
        const int from = (blockIdx.x - 1) * WARPS + warp;
        unsigned seen;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(p.ready + from) : "memory");
        while (seen != p.launch);
        const float4* parts = p.partial + static_cast<size_t>(from) * QUADS * 32 + lane;
#pragma unroll
        for (int i = 0; i < I; ++i)
#pragma unroll
          for (int j = 0; j < J; ++j) {
            const float4 v = __ldcg(parts + (i * J + j) * 32);
            acc[i][j][0] += v.x, acc[i][j][1] += v.y, acc[i][j][2] += v.z, acc[i][j][3] += v.w;
          }
      }
    }
    const bool old = p.beta != 0;
    auto store2 = [&](float* at, float a, float b) {
      float2 v = make_float2(p.alpha * a, p.alpha * b);
      if (old) {
        const float2 c = *reinterpret_cast<const float2*>(at);
        v.x += p.beta * c.x, v.y += p.beta * c.y;
      }
      *reinterpret_cast<float2*>(at) = v;
    };
    auto store4 = [&](float* at, float a, float b, float c, float d) {
      float4 v = make_float4(p.alpha * a, p.alpha * b, p.alpha * c, p.alpha * d);
      if (old) {
        const float4 o = *reinterpret_cast<const float4*>(at);
        v.x += p.beta * o.x, v.y += p.beta * o.y, v.z += p.beta * o.z, v.w += p.beta * o.w;
      }
      *reinterpret_cast<float4*>(at) = v;
    };
    constexpr bool EDGE_M = (BM & (BM - 1)) != 0,
                   EDGE_N = (BN & (BN - 1)) != 0;  // the tile does not divide 256
    const int row0 = now.row + wm, col0 = now.col + wn;
    if constexpr (SWAP) {
      const int lane_col = 4 * ((g >> 2) + 4 * ((g >> 1) & 1)) + 2 * (g & 1);
#pragma unroll
      for (int j = 0; j < J; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = row0 + 8 * j + 2 * t + e;
          if (EDGE_M && row >= p.M) continue;
          float* line = p.C + static_cast<size_t>(row) * p.N + col0;
#pragma unroll
          for (int i = 0; i < I; ++i) {
            if (EDGE_N && col0 + i / 2 * 32 >= p.N) continue;
            store2(line + i / 2 * 32 + 8 * (i & 1) + lane_col, acc[i][j][e], acc[i][j][2 + e]);
          }
        }
    } else {
#pragma unroll
      for (int i = 0; i < I; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = row0 + 16 * i + 8 * h + g;
          if (EDGE_M && row >= p.M) continue;
          float* line = p.C + static_cast<size_t>(row) * p.N + col0;
          if constexpr (D.b == B::lds128) {
#pragma unroll
            for (int j = 0; j < J; j += 4) {
              if (EDGE_N && col0 + 8 * j >= p.N) continue;
#pragma unroll
              for (int e = 0; e < 2; ++e)
                store4(line + 8 * j + 4 * t + 16 * e, acc[i][j][2 * h + e], acc[i][j + 1][2 * h + e],
                       acc[i][j + 2][2 * h + e], acc[i][j + 3][2 * h + e]);
            }
          } else {
#pragma unroll
            for (int j = 0; j < J; ++j) {
              if (EDGE_N && col0 + 8 * j >= p.N) continue;
              store2(line + 8 * j + 2 * t, acc[i][j][2 * h], acc[i][j][2 * h + 1]);
            }
          }
        }
    }
  }
  if constexpr (!TMA && !D.producer) dev::wait_copies<0>();
  if constexpr (D.cluster > 1) dev::cluster_sync();  // nobody may arrive at a block that has ended
  if (p.clock && blockIdx.x == 0 && thread == 0) {
    p.clock[0] = clock64() - cycles;
    p.clock[1] = dev::nanoseconds() - nanoseconds;
  }
}
