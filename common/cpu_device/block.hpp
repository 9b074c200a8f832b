#pragma once

// A block: its threads, what they wait for, the asynchronous work that they have asked for, and its shared
// memory.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/cpu_device/async_engine.hpp"
#include "common/cpu_device/bulk_stores.hpp"
#include "common/cpu_device/clocks.hpp"
#include "common/cpu_device/cluster_memory.hpp"
#include "common/cpu_device/grid_order.hpp"
#include "common/cpu_device/launch.hpp"
#include "common/cpu_device/matrix_unit.hpp"
#include "common/cpu_device/race.hpp"
#include "common/cpu_device/registers.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/sync.hpp"
#include "common/cpu_device/thread.hpp"
#include "common/cpu_device/tile_layout.hpp"
#include "common/cpu_device/watchdog.hpp"

namespace cpu_device {

struct Cluster;
struct TensorMap;  // see tensor_copy.hpp

// The box that a tensor map's copy is about to fill, for reports.
struct BoxPlace {
  const TensorMap* map;
  int row, col, matrix;
  std::string text() const;  // "the box of 64 x 32 at row 128, column 256 of A"
};

// What becomes of an access to memory.
enum class Watch : std::uint8_t { unchecked, checked, overdue };  // overdue: it ends the launch

struct Block {
  // Of a launch that is not checked: `clocks` and `grid_order` are nullptr.
  Block(Launch& launch, Cluster& cluster, unsigned rank, Clocks* clocks, GridOrder* grid_order);
  // A block of a later cluster takes this one's place.
  void begin(std::uint64_t number);

  bool has_exited(unsigned thread) const { return (exited[thread / 32] >> thread % 32 & 1) != 0; }
  // The thread's number in race detection, where the threads of a cluster count as those of one block.
  unsigned actor(unsigned thread) const { return first_actor + thread; }

  Launch& launch;
  Cluster& cluster;
  volatile Watch watch;
  const unsigned rank;  // in its cluster
  const unsigned first_actor;
  std::uint64_t number = 0;      // linear, x fastest
  bool lets_next_begin = false;  // has let the next launch begin; checked launches only
  dim3 index;

  std::vector<Thread> threads;
  std::vector<AsyncCopies> async_copies;  // of the threads
  BulkStoresOfBlock bulk_stores;
  TileLayout tile_layout;              // checked launches only
  MatrixUnits matrix_units;            // of the warpgroups that have used theirs
  bool has_matrix_units = false;       // any of them
  unsigned current = 0;                // the running thread
  unsigned alive = 0;                  // threads that have not left the kernel
  const char* stack_bottom = nullptr;  // of the running thread
  const char* stack_top = nullptr;
  const BoxPlace* box = nullptr;  // that the running thread asks for; faults name it
  // Of the threads, where the functions that each is in were called, outermost first; checked launches only.
  // Functions that the compiler has inlined are not among them.
  std::vector<std::vector<const void*>> calls;

  // For each warp; bit i is lane i.
  std::vector<std::uint32_t> ready;       // can run, before the next warp does
  std::vector<std::uint32_t> ready_next;  // can run when all warps have had their turn
  std::vector<std::uint32_t> exited;      // or never existed
  std::vector<std::uint32_t> passed;  // not bits: barriers that all of the warp's lanes have passed together

  // Of each warp: where its lanes have met others, a bit for each place (two may share one); and whether any
  // of that depends on who comes first. Barriers of the block, and operations of a warp, do not. Checked
  // launches only.
  std::vector<std::uint64_t> places;
  bool turns_matter = false;
  std::uint32_t turns = 0;  // a bit for each warp of which that is so
  // The running thread meets others here, or lets them know that it has been here.
  void note_place(const void* pc) {
    if (!places.empty()) {
      const std::uint64_t hash = reinterpret_cast<std::uintptr_t>(pc) * 0x9e3779b97f4a7c15u;
      places[current / 32] |= std::uint64_t{1} << (hash >> 58);
    }
  }
  void note_turn(const void* pc) {
    note_place(pc);
    turns |= std::uint32_t{1} << current / 32;
    turns_matter = true;
  }

  SyncObjects sync;
  Spin spin;
  std::unique_ptr<Registers> registers;  // as soon as a warp changes the number of its registers
  AsyncEngine engine;
  SharedMemory shared;
  Visits visits;  // checked launches only

  // Checked launches only.
  Clocks* const clocks;  // of the cluster
  GridOrder* const grid_order;
  std::unique_ptr<SharedShadow> shadow;
};

// The block whose thread is running; nullptr outside a launch. constinit saves every use a check whether it
// has been initialised.
extern constinit thread_local Block* current_block;

// Its threads, or its asynchronous work, are what runs next.
void make_current(Block& block);
// Suspends the running thread, whose `wait` says what for, until it is woken, which may have happened
// already.
void wait_for_wake();
// Makes a waiting thread ready to run: at once, or when all warps have had their turn. The former is for
// lanes of a warp that wait for each other.
void wake(Block& block, unsigned thread, bool at_once);
// Ends the running CUDA thread, and with it the launch, after a fault that it cannot survive.
[[noreturn]] void stop_launch();

}  // namespace cpu_device
