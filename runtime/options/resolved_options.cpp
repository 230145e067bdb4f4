#include "runtime/options/resolved_options.h"

#include <algorithm>

#include "core/choice_target.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/log.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/hub/adapter.h"
#include "models/shape.h"
#include "runtime/data/buckets.h"
#include "runtime/data/dataset.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/find_sources.h"
#include "runtime/data/glue.h"
#include "runtime/data/source_samples.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/image_options.h"
#include "runtime/options/mask_token.h"
#include "runtime/options/pretrained.h"

namespace l2l::runtime {
namespace {

std::vector<DataFiles> find_training(const DataOptions& data, const TextModel& model) {
  std::vector<DataFiles> files;
  if (!data.train.empty()) files.push_back(find_sources(data.train, data, "data.train", model));
  for (std::size_t i = 0; i < data.source.size(); ++i) {
    const std::string key = "data.source " + std::to_string(i + 1);
    const DataOptions own = options_of(data.source[i], data);
    files.push_back(find_sources(own.train, own, key, model));
  }
  return files;
}

std::optional<DataFiles> find_validation(const DataOptions& data, const TextModel& model) {
  if (data.validation.empty()) return std::nullopt;
  return find_sources(data.validation, data, "data.validation", model);
}

// data.samples as options give it; "auto": packed where all sources have documents that rows or separators tell apart.
// A program's own samples are single documents, whose padding an encoder must not see.
SampleKind kind_of(const ResolvedOptions& options) {
  const DataOptions& data = options.data;
  const bool files = !options.train.empty() || options.validation;
  if (options.model.head == "custom") return SampleKind::stream;
  if (!files && (data.train_source || data.validation_source)) {
    const bool encoder = models::architecture_of(options.model.architecture).encoder;
    const bool single = options.model.head == "language" && !encoder;
    return data.samples == "stream" || (data.samples == "auto" && single) ? SampleKind::stream : SampleKind::packed;
  }
  if (data.source.empty()) {
    const DataFiles* const validation = options.validation ? &*options.validation : nullptr;
    return sample_kind(data, options.train.empty() ? validation : &options.train[0]);
  }
  for (std::size_t i = 0; i < data.source.size(); ++i) {
    const SampleKind kind = sample_kind(options_of(data.source[i], data), &options.train[i]);
    if (kind != SampleKind::packed) return kind;
  }
  return SampleKind::packed;
}

std::string name_of(SampleKind kind) {
  return kind == SampleKind::stream ? "stream" : kind == SampleKind::packed ? "packed" : "padded";
}

// Of padded samples lengths that suit the data, else the one that all have.
std::vector<std::int64_t> lengths_of(const ResolvedOptions& options) {
  if (sample_kind(options.data, nullptr) != SampleKind::padded) return {options.model.sequence};
  const bool language = options.model.head == "language", chooses = options.model.head == "choice";
  const bool predicts_next = language && !models::architecture_of(options.model.architecture).encoder;
  std::vector<std::uint64_t> documents(static_cast<std::size_t>(options.model.sequence) + 1);
  const auto count = [&](const DataFiles& files) {
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < files.document_ends.size(); ++i) {
      if (chooses && i + 1 < files.labels.size() && files.labels[i + 1] == kFurtherChoice) continue;  // one sample
      const std::uint64_t end = files.document_ends[i];
      const std::uint64_t rows = rows_of_document(end - begin, predicts_next);
      ++documents[std::min<std::uint64_t>(rows, documents.size() - 1)];
      begin = end;
    }
  };
  for (const DataFiles& files : options.train) count(files);
  if (options.train.empty() && options.validation) count(*options.validation);
  return choose_lengths(documents, static_cast<int>(options.data.buckets));
}

std::string list(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == numbers.size() ? " or " : ", ") + std::to_string(numbers[i]);
  }
  return text;
}

// What the model's head learns must be in the data.
void check_labels(const Options& options) {
  const DataOptions& data = options.data;
  const std::string& head = options.model.head;
  if (models::architecture_of(options.model.architecture).images) return;  // files of images have them
  const bool has_classes = head == "classification" || head == "tokens";
  if (!has_classes && options.model.labels != ModelOptions().labels) {
    throw BadInput("model.labels = " + std::to_string(options.model.labels) + " is set, but model.head = \"" + head +
                   "\" tells no classes apart; set \"classification\"");
  }
  const bool has_data = !data.train.empty() || !data.source.empty() || !data.validation.empty();
  if (head == "language" && !data.label.empty() && has_data) {
    throw BadInput("data.label = \"" + data.label +
                   "\": model.head = \"language\" learns no labels; set \"classification\"");
  }
  const auto learns_all = [&](const DataSource& source) { return options_of(source, data).learn == "all"; };
  const bool all = data.learn == "all" && std::all_of(data.source.begin(), data.source.end(), learns_all);
  if (head != "language" && head != "custom" && (data.samples == "stream" || !all)) {
    throw BadInput("model.head = \"" + head +
                   "\" learns labels of documents: data.samples is \"packed\" or \"padded\", and data.learn \"all\", "
                   "as is that of each source");
  }
}

void require_labels(const DataFiles& files, const std::string& head) {
  if (!files.labels.empty()) return;
  if (files.tokens() == 0) throw BadInput(files.description() + ": has no rows with a text");
  const bool lists = head == "tokens" || head == "choice";
  throw BadInput(files.description() + ": has no labels, which model.head = \"" + head + "\" learns; it takes " +
                 (lists ? "JSON Lines" : "JSON Lines or tables"));
}

// As files of Hugging Face call it.
void set_label(Options& options) {
  const std::string& head = options.model.head;
  if (!options.data.label.empty() || head == "language" || head == "custom") return;
  options.data.label = head == "tokens" ? "tags" : "label";
}

// MNLI has two validation sets, of which the second has other genres than the training data.
void find_mismatched(ResolvedOptions& options, const TextModel& model) {
  if (options.data.task != "mnli" || options.data.validation.empty()) return;
  std::vector<std::string> matched, mismatched;
  for (const DataFile& file : find_files(options.data.validation, "data.validation")) {
    const bool other = file.path.filename().string().find("mismatched") != std::string::npos;
    (other ? mismatched : matched).push_back(file.path.string());
  }
  if (matched.empty() || mismatched.empty()) return;
  options.validation = find_sources(matched, options.data, "data.validation", model);
  options.mismatched = find_sources(mismatched, options.data, "data.validation", model);
}

// That a second set was found shows only now.
void check_mismatched(const ResolvedOptions& options) {
  const bool needs_it = options.data.task == "mnli" && options.checkpoint.best == "accuracy_mismatched";
  if (!needs_it || options.mismatched) return;
  throw BadInput(
      "checkpoint.best = \"accuracy_mismatched\", but data.validation names no file with \"mismatched\" in its name "
      "beside another: name both of MNLI's validation files",
      of_key("checkpoint.best"));
}

// With targets, and with what an adapter's own file says.
LoraOptions resolved_lora(const Options& options) {
  LoraOptions lora = options.lora;
  const models::Architecture& architecture = models::architecture_of(options.model.architecture);
  if (!lora.adapter.empty()) {
    Options file = options;
    file.lora = models::read_adapter_config(lora.adapter / models::kAdapterConfig);
    for (const char* const key : {"lora.rank", "lora.alpha", "lora.targets", "lora.rank_stabilized"}) {
      if (!is_set(options, key) || value_of(options, key) == value_of(file, key)) continue;
      throw BadInput(key + (" = " + value_of(options, key)) + ", but " + lora.adapter.string() + " has " +
                         value_of(file, key) + "; remove the key, or begin without lora.adapter",
                     of_key(key));
    }
    file.lora.adapter = lora.adapter;
    file.lora.dropout = lora.dropout;
    lora = file.lora;
  }
  if (lora.rank == 0) {
    const bool unset = lora.alpha == LoraOptions().alpha && lora.targets.empty() && lora.dropout == 0;
    if (unset && !lora.rank_stabilized) return lora;
    throw BadInput("lora.rank = 0 makes no adapters, but other keys of [lora] are set; set the rank");
  }
  if (lora.targets.empty()) {
    lora.targets = architecture.name == "gpt2" ? std::vector<std::string>{"c_attn"}
                   : architecture.encoder      ? std::vector<std::string>{"query", "value"}
                                               : std::vector<std::string>{"q_proj", "v_proj"};
  }
  if (options.rebuilds_inputs() || options.model.reversible != "none") {
    throw BadInput("lora.rank: adapters of reversible models are not built; set model.reversible = \"none\"");
  }
  return lora;
}

// Frozen parameters come from the model that the run begins with, also when it is resumed.
void set_base(ResolvedOptions& options) {
  const bool adapts = options.lora.rank > 0;
  const bool frozen = adapts || !options.optimizer.train.empty();
  if (frozen && !options.weights.empty()) options.model.base = absolute_path(options.weights);
  if (!frozen) options.model.base.clear();
  if (!adapts || !options.weights.empty() || options.model.base.empty()) return;
  require_base(options.model.base);
  options.weights = options.model.base;
  options.new_head = options.model.head != "language";  // the checkpoint has it
}

// This process's place among those that were started; or, where it alone was, the first of those that are planned.
eps::Rank place_of(const Options& options, eps::Rank started) {
  const auto nodes = static_cast<int>(options.distributed.nodes);
  if (nodes == 0 || nodes == started.count) return started;
  if (started.count == 1) return {0, nodes};
  throw BadInput("distributed.nodes = " + std::to_string(nodes) + ", but " + std::to_string(started.count) +
                     " processes were started: start " + std::to_string(nodes) +
                     ", or set it to 0, which takes any number",
                 of_key("distributed.nodes"));
}

}  // namespace

SampleKind sample_kind(const Options& options) { return sample_kind(options.data, nullptr); }

DatasetSettings dataset_settings(const ResolvedOptions& options) {
  const ModelOptions& model = options.model;
  DatasetSettings settings{model.sequence, model.vocabulary, options.run.seed};
  settings.in_order = options.data.order == "sequential";
  settings.kind = sample_kind(options);
  settings.head = models::head_kind_of(model.head);
  settings.causal = !models::architecture_of(model.architecture).encoder;
  settings.labels = model.labels;
  settings.token_types = model.token_types;
  settings.inputs = model.inputs;
  settings.targets = model.targets;
  if (settings.causal || settings.head != models::HeadKind::language) return settings;
  const std::int64_t mask = options.data.mask_token < 0 ? model.vocabulary - 1 : options.data.mask_token;
  settings.masking = {options.data.masked, static_cast<std::int32_t>(mask), model.vocabulary};
  return settings;
}

std::unique_ptr<Samples> training_samples(const ResolvedOptions& options, const DatasetSettings& settings) {
  std::unique_ptr<Samples> samples;
  if (options.train_images) {
    samples = std::make_unique<SourceSamples>(options.train_images, settings);
  } else if (options.data.train_source) {
    samples = std::make_unique<SourceSamples>(options.data.train_source, settings);
  } else if (!options.train.empty()) {
    std::vector<double> weights;
    for (const DataSource& source : options.data.source) weights.push_back(source.weight);
    samples = make_samples(options.train, weights, settings);
  }
  if (samples) samples->require_training_data();
  return samples;
}

std::unique_ptr<Samples> validation_samples(const ResolvedOptions& options, const DatasetSettings& settings) {
  if (options.validation_images) return std::make_unique<SourceSamples>(options.validation_images, settings);
  if (options.data.validation_source) {
    return std::make_unique<SourceSamples>(options.data.validation_source, settings);
  }
  return options.validation ? make_samples(*options.validation, settings) : nullptr;
}

std::string resolved_policy(const Options& options) {
  const RecomputeOptions& recompute = options.recompute;
  const bool has_no_choice = recompute.budget > 0 || options.rebuilds_inputs();
  return recompute.policy == "budget" || (recompute.policy == "auto" && has_no_choice) ? "full" : recompute.policy;
}

ResolvedOptions resolve(const Options& unread, eps::Rank rank) {
  const Options named = with_task(unread);
  validate_options(named);
  const ImageSets images = find_images(named);
  const Options asked = with_classes(named, images);
  Options given = with_pretrained_model(asked);
  set_label(given);
  check_labels(given);
  set_mask_token(given);
  given.lora = resolved_lora(given);
  const TextModel model = text_model(given.model);
  ResolvedOptions options{given, asked.model.pretrained, asked.model.new_head};
  options.new_classes = asked.model.new_head && has_other_classes(asked.model.pretrained, given.model);
  options.train_images = image_source(images.train, given, /*trains=*/true);
  options.validation_images = image_source(images.validation, given, /*trains=*/false);
  if (!options.train_images) options.train = find_training(given.data, model);
  if (!options.validation_images) options.validation = find_validation(given.data, model);
  find_mismatched(options, model);
  check_mismatched(options);
  if (given.model.head != "language") {
    for (const DataFiles& files : options.train) require_labels(files, given.model.head);
    if (options.validation) require_labels(*options.validation, given.model.head);
  }
  set_base(options);
  options.chooses_micro_batch = leaves_micro_batch(given);
  options.data.samples = name_of(kind_of(options));
  options.lengths = lengths_of(options);
  if (options.lengths.size() > 1) log(LogLevel::info, "padded to " + list(options.lengths) + " tokens (data.buckets)");
  options.rank = place_of(options, rank);
  options.network = 1e9 * options.distributed.bandwidth;
  options.batch = resolved(given.batch, options.all_groups(), options.rank.count);
  if (options.batch.parts > 0) options.precision.gradients = "fp32";
  options.recompute.policy = resolved_policy(options);
  return options;
}

Options without_files(Options options) {
  options.data.train.clear();
  options.data.source.clear();
  options.data.validation.clear();
  options.data.train_source = options.data.validation_source = nullptr;
  options.data.format = "tokens";  // of a vocabulary of any size
  options.data.task.clear();       // it has set the head
  options.run.validate_every = options.run.patience = 0;
  options.run.validate_minutes = 0;
  options.checkpoint = {};
  return options;
}

}  // namespace l2l::runtime
