// What is chosen for a run of which only the model and the data are named, beside what --set says.
#include "l2l/choose.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/test_data.h"

namespace l2l {
namespace {

using ::l2l::runtime::test::bad_input;
using ::l2l::runtime::test::Data;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 8,
    "num_hidden_layers": 2, "num_attention_heads": 1, "vocab_size": 8, "max_position_embeddings": 64})";
constexpr const char* kTokenizer = R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "WordPiece",
    "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    "vocab": {"?": 0, "a": 1, "b": 2}}})";
constexpr std::int64_t kRows = 40, kTraining = 38;  // of which 2 are held out

class Choose : public ::testing::Test {
 protected:
  Choose() {
    data_.write("model/config.json", kConfig);
    data_.write("model/tokenizer.json", kTokenizer);
    write_rows("\"label\"");
  }
  void SetUp() override {
    if (refusal({}).find("this build has no tokenizers") < 1000) GTEST_SKIP() << "no tokenizers";
  }

  // Texts of 16 tokens, with 0 or 1 in another member.
  void write_rows(const std::string& member) const {
    std::string rows, text = "a";
    for (int i = 1; i < 16; ++i) text += i % 2 == 0 ? " a" : " b";
    for (std::int64_t i = 0; i < kRows; ++i) {
      rows += "{\"text\": \"" + text + "\", " + member + ": " + std::to_string(i % 2) + "}\n";
    }
    data_.write("rows.jsonl", rows);
  }
  ChosenRun choose(const std::vector<std::string>& assignments) {
    const std::string output = "output-" + std::to_string(++runs_);
    return choose_run(data_.path("model"), data_.path("rows.jsonl"), data_.path(output), assignments);
  }
  std::string refusal(const std::vector<std::string>& assignments) {
    return bad_input([&] { choose(assignments); });
  }
  std::int64_t steps(const std::vector<std::string>& assignments) { return choose(assignments).options().run.steps; }

  const Data data_;
  int runs_ = 0;
};

std::int64_t ratio_rounded_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

TEST_F(Choose, TakesWhatIsSaidHoweverItIsSpaced) {
  EXPECT_EQ(choose({"optimizer.learning_rate=3e-6"}).options().optimizer.learning_rate, 3e-6);
  EXPECT_EQ(choose({" optimizer.learning_rate\t= 3e-6 "}).options().optimizer.learning_rate, 3e-6);
  EXPECT_EQ(choose({"run.steps=3", "run.steps = 4"}).options().run.steps, 4);
}

TEST_F(Choose, RowsThatAreThereStay) {
  data_.write("output/data/train.jsonl", "mine");
  const std::string said =
      bad_input([&] { choose_run(data_.path("model"), data_.path("rows.jsonl"), data_.path("output"), {}); });
  EXPECT_SAYS(said, "output/data: is there already; name a new folder");
  EXPECT_EQ(std::filesystem::file_size(data_.path("output/data/train.jsonl")), 4);
}

TEST_F(Choose, EmptyNamesAreRefused) {
  const std::string model = data_.path("model"), rows = data_.path("rows.jsonl");
  EXPECT_SAYS(bad_input([&] { choose_run("", rows, data_.path("output"), {}); }), "is empty");
  EXPECT_SAYS(bad_input([&] { choose_run(model, rows, "", {}); }), "is empty");
}

// Ten passes.
TEST_F(Choose, ABatchThatIsSaidMakesTheSteps) {
  EXPECT_EQ(steps({}), ratio_rounded_up(10 * kTraining, 32));
  EXPECT_EQ(steps({"batch.minibatch=4"}), ratio_rounded_up(10 * kTraining, 4));
  EXPECT_EQ(steps({"batch.micro_batch=4"}), ratio_rounded_up(10 * kTraining, 32));
  EXPECT_EQ(steps({"batch.minibatch=0", "batch.micro_batch=4"}), ratio_rounded_up(10 * kTraining, 4));
  const ChosenRun run = choose({"batch.micro_batch=4", "batch.micro_batches=2"});
  EXPECT_EQ(run.options().run.steps, ratio_rounded_up(10 * kTraining, 8));
  EXPECT_EQ(run.options().run.validate_every, run.options().run.steps / 4);
  EXPECT_TRUE(std::none_of(run.keys.begin(), run.keys.end(),
                           [](const ChosenKey& each) { return each.key == "batch.minibatch"; }));
  EXPECT_SAYS(refusal({"batch.minibatch=16", "batch.micro_batch=4", "batch.micro_batches=2"}), "batch.minibatch = 16");
}

// One pass.
TEST_F(Choose, ASequenceThatIsSaidMakesTheStepsOfPackedTexts) {
  write_rows("\"unread\"");
  EXPECT_EQ(steps({"batch.minibatch=2"}), ratio_rounded_up(16 * kTraining, 2 * 64));
  EXPECT_EQ(steps({"batch.minibatch=2", "model.sequence=8"}), ratio_rounded_up(16 * kTraining, 2 * 8));
}

}  // namespace
}  // namespace l2l
