#pragma once

#include "common/cuda/tensor_copy.hpp"

struct MapPair {
  TensorMap a, b;
};
