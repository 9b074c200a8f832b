#pragma once

// Where in the source a thread waits: at a call, inside the calls around it. Two calls of one function that
// has a barrier in it are two places, although the barrier's line is one. A call that the compiler has
// duplicated, as in an unrolled loop, is one place, although its return addresses are many.

#include <string>

namespace cpu_device {

struct Block;

// Whether two threads of a block, both of which wait, do so at the same place. The lines always tell; calls
// around them only in checked launches, as that takes debug information.
bool same_place(const Block& block, unsigned a, unsigned b);
// The same for two calls by lanes that may have gone on; knows only of inlined calls around them.
bool same_place(const void* pc_a, int line_a, const void* pc_b, int line_b);

// Where a thread waits: "file:line, called at file:line".
std::string place_with_calls(const Block& block, unsigned thread);

}  // namespace cpu_device
