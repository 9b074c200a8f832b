#include "common/harness/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "common/harness/error.hpp"

namespace harness {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "'<f4' data are read as they are");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 10000;  // NumPy's own limit; a float32 header needs about 100 bytes

[[noreturn]] void fail(const std::string& path, std::string_view problem) {
  throw InputError(fmt::format("{}: {}", path, problem));
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open_regular(const std::string& path) {
  std::error_code ignored;  // fopen will report it
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) fail(path, "is a directory; give the path of a .npy file");
  // Refused here, as fopen would block on a FIFO.
  if (fs::is_other(status)) fail(path, "is not a regular file; give the path of a .npy file");
  File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) {
    const std::string reason = std::generic_category().message(errno);
    fail(path, fmt::format("cannot open: {}; give the path of a readable .npy file", reason));
  }
  return file;
}

void read_at(const File& file, const std::string& path, std::int64_t offset, void* out, std::size_t count) {
  if (count == 0) return;
  if (fseeko(file.get(), offset, SEEK_SET) == 0 && std::fread(out, 1, count, file.get()) == count) return;
  fail(path, "cannot be read to its end; write it again with numpy.save, and not while it is being read");
}

// The dtype, with NumPy's name if it is numeric: dtype "<f8" (float64).
std::string describe_dtype(std::string_view dtype) {
  constexpr std::string_view kinds = "fiuc";
  constexpr std::string_view names[] = {"float", "int", "uint", "complex"};
  std::string shown(dtype.substr(0, 40));
  for (char& c : shown) c = c < ' ' || c > '~' ? '?' : c;  // the message stays on one line
  std::string text = fmt::format("dtype \"{}\"", shown);
  const std::string_view digits = dtype.substr(std::min<std::size_t>(2, dtype.size()));
  int bytes = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (error != std::errc() || end != digits.data() + digits.size() || bytes < 1 || bytes > 32) return text;
  const std::size_t kind = kinds.find(dtype[1]);
  if (kind == kinds.npos) return text;
  return text + fmt::format(" ({}{}{})", dtype[0] == '>' ? "big-endian " : "", names[kind], 8 * bytes);
}

// Parses the header's text: a Python dict literal with exactly the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  NpyHeader parse() {
    NpyHeader header;
    std::set<std::string_view> missing = {"descr", "fortran_order", "shape"};
    list("{", "}", [&] {
      const std::string_view key = string();
      if (missing.erase(key) == 0) malformed("unknown or repeated key");
      expect(":");
      if (key == "descr") check_dtype();
      if (key == "fortran_order") header.fortran_order = boolean();
      if (key == "shape") header.shape = shape();
    });
    if (!missing.empty()) malformed(fmt::format("no {}", *missing.begin()));
    skip_space();
    if (!rest_.empty()) malformed("text after the dict");
    return header;
  }

 private:
  [[noreturn]] void malformed(std::string_view what) const {
    fail(path_, fmt::format("malformed .npy header ({}); save the array again with numpy.save", what));
  }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n\f"), rest_.size())); }

  // Skips white space, then `token` if it comes next.
  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) malformed(fmt::format("expected '{}'", token));
  }

  // Items between brackets, separated by commas. Returns whether there is a trailing comma, which Python
  // allows.
  bool list(std::string_view open, std::string_view close, auto parse_item) {
    bool comma = true;
    for (expect(open); !take(close); comma = take(",")) {
      if (!comma) malformed(fmt::format("expected ',' or '{}'", close));
      parse_item();
    }
    return comma;
  }

  std::string_view string() {
    const char quote = take("'") ? '\'' : '"';
    if (quote == '"') expect("\"");
    const std::string_view value = rest_.substr(0, rest_.find(quote));
    // None of the accepted keys and dtypes needs an escape.
    if (value.size() == rest_.size() || value.find_first_of("\\\r\n") != value.npos) malformed("bad string");
    rest_.remove_prefix(value.size() + 1);
    return value;
  }

  void check_dtype() {
    const bool records = take("[");
    const std::string_view dtype = records ? "" : string();
    if (dtype == "<f4") return;
    fail(path_, fmt::format("holds {}, but float32 is needed; convert with array.astype(np.float32)",
                            records ? "records (a structured dtype)" : describe_dtype(dtype)));
  }

  bool boolean() {
    if (take("True")) return true;
    expect("False");
    return false;
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> sizes;
    const bool comma = list("(", ")", [&] { sizes.push_back(size()); });
    if (sizes.size() == 1 && !comma) malformed("expected ',' in a tuple of one size");
    return sizes;
  }

  std::int64_t size() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const std::string_view digits(rest_.data(), static_cast<std::size_t>(end - rest_.data()));
    if (error == std::errc::result_out_of_range) malformed("size out of range");
    if (error != std::errc() || (digits.size() > 1 && digits[0] == '0')) malformed("expected a size");
    if (digits[0] == '-') malformed("negative size");
    rest_.remove_prefix(digits.size());
    take("L");  // Python 2 wrote (3L, 4L)
    return value;
  }

  const std::string& path_;
  std::string_view rest_;
};

// The size of the file that the header describes.
std::int64_t promised_bytes(const std::string& path, const NpyHeader& header) {
  std::int64_t bytes = sizeof(float);
  for (const std::int64_t size : header.shape) {
    if (size == 0) continue;  // the other sizes must still fit, as elements() multiplies them first
    if (bytes > (std::numeric_limits<std::int64_t>::max() - header.data_offset) / size) {
      fail(path, "promises 2^63 bytes or more; save the array again with numpy.save");
    }
    bytes *= size;
  }
  return header.data_offset + (header.elements() == 0 ? 0 : bytes);
}

}  // namespace

std::int64_t NpyHeader::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

NpyHeader read_npy_header(const std::string& path) {
  const File file = open_regular(path);
  // Magic, version, then the length of the text that follows: 2 bytes in version 1.0, 4 in 2.0 and 3.0.
  unsigned char start[12] = {};
  const std::size_t got = std::fread(start, 1, sizeof start, file.get());
  const std::string_view magic(reinterpret_cast<const char*>(start), kMagic.size());
  if (magic.starts_with("PK\x03\x04")) {
    fail(path, "is a .npz archive; load one of its arrays and save that with numpy.save");
  }
  const int major = start[6], minor = start[7];
  if (got < sizeof start || magic != kMagic || major < 1 || major > 3 || minor != 0) {
    fail(path, "is not a .npy file of version 1.0, 2.0 or 3.0; write it with numpy.save");
  }
  std::size_t length = start[8] + 0x100u * start[9];
  if (major > 1) length += 0x10000u * start[10] + 0x1000000u * start[11];
  if (length > kMaxHeader) fail(path, "has an absurdly long header; save the array again with numpy.save");
  std::string text(length, '\0');
  const std::int64_t text_offset = major > 1 ? 12 : 10;
  read_at(file, path, text_offset, text.data(), length);

  NpyHeader header = HeaderParser(path, text).parse();
  header.data_offset = text_offset + static_cast<std::int64_t>(length);
  std::error_code error;  // makes the size -1: the file has gone
  const auto file_bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  const std::int64_t promised = promised_bytes(path, header);
  if (file_bytes != promised) {
    fail(path, fmt::format("is {}: {} bytes, but its header promises {}; write it again with numpy.save",
                           file_bytes < promised ? "truncated" : "too long", file_bytes, promised));
  }
  return header;
}

void read_npy_data(const std::string& path, const NpyHeader& header, float* out) {
  const File file = open_regular(path);
  read_at(file, path, header.data_offset, out, static_cast<std::size_t>(header.elements()) * sizeof(float));
}

std::string npy_header_bytes(const std::vector<std::int64_t>& shape, bool fortran_order) {
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': {}, 'shape': ({}{}), }}",
                                 fortran_order ? "True" : "False", fmt::join(shape, ", "),
                                 shape.size() == 1 ? "," : "");  // (3) would be an int

  const std::size_t prefix = kMagic.size() + 4;  // version, length
  text.append(63 - (prefix + text.size()) % 64, ' ');
  text += '\n';
  if (text.size() > kMaxHeader || std::ranges::any_of(shape, [](auto size) { return size < 0; })) {
    throw std::invalid_argument("npy_header_bytes: negative size or too many dimensions");
  }
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return bytes + text;
}

}  // namespace harness
