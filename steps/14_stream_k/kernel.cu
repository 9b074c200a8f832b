// Step 14: as many blocks as multiprocessors, which share out all terms of all tiles evenly (stream-K).
//
// Idea      512 tiles on 132 SMs are 3.9 waves, and take the time of 4. Cut into parts along K, the tiles of
//           the last waves can be shared out evenly: then all SMs end at the same time.
// Change    A block stays for the whole launch and computes whole tiles, and then its share of the last
//           ones. Who ends a tile that another block has begun adds that block's sums to its own. Copying
//           runs ahead from one piece of work into the next.
// Bound     The FFMAs: of all instructions a seventeenth are others, three quarters of these shared loads.
// Needs     sm_90+: mbarriers, tensor copies

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/grid_flag.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 256, BK = 64;  // the block's tile: BM x BN of C, BK terms (a slab) at a time
constexpr int TM = 8, TN = 16;              // the thread's tile: TM x TN of C
constexpr int LM = 2, LN = 16;              // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;   // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;            // warps across the block's tile
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

// What the blocks hand over: the sums of tiles that they begin and others end.
struct HandOver {
  float* sums;      // [block][TM][TN][THREADS]
  unsigned* ready;  // [block], flags
};

// How the tiles of C, `slabs` slabs each, are shared out. In all waves but the last two a block computes
// whole tiles. The tiles that are left are cut into one share of slabs for each block, of one to two tiles,
// or less than one if there are so few: block after block, and within a tile from its first term on.
struct Schedule {
  int tiles_m, tiles_n, tiles, slabs, whole;

  __device__ explicit Schedule(const Gemm& g)
      : tiles_m(ceil_div(g.M, BM)),
        tiles_n(ceil_div(g.N, BN)),
        tiles(tiles_m * tiles_n * g.batch),
        slabs(max(ceil_div(g.K, BK), 1)) {
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

// The block's n-th piece. Of its share it does the last one first, which another block waits for.
__device__ __forceinline__ bool find_work(const Schedule& s, int n, Work& work) {
  const int blocks = gridDim.x, block = blockIdx.x;
  if (n < s.whole / blocks) {
    work.tile = n * blocks + block, work.first = 0, work.last = s.slabs;
  } else {
    const int begin = s.share(block), end = s.share(block + 1);
    const int tile = (end - 1) / s.slabs - (n - s.whole / blocks);
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

// map_a: of A transposed, boxes BK x BM. map_b: of B, boxes BK x BN.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    sgemm_stream_k(Gemm g, HandOver hand_over, const __grid_constant__ TensorMap map_a,
                   const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();

  const Schedule schedule(g);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / WARPS_N * WM + lane / LN * 4;  // the thread's rows: m + spread(i, LM * 4)
  const int n = warp % WARPS_N * WN + lane % LN * 4;  // its columns: n + spread(j, LN * 4)

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&full[stage], 1);
    mbarrier_fence_init();
  }
  __syncthreads();

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

  __align__(16) float a[2][TM], b[2][TN];  // fragments for this k and for the next
  const auto load_fragments = [&](int set, float* a_from, float* b_from, int k) {
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = load4_now(a_from + k * BM + spread(i, LM * 4));
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = load4_now(b_from + k * BN + spread(j, LN * 4));
  };

  if (threadIdx.x == 0) copy_slab();
  mbarrier_wait(&full[0], 0);
  float *a_here = &As[0][m], *b_here = &Bs[0][n];  // the thread's fragments for the next pass
  load_fragments(0, a_here, b_here, 0);
  int slabs = 0;  // so far, of all pieces of work
  Work work;
  for (int piece = 0; find_work(schedule, piece, work); ++piece) {
    float sums[TM][TN] = {};
    int slabs_left = work.last - work.first;
    do {
      __syncthreads();  // nobody needs the other stage any more
      if (threadIdx.x == 0) copy_slab();
      ++slabs;
      const int stage = slabs % STAGES, parity = slabs / STAGES % 2;       // of the next slab
      const bool ends_k = slabs_left == 1 && work.last == schedule.slabs;  // where a slab may be cut short
      int passes = ends_k ? ceil_div(max(g.K, 1) - (schedule.slabs - 1) * BK, UNROLL) : BK / UNROLL;
#pragma unroll 1
      do {
        const bool last = passes == 1;
        float* a_next = last ? &As[stage * BK][m] : a_here + UNROLL * BM;
        float* b_next = last ? &Bs[stage * BK][n] : b_here + UNROLL * BN;
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
          if (k + 1 < UNROLL) {
            load_fragments((k + 1) % 2, a_here, b_here, k + 1);
          } else {
            if (last) mbarrier_wait(&full[stage], parity);
            load_fragments(0, a_next, b_next, 0);
          }
          // Down one column of the thread's tile, up the next: consecutive FFMAs always share an operand, and
          // a shared operand is not read from the registers again.
          for (int j = 0; j < TN; ++j) {
            for (int i = 0; i < TM; ++i) {
              const int row = j % 2 == 0 ? i : TM - 1 - i;
              sums[row][j] += a[k % 2][row] * b[k % 2][j];
            }
          }
        }
        a_here = a_next, b_here = b_next;
      } while (--passes);
    } while (--slabs_left);

    float* C = g.C + work.matrix * g.strideC;  // [M][N]
    // Never so, as in step 12: asks for registers.
    if (g.batch < 0) {
#pragma unroll
      for (int j = 0; j < TN; ++j) {
#pragma unroll
        for (int i = 0; i < TM; i += 4) {
          float4_at(&C[(j * TM + i) * THREADS + threadIdx.x * 4]) =
              make_float4(sums[i + 1][j], sums[i][j], sums[i + 3][j], sums[i + 2][j]);
        }
      }
    }

    if (work.last < schedule.slabs) {  // another block ends the tile
      float* mine = hand_over.sums + static_cast<std::int64_t>(blockIdx.x) * (BM * BN) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) __stcg(&mine[(i * TN + j) * THREADS], sums[i][j]);
      }
      __syncthreads();
      if (threadIdx.x == 0) flag_set(&hand_over.ready[blockIdx.x]);
      continue;
    }
    if (work.first > 0) {  // others have begun it: the blocks before this one
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

    const int rows = g.M - work.row0, cols = g.N - work.col0;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);  // within the block's tile
        update4<ALIGNED>(&C[(work.row0 + row) * g.ldc + work.col0 + col], row < rows ? cols - col : 0,
                         &sums[i][j], g.alpha, g.beta);
      }
    }
  }
}

void sgemm(const Gemm& g) {
  static Workspace<float> a_workspace("transposed A"), b_workspace("aligned B"), sums("sums handed over");
  static Workspace<unsigned> ready("ready", Fill::zero);
  if (g.M == 0 || g.N == 0) return;
  const TensorMap map_a = transposed_a(g, a_workspace).map(g.batch, BK, BM);
  const TensorMap map_b = aligned_b(g, b_workspace).map(g.batch, BK, BN);
  constexpr int MAX_PARTS = 4;  // of a tile, if there are few
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  const int slabs = max(ceil_div(g.K, BK), 1);
  const int blocks = min(multiprocessors(), min(slabs, MAX_PARTS) * min(tiles, multiprocessors()));
  const HandOver hand_over{sums.at_least(static_cast<std::size_t>(blocks) * BM * BN), ready.at_least(blocks)};
  launch(is_aligned(g) ? sgemm_stream_k<true> : sgemm_stream_k<false>, dim3(blocks), dim3(THREADS),
         sizeof(Tiles), g, hand_over, map_a, map_b);
}

}  // namespace
