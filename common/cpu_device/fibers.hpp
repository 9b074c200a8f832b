#pragma once

// Fibers, which are a block's threads, and their stacks.

#include <cstddef>
#include <memory>
#include <vector>

namespace cpu_device {

struct Block;

// Each stack has a guard page below. The mappings are kept from launch to launch, as making them costs more
// than a small launch.
class Stacks {
 public:
  Stacks();
  Stacks(const Stacks&) = delete;
  ~Stacks();

  void reset();  // all of them are free
  int take();
  void give_back(int stack) { free_.push_back(stack); }
  char* top(int stack) const;
  static constexpr std::size_t bytes = 64 * 1024;  // of each

 private:
  void add_mapping();
  const std::size_t page_, pitch_;
  std::vector<char*> mappings_;
  std::vector<int> free_;
  int guarded_ = 0;
};

// Stacks that no other OS thread uses, and back.
std::unique_ptr<Stacks> take_stacks();
void keep_stacks(std::unique_ptr<Stacks> stacks);

// Runs the lanes of a warp of the running block until each of them has exited or waits for other warps, or
// the cluster has stopped.
void run_warp(Block& block, Stacks& stacks, unsigned warp);

}  // namespace cpu_device
