#pragma once

// Step 14's kernel, with three additions: the tile may also be 256 x 128, the host says how many blocks
// share out the work, and the launch begins while the one before is still packing A or B.

#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/grid_flag.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {
namespace large_tiles {

// The block's tile: BM x BN, BK terms (a slab) at a time; of C, or, if SWAPPED, of C transposed, which is B
// transposed times A transposed. The kernel reads A transposed and B in either case: only the stores differ.
constexpr int BM = 128, BN = 256, BK = 64;
constexpr int TM = 8, TN = 16;             // the thread's tile: TM x TN of C
constexpr int LM = 2, LN = 16;             // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;  // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;           // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0);
constexpr int STAGES = 2;  // buffers for the tiles
constexpr int UNROLL = 8;  // terms in a pass of the innermost loop
static_assert(BK % UNROLL == 0);
constexpr int BAND = 4;  // rows of tiles processed together, column by column

struct alignas(128) Tiles {
  float A[STAGES * BK][BM];    // [k][row]: one stage behind the other
  float B[STAGES * BK][BN];    // [k][col]
  std::uint64_t full[STAGES];  // mbarriers: the tiles of the stage have arrived
};

// What the blocks hand over: the sums of tiles that they begin and others finish.
struct HandOver {
  float* sums;      // [block][TM][TN][THREADS]
  unsigned* ready;  // [block], flags
};

// How the tiles of C, `slabs` slabs each, are shared out. In all waves but the last two a block computes
// whole tiles. The remaining tiles, if any, are cut into one share of slabs per block, of one to two tiles,
// or less if there are so few: in the order of the blocks, and within a tile from its first term on.
struct Schedule {
  int tiles_m, tiles_n, tiles, slabs, whole;

  // Of a product of M x N, transposed already if SWAPPED.
  __device__ Schedule(int M, int N, int K, int batch)
      : tiles_m(ceil_div(M, BM)),
        tiles_n(ceil_div(N, BN)),
        tiles(tiles_m * tiles_n * batch),
        slabs(max(ceil_div(K, BK), 1)) {
    const int blocks = gridDim.x, waves = tiles / blocks;
    whole = tiles % blocks == 0 ? tiles : max(waves - 1, 0) * blocks;
  }
  // The first slab of a block's share, counted from the first tile that is cut.
  __device__ int share(int block) const {
    const int cut = (tiles - whole) * slabs, blocks = gridDim.x;
    return cut / blocks * block + min(cut % blocks, block);
  }
};

// A piece of work: slabs [first, last) of a tile of C.
struct Work {
  int matrix, row0, col0, tile, first, last;
};

// The block's work number `piece`. Of its share it does the last tile first: another block waits for it.
__device__ __forceinline__ bool find_work(const Schedule& s, int piece, Work& work) {
  const int blocks = gridDim.x, block = blockIdx.x;
  if (piece < s.whole / blocks) {
    work.tile = piece * blocks + block, work.first = 0, work.last = s.slabs;
  } else {
    const int begin = s.share(block), end = s.share(block + 1);
    const int tile = (end - 1) / s.slabs - (piece - s.whole / blocks);
    if (tile < 0 || begin == end || (tile + 1) * s.slabs <= begin) return false;
    work.tile = s.whole + tile;
    work.first = max(begin - tile * s.slabs, 0), work.last = min(end - tile * s.slabs, s.slabs);
  }
  const int in_matrix = work.tile % (s.tiles_m * s.tiles_n);
  work.matrix = work.tile / (s.tiles_m * s.tiles_n);
  const int band = in_matrix / (BAND * s.tiles_n), in_band = in_matrix % (BAND * s.tiles_n);
  const int rows = min(BAND, s.tiles_m - band * BAND);
  work.row0 = (band * BAND + in_band % rows) * BM, work.col0 = in_band / rows * BN;
  return true;
}

// Where in the tiles a thread finds its fragments, from some term on.
struct Source {
  float *a, *b;
};

// A thread's fragments for this k and for the next.
struct Fragments {
  __align__(16) float a[2][TM], b[2][TN];

  __device__ __forceinline__ void load(int set, const Source& from, int k) {
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = load4_now(from.a + k * BM + spread(i, LM * 4));
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = load4_now(from.b + k * BN + spread(j, LN * 4));
  }
};

// Multiplies a slab, `passes` times UNROLL terms, from `here` on. The last pass waits for the next slab,
// which is phase `parity` of `full`, loads its first fragments, and leaves its source in `here`.
__device__ __forceinline__ void multiply_slab(float (&sums)[TM][TN], Fragments& fragments, Source& here,
                                              int passes, const Source& next_slab, std::uint64_t* full,
                                              int parity) {
#pragma unroll 1
  do {
    const bool last = passes == 1;
    const Source next = last ? next_slab : Source{here.a + UNROLL * BM, here.b + UNROLL * BN};
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      if (k + 1 < UNROLL) {
        fragments.load((k + 1) % 2, here, k + 1);
      } else {
        if (last) mbarrier_wait(full, parity);
        fragments.load(0, next, 0);
      }
      // Down one column of the thread's tile, up the next: consecutive FFMAs always share an operand, and a
      // shared operand is not read from the registers again.
      for (int j = 0; j < TN; ++j) {
        for (int i = 0; i < TM; ++i) {
          const int row = j % 2 == 0 ? i : TM - 1 - i;
          sums[row][j] += fragments.a[k % 2][row] * fragments.b[k % 2][j];
        }
      }
    }
    here = next;
  } while (--passes);
}

// Leaves the block's sums to the block that finishes the tile.
__device__ __forceinline__ void hand_over_sums(const HandOver& hand_over, const float (&sums)[TM][TN]) {
  float* mine = hand_over.sums + static_cast<std::int64_t>(blockIdx.x) * (BM * BN) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; ++j) __stcg(&mine[(i * TN + j) * THREADS], sums[i][j]);
  }
  __syncthreads();
  if (threadIdx.x == 0) flag_set(&hand_over.ready[blockIdx.x]);
}

// Adds the sums of the blocks that have begun the tile: those before this one whose shares reach into it.
__device__ __forceinline__ void add_sums_of_others(const HandOver& hand_over, const Schedule& schedule,
                                                   const Work& work, float (&sums)[TM][TN]) {
  const int tile_begin = (work.tile - schedule.whole) * schedule.slabs;
  for (int other = blockIdx.x - 1; other >= 0 && schedule.share(other + 1) > tile_begin; --other) {
    if (threadIdx.x == 0) flag_wait_and_clear(&hand_over.ready[other]);
    __syncthreads();
    const float* theirs = hand_over.sums + static_cast<std::int64_t>(other) * (BM * BN) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; ++j) sums[i][j] += __ldcg(&theirs[(i * TN + j) * THREADS]);
    }
  }
}

// C = alpha * sums + beta * C for the thread's elements of the tile, of rows m and columns n on. SWAPPED: the
// rows are columns of C.
template <bool SWAPPED, bool ALIGNED>
__device__ __forceinline__ void store(const Gemm& g, const Work& work, int m, int n,
                                      const float (&sums)[TM][TN]) {
  float* C = g.C + work.matrix * g.strideC;  // [M][N]
  const int rows = (SWAPPED ? g.N : g.M) - work.row0, cols = (SWAPPED ? g.M : g.N) - work.col0;
  if constexpr (SWAPPED) {
#pragma unroll
    for (int j = 0; j < TN; ++j) {
#pragma unroll
      for (int i = 0; i < TM; i += 4) {
        const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);  // within the block's tile
        const float four[4] = {sums[i][j], sums[i + 1][j], sums[i + 2][j], sums[i + 3][j]};
        update4<ALIGNED>(&C[(work.col0 + col) * g.ldc + work.row0 + row], col < cols ? rows - row : 0, four,
                         g.alpha, g.beta);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);
        update4<ALIGNED>(&C[(work.row0 + row) * g.ldc + work.col0 + col], row < rows ? cols - col : 0,
                         &sums[i][j], g.alpha, g.beta);
      }
    }
  }
}

// map_a: of A transposed, boxes BK x BM; map_b: of B, boxes BK x BN. If SWAPPED the other way round.
template <bool SWAPPED, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    sgemm_large_tiles(Gemm g, HandOver hand_over, const __grid_constant__ TensorMap map_a,
                      const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();

  const int M = SWAPPED ? g.N : g.M, N = SWAPPED ? g.M : g.N;
  const Schedule schedule(M, N, g.K, g.batch);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / WARPS_N * WM + lane / LN * 4;  // the thread's rows: m + spread(i, LM * 4)
  const int n = warp % WARPS_N * WN + lane % LN * 4;  // its columns: n + spread(j, LN * 4)

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&full[stage], 1);
    mbarrier_fence_init();
  }
  __syncthreads();
  wait_for_previous_launch();  // A and B are packed

  // Copying runs one slab ahead of computing, from one piece of work into the next. Past the last piece it
  // repeats the last slab, which nobody reads.
  Work copied{};
  int copied_pieces = 0, slab = 0, stage_to_fill = 0;
  const auto copy_slab = [&] {
    if (copied_pieces == 0 || slab == copied.last) {
      if (find_work(schedule, copied_pieces, copied))
        ++copied_pieces, slab = copied.first;
      else
        slab = copied.last - 1;
    }
    std::uint64_t* barrier = &full[stage_to_fill];
    mbarrier_arrive_expect_tx(barrier, sizeof(float) * BK * (BM + BN));
    tensor_copy(As[stage_to_fill * BK], map_a, copied.row0, slab * BK, copied.matrix, barrier);
    tensor_copy(Bs[stage_to_fill * BK], map_b, copied.col0, slab * BK, copied.matrix, barrier);
    ++slab, stage_to_fill ^= 1;
  };

  if (threadIdx.x == 0) copy_slab();
  mbarrier_wait(&full[0], 0);
  const auto source = [&](int stage) { return Source{&As[stage * BK][m], &Bs[stage * BK][n]}; };
  Source here = source(0);
  Fragments fragments;
  fragments.load(0, here, 0);
  int slabs_done = 0;  // of all pieces of work
  Work work;
  for (int piece = 0; find_work(schedule, piece, work); ++piece) {
    float sums[TM][TN] = {};
    int slabs_left = work.last - work.first;
    do {
      __syncthreads();  // nobody needs the other stage any more
      if (threadIdx.x == 0) copy_slab();
      ++slabs_done;
      const int stage = slabs_done % STAGES, parity = slabs_done / STAGES % 2;  // of the next slab
      const bool ends_k = slabs_left == 1 && work.last == schedule.slabs;  // where a slab may be cut short
      const int passes = ends_k ? ceil_div(max(g.K, 1) - (schedule.slabs - 1) * BK, UNROLL) : BK / UNROLL;
      multiply_slab(sums, fragments, here, passes, source(stage), &full[stage], parity);
    } while (--slabs_left);
    if (g.batch < 0) {  // never runs: asks for registers, as in step 14
#pragma unroll
      for (int j = 0; j < TN; ++j) request_registers<1, 0, 3, 2>(g.C, sums, j, THREADS);
    }

    if (work.last < schedule.slabs) {  // another block finishes the tile
      hand_over_sums(hand_over, sums);
    } else {
      if (work.first > 0) add_sums_of_others(hand_over, schedule, work, sums);
      store<SWAPPED, ALIGNED>(g, work, m, n, sums);
    }
  }
}

// `parts`: how many parts a tile may be cut into at most, if there are fewer tiles than multiprocessors.
template <bool SWAPPED>
void run(const Gemm& g, int parts) {
  static Workspace<float> a_workspace("transposed A"), b_workspace("aligned B"), sums("sums handed over");
  static Workspace<unsigned> ready("ready", Fill::zero);
  const Matrices a = transposed_a(g, a_workspace), b = aligned_b(g, b_workspace);
  const Matrices &down = SWAPPED ? b : a, &across = SWAPPED ? a : b;
  const int tiles = ceil_div(SWAPPED ? g.N : g.M, BM) * ceil_div(SWAPPED ? g.M : g.N, BN) * g.batch;
  const int slabs = max(ceil_div(g.K, BK), 1);
  const int blocks = min(multiprocessors(), min(slabs, parts) * min(tiles, multiprocessors()));
  const HandOver hand_over{sums.at_least(static_cast<std::size_t>(blocks) * BM * BN), ready.at_least(blocks)};
  const LaunchConfig config{dim3(blocks), dim3(THREADS), sizeof(Tiles), {1, 1, 1}, true};
  launch(is_aligned(g) ? sgemm_large_tiles<SWAPPED, true> : sgemm_large_tiles<SWAPPED, false>, config, g,
         hand_over, down.map(g.batch, BK, BM), across.map(g.batch, BK, BN));
}

}  // namespace large_tiles
}  // namespace
