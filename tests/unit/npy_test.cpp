#include "common/harness/npy.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/error.hpp"

namespace {

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
  ~Npy() override { std::filesystem::remove_all(directory_); }

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

  void expect_dtype_error(const std::string& descr, const std::string& expected) {
    const std::string text = "{'descr': " + descr + ", 'fortran_order': False, 'shape': (3, 4), }\n";
    expect_error_for(text, expected);
    expect_error_for(text, "array.astype(np.float32)");
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
  EXPECT_NE(harness::npy_header_bytes({}, false).find("'shape': (), }"), std::string::npos);
}

TEST_F(Npy, HeaderBytesOfAnyLengthAreAligned) {
  for (std::int64_t size = 1; size < std::numeric_limits<std::int64_t>::max() / 10; size *= 10) {
    const std::string head = harness::npy_header_bytes({size, size}, false);
    EXPECT_EQ(head.size() % 64, 0u);
    EXPECT_EQ(head.back(), '\n');
  }
  EXPECT_THROW(harness::npy_header_bytes({3, -1}, false), std::invalid_argument);
  EXPECT_THROW(harness::npy_header_bytes(Shape(40000, 1), false), std::invalid_argument);
}

TEST_F(Npy, EveryVersion) {
  for (const char major : {'\1', '\2', '\3'}) {
    write_file("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }   \n", 12, major);
    const NpyHeader header = harness::read_npy_header(path_);
    EXPECT_EQ(header.shape, (Shape{3, 4}));
    EXPECT_TRUE(header.fortran_order);
  }
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
      "{",
      "{}",
      "{,}",
      "nonsense",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} x",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}"s + '\0',
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'more': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4' 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4',, 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr' '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape: (3, 4)}",
      "{'descr\": '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{'d\\x65scr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{descr: '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': None, 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': false, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': Falsely, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [3, 4]}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (12)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3., 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (03, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': ('3', 4)}",
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

TEST_F(Npy, OtherDtypes) {
  expect_dtype_error("'<f8'", "\"<f8\" (float64)");
  expect_dtype_error("'<f2'", "(float16)");
  expect_dtype_error("'<i4'", "(int32)");
  expect_dtype_error("'|u1'", "(uint8)");
  expect_dtype_error("'<c8'", "(complex64)");
  expect_dtype_error("'>f4'", "\">f4\" (big-endian float32)");
  expect_dtype_error("'|b1'", "\"|b1\"");
  expect_dtype_error("'|O'", "\"|O\"");
  expect_dtype_error("'<U3'", "\"<U3\"");
  expect_dtype_error("'=f4'", "\"=f4\"");
  expect_dtype_error("'<f4, '", "\"<f4, \", but");
  expect_dtype_error("''", "\"\"");
  expect_dtype_error("'<f99999999999'", "\"<f99999999999\"");
  expect_dtype_error("'\x1b[31m\xff'", "\"?[31m?\"");            // does not reach the terminal as it is
  expect_dtype_error("'" + std::string(500, 'f') + "'", "fff");  // cut short
  expect_dtype_error("[('x', '<f4'), ('y', '<f4')]", "structured");
}

TEST_F(Npy, FileAsLongAsTheHeaderSays) {
  const std::string file = harness::npy_header_bytes({3, 4}, false) + std::string(48, 'x');
  for (std::size_t length = 0; length < file.size(); ++length) {
    SCOPED_TRACE(length);
    write(file.substr(0, length));
    // Without the whole of the fixed part it cannot be told what the file is.
    expect_error(length < 12    ? "is not a .npy file"
                 : length < 128 ? "cannot be read to its end"
                                : "is truncated");
  }
  write(file + '\0');
  expect_error("is too long: 177 bytes, but its header promises 176");
}

TEST_F(Npy, OtherFiles) {
  write("");
  expect_error("is not a .npy file");
  write("a,b,c\n1,2,3\n4,5,6\n");
  expect_error("is not a .npy file");
  write("PK\x03\x04" + std::string(100, '\0'));
  expect_error("is a .npz archive");
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

TEST_F(Npy, PathsThatCannotBeRead) {
  expect_error("cannot open: No such file or directory");
  path_ = directory_;
  expect_error("is a directory");
  path_ = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_error("is not a regular file");  // and does not wait for a writer
  path_ = "/dev/null";
  expect_error("is not a regular file");
  path_ = directory_ + "/none/a.npy";
  expect_error("cannot open");
  path_ = directory_ + "/" + std::string(1000, 'n');
  expect_error("cannot open");
}

TEST_F(Npy, UnreadableFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every file";
  write(harness::npy_header_bytes({0}, false));
  chmod(path_.c_str(), 0);
  expect_error("cannot open: Permission denied");
}

TEST_F(Npy, FileThatShrinksBeforeItsDataAreRead) {
  const std::string file = harness::npy_header_bytes({3, 4}, false) + std::string(48, 'x');
  write(file);
  const NpyHeader header = harness::read_npy_header(path_);
  write(file.substr(0, file.size() - 1));
  std::vector<float> data(12);
  EXPECT_THROW(harness::read_npy_data(path_, header, data.data()), InputError);
}

}  // namespace
