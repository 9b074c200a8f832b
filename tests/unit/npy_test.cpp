#include "common/harness/npy.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/error.hpp"

namespace {

namespace fs = std::filesystem;
using harness::InputError;
using harness::NpyHeader;
using std::string_literals::operator""s;

class Npy : public testing::Test {
 protected:
  Npy() {
    std::string name = testing::TempDir() + "npy_test_XXXXXX";
    directory_ = mkdtemp(name.data());
    path_ = directory_ + "/a.npy";
  }
  ~Npy() override { fs::remove_all(directory_); }

  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  // A file whose header is `text`, followed by zeros for `floats` elements.
  void write_file(const std::string& text, std::size_t floats, char major = 1) {
    std::string bytes = "\x93NUMPY"s + major + '\0';
    const std::size_t length_bytes = major == 1 ? 2 : 4;
    for (std::size_t i = 0; i < length_bytes; ++i) bytes += static_cast<char>(text.size() >> 8 * i);
    write(bytes + text + std::string(4 * floats, '\0'));
  }

  // The header that comes of `text`; the file is made as large as it should be.
  NpyHeader parse(const std::string& text, std::size_t floats) {
    write_file(text, floats);
    return harness::read_npy_header(path_);
  }

  // Fails the test unless reading the header fails with one line that names the file and contains `expected`.
  void expect_error(const std::string& expected) {
    try {
      harness::read_npy_header(path_);
      FAIL() << "accepted; expected an error with: " << expected;
    } catch (const InputError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(expected), message.npos) << message;
      EXPECT_TRUE(message.starts_with(path_ + ": ")) << message;
      EXPECT_EQ(message.find('\n'), message.npos) << message;
      EXPECT_NE(message.find("; "), message.npos) << "no remedy: " << message;
    }
  }

  void expect_error_for(const std::string& text, const std::string& expected, std::size_t floats = 12) {
    SCOPED_TRACE(text);
    write_file(text, floats);
    expect_error(expected);
  }

  std::string directory_;
  std::string path_;
};

using Shape = std::vector<std::int64_t>;

TEST_F(Npy, WhatIsWrittenIsReadBack) {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{3, 4}, Shape{2, 3, 4}, Shape{0, 7}, Shape{5, 1}}) {
    for (const bool fortran_order : {false, true}) {
      const std::string head = harness::npy_header_bytes(shape, fortran_order);
      EXPECT_EQ(head.size() % 64, 0u);
      const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
      std::vector<float> data(static_cast<std::size_t>(count));
      std::iota(data.begin(), data.end(), -1.5f);
      write(head + std::string(reinterpret_cast<const char*>(data.data()), 4 * data.size()));

      const NpyHeader header = harness::read_npy_header(path_);
      EXPECT_EQ(header.shape, shape);
      EXPECT_EQ(header.fortran_order, fortran_order);
      EXPECT_EQ(header.data_offset, static_cast<std::int64_t>(head.size()));
      EXPECT_EQ(header.elements(), count);
      std::vector<float> read(data.size());
      harness::read_npy_data(path_, header, read.data());
      EXPECT_EQ(read, data);
    }
  }
}

// The bytes that numpy.save of NumPy 2.4 writes before the data.
TEST_F(Npy, HeaderBytesAreNumPys) {
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  EXPECT_EQ(harness::npy_header_bytes({3, 4}, false),
            "\x93NUMPY\x01\0\x76\0"s + text + std::string(0x76 - 1 - text.size(), ' ') + '\n');
  EXPECT_NE(harness::npy_header_bytes({3}, true).find("'fortran_order': True, 'shape': (3,), }"),
            std::string::npos);
  EXPECT_THROW(harness::npy_header_bytes({3, -1}, false), std::invalid_argument);
  EXPECT_THROW(harness::npy_header_bytes(Shape(40000, 1), false), std::invalid_argument);
}

TEST_F(Npy, SpellingsThatNumPyAccepts) {
  EXPECT_EQ(parse("{'shape': (3, 4), 'descr': '<f4', 'fortran_order': False}", 12).shape, (Shape{3, 4}));
  EXPECT_EQ(parse(R"({"shape":(3,4,),"fortran_order":False,"descr":"<f4"})", 12).shape, (Shape{3, 4}));
  EXPECT_EQ(parse(" {\t'shape' :\n( 12 , ) , 'fortran_order': False, 'descr': '<f4' , } \r\n", 12).shape,
            (Shape{12}));
  EXPECT_EQ(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L)}", 12).shape, (Shape{3, 4}));
  EXPECT_EQ(parse("{'descr': '<f4', 'fortran_order': False, 'shape': ( )}", 1).shape, Shape{});
}

TEST_F(Npy, MalformedHeaders) {
  const std::string bad[] = {
      "",
      "{}",
      "nonsense",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} x",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'more': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4' 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4',, 'fortran_order': False, 'shape': (3, 4)}",
      "{'d\\x65scr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{descr: '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': None, 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': Falsely, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [3, 4]}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (12)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3., 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (03, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (- 3, 4)}",
  };
  for (const std::string& text : bad) expect_error_for(text, "malformed .npy header");
  for (const char* text : {"{'descr", "{'descr': '<f4", "{\"descr': '<f4'}", "{'descr': '<f\n4'", "{'"}) {
    expect_error_for(text, "bad string");
  }
}

TEST_F(Npy, SizesThatCannotBe) {
  const auto with_shape = [](const std::string& shape) {
    return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}";
  };
  expect_error_for(with_shape("(-3, -4)"), "negative size");
  expect_error_for(with_shape("(3, -9223372036854775808)"), "negative size");
  expect_error_for(with_shape("(9223372036854775808,)"), "size out of range");
  expect_error_for(with_shape("(3, 99999999999999999999999999999999)"), "size out of range");
  expect_error_for(with_shape("(9223372036854775807,)"), "2^63");
  expect_error_for(with_shape("(4294967296, 4294967296)"), "2^63");
  expect_error_for(with_shape("(2305843009213693951,)"), "2^63");  // the data alone would just fit
  // Zero elements, but the product of the other sizes would overflow on the way.
  expect_error_for(with_shape("(4294967296, 4294967296, 0)"), "2^63", 0);
  expect_error_for(with_shape("(0, 4294967296, 4294967296)"), "2^63", 0);
  EXPECT_EQ(parse(with_shape("(0, 2147483648)"), 0).elements(), 0);
  expect_error_for(with_shape("(2305843009213693900,)"), "truncated");
}

// Beside those that tests/cli/bad_input_test.py has.
TEST_F(Npy, StrangeDtypes) {
  const auto with_descr = [](const std::string& descr) {
    return "{'descr': " + descr + ", 'fortran_order': False, 'shape': (3, 4), }\n";
  };
  expect_error_for(with_descr("'<f4, '"), "\"<f4, \", but");
  expect_error_for(with_descr("''"), "\"\"");
  expect_error_for(with_descr("'<f99999999999'"), "\"<f99999999999\"");
  expect_error_for(with_descr("'\x1b[31m\xff'"), "\"?[31m?\"");  // does not reach the terminal as it is
  expect_error_for(with_descr("'" + std::string(500, 'f') + "'"), "fff");  // cut short
  expect_error_for(with_descr("[('x', '<f4'), ('y', '<f4')]"), "structured");
}

TEST_F(Npy, OtherVersions) {
  for (const std::string& version : {"\0\0"s, "\4\0"s, "\1\1"s, "\xff\xff"s}) {
    write("\x93NUMPY" + version + std::string(100, ' '));
    expect_error("version 1.0, 2.0 or 3.0");
  }
}

TEST_F(Npy, AbsurdHeaderLength) {
  write("\x93NUMPY\1\0\xff\xff"s + std::string(100, ' '));
  expect_error("absurdly long header");
  write("\x93NUMPY\2\0\xff\xff\xff\xff"s + std::string(100, ' '));
  expect_error("absurdly long header");
  write("\x93NUMPY\2\0\0\0\0\x80"s + std::string(100, ' '));
  expect_error("absurdly long header");
  expect_error_for(std::string(10000, '('), "malformed");
}

TEST_F(Npy, NoRegularFile) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_error("is not a regular file");  // and does not wait for a writer
  path_ = "/dev/null";
  expect_error("is not a regular file");
}

TEST_F(Npy, FileThatShrinksBeforeItsDataAreRead) {
  const std::string file = harness::npy_header_bytes({3, 4}, false) + std::string(48, 'x');
  write(file);
  const NpyHeader header = harness::read_npy_header(path_);
  write(file.substr(0, file.size() - 1));
  std::vector<float> data(12);
  EXPECT_THROW(harness::read_npy_data(path_, header, data.data()), InputError);
}

// Damaged files are refused with an InputError, or else give a header that agrees with the file.
TEST_F(Npy, DamagedFilesAreReadOrRefused) {
  const std::string text = "{\"shape\": (2, 3,), 'fortran_order': True, 'descr': '<f4'}\n";
  const std::string valid[] = {
      harness::npy_header_bytes({}, false) + "\x01\x02\x03\x04",
      harness::npy_header_bytes({3, 4}, false) + std::string(48, 'b'),
      harness::npy_header_bytes({0, 7}, false),
      "\x93NUMPY\2\0"s + static_cast<char>(text.size()) + "\0\0\0"s + text + std::string(24, 'd'),
  };
  const std::string tokens[] = {"{",       "}",       "(",    ")",      ",",
                                ":",       "'",       "\\",   "\"",     "\n",
                                "'descr'", "'shape'", "<f4",  "False",  "True",
                                "'0'",     "L",       "0",    "-1",     "\xff",
                                "\0"s,     "()",      "(3,)", "(3, 4)", "9223372036854775807"};
  std::mt19937 random(20240607);
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  for (int i = 0; i < 5000 && !HasFailure(); ++i) {
    std::string file = valid[below(std::size(valid))];
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      // Mostly in the header, whose length stays right if the damage is as long as what it replaces.
      const std::size_t at = below(below(2) == 0 ? file.size() : std::min<std::size_t>(file.size(), 75));
      const std::string& token = tokens[below(std::size(tokens))];
      switch (below(4)) {
        case 0:
          if (!file.empty()) file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
          break;
        case 1:
          file.erase(at, below(20));
          break;
        default:
          file.replace(at, below(2) == 0 ? token.size() : below(8), token);
      }
    }
    SCOPED_TRACE(testing::PrintToString(file));
    fs::remove(path_);  // some file systems are slow to write to a file that was just truncated
    write(file);
    try {
      const NpyHeader header = harness::read_npy_header(path_);
      EXPECT_EQ(header.data_offset + 4 * header.elements(), static_cast<std::int64_t>(file.size()));
      if (HasFailure()) break;
      std::vector<float> data(static_cast<std::size_t>(header.elements()));
      harness::read_npy_data(path_, header, data.data());
      EXPECT_EQ(std::memcmp(file.data() + header.data_offset, data.data(), 4 * data.size()), 0);
    } catch (const InputError& error) {
      EXPECT_TRUE(std::ranges::none_of(std::string(error.what()), [](unsigned char c) { return c < ' '; }));
    }
  }
}

}  // namespace
