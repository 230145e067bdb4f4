// Law 6: an interrupted run, resumed, equals the uninterrupted one, bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/fault_point.h"
#include "eps/checkpoint/manifest.h"
#include "runtime/resume_changes.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l {
namespace {

using testing::Record;
using testing::SmallRun;

constexpr int kSteps = 20;

struct Setting {
  const char* name;
  std::string precision, clip, optimizer = "adamw", family = "gpt2";
};
constexpr int kSettings = 7;
const Setting kSetting[kSettings] = {{"fp32", "fp32", "none"},
                                     {"bf16_held", "bf16", "global"},
                                     {"fp16", "fp16", "none"},
                                     {"bf16", "bf16", "none"},
                                     {"fp32_held", "fp32", "global"},
                                     {"fp32_sgd", "fp32", "per_layer", "sgd"},
                                     // Its masks are drawn again.
                                     {"fp32_bert", "fp32", "none", "adamw", "bert"}};

class Resume : public ::testing::TestWithParam<int> {
 protected:
  Options options() const {
    Options options = run_.options(kSetting[GetParam()].family);
    options.precision.compute = kSetting[GetParam()].precision;
    options.precision.loss_scale_growth = 3;  // fp16: the scale moves, and some steps are skipped
    options.optimizer.clip = kSetting[GetParam()].clip;
    options.optimizer.name = kSetting[GetParam()].optimizer;
    return options;
  }

  // Trains to the end and saves after every step, while the next one runs.
  Record uninterrupted() const {
    Trainer trainer(options());
    Record record;
    for (int step = 0; step < kSteps; ++step) {
      add(record, trainer.step());
      trainer.start_save();
    }
    record.hash = trainer.weights_hash();
    EXPECT_EQ(trainer.finish_save(), run_.folder() / "checkpoints" / "step-00000020");
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
// Negative controls: a field that is not restored shows as another result or as a refusal.
class ResumeNegativeControl : public Resume {};

TEST_P(ResumeNegativeControl, ADroppedFieldIsCaught) {
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

TEST_P(ResumeNegativeControl, AnUpdateThatOvertakesTheSaveIsCaught) {
  Trainer whole(options());
  const Record record = testing::record_of(whole, kSteps);
  Trainer trainer(options());
  for (int step = 0; step < 10; ++step) trainer.step();
  arm_fault_point("eps.update_overtakes_save");
  trainer.start_save();
  trainer.step();
  trainer.finish_save();
  arm_fault_point("");
  EXPECT_NE(resumed(10), tail(record, 10));
}

INSTANTIATE_TEST_SUITE_P(Settings, ResumeNegativeControl, ::testing::Values(0, 1, 2, 6),
                         [](const auto& info) { return std::string(kSetting[info.param].name); });
#endif

// Runs that began when dropout decided by words go on so; a new run decides by bytes.
TEST(ResumedDropout, KeepsToTheDropoutMasksOfTheRun) {
  const SmallRun run;
  const auto checkpoints = run.folder() / "checkpoints";
  // `steps` from the newest checkpoint on; saves.
  const auto go_on = [&](int steps) {
    Trainer trainer(run.options());
    trainer.resume(checkpoints);
    const Record record = testing::record_of(trainer, steps);
    trainer.save();
    return record.hash;
  };
  const auto begin = [&](DropoutMasks masks) {
    std::filesystem::remove_all(checkpoints);
    Trainer trainer(run.options());
    const auto folder = trainer.save();
    eps::Manifest manifest = eps::read_manifest(folder);
    EXPECT_EQ(manifest.state.dropout_masks, DropoutMasks::bytes);
    manifest.state.dropout_masks = masks;
    std::ofstream(folder / eps::kManifestName) << eps::to_text(manifest);
  };
  begin(DropoutMasks::words);
  const std::uint64_t words = go_on(4);
  begin(DropoutMasks::words);
  go_on(2);
  EXPECT_EQ(eps::read_manifest(checkpoints / "step-00000002").state.dropout_masks, DropoutMasks::words);
  EXPECT_EQ(go_on(2), words);
  begin(DropoutMasks::bytes);
  EXPECT_NE(go_on(4), words);
}

TEST(SaveBesideTraining, ChangesNothing) {
  const SmallRun saved, plain;
  Trainer saver(saved.options()), honest(plain.options());
  Record a, b;
  for (int step = 0; step < 6; ++step) {
    saver.start_save();
    add(a, saver.step());
    add(b, honest.step());
  }
  a.hash = saver.weights_hash();
  b.hash = honest.weights_hash();
  EXPECT_EQ(a, b);
  EXPECT_EQ(saver.finish_save().filename(), "step-00000005");
  EXPECT_FALSE(saver.saving());
  EXPECT_EQ(honest.finish_save(), std::filesystem::path());
}

TEST(SaveBesideTraining, AFailedSaveIsToldAndHarmsNothing) {
  const SmallRun run;
  const auto directory = run.folder() / "checkpoints";
  Trainer trainer(run.options());
  trainer.step();
  trainer.save();
  std::filesystem::rename(directory, run.folder() / "elsewhere");
  std::ofstream(directory.string()) << "in the way";
  trainer.start_save();
  trainer.step();
  EXPECT_THROW(trainer.finish_save(), Error);
  std::filesystem::remove(directory);
  std::filesystem::rename(run.folder() / "elsewhere", directory);
  trainer.step();
  EXPECT_EQ(trainer.save().filename(), "step-00000003");
  EXPECT_TRUE(std::filesystem::exists(directory / "step-00000001" / "manifest.json"));
}

TEST(SaveBesideTraining, EndsBeforeTheTrainerDoes) {
  const SmallRun run;
  {
    Trainer trainer(run.options());
    trainer.step();
    trainer.start_save();
  }
  Trainer other(run.options());
  EXPECT_EQ(other.resume(run.folder() / "checkpoints").filename(), "step-00000001");
}

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

TEST(ResumeErrors, OtherData) {
  const SmallRun run;
  Trainer first(run.options());
  first.step();
  first.save();
  std::fstream text(run.folder() / "text", std::ios::in | std::ios::out | std::ios::binary);
  text.seekp(3000);
  text.put('!');
  text.close();
  Options options = run.options();
  Trainer second(options);
  try {
    second.resume(run.folder() / "checkpoints");
    ADD_FAILURE() << "resumed";
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("data.allow_change"), std::string::npos) << error.what();
  }
  options.data.allow_change = true;
  Trainer third(options);
  third.resume(run.folder() / "checkpoints");
  EXPECT_EQ(third.completed_steps(), 1);
  options.data.allow_change = false;
  Trainer allowed(options);
  allowed.resume(run.folder() / "checkpoints", {"data.train"});
  EXPECT_EQ(allowed.completed_steps(), 1);
  options.data.train.clear();  // as for sampling
  Trainer fourth(options);
  fourth.resume(run.folder() / "checkpoints");
}

TEST(ResumeErrors, OtherWeightsOfTheSources) {
  const SmallRun run;
  Options options = run.options();
  options.data.source = {{options.data.train, 3}, {options.data.train, 1}};
  options.data.train.clear();
  Trainer first(options);
  first.step();
  first.save();
  options.data.source[0].weight = 2;
  Trainer second(options);
  const std::string message = testing::refusal([&] { second.resume(run.folder() / "checkpoints"); });
  EXPECT_NE(message.find("the weights of [[data.source]] = 2, 1 (were 3, 1)"), std::string::npos) << message;
  EXPECT_EQ(message.find("do not hold"), std::string::npos) << message;
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
  const std::string refused =
      testing::refusal([&] { second.resume(run.folder() / "checkpoints", {"model.hidden"}); });  // cannot be allowed
  EXPECT_NE(refused.find("model.hidden = 48 (was 24)"), std::string::npos) << refused;
}

// What may change changes silently, or is told; what makes another run of it is refused unless it is named.
TEST(ResumeErrors, OtherSettings) {
  const SmallRun run;
  Trainer first(run.options());
  first.step();
  first.save();
  const auto resumed = [&](const auto& change, const std::vector<std::string>& allowed) {
    Options other = run.options();
    change(other);
    Trainer trainer(other);
    std::string said;
    set_log_sink([&](LogLevel, std::string_view message) { said += message; });
    const std::string refused = testing::refusal([&] {
      EXPECT_EQ(trainer.check_resume(run.folder() / "checkpoints", allowed), 1);
      trainer.resume(run.folder() / "checkpoints", allowed);
    });
    set_log_sink({});
    return trainer.completed_steps() == 1 ? said : refused;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const auto rate = [](Options& options) { options.optimizer.learning_rate = 0.5; };
  EXPECT_TRUE(has(resumed(rate, {}),
                  "optimizer.learning_rate = 0.5 (was 0.003); set it back, or go on with "
                  "--allow-change optimizer.learning_rate"));
  EXPECT_TRUE(has(resumed(rate, {"optimizer.betas"}), "--allow-change optimizer.learning_rate"));
  EXPECT_EQ(resumed(rate, {"optimizer.learning_rate"}),
            "going on with other settings than the checkpoint's: optimizer.learning_rate = 0.5 (was 0.003)");
  EXPECT_TRUE(has(resumed([](Options&) {}, {"optimizer.rate"}), "--allow-change optimizer.rate: there is no such key"));
  const auto sgd = [](Options& options) { options.optimizer.name = "sgd"; };
  EXPECT_TRUE(has(resumed(sgd, {"optimizer.name"}), "cannot go on with optimizer.name = \"sgd\" (was \"adamw\")"));
  EXPECT_EQ(resumed([](Options& options) { options.optimizer.name = "lamb"; }, {"optimizer.name"}),
            "going on with other settings than the checkpoint's: optimizer.name = \"lamb\" (was \"adamw\")");
  EXPECT_TRUE(
      has(resumed([](Options& options) { options.data.order = "sequential"; }, {}), "--allow-change data.order"));
  EXPECT_TRUE(has(resumed([](Options& options) { options.model.sequence = 12; }, {"model.sequence"}),
                  "cannot go on with model.sequence = 12 (was 13)"))
      << "the rows of its position table";
  EXPECT_EQ(resumed([](Options& options) { options.batch.micro_batches = 6; }, {}),
            "going on with other settings than the checkpoint's: batch.minibatch = 12 (was 6), batch.micro_batches = 6 "
            "(was 3)");
  EXPECT_EQ(resumed([](Options& options) { options.run.steps = 99; }, {}),
            "going on with other settings than the checkpoint's: run.steps = 99 (was 20)")
      << "to which the cosine falls";
  EXPECT_EQ(resumed(
                [](Options& options) {
                  options.model.activation = "gelu_tanh";  // gpt2's own
                  options.transfer.prefetch = 2;
                  options.optimizer.update = "after_backward";
                },
                {}),
            "");
}

// What a run that was going on with `before` is told of `after`, and the loss of its third step.
std::pair<std::string, double> go_on(const Options& before, const Options& after) {
  {
    Trainer first(before);
    first.step();
    first.save();
  }
  Trainer trainer(after);
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) { said += message; });
  trainer.resume(after.checkpoint.directory);
  set_log_sink({});
  trainer.step();
  return {said, trainer.step().loss};
}

TEST(Resumed, WhatChangesTheLastBitsIsTold) {
  struct Case {
    const char *reversible, *assignment, *told;
  };
  for (const Case& each :
       {Case{"none", "transfer.vocabulary_chunk=5", "transfer.vocabulary_chunk = 5 (was 0)"},
        Case{"none", "device.count=3", "device.count = 3 (was 1)"}, Case{"none", "data.buckets=1", ""},
        Case{"none", "transfer.stash=host", ""}, Case{"none", "device.execution=resident", ""},
        Case{"float", "transfer.stash=host", "transfer.stash = \"host\" (was \"auto\")"},
        Case{"fixed", "transfer.stash=host", ""}}) {
    SCOPED_TRACE(std::string(each.reversible) + ", " + each.assignment);
    const SmallRun run;
    Options before = run.options();
    before.model.reversible = each.reversible;
    Options after = before;
    set_option(after, each.assignment);
    const auto [nothing, loss] = go_on(before, before);
    EXPECT_EQ(nothing, "");
    const auto [said, other_loss] = go_on(before, after);
    EXPECT_EQ(said,
              *each.told == 0 ? "" : std::string("going on with other settings than the checkpoint's: ") + each.told);
    if (said.empty()) {
      EXPECT_EQ(other_loss, loss);
    }
  }
  const SmallRun run;
  Options before = run.options();
  ::setenv("XDG_CACHE_HOME", (run.folder() / "cache").c_str(), 1);
  before.data.samples = "padded";
  before.data.separator = "a";
  Options after = before;
  after.data.buckets = 1;
  EXPECT_EQ(go_on(before, after).first, "going on with other settings than the checkpoint's: data.buckets = 1 (was 8)");
}

// What a run of `processes`, of which each has `devices`, is told of a checkpoint of two processes with a device each.
std::vector<std::string> told_after_two(int processes, std::int64_t devices, std::int64_t parts = 0) {
  Options saved;
  saved.batch.parts = parts;
  runtime::ResolvedOptions ours{saved};
  ours.device.count = devices;
  ours.rank.count = processes;
  return runtime::check_changes(ours, saved, 2, "checkpoint", /*trains=*/true, {});
}

TEST(Resumed, DevicesOfAllProcessesAreCounted) {
  EXPECT_EQ(told_after_two(2, 1), std::vector<std::string>{});
  EXPECT_EQ(told_after_two(1, 2), std::vector<std::string>{}) << "the same sums";
  EXPECT_EQ(told_after_two(1, 1, 2), std::vector<std::string>{}) << "the same sums by batch.parts";
  EXPECT_EQ(
      told_after_two(1, 1),
      std::vector<std::string>{"going on with other settings than the checkpoint's: device.count = 1 with 1 process "
                               "(was 1 with 2)"});
}

TEST(ResumeErrors, SayWhatTheyAreAbout) {
  const SmallRun run;
  Trainer first(run.options());
  first.step();
  first.save();
  const std::filesystem::path directory = run.folder() / "checkpoints";
  const auto place = [&](const auto& change) {
    Options other = run.options();
    change(other);
    return testing::place_of_refusal([&] { Trainer(other).resume(directory); });
  };
  const ErrorPlace rate = place([](Options& options) { options.optimizer.learning_rate = 0.5; });
  EXPECT_EQ(rate.key, "optimizer.learning_rate");
  EXPECT_EQ(rate.file, (directory / "step-00000001").string());
  EXPECT_EQ(place([](Options& options) { options.optimizer.name = "sgd", options.data.order = "sequential"; }).key,
            "optimizer.name")
      << "which cannot be allowed";
  EXPECT_EQ(place([](Options& options) { options.run.seed = 99; }).key, "run.seed");
  EXPECT_EQ(testing::place_of_refusal([&] { Trainer(run.options()).resume(run.folder() / "nowhere"); }).file,
            (run.folder() / "nowhere").string());
  EXPECT_EQ(place([](Options& options) { options.device.kind = "tpu"; }).key, "device.kind");
  const ErrorPlace held = testing::place_of_refusal([&] { Trainer(run.options()).claim_checkpoint_directory(); });
  EXPECT_EQ(held.key, "checkpoint.directory") << "the first one holds it";
  EXPECT_EQ(held.file, directory.string());
}

// Frozen parameters are kept in the compute type: that is no damage either.
TEST(ResumeErrors, OtherTypeOfFrozenParameters) {
  const SmallRun run;
  Options options = run.options();
  options.optimizer.train = {"*h.2.*"};
  Trainer first(options);
  first.step();
  first.save();
  options.precision.compute = "bf16";
  Trainer second(options);
  const std::string refused = testing::refusal([&] { second.resume(run.folder() / "checkpoints"); });
  EXPECT_NE(refused.find("precision.compute = \"bf16\" (was \"fp32\")"), std::string::npos) << refused;
}

std::string said_while(const std::function<void()>& function) {
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) { said += std::string(message) + "\n"; });
  function();
  set_log_sink({});
  return said;
}

TEST(ResumeErrors, ADamagedCheckpointIsPassedOverForAnOlderOne) {
  const SmallRun run;
  const auto directory = run.folder() / "checkpoints";
  Trainer first(run.options());
  for (int step = 0; step < 4; ++step) {
    first.step();
    first.save();
  }
  const auto damage = [&](const char* name) {
    std::fstream file(directory / name / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('!');
  };
  damage("step-00000004");
  Trainer second(run.options());
  std::string said = said_while([&] { EXPECT_EQ(second.resume(directory).filename(), "step-00000003"); });
  EXPECT_EQ(second.completed_steps(), 3);
  EXPECT_NE(said.find("step-00000003: step 4 is lost and will be repeated"), std::string::npos) << said;
  damage("step-00000003");
  std::filesystem::resize_file(directory / "step-00000002" / "optimizer.safetensors", 100);  // noticed by its size
  Trainer third(run.options());
  said = said_while([&] { EXPECT_EQ(third.resume(directory).filename(), "step-00000001"); });
  EXPECT_NE(said.find("step-00000001: steps 2 to 4 are lost and will be repeated"), std::string::npos) << said;
  EXPECT_NE(said.find("step-00000003/model.safetensors: tensor \""), std::string::npos) << said;
  Trainer fourth(run.options());
  EXPECT_THROW(fourth.resume(directory / "step-00000002"), BadInput);
  EXPECT_THROW(fourth.resume(directory / "step-00000004"), CorruptFile);
  said = said_while([&] { fourth.resume(directory / "step-00000001"); });
  EXPECT_EQ(said, "") << "nothing is lost by what was asked for";
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
    EXPECT_FALSE(has_checkpoint(directory));
  }
}

TEST(CheckpointOptions, AreThoseOfTheRun) {
  const SmallRun run;
  EXPECT_FALSE(has_checkpoint(run.folder() / "checkpoints"));
  Trainer trainer(run.options());
  trainer.step();
  const std::filesystem::path saved = trainer.save();
  for (const std::filesystem::path& directory : {run.folder().path(), run.folder() / "checkpoints", saved}) {
    EXPECT_TRUE(has_checkpoint(directory)) << directory;
  }
  EXPECT_EQ(to_toml(checkpoint_options(run.folder() / "checkpoints")), to_toml(trainer.options()));
  const Trainer again(checkpoint_options(run.folder() / "checkpoints"));
  EXPECT_EQ(to_toml(again.options()), to_toml(trainer.options()));
}

// A run with a minibatch of six sequences, in microbatches of two, and options that leave the microbatch open.
class OptionsToResume : public ::testing::Test {
 protected:
  OptionsToResume() {
    left_ = run_.options();
    left_.recompute.policy = "auto";
    left_.batch = {.minibatch = 6, .micro_batch = BatchOptions::kChosen};
  }
  Options given() const {
    Options options = run_.options();
    options.batch = {.minibatch = 6, .micro_batch = 2};
    return options;
  }
  Options to_resume() const { return options_to_resume(left_, directory_); }

  SmallRun run_;
  std::filesystem::path directory_ = run_.folder() / "checkpoints";
  Options left_;
};

TEST_F(OptionsToResume, TheMicrobatchIsTheCheckpointsAndSoAreTheBits) {
  Trainer whole(given());
  for (int step = 0; step < 2; ++step) whole.step();
  whole.save();
  const Record record = testing::record_of(whole, 2);
  const auto resumed = [&](Options options) {
    options.recompute.policy = "full";  // chooses by measured times: the bits are the same
    Trainer trainer(options);
    trainer.resume(directory_);
    return testing::record_of(trainer, 2);
  };
  EXPECT_EQ(to_resume().batch.micro_batch, 2);
  EXPECT_EQ(resumed(to_resume()), record);
  left_.batch.micro_batch = 0;
  EXPECT_NE(resumed(left_), record) << "negative control: a microbatch of six gives other bits";
}

TEST_F(OptionsToResume, TheTypeIsTheCheckpointsAndSoAreTheBits) {
  Options open = given();
  open.precision.compute = "auto";
  const std::string chosen = Trainer(open).options().precision.compute;  // as this machine has it
  for (const std::string type : {"fp32", "bf16"}) {
    Options options = given();
    options.precision.compute = type;
    open.checkpoint.directory = options.checkpoint.directory = run_.folder() / type;
    Trainer whole(options);
    for (int step = 0; step < 2; ++step) whole.step();
    whole.save();
    const Record record = testing::record_of(whole, 2);
    Trainer resumed(options_to_resume(open, options.checkpoint.directory));
    EXPECT_EQ(resumed.options().precision.compute, type);
    resumed.resume(options.checkpoint.directory);
    EXPECT_EQ(testing::record_of(resumed, 2), record);
    Trainer other(open);
    if (type == chosen) {
      EXPECT_NO_THROW(other.resume(options.checkpoint.directory));
    } else {
      EXPECT_THROW(other.resume(options.checkpoint.directory), BadInput);
    }
  }
}

TEST_F(OptionsToResume, IsChosenAnewWhereTheCheckpointsDoesNotFit) {
  Trainer first(given());
  first.step();
  first.save();
  left_.batch.minibatch = 12;
  EXPECT_EQ(to_resume().batch.micro_batch, BatchOptions::kChosen);
  left_.batch.minibatch = 6;
  left_.device.count = 2;  // three sequences each
  EXPECT_EQ(to_resume().batch.micro_batch, BatchOptions::kChosen);
  left_.device.count = 3;
  EXPECT_EQ(to_resume().batch.micro_batch, 2);
}

TEST_F(OptionsToResume, WhatIsGivenStays) {
  Trainer first(given());
  first.step();
  first.save();
  const std::string before = to_toml(left_);
  left_.batch = {.minibatch = 6, .micro_batch = 3};
  EXPECT_EQ(to_toml(options_to_resume(left_, directory_)), to_toml(left_));
  left_.batch = {.minibatch = 6, .micro_batches = 1};
  EXPECT_EQ(to_toml(options_to_resume(left_, directory_)), to_toml(left_));
  left_.batch = {.minibatch = 6, .micro_batch = BatchOptions::kChosen};
  Options taken = to_resume();
  taken.batch.micro_batch = BatchOptions::kChosen;
  EXPECT_EQ(to_toml(taken), before) << "nothing else is taken from the checkpoint";
}

// What follows from model.sequence follows from that of the run before.
TEST_F(OptionsToResume, ScaledPositionsTurnAsTheyDid) {
  Options options = run_.options("llama");
  options.model.rope_scaling = "yarn";
  options.model.rope_factor = 4;
  Trainer first(options);
  first.step();
  first.save();
  EXPECT_EQ(to_toml(options_to_resume(options, directory_)), to_toml(options));
  const std::int64_t before = options.model.sequence;
  options.model.sequence = before / 2;
  const ModelOptions shorter = options_to_resume(options, directory_).model;
  EXPECT_EQ(shorter.rope_original_positions, before);
  options.model.sequence = 2 * before;
  EXPECT_EQ(options_to_resume(options, directory_).model.rope_original_positions, before);
  EXPECT_NO_THROW(validate_options(options_to_resume(options, directory_)));
  options.model.positions = 2 * before;
  const ModelOptions longer = options_to_resume(options, directory_).model;
  EXPECT_EQ(longer.positions, 2 * before);
  EXPECT_EQ(longer.rope_original_positions, before);
  options.model.rope_original_positions = 7;
  EXPECT_EQ(options_to_resume(options, directory_).model.rope_original_positions, 7);
}

TEST_F(OptionsToResume, NothingThere) { EXPECT_THROW(to_resume(), BadInput); }

}  // namespace
}  // namespace l2l
