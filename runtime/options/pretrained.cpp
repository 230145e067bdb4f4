#include "runtime/options/pretrained.h"

#include <algorithm>

#include "core/error_place.h"
#include "core/files.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/hub/config.h"
#include "models/own_layers.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/model_directory.h"
#include "runtime/options/options_table.h"
#include "runtime/options/options_value.h"
#include "text/tokenizer.h"

namespace l2l::runtime {
namespace {

// Keys of [model] that are free to differ from the file.
bool is_free(std::string_view name) {
  constexpr std::string_view kFree[] = {"pretrained", "new_head", "base",    "head",      "labels",    "label_names",
                                        "blocks",     "sequence", "dropout", "attention", "reversible"};
  return std::find(std::begin(kFree), std::end(kFree), name) != std::end(kFree);
}

// A model of many tokens knows no bytes. Checkpoints, whose runs say what they read, may be of any number.
void refuse_bytes(const Options& options, const ModelOptions& model, const std::filesystem::path& pretrained) {
  constexpr std::int64_t kMostBytes = 512;  // with tokens for other purposes
  if (!reads_bytes(options) || model.vocabulary <= kMostBytes || eps::has_manifest(pretrained)) return;
  throw BadInput(
      "model.pretrained = \"" + pretrained.string() + "\": has no tokenizer, and its model of " +
          std::to_string(model.vocabulary) +
          " tokens is none of bytes: copy the tokenizer's files there (tokenizer.json), or name their folder "
          "with data.tokenizer; \"bytes\", if bytes are meant",
      of_key("data.tokenizer"));
}

// A run goes on with the weights of its checkpoint; its model's directory may be gone by then.
void require_same_model(const std::filesystem::path& pretrained, const ModelOptions& saved) {
  const std::filesystem::path config = pretrained / "config.json";
  if (!is_there(config) || !saved.block_names.empty()) return;
  const ModelOptions named = models::read_hub_config(config);
  if (named.architecture == saved.architecture && named.layers == saved.layers && named.hidden == saved.hidden &&
      named.vocabulary == saved.vocabulary) {
    return;
  }
  const auto show = [](const ModelOptions& model) {
    return model.architecture + " of " + std::to_string(model.layers) + " layers of " + std::to_string(model.hidden) +
           ", " + std::to_string(model.vocabulary) + " tokens";
  };
  throw BadInput("model.pretrained = \"" + pretrained.string() + "\": is another model (" + show(named) +
                     ") than that of the checkpoint to go on from (" + show(saved) +
                     "): name the one that the run was begun with, or begin a new run in another directory",
                 of_key("model.pretrained"));
}

std::string full_name(const Key& key) { return "model." + std::string(key.name); }

// Of one key of [model], in TOML.
std::string value_in(const ModelOptions& model, const Key& key) {
  Options options;
  options.model = model;
  return value_of(std::move(options), full_name(key));
}

// Stores the value of the field in the field of the same key of `model`.
void copy_value(const Field& from, std::string_view name, ModelOptions& model) {
  Options options;
  options.model = model;
  for (const Key& key : option_keys(options)) {
    if (key.section != "model" || key.name != name) continue;
    std::visit(
        [&](const auto& source) {
          using Type = std::decay_t<decltype(source)>;
          if constexpr (requires { *source.value; }) *std::get<Type>(key.field).value = *source.value;
        },
        from);
  }
  model = options.model;
}

void refuse_contradiction(const Options& options, const Key& key, const ModelOptions& file,
                          const std::filesystem::path& path) {
  ModelOptions changed = file;
  copy_value(key.field, key.name, changed);
  const std::string ours = value_in(models::with_defaults(changed), key);
  const std::string its = value_in(models::with_defaults(file), key);
  if (ours == its) return;
  throw BadInput(full_name(key) + " = " + ours + ", but " + path.string() + " gives " + its +
                     "; remove it, or train a model of your own sizes without model.pretrained = \"" +
                     options.model.pretrained.string() + "\"",
                 of_file(path.string(), full_name(key)));
}

// A class by another name is the user's choice; one at another place would get another class's row of the head.
void refuse_moved_classes(const ModelOptions& model, const ModelOptions& file, const std::filesystem::path& path) {
  if (model.head != file.head) return;
  const std::vector<std::string>&ours = model.label_names, &its = file.label_names;
  for (std::size_t i = 0; i < std::min(ours.size(), its.size()); ++i) {
    const std::string name = lower_case(its[i]);
    const auto same = [&](const std::string& other) { return lower_case(other) == name; };
    if (same(ours[i]) || std::none_of(ours.begin(), ours.end(), same)) continue;
    Options show;
    show.model = model;
    const std::string given = value_of(show, "model.label_names");
    show.model = file;
    throw BadInput("model.label_names = " + given + ", but " + path.string() + " gives " +
                       value_of(show, "model.label_names") +
                       ", the classes of its head in their order; keep that order, or set model.new_head = true to "
                       "train a head of your own",
                   of_file(path.string(), "model.label_names"));
  }
}

// What the file says of classes is said of its own head.
void forget_other_classes(const Options& options, const ModelOptions& file, ModelOptions& model) {
  if (model.head != file.head && !is_set(options, "model.labels")) model.labels = ModelOptions().labels;
  if (is_set(options, "model.label_names")) return;
  if (model.head != file.head || model.labels != file.labels) model.label_names.clear();
}

std::vector<std::string> names_of(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : specs) {
    std::string shape;
    for (const std::int64_t dimension : spec.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(dimension);
    names.push_back(spec.name + " " + models::name_of(spec.element) + " [" + shape + "]" +
                    (spec.below > 0 ? " below " + std::to_string(spec.below) : ""));
  }
  return names;
}

// `model.layers` follows from them, as do the names by which a change is noticed; of layers that follow from other
// options themselves there are none.
Options with_own_blocks(Options options, const ModelOptions& own) {
  options.model.blocks = own.blocks;
  options.model.reserve = own.reserve;
  if (models::architecture_of(options.model.architecture).images) {
    options.model.layers = static_cast<std::int64_t>(own.blocks.size());
    return options;
  }
  options.model.input_names = names_of(options.model.inputs);
  options.model.target_names = names_of(options.model.targets);
  if (own.blocks.empty()) return options;
  options.model.layers = static_cast<std::int64_t>(own.blocks.size());
  options.model.block_names.clear();
  for (const Layer& layer : models::all_layers(own)) {
    options.model.block_names.push_back(std::to_string(layer.id) + (layer.type.empty() ? "" : " " + layer.type) +
                                        (layer.shares ? " of " + std::to_string(*layer.shares) : ""));
  }
  return options;
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& letter : text) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  return text;
}

Options with_pretrained_model(const Options& options) {
  if (options.model.pretrained.empty()) {
    if (!options.model.new_head) {
      const Options merged = with_architecture_defaults(options);
      return with_own_blocks(merged, merged.model);
    }
    throw BadInput("model.new_head = true without model.pretrained: every part of a random model is new; remove it");
  }
  const std::filesystem::path path = config_of_model(options.model.pretrained);
  const ModelOptions file = models::read_hub_config(path);
  ModelOptions model = file;
  Options merged = options;
  bool sequence_is_set = false;
  for (const Key& key : option_keys(merged)) {
    if (key.section != "model" || !is_set(options, full_name(key))) continue;
    sequence_is_set |= key.name == "sequence";
    is_free(key.name) ? copy_value(key.field, key.name, model) : refuse_contradiction(options, key, model, path);
  }
  forget_other_classes(options, file, model);
  if (!options.model.new_head) refuse_moved_classes(model, file, path);
  if (!sequence_is_set) {
    const std::int64_t first = model.architecture == "roberta" ? model.padding_token + 1 : 0;
    model.sequence = std::min(model.positions - first, kPretrainedSequence);
  }
  if (!is_set(options, "data.tokenizer")) {
    if (text::has_tokenizer(options.model.pretrained)) merged.data.tokenizer = options.model.pretrained.string();
    refuse_bytes(merged, model, options.model.pretrained);
  }
  model.pretrained.clear();
  model.new_head = false;
  merged.model = std::move(model);
  return with_own_blocks(std::move(merged), options.model);
}

void require_base(const std::filesystem::path& base) {
  std::error_code ignored;
  if (std::filesystem::is_directory(base, ignored)) return;
  throw BadInput("model.base = \"" + base.string() +
                     "\": is not a directory; it had the frozen part of the model, without which a checkpoint of "
                     "adapters is of no use. If it has moved, leave a symbolic link there, or, with l2l-train and "
                     "l2l-eval, name where it is now with --set model.base=DIR",
                 of_key("model.base"));
}

bool has_other_classes(const std::filesystem::path& pretrained, const ModelOptions& model) {
  const ModelOptions file = models::read_hub_config(pretrained / "config.json");
  if (model.head != file.head || model.labels != file.labels) return true;
  return !model.label_names.empty() && !file.label_names.empty() && model.label_names != file.label_names;
}

Options with_saved_model(Options options, const Options& saved) {
  if (options.model.pretrained.empty()) return options;
  require_same_model(options.model.pretrained, saved.model);
  ModelOptions model = saved.model;
  Options given = options;
  for (const Key& key : option_keys(given)) {
    if (key.section == "model" && is_set(options, full_name(key))) copy_value(key.field, key.name, model);
  }
  model.pretrained.clear();
  model.new_head = false;
  model.blocks = options.model.blocks;
  model.reserve = options.model.reserve;
  options.model = std::move(model);
  if (options.data.mask_token < 0) options.data.mask_token = saved.data.mask_token;
  if (!is_set(options, "data.tokenizer")) options.data.tokenizer = saved.data.tokenizer;
  return options;
}

}  // namespace l2l::runtime
