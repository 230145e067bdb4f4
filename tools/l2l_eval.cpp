// l2l-eval: loss and perplexity of a model on files, or the logits and hidden states of given tokens, through the same
// layer streaming as training. One JSON object on stdout.
#include <cmath>
#include <fstream>
#include <iostream>
#include <optional>

#include "base/json.h"
#include "core/files.h"
#include "formats/npy.h"
#include "l2l/errors.h"
#include "l2l/model_files.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/option_paths.h"
#include "tools/command.h"
#include "tools/model_argument.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/token_ids.h"

namespace l2l::tools {
namespace {

struct Arguments {
  std::string model, tokens, logits, hidden, pooled;
  std::vector<std::string> data, assignments;
  std::int64_t sequence = 0;
  bool allow_nonfinite = false;
};

std::vector<std::int32_t> read_tokens(const std::string& name) {
  refuse_special(name);
  std::ifstream file(name);
  if (!file) throw BadInput("--tokens " + name + ": cannot be opened");
  std::vector<std::int32_t> tokens;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::int32_t> ids = token_ids(line, "--tokens " + name + ": line " + std::to_string(++number));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  if (!file.eof()) throw BadInput("--tokens " + name + ": cannot be read");
  return tokens;
}

void check_tokens(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, const std::string& name) {
  if (tokens.empty()) throw BadInput("--tokens " + name + ": is empty; give at least one token");
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < vocabulary) continue;
    throw BadInput("--tokens " + name + ": token " + std::to_string(token) + " is not below the vocabulary of " +
                   std::to_string(vocabulary));
  }
}

void write_logits(Trainer& trainer, const std::vector<std::int32_t>& tokens, const std::string& name) {
  const ModelOptions& model = trainer.options().model;
  const bool one = model.head == "regression" || model.head == "choice";
  const std::int64_t labels = one ? 1 : model.labels;
  formats::NpyWriter file(name, static_cast<std::int64_t>(tokens.size()),
                          model.head == "language" ? model.vocabulary : labels);
  trainer.logits(tokens, [&](std::int64_t row, std::int64_t first_token, std::span<const float> logits) {
    file.write(row, first_token, logits);
  });
  file.finish();
}

// `folder`: of the weights.
void write_hidden(Trainer& trainer, const std::vector<std::int32_t>& tokens, const Arguments& arguments,
                  const std::filesystem::path& folder) {
  const std::int64_t hidden = trainer.options().model.hidden;
  std::optional<formats::NpyWriter> file, pooled;
  if (!arguments.hidden.empty()) file.emplace(arguments.hidden, static_cast<std::int64_t>(tokens.size()), hidden);
  if (!arguments.pooled.empty()) pooled.emplace(arguments.pooled, 1, hidden);
  std::vector<float> first(static_cast<std::size_t>(hidden));
  trainer.hidden_states(tokens, [&](std::int64_t row, std::int64_t element, std::span<const float> values) {
    if (file) file->write(row, element, values);
    if (row == 0) std::copy(values.begin(), values.end(), first.begin() + element);
  });
  if (file) file->finish();
  if (!pooled) return;
  pooled->write(0, 0, pooler_output(folder, first));
  pooled->finish();
}

void check(const Arguments& arguments) {
  const bool writes = !arguments.logits.empty() || !arguments.hidden.empty() || !arguments.pooled.empty();
  if (arguments.data.empty() && arguments.tokens.empty()) throw BadInput("nothing to do: give --data or --tokens");
  if (arguments.tokens.empty() && writes) throw BadInput("--logits, --hidden and --pooled need --tokens");
  if (!arguments.tokens.empty() && !writes) throw BadInput("--tokens needs --logits, --hidden or --pooled");
  const std::vector<NamedFile> files = {
      {"--logits", arguments.logits}, {"--hidden", arguments.hidden}, {"--pooled", arguments.pooled}};
  for (const auto& [option, path] : files) check_ours_alone(path, option, is_npy);
  check_apart(files);
}

int evaluate(const Arguments& arguments) {
  check(arguments);
  ModelArgument model;
  Options options = options_of_model(arguments.model, model);
  options.run.allow_nonfinite |= arguments.allow_nonfinite;
  if (model.is_checkpoint) options = runtime::with_its_positions(options);
  assign(arguments.assignments, options);
  options.data.validation = arguments.data;
  if (options.model.head == "custom" && !arguments.tokens.empty()) {
    throw BadInput("--tokens: a model of images takes none; give --data");
  }
  runtime::expand_home(options);
  const std::vector<std::int32_t> tokens =
      arguments.tokens.empty() ? std::vector<std::int32_t>() : read_tokens(arguments.tokens);
  if (arguments.sequence > 0) options.model.sequence = arguments.sequence;
  if (arguments.sequence == 0 && !tokens.empty()) options.model.sequence = static_cast<std::int64_t>(tokens.size());
  Trainer trainer(options);
  if (!arguments.tokens.empty()) check_tokens(tokens, trainer.options().model.vocabulary, arguments.tokens);
  const std::filesystem::path folder = load_weights(trainer, model);
  if (!arguments.pooled.empty()) {  // refuses a directory without a pooler before anything is written
    const std::vector<float> any(static_cast<std::size_t>(trainer.options().model.hidden));
    static_cast<void>(pooler_output(folder, any));
  }
  nlohmann::ordered_json result;
  if (!arguments.data.empty()) {
    const Evaluation evaluation = trainer.evaluate().value();
    const std::string& head = trainer.options().model.head;
    if (!std::isfinite(evaluation.loss)) print_message("warning: the loss is not finite");
    result["loss"] = evaluation.loss;
    if (head == "language") result["perplexity"] = std::exp(evaluation.loss);
    result[head == "language" || head == "tokens" ? "tokens" : "samples"] = evaluation.tokens;
    result["metrics"] = json_of(evaluation.metrics);
  }
  if (!arguments.logits.empty()) {
    write_logits(trainer, tokens, arguments.logits);
    result["logits"] = arguments.logits;
  }
  if (!arguments.hidden.empty() || !arguments.pooled.empty()) write_hidden(trainer, tokens, arguments, folder);
  if (!arguments.hidden.empty()) result["hidden"] = arguments.hidden;
  if (!arguments.pooled.empty()) result["pooled"] = arguments.pooled;
  std::cout << json_text(result) << std::endl;
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  Arguments arguments;
  Command command("l2l-eval", "Loss and perplexity of a model, or its logits, layer by layer.",
                  [&] { return evaluate(arguments); });
  command.add("MODEL", &arguments.model,
              "a checkpoint, a directory of them (the newest is taken), a folder of --output, or a Hugging Face model "
              "directory",
              {.required = true});
  command.add("--data", &arguments.data, "files or globs, in the format of data.format");
  command.add("--sequence", &arguments.sequence,
              "tokens per sequence (default: the model's, or as many as --tokens has)", {.least = 1});
  command.add("--tokens", &arguments.tokens, "a file of token ids, white space between them: one sequence");
  command.add("--logits", &arguments.logits,
              "write their logits to this .npy file, float32 [tokens, vocabulary], or [tokens, labels]");
  command.add("--hidden", &arguments.hidden,
              "write their hidden states, which the head reads, to this .npy file, float32 [tokens, hidden]");
  command.add("--pooled", &arguments.pooled,
              "write what the pooler of an encoder's directory makes of the first one, float32 [1, hidden]");
  command.add("--set", &arguments.assignments, "section.key=value", {.offers = config_keys()});
  command.add("--allow-nonfinite", &arguments.allow_nonfinite, kAllowNonfinite);
  command.add_example("l2l-eval checkpoints/run --data held-out.txt",
                      "prints loss and perplexity of the newest checkpoint on a text");
  command.add_example("l2l-eval models/bert --tokens ids --logits logits.npy",
                      "writes the logits of one sequence of token ids");
  return command.run(argc, argv);
}
