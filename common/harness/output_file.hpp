#pragma once

#include <cstddef>
#include <string>

namespace harness {

// An output file that appears only when it is complete. The bytes go to a temporary file in the directory of
// `path`, which commit() renames to `path`; without commit() the destructor removes it, and `path` stays as
// it was. A new file gets the usual permissions (umask); a replaced one keeps its own. These are written to
// directly: devices and pipes (/dev/null), and this process's standard output or error, even if the shell has
// redirected it to a regular file (/dev/stdout).
class OutputFile {
 public:
  // Throws InputError if `path` cannot be written, so that this is known before any work begins.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends. On an error (the disk is full, …), throws InputError and gives the file up: it can no longer be
  // committed.
  void write(const void* bytes, std::size_t count);

  // Throws InputError if the system reports a late error. Neither write() nor commit() may follow.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& problem) const;
  void open_temporary();
  void discard() noexcept;

  std::string path_;       // as the user gave it, for messages
  std::string target_;     // `path` with symbolic links resolved
  std::string temporary_;  // empty: written directly, or nothing left to remove
  int fd_ = -1;            // owned; -1 after commit() or a failure
};

// Removes the temporary files of all objects that are neither committed nor destroyed. Async-signal-safe.
void remove_temporaries() noexcept;

// Makes the signals that end a program (Ctrl-C, kill, a crash, ...) remove them first. Ignored signals stay
// ignored.
void remove_temporaries_on_signals();

}  // namespace harness
