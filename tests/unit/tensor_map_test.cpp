// Tensor maps that are refused. gpu_tensor_copy_test.cu asks the driver for those that are not.

#include <cstdint>
#include <cstring>
#include <functional>

#include "tests/unit/boxes.hpp"
#include "tests/unit/device_test.hpp"

namespace {

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const ImpossibleTensor& error) {
    return error.what();
  }
  return "none";
}

TEST(TensorMaps, WhatTheHardwareCannotCopyIsRefused) {
  alignas(16) static const float memory[64] = {};
  struct Case {
    const char* text;
    int offset = 0, rows = 8, cols = 8;
    std::int64_t ld = 8;
    int batch = 2;
    std::int64_t stride = 32;
    int box_rows = 8, box_cols = 4;
  };
  const std::int64_t pitch_end = std::int64_t{1} << 38;  // 2^40 bytes
  for (const Case& c : std::vector<Case>{
           {.text = "none"},
           {.text = "c is no multiple of 16 bytes", .offset = 3},
           {.text = "none", .offset = 4},
           {.text = "a size is negative: -1 x 8, batch 2", .rows = -1},
           {.text = "a size is negative: 8 x -7, batch 2", .cols = -7},
           {.text = "a size is negative: 8 x 8, batch -2", .batch = -2},
           {.text = "the leading dimension, 10 elements of 4 bytes, is no multiple of 16 bytes", .ld = 10},
           {.text = "the leading dimension, -8 elements of 4 bytes, is negative", .ld = -8},
           {.text = "the leading dimension, 274877906944 elements of 4 bytes, is not below 2^40 bytes",
            .ld = pitch_end},
           {.text = "none", .ld = pitch_end - 4},
           {.text = "the stride of the batch, 33 elements of 4 bytes, is no multiple of 16 bytes",
            .stride = 33},
           {.text = "the stride of the batch, -32 elements of 4 bytes, is negative", .stride = -32},
           {.text = "the stride of the batch, 274877906944 elements of 4 bytes, is not below 2^40 bytes",
            .stride = pitch_end},
           {.text = "none", .stride = pitch_end - 4},
           {.text = "none", .stride = 0},
           {.text = "none", .batch = 1, .stride = 33},
           {.text = "the box is 0 x 4; each side can be 1 to 256", .box_rows = 0},
           {.text = "the box is 257 x 4; each side can be 1 to 256", .box_rows = 257},
           {.text = "none", .box_rows = 256},
           {.text = "the box is 8 x -4; each side can be 1 to 256", .box_cols = -4},
           {.text = "the box is 8 x 260; each side can be 1 to 256", .box_cols = 260},
           {.text = "none", .box_cols = 256},
           {.text = "a row of the box, 6 elements of 4 bytes, is no multiple of 16 bytes", .box_cols = 6},
           // Of an empty matrix only the box has to be right.
           {.text = "none", .offset = 1, .rows = 0, .ld = 7, .stride = 5},
           {.text = "the box is 300 x 4; each side can be 1 to 256", .cols = 0, .box_rows = 300},
       }) {
    const std::string text = refusal([&] {
      tensor_map(memory + c.offset, c.rows, c.cols, c.ld, c.batch, c.stride, c.box_rows, c.box_cols);
    });
    if (std::strcmp(c.text, "none") == 0) {
      EXPECT_EQ(text, "none");
    } else {
      EXPECT_TRUE(text.starts_with("tensor map: ")) << text;
      EXPECT_TRUE(text.ends_with(c.text)) << text << ", not " << c.text;
    }
  }
}

// 16 bytes are 8 elements.
TEST(TensorMaps, WhatCannotBeSwizzledOrRoundedIsRefused) {
  const DeviceBuffer x(8 * 64);
  const BufferOf<bf16> halves(8 * 64);
  const auto of_floats = [&](int box_cols, Swizzle swizzle) {
    return refusal([&] { tensor_map(x.data(), 8, 64, 64, 1, 0, 8, box_cols, swizzle); });
  };
  EXPECT_THAT(of_floats(16, Swizzle::of_128_bytes),
              HasSubstr("does not have the 128 bytes that are swizzled"));
  EXPECT_THAT(of_floats(32, Swizzle::of_64_bytes), HasSubstr("does not have the 64 bytes that are swizzled"));
  EXPECT_THAT(of_floats(4, Swizzle::of_32_bytes), HasSubstr("does not have the 32 bytes that are swizzled"));
  for (const Swizzle swizzle : {Swizzle::of_32_bytes, Swizzle::of_64_bytes, Swizzle::of_128_bytes}) {
    const int elements = Lines::cols(swizzle);
    EXPECT_EQ(of_floats(elements, swizzle), "none");
    EXPECT_EQ(refusal([&] { tensor_map(halves.data(), 8, 64, 64, 1, 0, 8, 2 * elements, swizzle); }), "none");
  }
  EXPECT_THAT(
      refusal([&] { tensor_map(halves.data(), 8, 64, 64, 1, 0, 8, 64, Swizzle::none, Convert::to_tf32); }),
      HasSubstr("cannot be rounded to TF32, which are floats"));
}

TEST(TensorMaps, OfBf16) {
  alignas(16) static const bf16 memory[64] = {};
  const auto with = [&](std::int64_t ld, int box_cols) {
    return refusal([&] { tensor_map(memory, 2, 16, ld, 1, 0, 2, box_cols); });
  };
  EXPECT_EQ(with(24, 8), "none");
  EXPECT_EQ(with(24, 256), "none");
  EXPECT_THAT(with(20, 8), HasSubstr("20 elements of 2 bytes"));
  EXPECT_THAT(with(24, 12), HasSubstr("12 elements of 2 bytes"));
  EXPECT_EQ(with((std::int64_t{1} << 39) - 8, 8), "none");
  EXPECT_THAT(with(std::int64_t{1} << 39, 8), HasSubstr("not below 2^40 bytes"));
}

}  // namespace
