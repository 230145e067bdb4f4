// Checks of options that single keys cannot show.
#include <algorithm>
#include <set>
#include <string>

#include "core/bytes.h"
#include "core/checked.h"
#include "core/error_place.h"
#include "eps/parameter_store.h"
#include "l2l/errors.h"
#include "l2l/options.h"
#include "models/architecture.h"
#include "runtime/data/entity_tags.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/image_options.h"
#include "runtime/options/options_table.h"
#include "runtime/options/options_value.h"
#include "runtime/options/pretrained.h"
#include "runtime/options/resolved_options.h"

namespace l2l {

namespace {

// Random numbers index a tensor's elements with 32 bits in blocks, the smallest of four (core/dropout.h).
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 34;
// Leaves room for the sums of a memory plan in 64 bits.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

std::string show(std::string_view key, std::int64_t value) { return std::string(key) + " = " + std::to_string(value); }

std::uint64_t product(std::initializer_list<std::int64_t> factors, std::string_view what) {
  std::uint64_t result = 1;
  for (const std::int64_t factor : factors) result = checked_multiply(result, static_cast<std::uint64_t>(factor), what);
  return result;
}

void check_tensor(std::initializer_list<std::int64_t> factors, const std::string& what,
                  const std::string& or_else = "") {
  const std::uint64_t elements = product(factors, what);
  if (elements > kMostElements) {
    throw BadInput(what + ": a tensor of " + std::to_string(elements) + " elements; at most " +
                   std::to_string(kMostElements) + " (2^34) are possible, so lower one of them" + or_else);
  }
}

void check_sizes(const ModelOptions& model, const BatchOptions& batch) {
  // Gate and up lie side by side, as do queries, keys and values.
  const std::int64_t mlp = model.intermediate == 0 ? 4 * model.hidden : model.intermediate;
  const bool gated = !models::architecture_of(model.architecture).learned_positions;
  const std::int64_t wide = std::max({gated ? 2 * mlp : mlp, 3 * model.hidden, 3 * model.heads * model.head_dim});
  check_tensor({model.vocabulary, model.hidden}, "model.vocabulary x model.hidden");
  check_tensor({model.sequence, model.hidden}, "model.sequence x model.hidden");
  check_tensor({wide, model.hidden}, "model.hidden x model.intermediate");
  check_tensor({batch.micro_batch, model.sequence, wide}, "batch.micro_batch x model.sequence x model.intermediate");
  check_tensor({batch.micro_batch, model.sequence, model.vocabulary},
               "batch.micro_batch x model.sequence x model.vocabulary");
  // Fused attention has no tensor of its probabilities, but dropout indexes them.
  const bool fused = runtime::fuses_attention(model);
  if (fused && model.dropout == 0) return;
  check_tensor({batch.micro_batch, model.heads, model.sequence, model.sequence},
               "batch.micro_batch x model.heads x model.sequence x model.sequence",
               fused ? ", or set model.dropout = 0" : ", or set model.attention = \"fused\"");
}

// Parameters need no check of their own: 10^4 layers of such tensors are below 2^51.
void check_totals(const Options& options, const BatchOptions& batch) {
  const ModelOptions& model = options.model;
  const std::string stash = "model.layers x batch.micro_batches x batch.micro_batch x model.sequence x model.hidden";
  const std::uint64_t bytes =
      product({model.layers, batch.micro_batches, batch.micro_batch, model.sequence, model.hidden, 4}, stash);
  if (bytes > kMostBytes) throw BadInput(stash + ": layer inputs of " + format_bytes(bytes) + "; lower one of them");
  product({batch.micro_batches, batch.micro_batch, model.sequence, std::max<std::int64_t>(options.run.steps, 1)},
          "tokens of the run (batch.micro_batches x batch.micro_batch x model.sequence x run.steps)");
}

// Masked tokens need a token that stands for them, and others to put in their place.
void check_masking(const Options& options) {
  const std::int64_t vocabulary = options.model.vocabulary, mask = options.data.mask_token;
  if (mask >= vocabulary) {
    throw BadInput(show("data.mask_token", mask) + " is not below " + show("model.vocabulary", vocabulary));
  }
  if (vocabulary < 2)
    throw BadInput(show("model.vocabulary", vocabulary) + ": " + options.model.architecture +
                   " needs a token beside its mask");
  if (!runtime::reads_bytes(options)) return;
  if (vocabulary < 257) {
    throw BadInput(show("model.vocabulary", vocabulary) + ": " + options.model.architecture +
                   " on text with data.tokenizer = \"bytes\" has 256 tokens and the mask; set it to at least 257");
  }
  if (mask >= 0 && mask < 256) {
    throw BadInput(
        show("data.mask_token", mask) +
        " is a byte of text with data.tokenizer = \"bytes\"; set it to at least 256, or to -1 for the last token");
  }
}

// How [data] or one source is read; `key` begins its keys in messages: "data.", "data.source 1: ".
void check_reading(const ModelOptions& model, const DataOptions& data, const std::string& key) {
  const std::string learn = key + "learn = \"" + data.learn + "\"";
  if (data.learn != "all" && models::architecture_of(model.architecture).encoder) {
    throw BadInput(learn + ": " + model.architecture + " predicts masked tokens; set \"all\"");
  }
  if (data.columns.size() > 2) {
    throw BadInput(key + "columns names " + std::to_string(data.columns.size()) +
                   " columns: name one, of texts, or two, of prompts and completions");
  }
  if (data.learn != "all" && data.samples == "stream") {
    throw BadInput(learn + " with data.samples = \"stream\", in which all is predicted; set \"packed\" or \"padded\"");
  }
}

void check_data(const Options& options) {
  const DataOptions& data = options.data;
  const bool encoder = models::architecture_of(options.model.architecture).encoder;
  if (encoder && options.model.head == "language") check_masking(options);
  check_reading(options.model, data, "data.");
  const bool named = !data.train.empty() || !data.source.empty() || !data.validation.empty();
  if (options.model.architecture == "custom" && named) {
    throw BadInput("data: a custom model reads a program's own source alone (data.train_source), and no files");
  }
  if (!data.source.empty() && !data.train.empty()) {
    throw BadInput("data.train and [[data.source]] are both set: name all files by one of them");
  }
  const bool files = !data.train.empty() || !data.source.empty();
  if ((data.train_source && files) || (data.validation_source && !data.validation.empty())) {
    throw BadInput("data." + std::string(data.train_source && files ? "train" : "validation") +
                   " names files beside the program's own source: give one of them");
  }
  if ((data.train_source || data.validation_source) && options.model.head == "choice") {
    throw BadInput("model.head = \"choice\" reads files alone, not a program's own source");
  }
  for (std::size_t i = 0; i < data.source.size(); ++i) {
    const std::string key = "data.source " + std::to_string(i + 1) + ": ";
    if (data.source[i].train.empty()) throw BadInput(key + "has no train, the files to read");
    check_reading(options.model, runtime::options_of(data.source[i], data), key);
  }
  if (named && runtime::reads_bytes(options) && options.model.vocabulary < 256) {
    throw BadInput(show("model.vocabulary", options.model.vocabulary) +
                   ": text with data.tokenizer = \"bytes\" has 256 tokens; set it to at least 256");
  }
  if (options.run.validate_every > 0 && !data.has_validation()) {
    throw BadInput(show("run.validate_every", options.run.validate_every) + ", but data.validation names no file");
  }
  if (options.run.validate_minutes > 0 && !data.has_validation()) {
    throw BadInput("run.validate_minutes is set, but data.validation names no file");
  }
}

void check_schedule(const Options& options) {
  const ScheduleOptions& schedule = options.schedule;
  if (schedule.minimum > options.optimizer.learning_rate) {
    throw BadInput("schedule.minimum = " + runtime::value_of(options, "schedule.minimum") +
                   " exceeds optimizer.learning_rate = " + runtime::value_of(options, "optimizer.learning_rate"));
  }
}

void check_groups(const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups) {
    const auto is_set = [](double value) { return value >= 0; };
    if (group.parameters.empty()) throw BadInput("optimizer.group: parameters: missing; name at least one pattern");
    for (const double value : {group.learning_rate, group.weight_decay}) {
      if (is_set(value) || value == -1) continue;
      throw BadInput("optimizer.group of \"" + group.parameters.front() + "\": " + std::to_string(value) +
                     " is neither 0 or more nor -1, which stands for the optimizer's");
    }
    if (is_set(group.learning_rate) || is_set(group.weight_decay)) continue;
    throw BadInput("optimizer.group of \"" + group.parameters.front() +
                   "\" sets nothing: it takes learning_rate and weight_decay");
  }
}

// Without loss scaling small gradients would vanish in fp16, and large ones stop the run.
void check_precision(const PrecisionOptions& precision) {
  if (precision.tf32 && precision.compute != "fp32" && precision.compute != "auto") {
    throw BadInput("precision.tf32 is for products of fp32, but precision.compute = \"" + precision.compute +
                   "\"; remove it, or set compute to \"fp32\"");
  }
  if (precision.compute == "fp16") return;
  const std::string compute = "precision.compute = \"" + precision.compute + "\"";
  if (precision.gradients == "fp16") {
    throw BadInput(
        "precision.gradients = \"fp16\" with " + compute +
        ": only fp16 compute scales its loss, which fp16 gradients need; set \"bf16\", or compute to \"fp16\"");
  }
  if (precision.loss_scale != 0) {
    throw BadInput("precision.loss_scale is set, but " + compute + " has none; remove it, or set compute to \"fp16\"");
  }
}

void check_transfer(const Options& options) {
  constexpr std::uint64_t kSlowest = 10'000;  // slower ones make times that no schedule is made for
  const std::uint64_t bandwidth = options.transfer.link_bandwidth;
  if (bandwidth > 0 && bandwidth < kSlowest) {
    throw BadInput("transfer.link_bandwidth = " + std::to_string(bandwidth) + " is in bytes per second, and at least " +
                   std::to_string(kSlowest) + "; 0: not throttled");
  }
  const std::int64_t staying = options.transfer.resident_layers;
  if (staying > options.model.layers) {
    throw BadInput(show("transfer.resident_layers", staying) + " exceeds " +
                   show("model.layers", options.model.layers));
  }
  if (staying > 0 && options.device.execution == "resident") {
    throw BadInput(show("transfer.resident_layers", staying) +
                   " with device.execution = \"resident\", where the weights of all layers stay; remove one of them");
  }
}

void check_recompute(const Options& options) {
  const std::string policy = runtime::resolved_policy(options);
  const Bytes budget = options.recompute.budget;
  if (options.rebuilds_inputs() && (policy != "full" || budget > 0)) {
    throw BadInput("model.reversible = \"" + options.model.reversible +
                   "\" rebuilds the inputs of its blocks and keeps nothing: set recompute.policy = \"full\" without a "
                   "budget, or keep the inputs with transfer.stash = \"host\" or \"device\"");
  }
  if (options.recompute.policy == "budget" && budget == 0) {
    throw BadInput("recompute.policy = \"budget\" without a budget: set recompute.budget, such as \"300MiB\"");
  }
  if (!runtime::leaves_micro_batch(options)) return;
  const std::string choice = "batch.micro_batch = \"auto\"";
  if (policy != "auto") {
    throw BadInput(
        choice + ", but what blocks recompute is not left open, and the two are chosen together: set " +
        "recompute.policy = \"auto\" without a budget, in a model that is not reversible, or name a microbatch");
  }
  if (options.batch.minibatch == 0 || options.batch.micro_batches != 0) {
    throw BadInput(choice + " chooses how batch.minibatch is cut: set that, and leave batch.micro_batches out");
  }
}

void check_checkpoint(const CheckpointOptions& checkpoint) {
  if (checkpoint.every > 0 && checkpoint.directory.empty()) {
    throw BadInput(show("checkpoint.every", checkpoint.every) + ", but checkpoint.directory is empty: nowhere to save");
  }
}

void check_metrics(const ModelOptions& model) {
  std::set<std::string> names{"loss"};
  for (const Metric& metric : model.metrics) {
    const std::string what = "model.metrics: \"" + metric.name + "\"";
    if (!models::architecture_of(model.architecture).custom) {
      throw BadInput(what + " is for model.architecture = \"custom\"");
    }
    if (metric.name.empty() || !names.insert(metric.name).second) {
      throw BadInput(what + ": each has a name of its own, which is not \"loss\"");
    }
    if (!metric.add || metric.sums < 1) throw BadInput(what + " needs `add`, and one sum or more");
  }
}

// Which metrics a validation gives follows from the head.
void check_best(const Options& options) {
  const std::string& best = options.checkpoint.best;
  const RunOptions& run = options.run;
  if (best.empty()) {
    if (run.patience == 0) return;
    throw BadInput(show("run.patience", run.patience) +
                   " needs to know what is better: set checkpoint.best = \"loss\", or to a metric");
  }
  if (run.patience > 0 && run.validate_every == 0 && run.validate_minutes == 0) {
    throw BadInput(show("run.patience", run.patience) +
                   " counts validations during the run, which has none: set run.validate_every or "
                   "run.validate_minutes");
  }
  const std::string what = "checkpoint.best = \"" + best + "\"";
  if (!options.data.has_validation()) throw BadInput(what + ", but data.validation names no file");
  if (options.checkpoint.directory.empty()) throw BadInput(what + ", but checkpoint.directory is empty");
  std::vector<std::string_view> known{"loss"};
  const std::string& head = options.model.head;
  if (head == "classification" || head == "tokens" || head == "choice") known.push_back("accuracy");
  const bool entities = head == "tokens" && runtime::are_entity_tags(options.model.label_names);
  if (head == "classification" || entities) known.push_back("f1");
  if (head == "classification") known.push_back("matthews");
  if (head == "regression") known.insert(known.end(), {"pearson", "spearman"});
  if (options.data.task == "mnli") known.push_back("accuracy_mismatched");
  for (const Metric& metric : options.model.metrics) known.push_back(metric.name);
  if (std::find(known.begin(), known.end(), best) != known.end()) return;
  std::string names;
  for (const std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string(name);
  const bool needs_names = head == "tokens" && best == "f1";
  throw BadInput(what + ": model.head = \"" + head + "\" has " + names +
                 (needs_names ? "; \"f1\" is of entities, whose tags are all named \"O\", \"B-TYPE\", "
                                "\"I-TYPE\", \"E-TYPE\" or \"S-TYPE\" (model.label_names)"
                              : ""));
}

// The option with which a message begins.
std::string key_of(const std::string& message, Options options) {
  const std::string word = message.substr(0, message.find_first_of(" :="));
  for (const runtime::Key& key : runtime::option_keys(options)) {
    if (word == std::string(key.section) + "." + std::string(key.name)) return word;
  }
  return {};
}

// Where layers are exchanged, nothing may be decided block by block.
void check_exchange(const Options& options) {
  if (!options.model.reserve) return;
  const auto require = [](bool holds, const std::string& key, const std::string& value) {
    if (!holds) throw BadInput(key + ": where layers are exchanged (model.reserve) it must be " + value);
  };
  require(options.transfer.stash == "host", "transfer.stash", "\"host\"");
  require(!options.recompute.leaves_choice() && options.recompute.policy != "budget", "recompute.policy",
          "\"full\", \"none\", \"selective\" or \"min_cut\"");
  require(options.device.execution == "relay", "device.execution", "\"relay\"");
  require(options.transfer.resident_layers <= 0, "transfer.resident_layers", "left out");
  require(options.optimizer.layer_decay == 1, "optimizer.layer_decay", "1");
  const std::int64_t contributions = options.model.reserve->most_uses * options.device.count;
  if (contributions <= eps::kMostContributions) return;
  throw BadInput("model.reserve: most_uses = " + std::to_string(options.model.reserve->most_uses) +
                 " with device.count = " + std::to_string(options.device.count) + " makes " +
                 std::to_string(contributions) + " gradients of a layer in a step; at most " +
                 std::to_string(eps::kMostContributions) + " are possible: lower one of the two");
}

// Sums of parts are rounded to the type of the gradients where they leave their device, and the same sums must leave
// any number of devices.
void check_parts(const Options& options) {
  if (options.batch.parts == 0) return;
  const std::string& gradients = options.precision.gradients;
  if (gradients != "auto" && gradients != "fp32") {
    throw BadInput(
        "batch.parts is for gradients in fp32, which are not rounded on their way, but precision.gradients = \"" +
        gradients + "\"; remove one of them");
  }
  if (options.device.execution == "resident") {
    throw BadInput(
        "batch.parts is for device.execution = \"relay\", which has the accumulators of one layer at a time; "
        "remove one of them");
  }
}

// What is not built yet, beside what the model says (models/split_layers.h).
void check_tensor_parallel(const Options& options) {
  const std::int64_t tensor = options.device.tensor;
  if (tensor == 1) return;
  const std::string key = "device.tensor = " + std::to_string(tensor);
  if (options.device.count % tensor != 0) {
    throw BadInput(key + " does not divide device.count = " + std::to_string(options.device.count) +
                       ": layers are split over groups of as many devices; set device.count to a multiple",
                   of_key("device.tensor"));
  }
  const std::int64_t microbatches = options.batch.micro_batches, groups = options.device.groups();
  if (microbatches % groups != 0) {
    throw BadInput("batch.micro_batches = " + std::to_string(microbatches) +
                       " is not divisible by device.count / device.tensor = " + std::to_string(groups) +
                       ": each group of devices takes as many",
                   of_key("batch.micro_batches"));
  }
  const auto refuse = [&](bool is_so, const char* what) {
    if (is_so) throw BadInput(key + " beside " + what + " is not built", of_key("device.tensor"));
  };
  refuse(options.device.feed == "gathered", "device.feed = \"gathered\"");
  refuse(options.device.sums == "devices", "device.sums = \"devices\"");
  refuse(options.distributed.wire == "sharded", "distributed.wire = \"sharded\"");
  refuse(options.batch.parts > 0, "batch.parts");
  refuse(options.transfer.vocabulary_chunk > 0 && options.transfer.vocabulary_chunk < options.model.vocabulary,
         "transfer.vocabulary_chunk below model.vocabulary");
  refuse(options.batch.micro_batch == BatchOptions::kChosen, "batch.micro_batch = \"auto\"");
}

void check_all(const Options& given) {
  Options copy = given;
  for (const runtime::Key& key : runtime::option_keys(copy)) runtime::check_value(key);
  const Options options = runtime::with_pretrained_model(given);
  check_tensor_parallel(options);
  const BatchOptions batch = runtime::resolved(options.batch, options.device.groups());
  runtime::check_image_options(given, options, batch);
  models::check_model(options.model);
  check_sizes(options.model, batch);
  check_totals(options, batch);
  check_data(options);
  check_schedule(options);
  check_groups(options.optimizer.group);
  check_precision(options.precision);
  check_parts(options);
  check_transfer(options);
  check_recompute(options);
  check_checkpoint(options.checkpoint);
  check_metrics(options.model);
  check_best(options);
  check_exchange(options);
  if (options.lora.rank > 0 && !options.model.blocks.empty()) {
    throw BadInput("lora.rank: adapters beside a program's own model.blocks are not built");
  }
}

}  // namespace

void validate_options(const Options& given) {
  try {
    check_all(given);
  } catch (const BadInput& error) {
    const std::string key = key_of(error.what(), given);
    if (key.empty() || !error.place().key.empty() || !error.place().file.empty()) throw;
    throw BadInput(error.what(), of_key(key));
  }
}

}  // namespace l2l
