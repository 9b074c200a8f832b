// Data races on shared memory: two threads touch one word, one of them writes, and no barrier stands
// between. What is remembered of each word is enough to find every race, in whatever order the fibers run.

#include "common/cpu_device/internal.hpp"

namespace cpu_device {

SharedShadow::SharedShadow(std::size_t words, unsigned warps) : words_(words), warp_epoch_(warps, 1) {}

void SharedShadow::new_block() { first_epoch_ = ++epoch_; }

// Whether a barrier, of the block or of the warp that both belong to, lies between `earlier` and now.
bool SharedShadow::ordered(const Event& earlier, unsigned thread) const {
  if (earlier.epoch < epoch_ || earlier.thread == thread) return true;
  const unsigned warp = thread / warpSize;
  return earlier.thread / warpSize == warp && earlier.warp_epoch < warp_epoch_[warp];
}

void SharedShadow::conflict(const Event& earlier, bool earlier_wrote, unsigned thread, bool write,
                            const void* pc, std::size_t offset) const {
  if (reported_before(FaultKind::race_shared, pc)) return;
  report(FaultKind::race_shared, pc,
         std::string(write ? "writes " : "reads ") + describe_shared(offset) + ", which " +
             thread_name(*current_worker, earlier.thread) + (earlier_wrote ? " wrote at " : " read at ") +
             place_of(earlier.pc) + "; no barrier stands between",
         *current_worker, thread);
}

void SharedShadow::access(std::size_t index, unsigned thread, bool write, const void* pc,
                          std::size_t offset) {
  Word& word = words_[index];
  const unsigned warp = thread / warpSize;
  const Event now{epoch_, warp_epoch_[warp], thread, pc};

  if (word.pending_in == first_epoch_) {
    if (reported_before(FaultKind::async_not_arrived, pc)) return;
    report(FaultKind::async_not_arrived, pc,
           std::string(write ? "writes " : "reads ") + describe_shared(offset) +
               ", to which the asynchronous copy started at " + place_of(word.write.pc) + " by " +
               thread_name(*current_worker, word.write.thread) + " has not been waited for",
           *current_worker, thread);
    return;
  }
  if (word.write.epoch >= first_epoch_) {
    if (!ordered(word.write, thread)) conflict(word.write, true, thread, write, pc, offset);
  } else if (!write && !reported_before(FaultKind::uninitialised_shared, pc)) {
    report(FaultKind::uninitialised_shared, pc,
           "reads " + describe_shared(offset) + ", which no thread of this block has written",
           *current_worker, thread);
  }

  if (write) {
    for (const Event* earlier : {&word.reader, &word.reader_same_warp, &word.reader_other_warp}) {
      if (earlier->epoch >= first_epoch_ && !ordered(*earlier, thread)) {
        conflict(*earlier, false, thread, write, pc, offset);
        break;
      }
    }
    word.write = now;
    return;
  }
  // Three readers stand for all: a later writer either is in the warp of the latest reader, and then that
  // one, the latest other lane and the latest other warp decide; or is not, and the latest decides.
  if (word.reader.epoch == 0 || word.reader.thread / warpSize != warp) {
    word.reader_other_warp = word.reader;
    word.reader_same_warp = Event{};
  } else if (word.reader.thread != thread) {
    word.reader_same_warp = word.reader;
  }
  word.reader = now;
}

}  // namespace cpu_device
