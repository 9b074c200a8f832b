// The names, places and sizes of a struct's members.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/cuda_on_cpu.hpp"
#include "common/cpu_device/dynamic_parts.hpp"

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "Pair::first at 0, 3 bytes" of each part.
template <typename T>
std::vector<std::string> parts_of() {
  std::vector<std::string> texts;
  for (const cpu_device::DynamicPart& part : cpu_device::parts_of(cpu_device::shape_of<T>)) {
    std::string text = part.name;
    for (std::size_t i = part.indices.size(); i > 0; --i) {
      text.insert(part.indices[i - 1].after, fmt::format("[{}]", part.indices[i - 1].extent));
    }
    texts.push_back(fmt::format("{} at {}, {} bytes", text, part.begin, part.bytes));
  }
  return texts;
}

struct Pair {
  char first[3];
  double second[2][2];
};

TEST(Members, OfStructs) {
  const cpu_device::Struct& pair = *cpu_device::shape_of<Pair>.inside;
  ASSERT_EQ(pair.members.size(), 2u);
  EXPECT_EQ(pair.name, "Pair");
  EXPECT_EQ(pair.bytes, sizeof(Pair));
  EXPECT_EQ(pair.members[0].name, "first");
  EXPECT_EQ(pair.members[1].name, "second");
  EXPECT_THAT(parts_of<Pair>(),
              ElementsAre("Pair::first[3] at 0, 1 bytes", "Pair::second[2][2] at 8, 8 bytes"));
}

struct Base {
  int a;
};
struct Derived : Base {
  int b;
};
struct Seventeen {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q;
};

TEST(Members, OfWhatHasNoneOrTooMany) {
  EXPECT_THAT(parts_of<float>(), IsEmpty());
  EXPECT_THAT(parts_of<float[8]>(), IsEmpty());
  EXPECT_THAT(parts_of<Derived>(), IsEmpty());
  EXPECT_THAT(parts_of<Seventeen>(), IsEmpty());
  EXPECT_THAT(parts_of<std::string>(), IsEmpty());
}

struct Sixteen {
  char a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, last;
};
struct Fifteen {
  char a, b, c, d, e, f, g, h, i, j, k, l, m, n, last;
};
struct Nine {
  char a, b, c, d, e, f, g, h, last;
};

TEST(Members, OfLargeStructs) {
  EXPECT_EQ(parts_of<Sixteen>().size(), 16u);
  EXPECT_EQ(parts_of<Sixteen>().back(), "Sixteen::last at 15, 1 bytes");
  EXPECT_EQ(parts_of<Fifteen>().size(), 15u);
  EXPECT_EQ(parts_of<Fifteen>().back(), "Fifteen::last at 14, 1 bytes");
  EXPECT_EQ(parts_of<Nine>().size(), 9u);
  EXPECT_EQ(parts_of<Nine>().back(), "Nine::last at 8, 1 bytes");
}

// An object that cannot be copied, such as a barrier would be.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter&) = delete;

 private:
  [[maybe_unused]] unsigned long long state_;
};
template <typename T, int COUNT>
struct Ring {
  struct Stage {
    alignas(128) T A[2][8];
    alignas(128) T B[4];
    Pair pair;
  };
  Stage stages[COUNT];
  Counter full[COUNT];
  float4 vector;
};

TEST(Members, OfArraysOfStructs) {
  EXPECT_THAT(parts_of<Pair[2]>(),
              ElementsAre("Pair[2]::first[3] at 0, 1 bytes", "Pair[2]::second[2][2] at 8, 8 bytes"));
  EXPECT_THAT((parts_of<Ring<float, 3>[2]>()),
              ElementsAre("Ring<float, 3>[2]::stages[3].A[2][8] at 0, 4 bytes",
                          "Ring<float, 3>[2]::stages[3].B[4] at 128, 4 bytes",
                          "Ring<float, 3>[2]::stages[3].pair.first[3] at 144, 1 bytes",
                          "Ring<float, 3>[2]::stages[3].pair.second[2][2] at 152, 8 bytes",
                          "Ring<float, 3>[2]::full[3] at 768, 8 bytes",
                          "Ring<float, 3>[2]::vector at 800, 16 bytes"));
}

// Every byte lies in the part that its address says.
TEST(Members, OfEveryByte) {
  using Rings = Ring<Ring<float, 2>, 2>[2];
  static Rings rings;
  std::size_t found = 0;
  const auto offset = [&](const auto& of) {
    return reinterpret_cast<const std::byte*>(&of) - reinterpret_cast<const std::byte*>(&rings);
  };
  const std::vector<cpu_device::DynamicPart> parts = cpu_device::parts_of(cpu_device::shape_of<Rings>);
  for (std::size_t byte = 0; byte < sizeof rings; ++byte) {
    int times = 0;
    for (const cpu_device::DynamicPart& part : parts) {
      std::vector<std::size_t> w;
      const auto inside = part.offset_of(byte, &w);
      if (!inside) continue;
      ++times;
      ++found;
      if (part.name != "Ring<{anonymous}::Ring<float, 2>, 2>::stages.A.stages.B") continue;
      ASSERT_EQ(w.size(), 6u);  // rings, stages, A is an array of arrays, stages, B
      const auto& place = rings[w[0]].stages[w[1]].A[w[2]][w[3]].stages[w[4]].B[w[5]];
      EXPECT_EQ(static_cast<std::ptrdiff_t>(byte - *inside), offset(place));
      EXPECT_EQ(
          part.name_with(w),
          fmt::format("Ring<{{anonymous}}::Ring<float, 2>, 2>[{}]::stages[{}].A[{}][{}].stages[{}].B[{}]",
                      w[0], w[1], w[2], w[3], w[4], w[5]));
    }
    EXPECT_LE(times, 1) << byte;
  }
  std::size_t bytes = 0;
  for (const cpu_device::DynamicPart& part : parts) {
    std::size_t count = part.bytes;
    for (const auto& index : part.indices) count *= index.extent;
    bytes += count;
  }
  EXPECT_EQ(found, bytes);
}

}  // namespace
