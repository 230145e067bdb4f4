// Trainer::run(): every option of a run is obeyed, and other threads may end one at any moment.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "l2l/log.h"
#include "runtime/options/options_table.h"
#include "tests/runtime/run_fixture.h"
#include "tests/support/refusal.h"

namespace l2l::run {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::steady_clock;

using Saves = std::vector<std::pair<std::int64_t, SaveReason>>;

TEST_F(Run, TellsWhatHappensInOrder) {
  Told told;
  const RunResult result = run(small(), told);
  EXPECT_EQ(told.order, "begin 0 of 6, step 1, step 2, step 3, step 4, step 5, step 6, ending");
  EXPECT_EQ(told.saves, (Saves{{6, SaveReason::end}}));
  EXPECT_EQ(told.validations, std::vector<std::int64_t>{6});
  EXPECT_EQ(result.end, RunEnd::steps);
  EXPECT_EQ(told.folders, std::set<fs::path>{result.checkpoint});
  EXPECT_EQ(result.last.value().step, 6);
  EXPECT_TRUE(result.validation);
}

// A key of these sections that is not named here has no proof.
TEST_F(Run, ObeysEveryKeyOfARun) {
  const std::map<std::string, std::function<void()>> proofs = {
      {"checkpoint.directory",
       [&] {
         Options options = small();
         options.checkpoint.directory.clear();
         Told told;
         EXPECT_TRUE(run(options, told).checkpoint.empty());
         EXPECT_TRUE(told.saves.empty());
         options.checkpoint.directory = run_.folder() / "another";
         EXPECT_EQ(run(options, told).checkpoint.parent_path(), options.checkpoint.directory);
       }},
      {"checkpoint.every",
       [&] {
         Options options = small();
         options.checkpoint.every = 2;
         Told told;
         run(options, told);
         EXPECT_EQ(told.saves, (Saves{{2, SaveReason::due}, {4, SaveReason::due}, {6, SaveReason::end}}));
         EXPECT_EQ(told.folders.size(), 3u);
       }},
      {"checkpoint.minutes",
       [&] {
         Options options = small();
         options.checkpoint.minutes = 1e-9;
         Told told;
         run(options, told);
         EXPECT_EQ(told.saves.size(), 6u);
       }},
      {"checkpoint.keep",
       [&] {
         Options options = small();
         options.checkpoint = {.directory = run_.folder() / "kept", .every = 1, .minutes = 0, .keep = 2};
         Told told;
         run(options, told);
         EXPECT_EQ(told.folders.size(), 6u);
         int left = 0;
         for (const fs::path& folder : told.folders) left += fs::exists(folder) ? 1 : 0;
         EXPECT_EQ(left, 2);
       }},
      {"checkpoint.best",
       [&] {
         Options options = small();
         options.run.validate_every = 2;
         Told told;
         run(options, told);
         EXPECT_TRUE(told.best.empty());
         options.checkpoint.best = "loss";
         run(options, told);
         EXPECT_TRUE(fs::exists(told.best / "manifest.json"));
       }},
      {"run.steps",
       [&] {
         Options options = small();
         options.run.steps = 3;
         Told told;
         run(options, told);
         EXPECT_EQ(told.steps, 3);
         EXPECT_EQ(Trainer(options).run({.steps = 2}).last.value().step, 2);
       }},
      {"run.seed",
       [&] {
         Options options = small();
         const std::uint64_t one = hash_of(options);
         EXPECT_EQ(hash_of(options), one);
         options.run.seed = 2;
         EXPECT_NE(hash_of(options), one);
       }},
      {"run.seconds",
       [&] {
         Options options = small();
         options.run.steps = 1'000'000;
         options.run.seconds = 1;
         EXPECT_EQ(Trainer(options).run().end, RunEnd::seconds);
         Told told;
         Trainer(options).run(told, {.since = steady_clock::now() - std::chrono::seconds(2)});
         EXPECT_EQ(told.steps, 1);
         EXPECT_EQ(told.validations.size(), 1u);
       }},
      {"run.patience",
       [&] {
         Options options = small();
         options.run.steps = 1000;
         options.run.validate_every = 1;
         options.run.patience = 3;
         options.checkpoint.best = "loss";
         options.optimizer.learning_rate = 0.3;
         options.schedule = {};
         Told told;
         EXPECT_EQ(run(options, told).end, RunEnd::patience);
         EXPECT_LT(told.steps, 1000);
       }},
      {"run.validate_every",
       [&] {
         Options options = small();
         options.run.validate_every = 4;
         Told told;
         run(options, told);
         EXPECT_EQ(told.validations, (std::vector<std::int64_t>{4, 6}));
       }},
      {"run.validate_minutes",
       [&] {
         Options options = small();
         options.run.validate_minutes = 1e-9;
         Told told;
         run(options, told);
         EXPECT_EQ(told.validations, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
       }},
      {"run.allow_nonfinite",
       [&] {
         Options options = small();
         Told told;
         const fs::path from = run(options, told).checkpoint, to = run_.folder() / "model";
         fs::create_directory(to);
         for (const char* const name : {"config.json", "model.safetensors"}) fs::copy_file(from / name, to / name);
         std::fstream file(to / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
         file.seekp(-4, std::ios::end).write("\xff\xff\xff\x7f", 4);
         file.close();
         options.model = {.pretrained = to, .sequence = 13, .dropout = 0.1};
         EXPECT_THROW(Trainer(options).run({.steps = 0}), BadInput);
         options.run.allow_nonfinite = true;
         EXPECT_EQ(Trainer(options).run({.steps = 0}).end, RunEnd::steps);
       }},
      {"run.tensorboard",
       [&] {
         Options options = small();
         options.run.tensorboard = run_.folder() / "board";
         Told told;
         run(options, told);
         ASSERT_FALSE(fs::is_empty(options.run.tensorboard));
         const fs::path events = fs::directory_iterator(options.run.tensorboard)->path();
         std::ifstream file(events, std::ios::binary);
         const std::string text(std::istreambuf_iterator<char>(file), {});
         for (const char* const name : {"loss", "learning_rate", "validation_loss"}) {
           EXPECT_NE(text.find(name), std::string::npos) << name;
         }
       }},
  };
  Options options;
  options.precision.compute = "fp32";
  for (const runtime::Key& key : runtime::option_keys(options)) {
    if (key.section != "checkpoint" && key.section != "run") continue;
    const std::string name = std::string(key.section) + "." + std::string(key.name);
    SCOPED_TRACE(name);
    const auto proof = proofs.find(name);
    ASSERT_NE(proof, proofs.end()) << "no proof that Trainer::run() obeys it";
    fs::remove_all(run_.options().checkpoint.directory);
    proof->second();
  }
}

TEST_F(Run, SavesWhenAskedTo) {
  Told told;
  Trainer trainer(small());
  told.each = [&](const StepReport& report) {
    if (report.step == 3) trainer.request_save();
  };
  trainer.run(told);
  EXPECT_EQ(told.saves, (Saves{{3, SaveReason::asked}, {6, SaveReason::end}}));
}

TEST_F(Run, AStopBeforeTheFirstStepIsObeyedOnce) {
  Trainer trainer(small());
  trainer.request_stop();
  Told told;
  RunResult result = trainer.run(told);
  EXPECT_EQ(result.end, RunEnd::stopped);
  EXPECT_FALSE(result.last);
  EXPECT_EQ(told.order, "begin 0 of 6, ending");
  EXPECT_TRUE(told.validations.empty());
  EXPECT_TRUE(fs::exists(result.checkpoint / "manifest.json"));
  result = trainer.run();
  EXPECT_EQ(result.end, RunEnd::steps);
  EXPECT_EQ(trainer.weights_hash(), hash_of(small()));
}

// A request that comes when the run no longer needs one is not left for the next.
TEST_F(Run, AStopIsForOneRunHoweverThatEnds) {
  struct Refusal {};
  using Stop = std::function<void(Trainer&, Told&)>;
  const std::vector<std::pair<const char*, Stop>> stops = {
      {"the last step",
       [](Trainer& trainer, Told& told) {
         told.each = [&](const StepReport& report) {
           if (report.step == 6) trainer.request_stop();
         };
       }},
      {"the last validation",
       [](Trainer& trainer, Told& told) { told.before_validation = [&](std::int64_t) { trainer.request_stop(); }; }},
      {"a step that fails",
       [](Trainer& trainer, Told& told) {
         told.each = [&](const StepReport&) {
           trainer.request_stop();
           throw Refusal();
         };
       }},
  };
  for (const auto& [name, stop] : stops) {
    SCOPED_TRACE(name);
    Trainer trainer(small());
    Told told;
    stop(trainer, told);
    try {
      EXPECT_EQ(trainer.run(told).end, RunEnd::steps);
    } catch (const Refusal&) {
    }
    EXPECT_EQ(trainer.run({.steps = 8}).end, RunEnd::steps);
    EXPECT_EQ(trainer.completed_steps(), 8);
  }
}

TEST_F(Run, WhatAnObserverThrowsEndsIt) {
  struct Refusal {};
  Told told;
  told.each = [](const StepReport& report) {
    if (report.step == 2) throw Refusal();
  };
  Trainer trainer(small());
  EXPECT_THROW(trainer.run(told), Refusal);
  EXPECT_EQ(trainer.completed_steps(), 2);
  trainer.run();  // the trainer itself is whole
  EXPECT_EQ(trainer.weights_hash(), hash_of(small()));
}

TEST_F(Run, AnObserverMayNotRunTheTrainer) {
  Told told;
  Trainer trainer(small());
  const std::vector<std::pair<const char*, std::function<void()>>> forbidden = {
      {"step", [&] { trainer.step(); }},
      {"run", [&] { trainer.run(); }},
      {"save", [&] { trainer.save(); }},
      {"resume", [&] { trainer.resume("nowhere"); }},
      {"evaluate", [&] { trainer.evaluate(); }},
      {"start_save", [&] { trainer.start_save(); }},
      {"finish_save", [&] { trainer.finish_save(); }},
  };
  told.each = [&](const StepReport& report) {
    for (const auto& [name, call] : forbidden) EXPECT_THROW(call(), Error) << name << " in step " << report.step;
    EXPECT_EQ(trainer.generate(std::vector{1, 2}, {.tokens = 2}).size(), 2u);  // which it may
    trainer.logits(std::vector{1, 2}, [](auto, auto, auto) {});
    EXPECT_NE(trainer.weights_hash(), 0u);
  };
  trainer.run(told);
  EXPECT_EQ(told.steps, 6);
  EXPECT_EQ(trainer.weights_hash(), hash_of(small()));
  EXPECT_NO_THROW(trainer.evaluate());
}

// The list that is set in step() is that of the next step and of that step's checkpoint; validations have their own.
TEST_F(Run, AnObserverSetsLists) {
  using Ids = std::vector<std::uint32_t>;
  Options options = small();
  options.transfer.stash = "host";
  options.checkpoint.every = 2;
  options.run.validate_every = 3;
  options.model.blocks = {{.id = 0}, {.id = 1}, {.id = 2}};
  options.model.reserve = LayerReserve{.layers = {{.id = 3}}, .most_layers = 4};
  const auto list_of = [](std::int64_t step) {
    return step % 2 == 0 ? Ids{0, 1, 2} : Ids{3, 1, static_cast<std::uint32_t>(step) % 3 == 0 ? 0u : 2u};
  };
  struct Lists : Told {
    explicit Lists(Trainer& its) : trainer(its) {}
    void validating(std::int64_t) override {
      before = trainer.layers();
      trainer.set_layers(Ids{0, 1, 2, 3});
    }
    void validated(std::int64_t step, const Evaluation& evaluation) override {
      Told::validated(step, evaluation);
      losses.push_back(evaluation.loss);
      trainer.set_layers(before);
    }
    Trainer& trainer;
    Ids before;
    std::vector<double> losses;
  };
  Trainer trainer(options);
  Lists lists(trainer);
  lists.each = [&](const StepReport& report) { trainer.set_layers(list_of(report.step)); };
  trainer.run(lists);
  EXPECT_EQ(lists.validations, (std::vector<std::int64_t>{3, 6}));
  EXPECT_EQ(lists.folders.size(), 3u);

  Options alone = options;
  alone.checkpoint.directory = run_.folder() / "alone";
  Trainer by_hand(alone);
  std::vector<double> losses;
  for (std::int64_t step = 1; step <= 6; ++step) {
    by_hand.step();
    by_hand.set_layers(Ids{0, 1, 2, 3});
    if (step % 3 == 0) losses.push_back(by_hand.evaluate()->loss);
    by_hand.set_layers(list_of(step));
  }
  EXPECT_EQ(lists.losses, losses);
  EXPECT_EQ(trainer.weights_hash(), by_hand.weights_hash());
  for (const fs::path& folder : lists.folders) {
    Trainer resumed(options);
    resumed.resume(folder);
    EXPECT_EQ(resumed.layers(), list_of(resumed.completed_steps())) << folder;
  }
}

// The steps of a run that was stopped, saved and resumed are those of one in peace.
TEST_F(Run, MayBeStoppedAtAnyMoment) {
  Options options = small();
  options.run.steps = 12;
  options.checkpoint.every = 5;
  const std::uint64_t expected = hash_of(options);
  std::mt19937 random(1);
  int stopped = 0;
  for (int moment = 0; moment < 200; ++moment) {
    SCOPED_TRACE(moment);
    options.checkpoint.directory = run_.folder() / ("stopped-" + std::to_string(moment));
    fs::path checkpoint;
    {
      Trainer trainer(options);
      trainer.prepare();
      const std::chrono::microseconds delay(random() % 15'000);
      std::thread other([&] {
        std::this_thread::sleep_for(delay);
        trainer.request_stop();
      });
      const RunResult result = trainer.run();
      other.join();
      stopped += result.end == RunEnd::stopped ? 1 : 0;
      EXPECT_EQ(result.last ? result.last->step : 0, trainer.completed_steps());
      checkpoint = result.checkpoint;
    }
    ASSERT_EQ(hash_of(options, checkpoint), expected);
    fs::remove_all(options.checkpoint.directory);
  }
  EXPECT_GT(stopped, 20);
}

// Nothing is saved then, but what was saved stands.
TEST_F(Run, MayBeAbortedAtAnyMoment) {
  for (const char* const execution : {"relay", "resident"}) {
    Options options = small();
    options.device.execution = execution;
    options.run.steps = 12;
    options.checkpoint.every = 3;
    const std::uint64_t expected = hash_of(options);
    std::mt19937 random(2);
    int aborted = 0;
    for (int moment = 0; moment < 100; ++moment) {
      SCOPED_TRACE(std::string(execution) + " " + std::to_string(moment));
      options.checkpoint.directory = run_.folder() / ("aborted-" + std::to_string(moment));
      fs::path newest;
      {
        Told told;
        Trainer trainer(options);
        const std::chrono::microseconds delay(random() % 20'000);
        std::thread other([&] {
          std::this_thread::sleep_for(delay);
          trainer.abort();
        });
        try {
          trainer.run(told);
        } catch (const Aborted&) {
          ++aborted;
        }
        if (!told.folders.empty()) newest = *told.folders.rbegin();
        other.join();
        EXPECT_THROW(trainer.step(), Aborted);
        EXPECT_THROW(trainer.run(), Aborted);
      }
      ASSERT_EQ(hash_of(options, newest), expected);
      fs::remove_all(options.checkpoint.directory);
    }
    EXPECT_GT(aborted, 20);
  }
}

// Over a link on which a layer takes long.
TEST_F(Run, AnAbortEndsWithinALayersVisit) {
  Options options = small();
  options.model.layers = 40;
  options.checkpoint.directory.clear();
  options.transfer.link_bandwidth = 1'500'000;
  Trainer trainer(options);
  trainer.prepare();
  const auto begin = steady_clock::now();
  trainer.step();
  const duration<double> step = steady_clock::now() - begin;
  ASSERT_GT(step.count(), 0.5);
  steady_clock::time_point asked;
  std::thread other([&] {
    std::this_thread::sleep_for(step / 3);
    asked = steady_clock::now();
    trainer.abort();
  });
  EXPECT_THROW(trainer.step(), Aborted);
  other.join();
  const duration<double> took = steady_clock::now() - asked;
  EXPECT_LT(took, step / 10) << "of " << step.count() << " s";  // of 81 visits
}

// A checkpoint of the same step without them is not the run's last one.
TEST_F(Run, SavesWhatTheProgramWrote) {
  const Options options = small();
  Trainer trainer(options);
  const RunResult first = trainer.run();
  const std::vector<float> value{0.25f};
  trainer.write_parameter("h.0.ln_1.bias", ParameterPart::value, 3, value);
  const RunResult second = trainer.run();
  Trainer resumed(options);
  resumed.resume(second.checkpoint);
  std::vector<float> found(1);
  resumed.read_parameter("h.0.ln_1.bias", ParameterPart::value, 3, found);
  EXPECT_EQ(found, value);
  EXPECT_EQ(first.end, RunEnd::steps);
}

TEST_F(Run, ASaveThatWasBegunBeforeStaysWhereItIs) {
  Options options = small();
  Trainer trainer(options);
  trainer.step();
  trainer.start_save();
  Told told;
  trainer.run(told);
  EXPECT_TRUE(fs::exists(options.checkpoint.directory / "step-00000001" / "manifest.json"));
}

TEST_F(Run, AnAbortDuringPreparationIsThrown) {
  Trainer trainer(small());
  trainer.abort();
  EXPECT_THROW(trainer.prepare(), Aborted);
  EXPECT_THROW(trainer.run(), Aborted);
}

TEST_F(Run, FollowsALearningRateOfItsOwn) {
  Options options = small();
  options.schedule = {.rate = [](std::int64_t step) { return step < 3 ? 1e-3 : 2e-3; }};
  Told told;
  std::vector<double> rates;
  told.each = [&](const StepReport& report) { rates.push_back(report.learning_rate); };
  run(options, told);
  EXPECT_EQ(rates, (std::vector<double>{1e-3, 1e-3, 1e-3, 2e-3, 2e-3, 2e-3}));
  options.schedule.rate = [](std::int64_t step) { return step == 4 ? -1 : 1e-3; };
  EXPECT_THROW(run(options, told), BadInput);
}

TEST_F(Run, StepsBeforeALearningRateThatFailsAreSaved) {
  struct Refusal {};
  for (const bool throws : {false, true}) {
    Options options = small();
    options.checkpoint.directory = run_.folder() / (throws ? "throws" : "nan");
    bool fails = true;
    options.schedule = {.rate = [&](std::int64_t step) {
      if (step != 4 || !fails) return 1e-3;
      if (throws) throw Refusal();
      return std::nan("");
    }};
    std::uint64_t hash = 0;
    {
      Trainer trainer(options);
      if (throws) {
        EXPECT_THROW(trainer.run(), Refusal);
      } else {
        EXPECT_THROW(trainer.run(), BadInput);
      }
      hash = trainer.weights_hash();
    }
    fails = false;
    ASSERT_TRUE(has_checkpoint(options.checkpoint.directory));
    Trainer next(options);
    next.resume(options.checkpoint.directory);
    EXPECT_EQ(next.completed_steps(), 4);
    EXPECT_EQ(next.weights_hash(), hash);
    next.run();
    EXPECT_EQ(next.weights_hash(), hash_of(options));
  }
}

// After the third step, with nothing changed by the fourth.
Options diverging(Options options) {
  options.optimizer.clip = "global";
  options.optimizer.name = "sgd";
  options.optimizer.max_norm = 1e30;
  options.schedule = {.rate = [](std::int64_t step) { return step == 2 ? 1e30 : 1e-3; }};
  return options;
}

TEST_F(Run, ADivergenceKeepsItsClassWhereTheStepsBeforeAreSaved) {
  Trainer trainer(diverging(small()));
  try {
    trainer.run();
    FAIL() << "goes on";
  } catch (const NumericError& error) {
    EXPECT_TRUE(error.nothing_changed());
    EXPECT_NE(std::string(error.what()).find("is now saved"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("lower rates by schedule.rate"), std::string::npos) << error.what();
  }
}

// What the observer throws while the steps before are saved does not hide why.
TEST_F(Run, AStepsOwnErrorIsThrownWhateverTheObserverThrows) {
  struct Refusal {};
  struct Throwing : Told {
    void saving(std::int64_t step, SaveReason reason) override {
      if (reason == SaveReason::end) throw std::logic_error("no save at " + std::to_string(step));
    }
    void saved(const fs::path&) override { throw Refusal(); }
  };
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) { said += message; });
  {
    Options options = small();
    options.schedule = {.rate = [](std::int64_t step) { return step == 4 ? throw Refusal() : 1e-3; }};
    Trainer trainer(options);
    Throwing observer;
    EXPECT_THROW(trainer.run(observer), Refusal);
    EXPECT_NE(said.find("the steps before could not be saved: no save at 4"), std::string::npos) << said;
  }
  Options options = diverging(small());
  {
    Trainer trainer(options);
    Throwing observer;
    const std::string error = testing::refusal([&] { trainer.run(observer); });
    EXPECT_NE(error.find("; the steps before could not be saved: no save at "), std::string::npos) << error;
  }
  options.checkpoint.every = 3;  // told of when the step has failed
  Trainer trainer(options);
  Throwing observer;
  EXPECT_THROW(trainer.run(observer), NumericError);
  set_log_sink({});
}

TEST_F(Run, WithoutADirectoryThereIsNothingToPrune) {
  Options options = small();
  options.checkpoint.directory.clear();
  std::string said;
  Trainer trainer(options);
  set_log_sink([&](LogLevel, std::string_view message) { said += message; });
  trainer.prune_checkpoints({});
  set_log_sink({});
  EXPECT_EQ(said, "");
}

// What is read and written back leaves a run as it was; moments and values moved by hand into another run make it the
// same one.
TEST_F(Run, ReadsAndWritesParametersByName) {
  for (const char* const compute : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(compute);
    Options options = small();
    options.precision.compute = compute;
    options.checkpoint.directory.clear();
    Trainer from(options);
    from.run();
    const std::uint64_t expected = from.weights_hash();
    options.run.seed = 7;
    Trainer to(options);
    to.run();
    EXPECT_NE(to.weights_hash(), expected);
    std::int64_t elements = 0;
    for (const Parameter& parameter : from.parameters()) {
      std::int64_t size = 1;
      for (const std::int64_t dimension : parameter.shape) size *= dimension;
      elements += size;
      for (const ParameterPart part : {ParameterPart::value, ParameterPart::moment1, ParameterPart::moment2}) {
        for (std::int64_t first = 0; first < size; first += 100) {
          std::vector<float> values(static_cast<std::size_t>(std::min<std::int64_t>(100, size - first)));
          from.read_parameter(parameter.name, part, first, values);
          to.write_parameter(parameter.name, part, first, values);
        }
      }
    }
    EXPECT_EQ(elements, from.contract().parameters);
    EXPECT_EQ(to.weights_hash(), expected);
    EXPECT_EQ(to.validation_loss(), from.validation_loss());
    std::vector<float> one(1, 0.5f);
    EXPECT_THROW(to.read_parameter("nobody", ParameterPart::value, 0, one), BadInput);
    EXPECT_THROW(to.read_parameter("h.0.ln_1.bias", ParameterPart::value, 24, one), BadInput);
    EXPECT_THROW(to.read_parameter("h.0.ln_1.bias", ParameterPart::value, -1, one), BadInput);
    one[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(to.write_parameter("h.0.ln_1.bias", ParameterPart::value, 0, one), BadInput);
    one[0] = -1;
    EXPECT_THROW(to.write_parameter("h.0.ln_1.bias", ParameterPart::moment2, 0, one), BadInput);
    EXPECT_EQ(to.weights_hash(), expected);
    EXPECT_NO_THROW(to.write_parameter("h.0.ln_1.bias", ParameterPart::moment1, 0, one));
  }
}

// What the trainer calls in the middle of its work.
using Within = std::function<void()>;
std::vector<std::pair<const char*, std::function<void(Trainer&, const Within&)>>> calls() {
  const auto in_values = [](const Within& within) { return [within](auto, auto, auto) { within(); }; };
  static const std::vector<std::int32_t> prompt{1, 2, 3};
  return {
      {"logits", [=](Trainer& trainer, const Within& within) { trainer.logits(prompt, in_values(within)); }},
      {"hidden_states",
       [=](Trainer& trainer, const Within& within) { trainer.hidden_states(prompt, in_values(within)); }},
      {"generate_all",
       [](Trainer& trainer, const Within& within) {
         trainer.generate_all({prompt}, {.tokens = 3}, [&](auto, auto) { return within(), true; });
       }},
      {"evaluate", [](Trainer& trainer, const Within& within) { trainer.evaluate([&] { return within(), false; }); }},
  };
}

TEST_F(Run, OutlivesWhatTheProgramsFunctionsThrow) {
  for (const char* const execution : {"relay", "resident"}) {
    Options options = small();
    options.device.execution = execution;
    Trainer trainer(options);
    trainer.step();
    for (const auto& [name, call] : calls()) {
      SCOPED_TRACE(name);
      int called = 0;
      EXPECT_THROW(call(trainer, [&] { ++called, throw 5; }), int);
      EXPECT_EQ(called, 1);
    }
    const std::vector<std::int32_t> tokens{1, 2, 3};
    EXPECT_THROW(trainer.logits(tokens, nullptr), BadInput);
    EXPECT_THROW(trainer.hidden_states(tokens, nullptr), BadInput);
    trainer.run();
    EXPECT_EQ(trainer.weights_hash(), hash_of(small())) << execution;
  }
}

TEST_F(Run, IsNotUsedWithinTheProgramsFunctions) {
  Trainer trainer(small());
  trainer.step();
  for (const auto& [name, call] : calls()) {
    for (const auto& [inner_name, inner] : calls()) {
      SCOPED_TRACE(std::string(inner_name) + " within " + name);
      EXPECT_NE(testing::refusal([&] { call(trainer, [&] { inner(trainer, [] {}); }); }).find("is used within"),
                std::string::npos);
    }
    EXPECT_NE(testing::refusal([&] { call(trainer, [&] { trainer.step(); }); }).find("is used within"),
              std::string::npos);
    EXPECT_NO_THROW(call(trainer, [] {})) << name;
  }
  trainer.run();
  EXPECT_EQ(trainer.weights_hash(), hash_of(small()));
}

// A list of layers is for models with model.reserve, the empty one, too.
TEST_F(Run, FixedLayersTakeNoList) {
  Trainer trainer(small());
  EXPECT_THROW(trainer.set_layers({}), BadInput);
  EXPECT_THROW(trainer.set_layers(std::vector<std::uint32_t>{0}), BadInput);
}

TEST_F(Run, TwoTrainersRunInOneProcess) {
  std::vector<Options> both(2, small());
  both[0].run.steps = both[1].run.steps = 40;
  both[1].run.seed = 2;
  std::vector<std::uint64_t> alone, together(2);
  for (std::size_t i = 0; i < 2; ++i) {
    both[i].checkpoint.directory = run_.folder() / std::to_string(i);
    alone.push_back(hash_of(both[i]));
  }
  std::thread other([&] { together[1] = hash_of(both[1]); });
  together[0] = hash_of(both[0]);
  other.join();
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace l2l::run
