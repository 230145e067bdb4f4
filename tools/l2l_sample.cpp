// l2l-sample: continues prompts with a model, through the same layer streaming. The text goes to stdout as it is made.
#include <algorithm>
#include <iostream>
#include <optional>

#include "base/json.h"
#include "l2l/l2l.h"
#include "runtime/data/chat_templates.h"
#include "tools/command.h"
#include "tools/model_argument.h"
#include "tools/sample_prompts.h"

namespace l2l::tools {
namespace {

struct Arguments {
  std::string model, prompt, prompts, chat_template = "auto";
  std::vector<int> ids;
  std::vector<std::string> assignments;
  bool chat = false, goes_on = false, whole = false, allow_nonfinite = false;
  GenerateOptions generate;
};

using Ids = std::vector<std::int32_t>;

// A model that has been asked for, and what it continues.
class Sampler {
 public:
  Sampler(const Arguments& arguments, const Options& options, const ModelArgument& model)
      : arguments_(arguments), options_(options), model_(model) {}

  int continue_ids() {
    const Ids prompt(arguments_.ids.begin(), arguments_.ids.end());
    run({prompt}, nullptr, {}, [](std::size_t, std::int32_t token) {
      std::cout << token << ' ' << std::flush;
      return true;
    });
    std::cout << std::endl;
    return kSuccess;
  }

  // One prompt, whose text is shown as it is made.
  int continue_prompt() {
    open_text();
    const Ids ids = tokenizer_->encode(wrapped(prompt_of(arguments_.prompt)));
    if (ids.empty()) {
      throw BadInput("the prompt is empty: give --prompt TEXT (-: standard input), --prompts FILE or --ids N,...");
    }
    TextStream stream(*tokenizer_, ids);
    // Shown when all is well: with the first token.
    std::string shown = arguments_.chat ? std::string() : tokenizer_->decode(ids);
    run({ids}, &*tokenizer_, turn_end(), [&](std::size_t, std::int32_t token) {
      shown += stream.add(token);
      std::cout << shown << std::flush;
      shown.clear();
      return true;
    });
    std::cout << shown << stream.finish() << std::endl;
    return kSuccess;
  }

  // A JSON object for each prompt, in their order.
  int continue_prompts() {
    open_text();
    const std::vector<Prompt> prompts = read_prompts(arguments_.prompts);
    std::vector<Ids> ids;
    for (const auto& [prompt, place] : prompts) {
      ids.push_back(tokenizer_->encode(wrapped(prompt)));
      if (ids.back().empty()) throw BadInput(place + ": the prompt is empty");
    }
    const std::vector<Ids> continuations = run(ids, &*tokenizer_, turn_end(), {});
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      TextStream stream(*tokenizer_, ids[i]);
      std::string text;
      for (const std::int32_t token : continuations[i]) text += stream.add(token);
      text += stream.finish();
      const bool ended = static_cast<std::int64_t>(continuations[i].size()) < arguments_.generate.tokens;
      const nlohmann::ordered_json line = {
          {"prompt", prompts[i].text}, {"text", text}, {"tokens", continuations[i].size()}, {"ended", ended}};
      std::cout << json_text(line) << std::endl;
    }
    return kSuccess;
  }

 private:
  void open_text() {
    tokenizer_.emplace(options_.data.tokenizer);
    if (arguments_.chat) chat_.emplace(arguments_.chat_template, options_.data.tokenizer);
  }

  std::string wrapped(const std::string& prompt) const { return chat_ ? chat_->prompt({{"user", prompt}}) : prompt; }
  std::string turn_end() const { return chat_ ? chat_->end_of_turn() : std::string(); }

  void tell_cut(const std::vector<Ids>& prompts, std::int64_t most) const {
    const auto is_cut = [&](const Ids& prompt) { return static_cast<std::int64_t>(prompt.size()) > most; };
    const auto cut = std::count_if(prompts.begin(), prompts.end(), is_cut);
    if (cut == 0) return;
    const std::string what = prompts.size() == 1 ? "the prompt has " + std::to_string(prompts[0].size()) + " tokens"
                                                 : std::to_string(cut) + " prompts are longer than that";
    std::cerr << what << ": the model reads the last " << most << "\n";
  }

  // `turn_end`: the text of a token that ends a text, too.
  std::vector<Ids> run(const std::vector<Ids>& prompts, const Tokenizer* tokenizer, const std::string& turn_end,
                       const Trainer::TakeToken& take) {
    GenerateOptions generate = arguments_.generate;
    if (!arguments_.goes_on) {
      generate.stop = stop_tokens(model_.path, tokenizer);
      if (tokenizer != nullptr) {
        for (const std::int32_t id : token_of(*tokenizer, turn_end)) generate.stop.push_back(id);
      }
    }
    Trainer trainer(options_);
    GenerationShape shape{static_cast<std::int64_t>(prompts.size()), 1, generate.tokens};
    for (const Ids& prompt : prompts) {
      shape.longest_prompt = std::max(shape.longest_prompt, static_cast<std::int64_t>(prompt.size()));
    }
    tell_cut(prompts, trainer.options().model.sequence);
    if (!arguments_.whole) trainer.reserve_generation(shape);
    load_weights(trainer, model_);
    return trainer.generate_all(prompts, generate, take);
  }

  const Arguments& arguments_;
  const Options& options_;
  const ModelArgument& model_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<runtime::ChatTemplate> chat_;
};

int sample(const Arguments& arguments) {
  ModelArgument model;
  Options options = options_of_model(arguments.model, model);
  options.run.allow_nonfinite |= arguments.allow_nonfinite;
  assign(arguments.assignments, options);
  Sampler sampler(arguments, options, model);
  if (!arguments.ids.empty()) return sampler.continue_ids();
  constexpr std::string_view kIds[] = {"tokens", "tokens32", "llm.c", "megatron", "npy"};
  const bool ids = std::find(std::begin(kIds), std::end(kIds), options.data.format) != std::end(kIds);
  if (ids && options.data.tokenizer == "bytes") {
    throw BadInput(arguments.model +
                   ": its model reads tokens, and no tokenizer is beside it; give their numbers with --ids, or name " +
                   "the tokenizer by --set data.tokenizer=FILE (\"bytes\": each byte is a token)");
  }
  return arguments.prompts.empty() ? sampler.continue_prompt() : sampler.continue_prompts();
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  Arguments arguments;
  Command command("l2l-sample", "Continues prompts with a model.", [&] { return sample(arguments); });
  command.add("MODEL", &arguments.model,
              "a checkpoint, a directory of them (the newest is taken), a folder of --output, or a Hugging Face model "
              "directory",
              {.required = true});
  command.add("--prompt", &arguments.prompt, "text to continue; -: standard input, without the end of its last line");
  command.add(
      "--prompts", &arguments.prompts,
      "file of texts to continue: one on each line, or .jsonl with {\"prompt\": TEXT}; gives a JSON object each");
  command.add("--ids", &arguments.ids,
              "tokens to continue, by number, with commas; the continuation is printed so, too");
  command.exclude("--prompt", "--ids");
  command.exclude("--prompts", "--ids");
  command.exclude("--prompts", "--prompt");
  command.add("--chat", &arguments.chat, "a prompt is what a user says, and the answer is shown");
  command.exclude("--chat", "--ids");
  command.add("--template", &arguments.chat_template,
              "of the chat: auto (the tokenizer's own), chatml, llama3, mistral, gemma, zephyr", {.needs = "--chat"});
  command.add("--tokens", &arguments.generate.tokens, "most tokens of a continuation", {.least = 0});
  command.add("--temperature", &arguments.generate.temperature, "0: always the most probable token", {.least = 0});
  command.add("--top-k", &arguments.generate.top_k, "draw from the K most probable tokens; 0: from all", {.least = 0});
  command.add("--top-p", &arguments.generate.top_p,
              "draw from the fewest tokens whose probabilities sum to P, which is above 0", {.least = 0, .most = 1});
  command.add("--no-stop", &arguments.goes_on, "go on behind the end of a sequence");
  command.add("--no-cache", &arguments.whole, "run the whole text again for every token");
  command.add("--seed", &arguments.generate.seed, "of the sampling");
  command.add("--set", &arguments.assignments, "section.key=value", {.offers = config_keys()});
  command.add("--allow-nonfinite", &arguments.allow_nonfinite, kAllowNonfinite);
  command.add_example("l2l-sample checkpoints/run --prompt \"Once \"", "continues a text with the newest checkpoint");
  command.add_example("l2l-sample models/Qwen3-0.6B --chat --prompt \"Who are you?\" --temperature 0.7",
                      "prints the answer of a chat model");
  return command.run(argc, argv);
}
