// What was measured of a machine comes back; what is damaged or of another machine does not.
#include "runtime/tuning/calibration.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "l2l/errors.h"
#include "l2l/log.h"
#include "tests/support/temporary_folder.h"

namespace l2l::runtime {
namespace {

using testing::TemporaryFolder;

class CalibrationTest : public ::testing::Test {
 protected:
  CalibrationTest() {
    set_log_sink([this](LogLevel, std::string_view message) { said_ += std::string(message) + "\n"; });
  }
  ~CalibrationTest() override { set_log_sink({}); }

  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream file(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t files() const {
    const std::filesystem::directory_iterator here(folder_.path());
    return static_cast<std::size_t>(std::distance(begin(here), end(here)));
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "calibration.json";
  std::string said_;
};

TEST_F(CalibrationTest, FiguresComeBackToTheBit) {
  Calibration first(file_, "here");
  EXPECT_FALSE(first.find("program"));
  first.set("program", 1.0 / 3);
  first.set(memory_bandwidth(2), 44.2e9);
  EXPECT_EQ(files(), 0u);  // until save()
  first.save();
  EXPECT_EQ(files(), 1u);
  const Calibration second(file_, "here");
  EXPECT_EQ(second.find("program"), 1.0 / 3);
  EXPECT_EQ(second.find(memory_bandwidth(2)), 44.2e9);
  EXPECT_FALSE(second.find(memory_bandwidth(1)));
  EXPECT_EQ(said_, "");
}

TEST_F(CalibrationTest, MachinesDoNotSeeEachOtherAndDoNotHarmEachOther) {
  Calibration here(file_, "here"), there(file_, "there");
  here.set("program", 1);
  here.save();
  there.set("program", 2);  // opened before `here` saved
  there.save();
  EXPECT_EQ(Calibration(file_, "here").find("program"), 1);
  EXPECT_EQ(Calibration(file_, "there").find("program"), 2);
  EXPECT_FALSE(Calibration(file_, "elsewhere").find("program"));
}

TEST_F(CalibrationTest, TwoProcessesAddToOneFile) {
  Calibration first(file_, "here"), second(file_, "here");
  first.set("a", 1);
  first.save();
  second.set("b", 2);
  second.save();
  const Calibration both(file_, "here");
  EXPECT_EQ(both.find("a"), 1);
  EXPECT_EQ(both.find("b"), 2);
}

TEST_F(CalibrationTest, AFileOfManyFiguresKeepsThoseInUse) {
  const auto count = [&] { return nlohmann::json::parse(text())["machines"]["here"].size(); };
  {
    Calibration all(file_, "here"), there(file_, "there");
    for (std::size_t i = 0; i < Calibration::kMostFigures; ++i) all.set("figure " + std::to_string(i), 1);
    all.save();
    there.set("another machine's", 2);
    there.save();
  }
  EXPECT_EQ(count(), Calibration::kMostFigures);
  Calibration one(file_, "here");
  EXPECT_TRUE(one.find("figure 7"));
  one.set_kernel_choices({{"a GPU", {{"product", "fast"}}}});
  one.save();
  EXPECT_EQ(count(), Calibration::kMostFigures) << "no figure was added";
  one.set("new", 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  one.save_now_and_then();
  EXPECT_EQ(count(), Calibration::kMostFigures + 1) << "a run that goes on may ask for any of them";
  one.set("newer", 4);
  one.save();
  EXPECT_EQ(count(), 3u);
  const Calibration after(file_, "here");
  for (const char* const name : {"figure 7", "new", "newer"}) EXPECT_TRUE(after.find(name)) << name;
  EXPECT_EQ(Calibration(file_, "there").find("another machine's"), 2);
}

TEST_F(CalibrationTest, ChoicesOfKernelsComeBackOnEveryMachine) {
  const KernelChoices of_first = {{"a GPU", {{"a product", "0123"}, {"\"another\"", "4567"}}}},
                      of_second = {{"another GPU", {{"a product", "89ab"}}}};
  Calibration first(file_, "here"), second(file_, "there");
  first.set_kernel_choices(of_first);
  first.set("program", 1);
  first.save();
  second.set_kernel_choices(of_second);  // opened before the first saved
  second.save();
  Calibration both(file_, "elsewhere");
  KernelChoices all = of_first;
  all.insert(of_second.begin(), of_second.end());
  EXPECT_EQ(both.kernel_choices(), all);
  EXPECT_EQ(Calibration(file_, "here").find("program"), 1);
  const std::string before = text();
  both.set_kernel_choices(of_first);  // as they are
  both.save();
  EXPECT_EQ(text(), before);
  both.set_kernel_choices({{"a GPU", {}}});
  both.save();
  EXPECT_TRUE(Calibration(file_, "here").kernel_choices().at("a GPU").empty());
  EXPECT_EQ(Calibration(file_, "here").kernel_choices().at("another GPU"), of_second.at("another GPU"));
  EXPECT_EQ(said_, "");
}

TEST_F(CalibrationTest, ADamagedFileIsIgnoredWithAWarningAndWrittenAnew) {
  const std::string sound = R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":1}}})";
  write(sound);
  ASSERT_EQ(Calibration(file_, "here").find("a"), 1);
  const std::string damaged[] = {
      "",
      sound.substr(0, 29),
      sound.substr(0, sound.size() - 1),
      sound + std::string(100'000, '['),
      R"({"format":"l2l-calibration","version":2,"machines":{"here":{"a":1}}})",
      R"({"format":"l2l-calibration","version":1})",
      R"({"format":"l2l-calibration","version":1,"machines":[1]})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":0}}})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":-1}}})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":1e999}}})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":"1"}}})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":7}})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":1}},"kernel_choices":[]})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":1}},"kernel_choices":{"a GPU":"0123"}})",
      R"({"format":"l2l-calibration","version":1,"machines":{"here":{"a":1}},"kernel_choices":{"a GPU":{"b":7}}})",
  };
  for (const std::string& text : damaged) {
    SCOPED_TRACE(text.substr(0, 100));
    write(text);
    said_.clear();
    Calibration calibration(file_, "here");
    EXPECT_FALSE(calibration.find("a"));
    EXPECT_NE(said_.find(file_.string()), std::string::npos) << said_;
    calibration.set("b", 2);
    calibration.save();
    said_.clear();
    EXPECT_EQ(Calibration(file_, "here").find("b"), 2);
    EXPECT_EQ(said_, "");
  }
}

TEST_F(CalibrationTest, WhatIsNoFileOrTooLargeIsIgnored) {
  EXPECT_FALSE(Calibration(folder_.path(), "here").find("a"));
  EXPECT_NE(said_.find("cannot be read"), std::string::npos) << said_;
  write("");
  std::filesystem::resize_file(file_, 1ull << 40);  // sparse
  EXPECT_FALSE(Calibration(file_, "here").find("a"));
  EXPECT_NE(said_.find("16 MiB"), std::string::npos) << said_;
}

TEST_F(CalibrationTest, WhatCannotBeWrittenIsAWarning) {
  write("a file");
  Calibration calibration(file_ / "below", "here");
  calibration.set("a", 1);
  calibration.save();
  EXPECT_NE(said_.find("L2L_CALIBRATION"), std::string::npos) << said_;
  EXPECT_EQ(text(), "a file");
}

// L2L_CALIBRATION=model.safetensors, say.
TEST_F(CalibrationTest, AFileOfAnotherKindStays) {
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("\xff\xfe"), std::string(100'000, '['),
        std::string(R"({"format":"l2l-checkpoint","version":1,"machines":{"here":{"a":1}}})")}) {
    SCOPED_TRACE(text.substr(0, 100));
    write(text);
    said_.clear();
    Calibration calibration(file_, "here");
    EXPECT_NE(said_.find("left as it is: set L2L_CALIBRATION to another file"), std::string::npos) << said_;
    calibration.set("a", 1);
    calibration.save();
    EXPECT_NE(said_.find("is no calibration; what was measured is not kept"), std::string::npos) << said_;
    EXPECT_EQ(this->text(), text);
  }
}

// L2L_CALIBRATION=/dev/null of a superuser, say.
TEST_F(CalibrationTest, WhatIsNoFileStays) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  Calibration calibration(file_, "here");
  calibration.set("a", 1);
  calibration.save();
  EXPECT_TRUE(std::filesystem::is_fifo(file_));
  EXPECT_NE(said_.find("is no calibration; what was measured is not kept"), std::string::npos) << said_;
  EXPECT_FALSE(calibration.is_saved());
}

TEST_F(CalibrationTest, ALinkStays) {
  const std::filesystem::path there = folder_ / "there";
  std::filesystem::create_symlink("there", file_);
  for (const double value : {1, 2}) {  // first the link leads nowhere
    Calibration calibration(file_, "here");
    calibration.set("a", value);
    calibration.save();
    EXPECT_TRUE(calibration.is_saved());
    EXPECT_TRUE(std::filesystem::is_symlink(file_));
    EXPECT_EQ(Calibration(there, "here").find("a"), value);
  }
}

TEST_F(CalibrationTest, FiguresAreAboveZero) {
  Calibration calibration(file_, "here");
  for (const double value : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(calibration.set("a", value), Error);
  }
  EXPECT_FALSE(calibration.find("a"));
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name), before_(std::getenv(name) ? std::getenv(name) : "") {
    setenv(name, value, 1);
  }
  ~Variable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

TEST(CalibrationFile, IsWhatTheEnvironmentSays) {
  const Variable home("HOME", "/home/of"), cache("XDG_CACHE_HOME", "/cache");
  {
    const Variable file("L2L_CALIBRATION", "/named.json");
    EXPECT_EQ(calibration_file(), "/named.json");
  }
  const Variable none("L2L_CALIBRATION", "");
  const std::filesystem::path name = calibration_file().filename();
  EXPECT_EQ(calibration_file(), "/cache/l2l" / name);
  EXPECT_EQ(name.string().size(), std::string("machine-0123456789abcdef.json").size());
  const Variable no_cache("XDG_CACHE_HOME", "");
  EXPECT_EQ(calibration_file(), "/home/of/.cache/l2l" / name);
  const Variable no_home("HOME", "");
  EXPECT_EQ(calibration_file(), "");
}

TEST(MachineKey, NamesCoresAndLibrary) {
  EXPECT_NE(machine_key().find(" cores"), std::string::npos);
  EXPECT_NE(machine_key().find("L2L "), std::string::npos);
}

}  // namespace
}  // namespace l2l::runtime
