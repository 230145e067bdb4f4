// Every call of the file system fails once, or from then on: the error says where and why, the checkpoints of before
// are whole, and the next save clears the rest away.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>

#include "core/files.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "l2l/log.h"
#include "tests/eps/crash_scenario.h"

namespace l2l::eps {
namespace {

using namespace testing;
using ::l2l::testing::DiskFault;
using ::l2l::testing::FailingDisk;
using ::l2l::testing::MemoryDisk;

constexpr DiskFault kFaults[] = {{0, EIO, false}, {0, ENOSPC, false}, {0, EIO, true}, {0, ENOSPC, true}};

std::string name_of(const DiskFault& fault) {
  return std::string(std::strerror(fault.error)) + (fault.for_good ? " from call " : " at call ") +
         std::to_string(fault.call);
}

// What was tried on a disk that holds `old_saves`, and how it ended.
class Attempt {
 public:
  explicit Attempt(int old_saves) : run_(small_layout()) {
    disk_.make_folder("/data");
    const FileSystemOverride replaced(disk_);
    for (int i = 1; i <= old_saves; ++i) save(static_cast<std::uint64_t>(i), 2);
    old_ = last_;
    set_log_sink([this](LogLevel, std::string_view message) { said_ += std::string(message) + "\n"; });
  }
  ~Attempt() { set_log_sink({}); }

  // `function` on a disk with `fault`. Returns the number of calls that it took.
  template <typename Function>
  std::size_t run(const DiskFault& fault, Function function) {
    FailingDisk failing(disk_, fault);
    const FileSystemOverride replaced(failing);
    try {
      function();
    } catch (const Error& error) {
      threw_ = true;
      bad_input_ = dynamic_cast<const BadInput*>(&error) != nullptr;
      said_ += error.what();
    }
    failed_ = failing.failed();
    return failing.calls();
  }

  void save(std::uint64_t step, int keep) {
    change(run_.store, 1000 * ++version_);
    last_ = {step, run_.store.state_hash()};
    save_checkpoint(kDirectory, run_.store, run_.store.begin_save(), at_step(step), keep, companions_);
  }
  // A new file, which saves copy from now on.
  void carry(const fs::path& file) {
    const FileSystemOverride replaced(disk_);
    OutputFile output(file);
    output.write("carried");
    output.finish();
    companions_.copies[file.filename().string()] = file;
  }

  std::optional<Saved> found() {
    const FileSystemOverride replaced(disk_);
    return resume(kDirectory);
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    disk_.list(kDirectory, names);
    return names;
  }
  MemoryDisk& disk() { return disk_; }

  bool threw() const { return threw_; }
  bool threw_bad_input() const { return bad_input_; }
  const std::string& said() const { return said_; }      // errors and warnings
  const std::string& failed() const { return failed_; }  // the call that failed
  std::optional<Saved> old() const { return old_; }
  std::optional<Saved> last() const { return last_; }

 private:
  MemoryDisk disk_;
  TestRun run_;
  Companions companions_;
  std::uint64_t version_ = 0;
  std::optional<Saved> old_, last_;
  bool threw_ = false, bad_input_ = false;
  std::string said_, failed_;
};

// Old saves of steps 1, 2, ..., then one of `step`, keeping `keep`.
struct SaveCase {
  const char* name;
  int old_saves;
  std::uint64_t step;
  int keep;
};

class FailingSave : public ::testing::TestWithParam<SaveCase> {
 protected:
  static std::size_t calls() { return try_save({}).second; }
  static std::pair<std::unique_ptr<Attempt>, std::size_t> try_save(const DiskFault& fault) {
    auto attempt = std::make_unique<Attempt>(GetParam().old_saves);
    const std::size_t calls = attempt->run(fault, [&] { attempt->save(GetParam().step, GetParam().keep); });
    return {std::move(attempt), calls};
  }

  // An error where the save failed, a warning where only something old could not be removed.
  static void expect_told(const Attempt& attempt, const DiskFault& fault) {
    if (attempt.failed() == "close" && !attempt.threw()) return;  // of what was only read
    const bool named = attempt.said().starts_with("/: ") || attempt.said().find("/data") != std::string::npos;
    EXPECT_TRUE(named) << attempt.said();
    EXPECT_SAYS(attempt.said(), std::strerror(fault.error));
    EXPECT_FALSE(attempt.threw_bad_input()) << attempt.said();
  }

  static void expect_safe(Attempt& attempt) {
    const std::optional<Saved> found = attempt.found();
    if (attempt.threw()) {
      EXPECT_TRUE(found == attempt.old() || found == attempt.last());
    } else {
      EXPECT_EQ(found, attempt.last());
    }
    attempt.run({}, [&] { attempt.save(9, 1); });
    EXPECT_EQ(attempt.found(), attempt.last());
    EXPECT_EQ(attempt.names(), std::vector<std::string>{"step-00000009"});
  }
};

TEST_P(FailingSave, TellsAndLosesNothing) {
  const std::size_t calls = this->calls();
  for (DiskFault fault : kFaults) {
    for (fault.call = 1; fault.call <= calls; ++fault.call) {
      SCOPED_TRACE(name_of(fault));
      const auto [attempt, ignored] = try_save(fault);
      ASSERT_NE(attempt->failed(), "");
      expect_told(*attempt, fault);
      expect_safe(*attempt);
      if (HasFailure()) return;
    }
  }
  std::cout << calls << " calls, each failed in " << std::size(kFaults) << " ways\n";
}

TEST_P(FailingSave, GoesOnAfterAShortWrite) {
  const std::size_t calls = this->calls();
  std::size_t short_writes = 0;
  for (std::size_t call = 1; call <= calls; ++call) {
    const auto [attempt, made] = try_save({call, 0, false});
    short_writes += made > calls;  // one more to write the rest
    ASSERT_FALSE(attempt->threw()) << attempt->said();
    ASSERT_EQ(attempt->found(), attempt->last());
  }
  EXPECT_GT(short_writes, 8u);
}

TEST_P(FailingSave, TriesAgainAfterASignal) {
  const std::size_t calls = this->calls();
  std::size_t retried = 0;
  for (std::size_t call = 1; call <= calls; ++call) {
    const auto [attempt, made] = try_save({call, EINTR, false});
    if (attempt->failed() != "write" && attempt->failed() != "read") continue;
    ++retried;
    ASSERT_FALSE(attempt->threw()) << attempt->said();
    ASSERT_EQ(attempt->found(), attempt->last());
  }
  EXPECT_GT(retried, 8u);
}

TEST(FailingCopy, IsLeftOutWithAWarning) {
  std::size_t left_out = 0;
  for (DiskFault fault{1, EIO, false};; ++fault.call) {
    Attempt attempt(0);
    attempt.carry("/carried");
    const std::size_t calls = attempt.run(fault, [&] { attempt.save(1, 1); });
    if (fault.call > calls) break;
    if (!attempt.said().starts_with("/carried: ")) continue;
    ++left_out;
    EXPECT_FALSE(attempt.threw()) << attempt.said();
    EXPECT_SAYS(attempt.said(), "the checkpoint is written without it");
    EXPECT_EQ(attempt.found(), attempt.last());
  }
  EXPECT_GE(left_out, 3u);  // opened, its size asked for, read
}

INSTANTIATE_TEST_SUITE_P(Cases, FailingSave,
                         ::testing::Values(SaveCase{"first", 0, 1, 1}, SaveCase{"second", 1, 2, 1},
                                           SaveCase{"again", 2, 2, 1}, SaveCase{"third", 2, 3, 2}),
                         [](const auto& info) { return info.param.name; });

TEST(FailingSetAside, TellsAndLosesNothing) {
  for (DiskFault fault : kFaults) {
    for (fault.call = 1;; ++fault.call) {
      SCOPED_TRACE(name_of(fault));
      Attempt attempt(2);
      attempt.run(fault, [] { set_aside(kDirectory, 0); });
      if (attempt.failed().empty()) break;
      if (attempt.failed() != "close") {
        ASSERT_TRUE(attempt.threw());
        EXPECT_FALSE(attempt.threw_bad_input());
        EXPECT_SAYS(attempt.said(), std::strerror(fault.error));
        EXPECT_SAYS(attempt.said(), kDirectory);
      }
      attempt.run({}, [] { set_aside(kDirectory, 0); });  // what is still there
      std::size_t whole = 0;
      for (const std::string& name : attempt.names()) {
        ASSERT_TRUE(name.starts_with("earlier-")) << name;
        const FileSystemOverride replaced(attempt.disk());
        for (const CheckpointFolder& folder : list_checkpoints(fs::path(kDirectory) / name))
          whole += resume(folder.path).has_value();
      }
      ASSERT_EQ(whole, 2u);
    }
  }
}

// A checkpoint that cannot be read from its disk is passed over with a warning, where there is an older one.
TEST(FailingResume, FallsBackAndTells) {
  std::size_t fallen_back = 0;
  for (std::size_t call = 1;; ++call) {
    Attempt attempt(2);
    std::optional<Saved> found;
    attempt.run({call, EIO, false}, [&] { found = resume(kDirectory); });
    if (attempt.failed().empty()) break;
    if (found && found != attempt.last()) {
      EXPECT_EQ(found->step, 1u);
      ++fallen_back;
    }
    EXPECT_TRUE(found || call < 4) << "call " << call << ": only listing cannot be done otherwise";
  }
  EXPECT_GT(fallen_back, 10u);
}

// One that this process cannot read for now is not: it may be sound.
TEST(FailingResume, OfASoundCheckpointIsRefused) {
  for (const int error : {ENOMEM, EMFILE, EACCES}) {
    std::size_t refused = 0;
    for (std::size_t call = 1;; ++call) {
      Attempt attempt(2);
      std::optional<Saved> found;
      attempt.run({call, error, false}, [&] { found = resume(kDirectory); });
      if (attempt.failed().empty()) break;
      EXPECT_TRUE(!found || found == attempt.last()) << attempt.failed() << ", call " << call;
      if (!found) ++refused;
    }
    EXPECT_GT(refused, 10u);
  }
}

}  // namespace
}  // namespace l2l::eps
