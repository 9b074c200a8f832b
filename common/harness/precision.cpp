#include "common/harness/precision.hpp"

namespace harness {

namespace {

// Of the FP32 units, each of which does one multiply-add per cycle. CUDA programming guide, arithmetic
// throughput.
int of_fp32_units(int compute_capability) {
  switch (compute_capability) {
    case 60:
    case 70:
    case 72:
    case 75:
    case 80:
      return 2 * 64;
    default:
      return 2 * 128;
  }
}

// Of the tensor cores, for dense matrices and FP32 sums. NVIDIA A100 Tensor Core GPU Architecture: 1024 FMA
// per SM and cycle in BF16, 312 TFLOP/s with 108 SMs at 1410 MHz. NVIDIA H100 Tensor Core GPU Architecture:
// twice as many, 989.4 TFLOP/s with 132 SMs at 1830 MHz. TF32 runs at half that rate. 8.6 and 8.9 are left
// out: there GeForce products do half of what the others do, and nothing tells them apart.
int of_tensor_cores_bf16(int compute_capability) {
  switch (compute_capability) {
    case 80:
      return 2 * 1024;
    case 90:
      return 2 * 2048;
    default:
      return 0;
  }
}

}  // namespace

int peak_flops_per_cycle(Precision precision, int compute_capability) {
  switch (precision) {
    case Precision::bf16:
      return of_tensor_cores_bf16(compute_capability);
    case Precision::tf32:
    case Precision::tf32_cut_off:
      return of_tensor_cores_bf16(compute_capability) / 2;
    case Precision::fp16x3:
    case Precision::fp32_emulated:
      return of_tensor_cores_bf16(compute_capability) / 3;  // FP16 is as fast as BF16
    case Precision::fp32:
      break;
  }
  return of_fp32_units(compute_capability);
}

}  // namespace harness
