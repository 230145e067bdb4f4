// l2l-sample: continues a prompt with a model, through the same layer streaming. The text goes to stdout.
#include <algorithm>
#include <iostream>

#include "l2l/l2l.h"
#include "text/tokenizer.h"
#include "tools/command.h"
#include "tools/model_argument.h"

namespace l2l::tools {
namespace {

struct Arguments {
  std::string model, prompt;
  std::vector<int> ids;
  GenerateOptions generate;
};

std::vector<std::int32_t> continuation(const std::vector<std::int32_t>& prompt, const Arguments& arguments,
                                       const Options& options, const ModelArgument& model) {
  Trainer trainer(options);
  load_weights(trainer, model);
  return trainer.generate(prompt, arguments.generate);
}

int continue_ids(const Arguments& arguments, const Options& options, const ModelArgument& model) {
  const std::vector<std::int32_t> prompt(arguments.ids.begin(), arguments.ids.end());
  for (const std::int32_t token : continuation(prompt, arguments, options, model)) std::cout << token << ' ';
  std::cout << std::endl;
  return kSuccess;
}

int continue_text(const Arguments& arguments, const Options& options, const ModelArgument& model) {
  const std::string& name = options.data.tokenizer;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<std::int32_t> ids;
  if (name != "bytes") {
    tokenizer = text::open_tokenizer(name);
    tokenizer->make_encoder()->encode(arguments.prompt, /*special=*/false, ids);
  } else {
    for (const char byte : arguments.prompt) ids.push_back(static_cast<unsigned char>(byte));
  }
  const std::size_t prompt = ids.size();
  for (const std::int32_t token : continuation(ids, arguments, options, model)) ids.push_back(token);
  if (tokenizer) {
    std::cout << tokenizer->decode(ids, /*special=*/false);
  } else {
    std::cout << arguments.prompt;
    for (std::size_t i = prompt; i < ids.size(); ++i) std::cout << static_cast<char>(ids[i]);
  }
  std::cout << std::endl;
  return kSuccess;
}

int sample(const Arguments& arguments) {
  ModelArgument model;
  const Options options = options_of_model(arguments.model, model);
  if (!arguments.ids.empty()) return continue_ids(arguments, options, model);
  constexpr std::string_view kIds[] = {"tokens", "tokens32", "llm.c", "megatron", "npy"};
  const bool ids = std::find(std::begin(kIds), std::end(kIds), options.data.format) != std::end(kIds);
  if (ids && options.data.tokenizer == "bytes") {
    throw BadInput(arguments.model + ": its model reads tokens of its own; give their numbers with --ids");
  }
  return continue_text(arguments, options, model);
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
