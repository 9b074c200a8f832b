#pragma once

// Operations of whole warps for sync_kernels_warps.cpp, such as the CPU device will have for tensor cores. As
// the device itself, they are not compiled for observation.

// Every thread of a warpgroup gets the sum of what all bring.
void warpgroup_sum(float* operand, int line);

// All lanes load from shared memory at once, each from its address; one request.
float warp_load(const float* from, int line);
