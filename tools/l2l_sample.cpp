// l2l-sample: continues a prompt with a trained checkpoint, through the same layer streaming. The text goes to stdout.
#include <iostream>

#include "l2l/l2l.h"
#include "tools/command.h"

namespace l2l::tools {
namespace {

struct Arguments {
  std::string checkpoint, prompt;
  GenerateOptions generate;
};

int sample(const Arguments& arguments) {
  Options options = checkpoint_options(arguments.checkpoint);
  if (options.data.tokenizer != "bytes" || options.data.format != "text") {
    throw BadInput(arguments.checkpoint + ": its model reads tokens of its own; only byte-level models take text");
  }
  options.data.train.clear();
  options.data.validation.clear();
  options.batch = {.micro_batch = 1, .micro_batches = 1};
  options.checkpoint.directory.clear();
  options.recompute = {};  // nothing is trained
  options.checkpoint.every = options.run.validate_every = 0;
  Trainer trainer(options);
  trainer.resume(arguments.checkpoint);
  std::vector<std::int32_t> prompt;
  for (const char byte : arguments.prompt) prompt.push_back(static_cast<unsigned char>(byte));
  const std::vector<std::int32_t> continuation = trainer.generate(prompt, arguments.generate);
  std::cout << arguments.prompt;
  for (const std::int32_t token : continuation) std::cout << static_cast<char>(token);
  std::cout << std::endl;
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  Arguments arguments;
  Command command("l2l-sample", "Continues a prompt with a trained checkpoint.", [&] { return sample(arguments); });
  command.add("CHECKPOINT", &arguments.checkpoint, "a checkpoint, or a directory of them (the newest is taken)",
              {.required = true});
  command.add("--prompt", &arguments.prompt, "text to continue", {.required = true});
  command.add("--tokens", &arguments.generate.tokens, "number of tokens", {.least = 0});
  command.add("--temperature", &arguments.generate.temperature, "0: always the most probable token", {.least = 0});
  command.add("--seed", &arguments.generate.seed, "of the sampling");
  return command.run(argc, argv);
}
