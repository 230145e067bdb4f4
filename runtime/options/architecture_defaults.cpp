#include "runtime/options/architecture_defaults.h"

#include <algorithm>

#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/image_layers.h"
#include "runtime/options/options_table.h"
#include "runtime/options/options_value.h"

namespace l2l::runtime {
namespace {

// Whether the files of [data], or of one source of it, are text by data.format or by their names.
bool names_text(const DataOptions& data) {
  const bool text = data.format == "text" || data.format == "jsonl" || data.format == "csv" || data.format == "tsv";
  if (data.format != "auto") return text;
  const auto ids = [](const std::string& name) { return name.ends_with(".bin") || name.ends_with(".npy"); };
  return std::none_of(data.train.begin(), data.train.end(), ids) &&
         std::none_of(data.validation.begin(), data.validation.end(), ids);
}

}  // namespace

std::string value_of(Options options, std::string_view key) {
  for (const Key& each : option_keys(options)) {
    const std::size_t dot = each.section.size();
    const bool same = key.size() == dot + 1 + each.name.size() && key.starts_with(each.section) && key[dot] == '.' &&
                      key.ends_with(each.name);
    if (same) return value_to_toml(each.field);
  }
  throw Error(std::string(key) + " is not in the table of options");
}

bool is_set(const Options& options, std::string_view key) {
  if (std::find(options.given.begin(), options.given.end(), key) != options.given.end()) return true;
  return value_of(options, key) != value_of(Options(), key);
}

bool fuses_attention(const ModelOptions& model) { return model.attention == "fused" && model.blocks.empty(); }

DataOptions options_of(const DataSource& source, DataOptions data) {
  const auto set = [](auto& target, const auto& value) {
    if (!value.empty()) target = value;
  };
  set(data.format, source.format);
  set(data.separator, source.separator);
  set(data.columns, source.columns);
  set(data.learn, source.learn);
  set(data.chat_template, source.chat_template);
  data.train = source.train;
  data.source.clear();
  data.validation.clear();
  return data;
}

bool reads_bytes(const Options& options) {
  const DataOptions& data = options.data;
  const bool files = !data.train.empty() || !data.source.empty() || !data.validation.empty();
  const bool own = data.train_source != nullptr || data.validation_source != nullptr;
  if (data.tokenizer != "bytes" || (own && !files)) return false;
  if (models::architecture_of(options.model.architecture).custom) return false;
  const bool beside_sources = data.source.empty() || !data.validation.empty();
  return (beside_sources && names_text(data)) ||
         std::any_of(data.source.begin(), data.source.end(),
                     [&](const DataSource& source) { return names_text(options_of(source, data)); });
}

Options with_architecture_defaults(Options options) {
  const models::Architecture& architecture = models::architecture_of(options.model.architecture);
  if (architecture.custom) {
    options.model.hidden = options.model.heads = options.model.vocabulary = options.model.sequence = 1;
    if (!architecture.images || !is_set(options, "model.head")) options.model.head = "custom";
  }
  if (architecture.images) {
    if (!is_set(options, "model.labels")) options.model.labels = models::kImageClasses;
    if (!is_set(options, "model.reversible")) options.model.reversible = "float";
    options.model = models::with_image_layers(options.model, is_set(options, "model.dropout"));
    return options;
  }
  const bool masks_bytes = architecture.encoder && options.model.head == "language" && reads_bytes(options);
  if (!is_set(options, "model.dropout")) options.model.dropout = architecture.dropout;
  if (!is_set(options, "model.vocabulary") && masks_bytes) options.model.vocabulary = 256 + 1;
  return options;
}

Options with_its_positions(Options options) {
  const std::string& scaling = options.model.rope_scaling;
  const bool table = models::architecture_of(options.model.architecture).learned_positions;
  const ModelOptions whole = models::with_defaults(options.model);
  if (table || scaling == "dynamic") options.model.positions = whole.positions;
  if (scaling == "llama3" || scaling == "yarn") options.model.rope_original_positions = whole.rope_original_positions;
  return options;
}

Options with_saved_positions(Options options, const Options& saved) {
  ModelOptions& model = options.model;
  const bool same = model.sequence == saved.model.sequence && model.positions == saved.model.positions;
  if (same || model.rope_scaling == "none" || model.rope_scaling != saved.model.rope_scaling) return options;
  const ModelOptions before = with_its_positions(saved).model;
  if (model.positions == 0 && model.rope_scaling == "dynamic") model.positions = before.positions;
  if (model.rope_original_positions == 0) model.rope_original_positions = before.rope_original_positions;
  return options;
}

}  // namespace l2l::runtime
