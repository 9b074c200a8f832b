#include "common/harness/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/error.hpp"

namespace {

namespace fs = std::filesystem;
using harness::InputError;
using harness::OutputFile;

class Output : public testing::Test {
 protected:
  Output() {
    std::string name = testing::TempDir() + "output_file_test_XXXXXX";
    directory_ = mkdtemp(name.data());
    path_ = directory_ + "/out.json";
  }
  ~Output() override { fs::remove_all(directory_); }

  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  static mode_t mode(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  auto files() const { return std::distance(fs::directory_iterator(directory_), {}); }

  static void write_and_commit(const std::string& path, const std::string& text) {
    OutputFile file(path);
    file.write(text.data(), text.size());
    file.commit();
  }

  std::string directory_;
  std::string path_;
};

TEST_F(Output, AppearsWhenCommitted) {
  OutputFile file(path_);
  file.write("abc", 3);
  file.write("d\0e", 3);
  EXPECT_FALSE(fs::exists(path_));
  file.commit();
  EXPECT_EQ(contents(path_), std::string("abcd\0e", 6));
  EXPECT_EQ(files(), 1);
}

TEST_F(Output, NothingChangesWithoutCommit) {
  OutputFile(path_).write("abc", 3);
  EXPECT_EQ(files(), 0);
  put(path_, "old");
  OutputFile(path_).write("abc", 3);
  EXPECT_EQ(contents(path_), "old");
  write_and_commit(path_, "new");
  EXPECT_EQ(contents(path_), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(Output, Permissions) {
  const mode_t before = umask(027);
  write_and_commit(path_, "abc");
  umask(before);
  EXPECT_EQ(mode(path_), 0640u);

  chmod(path_.c_str(), 0600);  // one that is replaced stays as private as it was
  write_and_commit(path_, "abc");
  EXPECT_EQ(mode(path_), 0600u);
}

TEST_F(Output, SymbolicLinkIsFollowed) {
  const std::string link = directory_ + "/link";
  fs::create_directory(directory_ + "/sub");
  put(directory_ + "/sub/target", "old");
  fs::create_symlink("sub/target", link);
  write_and_commit(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(contents(directory_ + "/sub/target"), "new");
}

TEST_F(Output, PipesAreWrittenDirectly) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_and_commit(path_, "abc");
  char text[4] = {};
  EXPECT_EQ(read(reader, text, 3), 3);
  EXPECT_STREQ(text, "abc");
  close(reader);
}

TEST_F(Output, ReadOnlyFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  put(path_, "old");
  chmod(path_.c_str(), 0400);
  EXPECT_THROW(OutputFile file(path_), InputError);
}

TEST_F(Output, FileTooLarge) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text(3000, 'x');
  {
    OutputFile file(path_);
    EXPECT_THROW(file.write(text.data(), text.size()), InputError);
    EXPECT_EQ(files(), 0);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
}

TEST_F(Output, FailedRenameLeavesNoTemporary) {
  OutputFile file(path_);
  fs::create_directory(path_);
  EXPECT_THROW(file.commit(), InputError);
  EXPECT_EQ(files(), 1);  // the directory
}

TEST_F(Output, ManyAtOnce) {
  for (int round = 0; round < 3; ++round) {  // places in the table are free again
    std::vector<std::unique_ptr<OutputFile>> several;
    for (int i = 0; i < 6; ++i) several.push_back(std::make_unique<OutputFile>(path_));
    for (const auto& file : several) file->commit();
    EXPECT_EQ(files(), 1);
  }
  OutputFile last(path_);
  EXPECT_EQ(files(), 2);
  harness::remove_temporaries();
  EXPECT_EQ(files(), 1);
  EXPECT_THROW(last.commit(), InputError);  // what was removed cannot appear
}

TEST_F(Output, SignalsRemoveTemporaries) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGABRT, SIGSEGV}) {
    EXPECT_EXIT(
        {
          harness::remove_temporaries_on_signals();
          OutputFile file(path_);
          if (files() == 1) raise(signal);
        },
        testing::KilledBySignal(signal), "");
    EXPECT_EQ(files(), 0) << signal;
  }
}

TEST_F(Output, IgnoredSignalsStayIgnored) {  // as under nohup
  const auto before = signal(SIGHUP, SIG_IGN);
  harness::remove_temporaries_on_signals();
  OutputFile file(path_);
  raise(SIGHUP);
  EXPECT_EQ(files(), 1);
  signal(SIGHUP, before);
}

TEST_F(Output, NothingAfterCommit) {
  OutputFile file(path_);
  file.commit();
  EXPECT_THROW(file.write("abc", 3), std::logic_error);
  EXPECT_THROW(file.commit(), std::logic_error);
  EXPECT_EQ(contents(path_), "");
}

}  // namespace
