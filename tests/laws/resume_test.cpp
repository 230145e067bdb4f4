// Law 6: an interrupted run, resumed, equals the uninterrupted one, bit for bit.
#include <gtest/gtest.h>

#include "core/fault_point.h"
#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using testing::Record;
using testing::SmallRun;

constexpr int kSteps = 20;

struct Setting {
  const char* name;
  std::string precision, clip, optimizer = "adamw";
};
constexpr int kSettings = 5;
const Setting kSetting[kSettings] = {{"fp32", "fp32", "none"},
                                     {"bf16_held", "bf16", "global"},
                                     {"fp16", "fp16", "none"},
                                     {"bf16", "bf16", "none"},
                                     {"fp32_sgd", "fp32", "per_layer", "sgd"}};

class Resume : public ::testing::TestWithParam<int> {
 protected:
  Options options() const {
    Options options = run_.options();
    options.precision.compute = kSetting[GetParam()].precision;
    options.precision.loss_scale_growth = 3;  // fp16: the scale moves, and some steps are skipped
    options.optimizer.clip = kSetting[GetParam()].clip;
    options.optimizer.name = kSetting[GetParam()].optimizer;
    return options;
  }

  // Trains to the end, saving after every step.
  Record uninterrupted() const {
    Trainer trainer(options());
    Record record;
    for (int step = 0; step < kSteps; ++step) {
      add(record, trainer.step());
      trainer.save();
    }
    record.hash = trainer.weights_hash();
    return record;
  }

  // Continues from the checkpoint of `step` in a new trainer, with other threads and another stash.
  Record resumed(int step) const {
    Options other = options();
    other.device.threads = other.eps.threads = 1 + step % 3;
    other.transfer.stash = step % 2 ? "host" : "device";
    Trainer trainer(other);
    char name[32];
    std::snprintf(name, sizeof(name), "step-%08d", step);
    trainer.resume(run_.folder() / "checkpoints" / name);
    EXPECT_EQ(trainer.completed_steps(), step);
    return testing::record_of(trainer, kSteps - step);
  }

  SmallRun run_;
};

Record tail(const Record& record, int step) {
  Record rest = record;
  rest.losses.erase(rest.losses.begin(), rest.losses.begin() + step);
  rest.norms.erase(rest.norms.begin(), rest.norms.begin() + step);
  rest.scales.erase(rest.scales.begin(), rest.scales.begin() + step);
  return rest;
}

TEST_P(Resume, FromEachOfTwentySteps) {
  const Record whole = uninterrupted();
  for (int step = 1; step <= kSteps; ++step) EXPECT_EQ(resumed(step), tail(whole, step)) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Settings, Resume, ::testing::Range(0, kSettings),
                         [](const auto& info) { return std::string(kSetting[info.param].name); });

#ifdef L2L_FAULT_POINTS
// Twins: a field that is not restored is noticed, by another result or by a refusal.
class ResumeTwin : public Resume {};

TEST_P(ResumeTwin, ADroppedFieldIsCaught) {
  const Record whole = uninterrupted();
  std::vector<std::string> fields = {"master", "moments", "update_counts", "step", "data_position", "seed"};
  if (options().precision.compute == "fp16") fields.push_back("loss_scale");
  for (const std::string& field : fields) {
    arm_fault_point(("checkpoint.drop_" + field).c_str());
    bool caught = false;
    try {
      Trainer trainer(options());
      trainer.resume(run_.folder() / "checkpoints" / "step-00000010");
      caught = testing::record_of(trainer, kSteps - 10) != tail(whole, 10);
    } catch (const BadInput&) {
      caught = true;
    }
    arm_fault_point("");
    EXPECT_TRUE(caught) << field;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, ResumeTwin, ::testing::Values(0, 1, 2),
                         [](const auto& info) { return std::string(kSetting[info.param].name); });
#endif

TEST(ResumeErrors, OtherSeed) {
  const SmallRun run;
  Trainer first(run.options());
  first.step();
  first.save();
  Options other = run.options();
  other.run.seed = 99;
  Trainer second(other);
  EXPECT_THROW(second.resume(run.folder() / "checkpoints"), BadInput);
}

TEST(ResumeErrors, NothingThere) {
  const SmallRun run;
  Trainer trainer(run.options());
  EXPECT_THROW(trainer.resume(run.folder() / "nowhere"), BadInput);
}

TEST(ResumeErrors, OtherShape) {
  const SmallRun run;
  Trainer first(run.options());
  first.step();
  first.save();
  Options other = run.options();
  other.model.hidden = 48;
  Trainer second(other);
  EXPECT_THROW(second.resume(run.folder() / "checkpoints"), BadInput);
}

TEST(ResumeErrors, ADamagedCheckpointIsPassedOverForAnOlderOne) {
  const SmallRun run;
  const auto directory = run.folder() / "checkpoints";
  Trainer first(run.options());
  for (int step = 0; step < 2; ++step) {
    first.step();
    first.save();
  }
  std::fstream file(directory / "step-00000002" / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('!');
  file.close();
  Trainer second(run.options());
  EXPECT_EQ(second.resume(directory).filename(), "step-00000001");
  EXPECT_EQ(second.completed_steps(), 1);
  Trainer third(run.options());
  EXPECT_THROW(third.resume(directory / "step-00000002"), CorruptFile);
}

TEST(SetAside, LaterStepsOnly) {
  const SmallRun run;
  const auto directory = run.folder() / "checkpoints";
  Trainer trainer(run.options());
  for (int step = 0; step < 3; ++step) {
    trainer.step();
    trainer.save();
  }
  set_aside_checkpoints(directory, 2);
  EXPECT_TRUE(std::filesystem::exists(directory / "step-00000002"));
  EXPECT_FALSE(std::filesystem::exists(directory / "step-00000003"));
  EXPECT_TRUE(std::filesystem::exists(directory / "earlier-1" / "step-00000003"));
}

TEST(SetAside, CheckpointsOfAnEarlierRunAreKept) {
  const SmallRun run;
  const auto directory = run.folder() / "checkpoints";
  for (int i = 1; i <= 2; ++i) {
    Trainer trainer(run.options());
    trainer.step();
    trainer.save();
    set_aside_checkpoints(directory);
    EXPECT_TRUE(
        std::filesystem::exists(directory / ("earlier-" + std::to_string(i)) / "step-00000001" / "manifest.json"));
    EXPECT_THROW(checkpoint_options(directory), BadInput);
  }
}

TEST(CheckpointOptions, AreThoseOfTheRun) {
  const SmallRun run;
  Trainer trainer(run.options());
  trainer.step();
  trainer.save();
  EXPECT_EQ(to_toml(checkpoint_options(run.folder() / "checkpoints")), to_toml(run.options()));
}

}  // namespace
}  // namespace l2l
