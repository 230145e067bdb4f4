// l2l-sample: continues a prompt with a model, through the same layer streaming. The text goes to stdout.
#include <iostream>

#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/model_argument.h"

namespace l2l::tools {
namespace {

struct Arguments {
  std::string model, prompt;
  std::vector<int> ids;
  GenerateOptions generate;
};

int sample(const Arguments& arguments) {
  ModelArgument model;
  const Options options = options_of_model(arguments.model, model);
  if (arguments.ids.empty() && (!model.is_checkpoint || options.data.format != "text")) {
    throw BadInput(arguments.model + ": its model reads tokens of its own; give their numbers with --ids");
  }
  Trainer trainer(options);
  load_weights(trainer, model);
  std::vector<std::int32_t> prompt(arguments.ids.begin(), arguments.ids.end());
  for (const char byte : arguments.prompt) prompt.push_back(static_cast<unsigned char>(byte));
  const std::vector<std::int32_t> continuation = trainer.generate(prompt, arguments.generate);
  std::cout << arguments.prompt;
  for (const std::int32_t token : continuation) {
    arguments.ids.empty() ? std::cout << static_cast<char>(token) : std::cout << token << ' ';
  }
  std::cout << std::endl;
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  Arguments arguments;
  Command command("l2l-sample", "Continues a prompt with a model.", [&] { return sample(arguments); });
  command.add("MODEL", &arguments.model,
              "a checkpoint, a directory of them (the newest is taken), or a Hugging Face model directory",
              {.required = true});
  command.add("--prompt", &arguments.prompt, "text to continue");
  command.add("--ids", &arguments.ids,
              "tokens to continue, by number, with commas; the continuation is printed so, too");
  command.exclude("--prompt", "--ids");
  command.add("--tokens", &arguments.generate.tokens, "number of tokens", {.least = 0});
  command.add("--temperature", &arguments.generate.temperature, "0: always the most probable token", {.least = 0});
  command.add("--seed", &arguments.generate.seed, "of the sampling");
  return command.run(argc, argv);
}
