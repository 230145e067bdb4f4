#include "runtime/resume_changes.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string_view>

#include "core/error_place.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/options_table.h"

namespace l2l::runtime {
namespace {

enum class Rule : std::uint8_t {
  free,   // may change
  told,   // may change, and is told: other bits follow
  named,  // may change where it is allowed by name
  fixed   // would be another model
};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Rule rule_of_model(std::string_view name, const Options& options) {
  if (is_one_of(name, {"pretrained", "new_head", "base", "label_names"})) return Rule::free;
  const bool table = models::architecture_of(options.model.architecture).learned_positions;
  if (is_one_of(name, {"sequence", "positions"})) {
    const bool derived = name == "sequence" && options.model.positions > 0;
    return table && !derived ? Rule::fixed : Rule::named;
  }
  if (name == "layers" && !options.model.block_names.empty()) return Rule::free;  // as `blocks`
  const bool shape = is_one_of(name, {"architecture", "layers", "hidden", "heads", "kv_heads", "head_dim",
                                      "intermediate", "vocabulary", "token_types", "attention_bias", "mlp_bias",
                                      "tie_embeddings", "head", "labels", "variant", "image_channels"});
  return shape ? Rule::fixed : Rule::named;
}

// What the optimizer keeps of each parameter follows from its name.
bool keeps_alike(const Options& a, const Options& b) {
  return (a.optimizer.name == "sgd") == (b.optimizer.name == "sgd");
}

// Frozen parameters are saved in the type that crosses the link, unless they are in the directory that they came from.
bool saves_frozen(const Options& options) {
  return !options.optimizer.train.empty() || (options.lora.rank > 0 && options.model.base.empty());
}

// Names of a program's own blocks that have parameters of their own, in no order.
std::vector<std::string> owners_of(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return name.find(" of ") != std::string::npos; });
  std::sort(names.begin(), names.end());
  return names;
}

// Whether a step of the same minibatch has other last bits: its sums are in another order, or blocks rebuild their
// inputs where they kept them.
bool changes_bits(const Key& key, const Options& ours, const Options& saved) {
  if (key.section == "device") return key.name == "tensor";  // of device.count: other_groups()
  if (key.section == "data") return key.name == "buckets" && ours.data.samples == "padded";
  if (key.section != "transfer") return false;
  return key.name == "vocabulary_chunk" ||
         (key.name == "stash" && ours.model.reversible == "float" && ours.rebuilds_inputs() != saved.rebuilds_inputs());
}

Rule rule_of(const Key& key, const Options& ours, const Options& saved) {
  if (key.section == "model" && key.name == "blocks") {
    return owners_of(ours.model.block_names) == owners_of(saved.model.block_names) ? Rule::named : Rule::fixed;
  }
  // Checkpoints of earlier versions do not say.
  if (key.section == "model" && key.name == "inputs" && saved.model.input_names.empty()) return Rule::free;
  if (key.section == "model" && key.name == "targets" && saved.model.target_names.empty()) return Rule::free;
  if (key.section == "model") return rule_of_model(key.name, ours);
  if (key.section == "optimizer") {
    if (is_one_of(key.name, {"train", "update", "moments"})) return Rule::free;
    return key.name != "name" || keeps_alike(ours, saved) ? Rule::named : Rule::fixed;
  }
  if (key.section == "precision" && key.name == "compute" && saves_frozen(ours)) return Rule::fixed;
  if (key.section == "data" && is_one_of(key.name, {"samples", "order", "masked", "mask_token", "augment"})) {
    return Rule::named;
  }
  if (key.section == "lora" && key.name == "dropout") return Rule::named;
  // The schedule falls to its end there.
  if (key.section == "run" && key.name == "steps" && ours.schedule.kind != "constant") return Rule::told;
  if (changes_bits(key, ours, saved)) return Rule::told;
  return is_one_of(key.section, {"schedule", "precision", "batch"}) ? Rule::told : Rule::free;
}

std::string name_of(const Key& key) { return std::string(key.section) + "." + std::string(key.name); }

// With what the architecture makes of zeros and "auto": writing it out is no change.
std::string resolved_value(Options options, const std::string& key) {
  options.model = models::with_defaults(options.model);
  if (options.data.mask_token < 0) options.data.mask_token = options.model.vocabulary - 1;
  if (options.precision.gradients == "auto") options.precision.gradients = options.precision.compute;
  return value_of(std::move(options), key);
}

bool differs(const Options& ours, const Options& saved, const std::string& key) {
  return value_of(ours, key) != value_of(saved, key) && resolved_value(ours, key) != resolved_value(saved, key);
}

// "model.hidden = 32 (was 16)"
std::string show(const Options& ours, const Options& saved, const std::string& key) {
  return key + " = " + value_of(ours, key) + " (was " + value_of(saved, key) + ")";
}

// A step adds the gradients of all groups of devices, of all processes. Of another number of them: "device.count = 3
// (was 1)", with the processes where either run has several. Empty where there are as many, or where it follows from
// device.tensor alone.
std::string other_groups(const ResolvedOptions& ours, const Options& saved, int saved_ranks) {
  const bool alike = ours.device.count == saved.device.count && ours.rank.count == saved_ranks;
  if (ours.batch.parts > 0 || alike || ours.all_groups() == saved.device.groups() * saved_ranks) return {};
  if (ours.rank.count == 1 && saved_ranks == 1) return show(ours, saved, "device.count");
  return "device.count = " + std::to_string(ours.device.count) + " with " + std::to_string(ours.rank.count) +
         (ours.rank.count == 1 ? " process" : " processes") + " (was " + std::to_string(saved.device.count) + " with " +
         std::to_string(saved_ranks) + ")";
}

void append(std::string& list, const std::string& text, const char* separator = ", ") {
  list += (list.empty() ? "" : separator) + text;
}

// "3, 1"
std::string weights_of_sources(const Options& options) {
  std::ostringstream text;
  for (const DataSource& source : options.data.source) text << (text.tellp() > 0 ? ", " : "") << source.weight;
  return text.str();
}

}  // namespace

void check_keys(const std::vector<std::string>& allowed) {
  Options options;
  const std::vector<Key> keys = option_keys(options);
  for (const std::string& name : allowed) {
    if (std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return name_of(key) == name; })) continue;
    throw BadInput("--allow-change " + name + ": there is no such key; name one as optimizer.learning_rate",
                   of_key(name));
  }
}

std::vector<std::string> check_changes(const ResolvedOptions& ours, const Options& saved, int saved_ranks,
                                       const std::filesystem::path& folder, bool trains,
                                       const std::vector<std::string>& allowed) {
  check_keys(allowed);
  std::string fixed, refused, way_out, told, fixed_key, refused_key;  // keys: the first of these
  Options copy = ours;
  for (const Key& key : option_keys(copy)) {
    const std::string name = name_of(key);
    const Rule rule = rule_of(key, ours, saved);
    if (rule == Rule::free || !differs(ours, saved, name)) continue;
    const bool may = rule == Rule::told || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
    if (rule == Rule::fixed) {
      if (fixed.empty()) fixed_key = name;
      append(fixed, show(ours, saved, name));
    } else if (trains && may) {
      append(told, show(ours, saved, name));
    } else if (trains) {
      if (refused.empty()) refused_key = name;
      append(refused, show(ours, saved, name));
      append(way_out, "--allow-change " + name, " ");
    }
  }
  if (!fixed.empty()) {
    throw BadInput(folder.string() + ": cannot go on with " + fixed +
                       ": its weights or moments are of another shape or type; set it back, or begin a new run",
                   of_file(folder.string(), fixed_key));
  }
  if (!refused.empty()) {
    throw BadInput(folder.string() + ": its run had other settings: " + refused + "; set it back, or go on with " +
                       way_out + " (in a program: `allowed` of Trainer::resume())",
                   of_file(folder.string(), refused_key));
  }
  const std::string groups = other_groups(ours, saved, saved_ranks);
  if (trains && !groups.empty()) append(told, groups);
  if (told.empty()) return {};
  return {"going on with other settings than the checkpoint's: " + told};
}

std::string changed_reading(const Options& ours, const Options& saved) {
  std::string changed;
  for (const char* const name : {"format", "separator", "columns", "label", "task", "learn", "template"}) {
    const std::string key = std::string("data.") + name;
    if (differs(ours, saved, key)) append(changed, show(ours, saved, key));
  }
  const std::string weights = weights_of_sources(ours), before = weights_of_sources(saved);
  if (ours.data.source.size() == saved.data.source.size() && weights != before) {
    append(changed, "the weights of [[data.source]] = " + weights + " (were " + before + ")");
  }
  return changed;
}

}  // namespace l2l::runtime
