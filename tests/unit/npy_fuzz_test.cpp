// Feeds damaged .npy files to the reader: each must give a header that agrees with its file, or an
// InputError. A crash leaves the damaged file in the directory that is printed first.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "common/harness/error.hpp"
#include "common/harness/npy.hpp"

namespace {

using std::string_literals::operator""s;

constexpr std::uint64_t kSeed = 20240607;
constexpr int kMaxInputs = 20000;
constexpr std::chrono::seconds kTimeLimit{3};
constexpr long kMaxGrowthKiB = 512 * 1024;  // AddressSanitizer keeps up to 256 MiB of freed memory

std::string version_2(const std::string& text) {
  return "\x93NUMPY\2\0"s + static_cast<char>(text.size()) + "\0\0\0"s + text;
}

std::vector<std::string> valid_files() {
  const std::string text = "{\"shape\": (2, 3,), 'fortran_order': True, 'descr': '<f4'}\n";
  return {
      harness::npy_header_bytes({}, false) + "\x01\x02\x03\x04",
      harness::npy_header_bytes({3}, false) + std::string(12, 'a'),
      harness::npy_header_bytes({3, 4}, false) + std::string(48, 'b'),
      harness::npy_header_bytes({2, 3, 4}, true) + std::string(96, 'c'),
      harness::npy_header_bytes({0, 7}, false),
      version_2(text) + std::string(24, 'd'),
  };
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void mutate(std::string& file) {
    const std::size_t at = below(file.size());
    switch (below(8)) {
      case 0:  // flip a bit
        if (!file.empty()) file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
        break;
      case 1:  // change a byte of the fixed part, the lengths among them
        if (file.size() > 12) file[below(12)] = "\0\1\2\3\x7f\x80\xff'"[below(8)];
        break;
      case 2:
        file.resize(at);
        break;
      case 3:
        file.insert(at, below(40), static_cast<char>(below(256)));
        break;
      case 4:  // repeat a piece
        file.insert(below(file.size()), file.substr(at, below(40)));
        break;
      case 5:
        file.erase(at, below(20));
        break;
      default:  // the header's text, most often, since that is where the code is
        mutate_text(file);
    }
  }

 private:
  // Puts one token in place of a few bytes of the text, then corrects its length, so that the parser sees it
  // all.
  void mutate_text(std::string& file) {
    static const std::string tokens[] = {"{",
                                         "}",
                                         "(",
                                         ")",
                                         ",",
                                         ":",
                                         "'",
                                         "\"",
                                         "\\",
                                         " ",
                                         "\n",
                                         "-",
                                         "0",
                                         "1",
                                         "12",
                                         "00",
                                         "L",
                                         "[",
                                         "True",
                                         "False",
                                         "'<f8'",
                                         "'>f4'",
                                         "'<f4'",
                                         "'descr'",
                                         "'shape'",
                                         "'fortran_order'",
                                         "4294967296",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "-1",
                                         "1e9",
                                         "\xff",
                                         "\0"s,
                                         "()",
                                         "(3,)",
                                         "(3, 4)",
                                         "(2305843009213693951,)"};
    const std::size_t end = file.find('\n');
    const std::size_t prefix = file.size() > 6 && file[6] == 1 ? 10 : 12;
    if (end == file.npos || end <= prefix) return;
    const std::size_t at = prefix + below(std::min<std::size_t>(end - prefix, 70));
    const std::size_t removed = std::min(below(8), end - at);
    const std::string& token = tokens[below(std::size(tokens))];
    file.replace(at, removed, token);
    const bool cut = below(8) == 0;  // the text ends with the token
    const std::size_t length = (cut ? at + token.size() : file.find('\n', at) + 1) - prefix;
    file[8] = static_cast<char>(length & 0xff);
    file[9] = static_cast<char>(length >> 8);
  }

  std::mt19937_64 random_;
};

long peak_memory_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Whether the file was accepted. Adds a failure for what the reader should not do.
bool try_file(const std::string& path, const std::string& bytes) {
  std::remove(path.c_str());  // ext4 is slow to write a file that was just truncated
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) {
    ADD_FAILURE() << "cannot write " << path;
  }
  if (file != nullptr) std::fclose(file);
  try {
    const harness::NpyHeader header = harness::read_npy_header(path);
    std::int64_t product = 1;
    for (const std::int64_t size : header.shape) {
      EXPECT_GE(size, 0);
      product *= size;
    }
    EXPECT_EQ(header.elements(), product);
    EXPECT_GE(header.data_offset, 10);
    EXPECT_EQ(header.data_offset + 4 * product, static_cast<std::int64_t>(bytes.size()));
    if (testing::Test::HasFailure()) return true;
    std::vector<float> data(static_cast<std::size_t>(product));
    harness::read_npy_data(path, header, data.data());
    EXPECT_TRUE(std::equal(bytes.begin() + header.data_offset, bytes.end(),
                           reinterpret_cast<const char*>(data.data())));
    return true;
  } catch (const harness::InputError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    EXPECT_LT(message.size(), path.size() + 250) << message;
    EXPECT_TRUE(std::ranges::none_of(message, [](unsigned char c) { return c < ' '; })) << message;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw something other than InputError: " << error.what();
  } catch (...) {
    ADD_FAILURE() << "threw something other than InputError";
  }
  return false;
}

TEST(NpyFuzz, DamagedFilesAreReadOrRefused) {
  std::string directory = testing::TempDir() + "npy_fuzz_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/a.npy";
  std::printf("seed %llu, files in %s\n", static_cast<unsigned long long>(kSeed), directory.c_str());
  std::fflush(stdout);

  const std::vector<std::string> seeds = valid_files();
  for (const std::string& file : seeds) EXPECT_TRUE(try_file(path, file));

  const auto deadline = std::chrono::steady_clock::now() + kTimeLimit;
  const long memory_before = peak_memory_kib();
  Mutator mutator(kSeed);
  int tried = 0, accepted = 0;
  while (!HasFailure() && tried < kMaxInputs && std::chrono::steady_clock::now() < deadline) {
    std::string file = seeds[mutator.below(seeds.size())];
    for (std::size_t left = 1 + mutator.below(4); left > 0; --left) mutator.mutate(file);
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", input " + std::to_string(tried));
    accepted += try_file(path, file);
    ++tried;
  }
  EXPECT_LT(peak_memory_kib() - memory_before, kMaxGrowthKiB) << "seed " << kSeed;
  std::printf("%d inputs tried, %d of them accepted\n", tried, accepted);
  if (!HasFailure()) std::filesystem::remove_all(directory);
}

}  // namespace
