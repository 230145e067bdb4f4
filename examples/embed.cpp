// Trains a tiny model on one file, all options in code, and continues a prompt:
//   g++ embed.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l) -o embed
//   ./embed TEXT_FILE FOLDER
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "l2l/l2l.h"

namespace {

l2l::Options tiny_run(const std::string& text_file, const std::filesystem::path& folder) {
  l2l::Options options;
  options.model.layers = 2;
  options.model.hidden = 32;
  options.model.heads = 2;
  options.model.sequence = 32;
  options.model.dropout = 0;
  options.data.train = {text_file};
  options.batch.micro_batch = 4;
  options.batch.micro_batches = 2;
  options.optimizer.learning_rate = 1e-2;
  options.transfer.stash = "host";
  options.checkpoint.directory = folder;
  options.run.steps = 30;
  return options;
}

void print_contract(const l2l::MemoryContract& contract) {
  std::printf("%lld parameters, %llu device bytes\n", static_cast<long long>(contract.parameters),
              static_cast<unsigned long long>(contract.device_bytes));
  for (const l2l::ContractLine& line : contract.device) {
    std::printf("  %12llu  %s\n", static_cast<unsigned long long>(line.bytes), line.what.c_str());
  }
}

class Printer : public l2l::RunObserver {
  void step(const l2l::StepReport& report) override {
    std::printf("step %lld, loss %.4f\n", static_cast<long long>(report.step), report.loss);
  }
  void saved(const std::filesystem::path& checkpoint) override { std::printf("checkpoint %s\n", checkpoint.c_str()); }
};

void continue_prompt(l2l::Trainer& trainer, const std::string& prompt) {
  const l2l::Tokenizer tokenizer(trainer.options().data.tokenizer);
  const std::vector<std::int32_t> tokens = trainer.generate(tokenizer.encode(prompt), {.tokens = 20});
  std::printf("%s%s\n", prompt.c_str(), tokenizer.decode(tokens).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: embed TEXT_FILE FOLDER\n");
    return 2;
  }
  try {
    std::printf("L2L %s\n", l2l::version());
    l2l::Trainer trainer(tiny_run(arguments[1], arguments[2]));
    print_contract(trainer.contract());
    Printer printer;
    trainer.run(printer);
    continue_prompt(trainer, "the ");
  } catch (const l2l::BadInput& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
