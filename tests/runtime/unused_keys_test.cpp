#include "runtime/options/unused_keys.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/options/options_table.h"
#include "tests/support/temporary_folder.h"

namespace l2l::runtime {
namespace {

using Lines = std::vector<std::string>;

class UnusedKeys : public ::testing::Test {
 protected:
  UnusedKeys() { std::ofstream(folder_ / "text") << std::string(5000, 'x'); }

  Lines of(const std::vector<std::string>& assignments) const {
    Options options;
    options.data.train = {folder_ / "text"};
    for (const std::string& assignment : assignments) set_option(options, assignment);
    return unused_keys(resolve(options));
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(UnusedKeys, AreNamedWithWhatMakesThemSo) {
  EXPECT_EQ(of({"schedule.minimum=1e-5"}),
            Lines{"schedule.minimum = 1e-05 has no effect with schedule.kind = \"constant\""});
  EXPECT_EQ(of({"optimizer.max_norm=2"}),
            Lines{"optimizer.max_norm = 2.0 has no effect with optimizer.clip = \"none\""});
  EXPECT_EQ(of({"optimizer.momentum=0.5"}),
            Lines{"optimizer.momentum = 0.5 has no effect with optimizer.name = \"adamw\""});
  EXPECT_EQ(of({"optimizer.name=sgd", "optimizer.betas=[0.8, 0.9]", "optimizer.epsilon=1e-6"}).size(), 2u);
  EXPECT_EQ(of({"data.masked=0.3", "data.mask_token=7"}).size(), 2u);
  EXPECT_EQ(of({"recompute.policy=selective"}),
            Lines{"recompute.policy = \"selective\" has no effect with model.attention = \"fused\""});
  EXPECT_EQ(of({"precision.loss_scale_growth=10"}).size(), 1u);
  EXPECT_EQ(of({"precision.loss_scale_growth=10", "precision.compute=fp16", "precision.loss_scale=8"}),
            Lines{"precision.loss_scale_growth = 10 has no effect with precision.loss_scale = 8.0"});
  EXPECT_EQ(of({"run.steps=6", "schedule.warmup_steps=7"}),
            Lines{"optimizer.learning_rate = 0.001 is not reached: the run ends within the warm-up, with run.steps = 6 "
                  "and schedule.warmup_steps = 7"});
  EXPECT_EQ(of({"device.kind=host", "precision.tf32=true"}),
            Lines{"precision.tf32 = true has no effect with device.kind = \"host\""});
  EXPECT_EQ(of({"model.architecture=llama", "model.rope_factor=4"}),
            Lines{"model.rope_factor = 4.0 has no effect with model.rope_scaling = \"none\""});
  EXPECT_EQ(of({"model.rope_factor=4", "model.rope_low_frequency=2", "model.rope_high_frequency=8",
                "model.rope_beta_fast=16", "model.rope_beta_slow=2", "model.rope_truncate=false",
                "model.rope_attention_factor=2", "model.rope_original_positions=64"})
                .size(),
            8u);
  EXPECT_EQ(of({"data.buckets=2"}), Lines{"data.buckets = 2 has no effect with data.samples = \"stream\""});
}

TEST_F(UnusedKeys, AreNoneWhereTheyAreUsed) {
  EXPECT_EQ(of({}), Lines());
  EXPECT_EQ(of({"schedule.kind=cosine", "schedule.minimum=1e-5", "optimizer.clip=global", "optimizer.max_norm=2"}),
            Lines());
  EXPECT_EQ(of({"optimizer.name=sgd", "optimizer.momentum=0.5"}), Lines());
  EXPECT_EQ(of({"optimizer.name=lamb", "optimizer.betas=[0.8, 0.9]", "optimizer.epsilon=1e-6"}), Lines());
  EXPECT_EQ(of({"model.architecture=bert", "data.masked=0.3", "data.mask_token=256"}), Lines());
  EXPECT_EQ(of({"model.attention=core", "recompute.policy=selective"}), Lines());
  EXPECT_EQ(of({"precision.compute=fp16", "precision.loss_scale_growth=10"}), Lines());
  EXPECT_EQ(of({"data.samples=padded", "data.buckets=2"}), Lines());
  const std::string llama = "model.architecture=llama", factor = "model.rope_factor=4";
  EXPECT_EQ(of({llama, factor, "model.rope_scaling=llama3", "model.rope_low_frequency=2"}), Lines());
  EXPECT_EQ(of({llama, factor, "model.rope_scaling=yarn", "model.rope_beta_fast=16", "model.rope_truncate=false"}),
            Lines());
  EXPECT_EQ(of({llama, factor, "model.rope_scaling=linear"}), Lines());
  EXPECT_EQ(of({"run.steps=6", "schedule.warmup_steps=6"}), Lines());
}

// What a run of to_toml()'s own makes sets every key, to its default or not.
TEST_F(UnusedKeys, AreNoneInAConfigThatSetsEachKeyToItsDefault) {
  Options options = parse_options(to_toml(Options()), "config.toml");
  options.data.train = {folder_ / "text"};
  EXPECT_EQ(unused_keys(resolve(options)), Lines());
}

TEST_F(UnusedKeys, AreNotTheBusinessOfModelsThatAreOnlyUsed) {
  Options options;
  set_option(options, "schedule.minimum=1e-5");
  EXPECT_EQ(unused_keys(resolve(options)), Lines());
}

}  // namespace
}  // namespace l2l::runtime
