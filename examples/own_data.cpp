// Trains a small model on samples that the program makes up: sums of two numbers, of which it learns the result alone.
//   g++ own_data.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l) -o own_data
//   ./own_data STEPS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "l2l/l2l.h"

namespace {

constexpr std::uint64_t kNumbers = 50, kSums = kNumbers * kNumbers;

// Sum number `index` of all: "07+41=", and "48\n" behind it.
std::string question(std::uint64_t index) {
  char text[16];
  std::snprintf(text, sizeof text, "%02d+%02d=", static_cast<int>(index / kNumbers),
                static_cast<int>(index % kNumbers));
  return text;
}
std::string answer(std::uint64_t index) {
  char text[16];
  std::snprintf(text, sizeof text, "%02d\n", static_cast<int>(index / kNumbers + index % kNumbers));
  return text;
}

// A pure function of the position: what the relay needs to resume a run bit for bit.
class Sums final : public l2l::SampleSource {
 public:
  std::uint64_t size() const override { return kSums; }
  std::uint64_t identity() const override { return 1; }  // another number when the samples change
  std::int64_t read(const l2l::SamplePosition& position, const l2l::SampleView& sample) const override {
    const std::string asked = question(position.index), text = asked + answer(position.index);
    for (std::size_t row = 0; row + 1 < text.size(); ++row) {
      sample.tokens[row] = static_cast<unsigned char>(text[row]);
      if (row + 1 >= asked.size()) sample.targets[row] = static_cast<unsigned char>(text[row + 1]);
    }
    return static_cast<std::int64_t>(text.size()) - 1;
  }
};

l2l::Options options_for(std::int64_t steps) {
  l2l::Options options;
  options.model.layers = 2;
  options.model.hidden = 64;
  options.model.heads = 4;
  options.model.vocabulary = 128;
  options.model.sequence = 9;
  options.model.dropout = 0;
  options.data.train_source = std::make_shared<Sums>();
  options.batch.micro_batch = 50;
  options.batch.micro_batches = 2;
  options.optimizer.learning_rate = 3e-3;
  options.schedule = {.kind = "cosine", .warmup_steps = 20};
  options.run.steps = steps;
  return options;
}

class Progress final : public l2l::RunObserver {
  void step(const l2l::StepReport& report) override {
    if (report.step % 100 == 0) std::printf("step %lld, loss %.4f\n", static_cast<long long>(report.step), report.loss);
  }
};

// How many of a hundred sums the model gets right.
int right_answers(l2l::Trainer& trainer) {
  int right = 0;
  for (std::uint64_t index = 0; index < kSums; index += kSums / 100) {
    const std::string asked = question(index);
    const std::vector<std::int32_t> prompt(asked.begin(), asked.end());
    std::string said;
    for (const std::int32_t token : trainer.generate(prompt, {.tokens = 3, .temperature = 0}))
      said += static_cast<char>(token);
    right += said == answer(index) ? 1 : 0;
  }
  return right;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    l2l::Trainer trainer(options_for(count > 1 ? std::atoll(arguments[1]) : 1000));
    Progress progress;
    trainer.run(progress);
    std::printf("%d of 100 sums are right\n", right_answers(trainer));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
