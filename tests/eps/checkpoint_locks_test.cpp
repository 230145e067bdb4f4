#include "eps/checkpoint/checkpoint_locks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/file_lock.h"
#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

namespace fs = std::filesystem;

using ::l2l::testing::refusal;
using ::l2l::testing::TemporaryFolder;

// Why a run may not save there; "(none)": it may.
std::string refused(const fs::path& directory) {
  return refusal([&] { const RunLock lock(directory); });
}

TEST(RunLock, ASecondOneIsToldWhoHasTheFirst) {
  const TemporaryFolder folder;
  const RunLock first(folder.path());
  EXPECT_TRUE(first.held());
  EXPECT_NE(refused(folder.path()).find("another Trainer of this process saves into it"), std::string::npos);
  EXPECT_NE(refusal([&] { check_unlocked(folder.path()); }).find("another Trainer"), std::string::npos);
}

// In containers that share a host's name, processes have the same number.
TEST(RunLock, AProcessOfTheSameNumberIsAnother) {
  const TemporaryFolder folder;
  const std::string number = std::to_string(getpid());
  const std::optional<FileLock> other = FileLock::make(folder / ".lock");
  other->write("somewhere " + number + "\n1\n");
  EXPECT_NE(refused(folder.path()).find("process " + number + " on somewhere saves into it"), std::string::npos);
}

// As root: as another user, who may write into the directory.
class LockOfAnotherUser : public ::testing::Test {
 protected:
  LockOfAnotherUser() {
    fs::permissions(folder_.path(), fs::perms::all);
    std::ofstream(folder_ / ".lock") << "";
  }
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
    if (seteuid(kUser) != 0) GTEST_SKIP() << "this root may not become another user";
    const bool reached = faccessat(AT_FDCWD, folder_.path().c_str(), W_OK | X_OK, AT_EACCESS) == 0;
    ASSERT_EQ(seteuid(0), 0);
    if (!reached) GTEST_SKIP() << "another user cannot come into the folder of temporary files";
  }
  std::string refused_with(fs::perms permissions) {
    fs::permissions(folder_ / ".lock", permissions);
    if (seteuid(kUser) != 0) return "seteuid() failed";
    const std::string said = refused(folder_.path());
    return seteuid(0) == 0 ? said : "seteuid() failed";
  }
  static constexpr uid_t kUser = 65534;
  const TemporaryFolder folder_;
};

TEST_F(LockOfAnotherUser, IsTakenWhereItCanBeRead) {
  constexpr fs::perms kReadable =
      fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read;
  EXPECT_EQ(refused_with(kReadable), "(none)");
  const RunLock held(folder_.path());
  EXPECT_NE(refused_with(kReadable).find("saves into it"), std::string::npos);
}

TEST_F(LockOfAnotherUser, IsRefusedWhereItCannot) {
  const std::string said = refused_with(fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_NE(said.find("cannot tell whether another run saves there"), std::string::npos) << said;
}

}  // namespace
}  // namespace l2l::eps
