// Validations of a run, and its best checkpoint: a kill or a stop at any moment changes neither.
#include <fstream>
#include <optional>

#include "tests/runtime/run_fixture.h"

namespace l2l::run {
namespace {

namespace fs = std::filesystem;

// By step, as validations.json has them.
std::string history(const Options& options) {
  std::ifstream file(options.checkpoint.directory / "validations.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Whose runs end by run.patience, at the step that follows from all validations before.
Options patient(Options options) {
  options.run.steps = 1000;
  options.run.validate_every = 2;
  options.run.patience = 2;
  options.checkpoint.best = "loss";
  options.checkpoint.every = 2;
  options.optimizer.learning_rate = 0.3;
  options.schedule = {};
  return options;
}

TEST_F(Run, AValidationThatAStopCutsOffIsMadeAfterTheResume) {
  const Options options = patient(small());
  Told whole;
  EXPECT_EQ(run(options, whole).end, RunEnd::patience);
  const std::string expected = history(options);
  ASSERT_GT(whole.validations.size(), 2u);
  EXPECT_EQ(std::set(whole.validations.begin(), whole.validations.end()).size(),
            whole.validations.size());  // each once
  for (const std::int64_t cut : whole.validations) {
    fs::remove_all(options.checkpoint.directory);
    std::optional<Trainer> first(options);
    Told told;
    told.before_validation = [&](std::int64_t step) {
      if (step == cut) first->request_stop();
    };
    EXPECT_EQ(first->run(told).end, RunEnd::stopped);
    EXPECT_EQ(first->completed_steps(), cut);
    first.reset();
    EXPECT_NE(history(options), expected);
    Trainer second(options);
    second.resume(options.checkpoint.directory);
    Told rest;
    EXPECT_EQ(second.run(rest).end, RunEnd::patience);
    EXPECT_EQ(rest.validations.front(), cut);
    EXPECT_EQ(history(options), expected);
    EXPECT_EQ(second.completed_steps(), whole.validations.back());
  }
}

TEST_F(Run, ValuesOfAnotherMetricOrOtherDataAreNotCompared) {
  Options options = small();
  options.run.validate_every = 1;
  options.checkpoint.best = "loss";
  Told told;
  run(options, told);
  const auto resumed = [&] {
    Trainer trainer(options);
    trainer.resume(options.checkpoint.directory);
    Told rest;
    trainer.run(rest, {.steps = trainer.completed_steps() + 1});
    return history(options);
  };
  EXPECT_NE(resumed().find("[1,"), std::string::npos);
  std::ofstream(run_.folder() / "other") << std::string(2000, 'o');
  options.data.validation = {run_.folder() / "other"};
  EXPECT_EQ(resumed().find("[1,"), std::string::npos);
  EXPECT_TRUE(fs::exists(options.checkpoint.directory / "earlier-best-1/manifest.json"));
  // As earlier versions wrote them.
  std::ofstream(options.checkpoint.directory / "validations.json") << "[[1,0.5]]";
  EXPECT_NE(resumed().find("[1,0.5],["), std::string::npos);
}

TEST_F(Run, ARunGoesOnFromTheBestAlthoughItIsReplaced) {
  Options options = patient(small());
  options.run.steps = 8;
  Told told;
  run(options, told);
  std::ofstream(run_.folder() / "other") << std::string(2000, 'o');
  options.data.validation = {run_.folder() / "other"};
  Trainer trainer(options);
  trainer.resume(told.best);
  const std::int64_t first = trainer.completed_steps();
  Told rest;
  trainer.run(rest);
  EXPECT_EQ(rest.validations.front(), first);
  EXPECT_TRUE(fs::exists(told.best / "manifest.json"));
  EXPECT_TRUE(fs::exists(options.checkpoint.directory / "earlier-best-1/manifest.json"));
}

// A kill between the two leaves a better `best` than validations.json knows.
TEST_F(Run, AValidationThatIsKeptAndNotRecordedIsMadeAgain) {
  Options options = small();
  options.run.validate_minutes = 1e-9;
  options.checkpoint.best = "loss";
  Told told;
  run(options, told);
  std::ofstream(options.checkpoint.directory / "validations.json") << "[]";
  Trainer trainer(options);
  trainer.resume(told.best);
  const std::int64_t first = trainer.completed_steps();
  Told rest;
  trainer.run(rest, {.steps = first + 1});
  EXPECT_EQ(rest.validations.front(), first);
  EXPECT_NE(history(options).find("[[" + std::to_string(first) + ","), std::string::npos);
}

TEST_F(Run, ABestCheckpointWhoseReplacementWasCutOffIsRestored) {
  Options options = small();
  options.run.validate_every = 1;
  options.checkpoint.best = "loss";
  Told told;
  run(options, told);
  const fs::path& directory = options.checkpoint.directory;
  fs::create_directory(directory / ".best.tmp-7");
  fs::rename(told.best, directory / ".best.old-7");
  Trainer trainer(options);
  trainer.resume(directory);
  trainer.run();
  EXPECT_TRUE(fs::exists(told.best / "manifest.json"));
  EXPECT_FALSE(fs::exists(directory / ".best.tmp-7"));
  EXPECT_FALSE(fs::exists(directory / ".best.old-7"));
}

}  // namespace
}  // namespace l2l::run
