// choose_run(): what is not said of a run.
#include "l2l/choose.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "core/choice_target.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/host_memory.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/hub/config.h"
#include "runtime/data/document_encoder.h"
#include "runtime/data/find_sources.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/model_directory.h"
#include "runtime/options/options_table.h"
#include "runtime/options/options_value.h"
#include "runtime/options/pretrained.h"
#include "runtime/options/row_survey.h"
#include "text/tokenizer.h"

namespace l2l {
namespace {

namespace fs = std::filesystem;
using runtime::RowKind;
using runtime::RowParts;
using runtime::RowSurvey;

constexpr std::int64_t kMinibatch = 32;
constexpr std::int64_t kUsualSequence = 512;       // of packed texts; the most of rows with a label
constexpr std::int64_t kLongestCompletion = 2048;  // with its prompt, or of a conversation
constexpr std::size_t kMeasured = 1000;            // rows

std::string quoted(const std::string& text) { return json_text(nlohmann::json(text)); }  // as TOML writes it, too

std::string list_of(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "[" : ", ") + quoted(text);
  return list + "]";
}

std::string short_number(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text;
}

// What --set says.
Options options_said(std::span<const std::string> assignments) {
  Options said;
  for (const std::string& assignment : assignments) set_option(said, assignment);
  return with_absolute_paths(std::move(said));
}

void set_all(ChosenRun& run, const Options& said) {
  for (const std::string& key : said.given) run.set(key, runtime::value_of(said, key), "--set");
}

class Chooser {
 public:
  Chooser(const fs::path& pretrained, const fs::path& data, const fs::path& output, const Options& said)
      : said_(said),
        data_(data),
        pretrained_(absolute_path(pretrained)),
        output_(absolute_path(output)),
        model_(models::read_hub_config(runtime::config_of_model(pretrained_))),
        encoder_(models::architecture_of(model_.architecture).encoder),
        rows_(runtime::survey_rows(data)) {
    check();
  }

  const RowSurvey& rows() const { return rows_; }
  ChosenRun run();

 private:
  void check() const;
  [[noreturn]] void refuse(const std::string& reason) const;
  void check_there_is_something_to_learn() const;
  bool has_labels() const { return rows_.kind != RowKind::text && !converses(); }
  bool converses() const { return rows_.kind == RowKind::chat || rows_.kind == RowKind::completion; }
  // --set may have other parts of the rows learnt than those that were looked at.
  bool learns_usual_parts() const {
    return !is_said("data.columns") && !(converses() && is_said("data.learn") && said_.data.learn == "all");
  }
  std::string lack() const;
  void add(const std::string& key, const std::string& value, const std::string& reason) {
    run_.keys.push_back({key, value, reason});
  }
  void add_model();
  void add_classes(const std::string& head);
  void add_data();
  void add_sequence();
  void add_optimizer();
  void add_machine();
  std::vector<std::int64_t> lengths() const;
  std::uint64_t training_rows() const;
  bool is_said(std::string_view key) const { return runtime::is_set(said_, key); }
  BatchOptions batch() const;
  std::int64_t passes() const;
  std::int64_t steps() const;
  double parameters() const;

  const Options said_;  // by --set
  const fs::path data_, pretrained_, output_;
  const ModelOptions model_;
  const bool encoder_;
  const RowSurvey rows_;
  std::int64_t sequence_ = 0;
  double mean_tokens_ = 0;  // of a row
  ChosenRun run_;
};

void Chooser::refuse(const std::string& reason) const {
  throw BadInput(data_.string() + ": " + reason, of_file(data_.string()));
}

// What rows have of which nothing is learnt.
std::string Chooser::lack() const {
  if (rows_.kind == RowKind::chat) return "no message of the role \"assistant\"";
  return std::string("an empty \"") +
         (rows_.kind == RowKind::completion ? "completion"
          : rows_.kind == RowKind::words    ? "tokens"
                                            : "text") +
         "\"";
}

void Chooser::check_there_is_something_to_learn() const {
  if (rows_.empty < rows_.rows || !learns_usual_parts()) return;
  if (rows_.kind != RowKind::chat) refuse("all rows have " + lack());
  const std::string roles = list_of(rows_.roles);
  refuse("no message has the role \"assistant\" (found: " + roles.substr(1, roles.size() - 2) +
         "): there is nothing to learn");
}

void Chooser::check() const {
  if (rows_.rows < 20) refuse("has " + std::to_string(rows_.rows) + " rows; at least 20 make a run and a validation");
  if (encoder_ && converses()) {
    refuse("its rows are texts to continue, which " + model_.architecture +
           " cannot; take a decoder, or rows with \"text\" and \"label\"");
  }
  if (!encoder_ && rows_.kind == RowKind::choices) {
    refuse("its rows have choices, which are for bert and roberta; " + pretrained_.string() + " is " +
           model_.architecture);
  }
  if (!text::has_tokenizer(pretrained_) && !is_said("data.tokenizer")) {
    throw BadInput("--pretrained " + pretrained_.string() +
                       ": has no tokenizer; name one by --set data.tokenizer=FILE, a tokenizer.json or tokenizer.model",
                   of_file(pretrained_.string()));
  }
  if (std::ranges::count(rows_.unread, "text_pair") > 0 && !is_said("data.columns")) {
    refuse(
        "has \"text_pair\" beside \"text\"; to learn both: --set 'data.columns=[\"text\", \"text_pair\"]'; the first "
        "alone: --set 'data.columns=[\"text\"]'");
  }
  check_there_is_something_to_learn();
}

std::uint64_t Chooser::training_rows() const {
  std::uint64_t rows = 0;
  for (std::uint64_t i = 0; i < rows_.rows; ++i) rows += runtime::is_held_out(i, rows_.rows) ? 0 : 1;
  return rows;
}

// Tokens of each of the first rows, sorted. Reads all rows as the run will, so that what is wrong is said of the file
// that was named, and not of a part of it.
std::vector<std::int64_t> Chooser::lengths() const {
  ChosenRun chosen = run_;
  set_all(chosen, said_);
  Options options = chosen.options();
  for (const runtime::Key& key : runtime::option_keys(options)) runtime::check_value(key);
  options = runtime::with_pretrained_model(options);
  const runtime::TextSettings settings =
      runtime::text_settings(options.data, runtime::TextKind::jsonl, runtime::text_model(options.model));
  const auto reader = runtime::read_documents(data_, settings);
  std::vector<runtime::TextDocument> documents;
  std::size_t rows = 0;
  for (runtime::TextDocument document; reader->next(document);) {
    if (document.label != kFurtherChoice) ++rows;
    if (rows <= kMeasured) documents.push_back(std::move(document));
  }
  if (documents.empty()) refuse("all texts are empty");
  std::size_t failed = 0;
  std::vector<std::int64_t> lengths;
  for (const auto& encoded : runtime::DocumentEncoder(settings, /*threads=*/1).encode(documents, failed)) {
    if (encoded.label != kFurtherChoice) lengths.push_back(0);
    lengths.back() += static_cast<std::int64_t>(encoded.ids.size());
  }
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

// Holds all rows but those twice as long as 99 of 100 are, up to a length. Texts are cut into pieces, but the piece of
// a completion without its prompt would teach something else.
void Chooser::add_sequence() {
  const std::vector<std::int64_t> tokens = lengths();
  for (const std::int64_t length : tokens) mean_tokens_ += static_cast<double>(length);
  mean_tokens_ /= static_cast<double>(tokens.size());
  const std::int64_t most = std::min(tokens.back(), 2 * tokens[tokens.size() * 99 / 100]);
  const std::int64_t positions = model_.positions - (model_.architecture == "roberta" ? model_.padding_token + 1 : 0);
  const std::int64_t least = has_labels() ? 16 : kUsualSequence,
                     limit = converses() ? kLongestCompletion : kUsualSequence;
  sequence_ = std::min({std::max(least, (most + 7) / 8 * 8), limit, positions});
  if (is_said("model.sequence")) sequence_ = said_.model.sequence;
  const auto behind_model =
      std::ranges::find_if(run_.keys, [](const ChosenKey& each) { return !each.key.starts_with("model."); });
  const auto longer = std::ranges::count_if(tokens, [&](std::int64_t length) { return length > sequence_; });
  const std::string cut =
      std::to_string(longer) + " of the first " + std::to_string(tokens.size()) + " rows are longer";
  const std::string longest = "holds the longest of the first " + std::to_string(tokens.size()) + " rows";
  const std::string mean = ", of " + short_number(std::round(mean_tokens_)) + " tokens on average";
  const bool is_usual =
      rows_.kind == RowKind::text || (converses() && tokens.back() <= std::min(kUsualSequence, positions));
  run_.keys.insert(behind_model, {"model.sequence", std::to_string(sequence_),
                                  is_usual ? "documents are packed into sequences of this length"
                                           : (longer > 0 ? cut : longest) + mean});
}

// Those of the directory's head, where it has those of the rows; else its rows would get other meanings.
void Chooser::add_classes(const std::string& head) {
  const bool has_head = model_.head == head;
  std::vector<std::string> theirs = has_head ? model_.label_names : std::vector<std::string>();
  for (std::int64_t i = 0; has_head && model_.label_names.empty() && i < model_.labels; ++i) {
    theirs.push_back("LABEL_" + std::to_string(i));
  }
  std::vector<std::string> spelled = theirs;  // as the rows do
  std::vector<bool> taken(theirs.size());
  const auto find_place = [&](const std::string& name) {
    const auto same = [&](const std::string& other) { return runtime::lower_case(other) == runtime::lower_case(name); };
    const auto exact = std::ranges::find(theirs, name);
    return exact != theirs.end() ? exact : std::ranges::find_if(theirs, same);
  };
  const auto is_unknown = [&](const std::string& name) {
    const auto place = find_place(name);
    if (place == theirs.end()) return true;
    const auto at = static_cast<std::size_t>(place - theirs.begin());
    if (taken[at]) return true;  // by another spelling
    taken[at] = true;
    spelled[at] = name;
    return false;
  };
  const auto unknown = std::ranges::find_if(rows_.class_names, is_unknown);
  if (has_head && unknown == rows_.class_names.end() && rows_.classes <= model_.labels) {
    add("model.labels", std::to_string(model_.labels), "classes of the directory's head");
    if (!rows_.class_names.empty()) add("model.label_names", list_of(spelled), "as the directory's head has them");
    return;
  }
  if (has_head && (!model_.label_names.empty() || rows_.classes != model_.labels)) {
    add("model.new_head", "true",
        "the directory's head is for " + (unknown == rows_.class_names.end()
                                              ? std::to_string(model_.labels) + " classes"
                                              : list_of(theirs) + ", which " + quoted(*unknown) + " is not among"));
  }
  add("model.labels", std::to_string(rows_.classes), "different labels in the rows");
  if (!rows_.class_names.empty()) add("model.label_names", list_of(rows_.class_names), "as the rows name them");
}

void Chooser::add_model() {
  add("model.pretrained", quoted(pretrained_.string()), model_.architecture + ", --pretrained");
  const std::string head = rows_.kind == RowKind::classified ? "classification"
                           : rows_.kind == RowKind::scored   ? "regression"
                           : rows_.kind == RowKind::words    ? "tokens"
                           : rows_.kind == RowKind::choices  ? "choice"
                                                             : "language";
  add("model.head", quoted(head), "what the rows have");
  if (rows_.classes > 0) add_classes(head);
  if (encoder_ && !has_labels()) add("model.new_head", "true", "where the directory has no head for masked tokens");
  if (has_labels() && model_.head != "language" && model_.head != head) {
    add("model.new_head", "true", "the directory's head is for " + quoted(model_.head));
  }
}

void Chooser::add_data() {
  add("data.train", list_of({(output_ / "data/train.jsonl").string()}), "--data, but what is held out");
  add("data.validation", list_of({(output_ / "data/validation.jsonl").string()}), "5% of the rows");
  if (has_labels()) add("data.label", quoted(rows_.kind == RowKind::words ? "tags" : "label"), "as in the rows");
  if (rows_.kind == RowKind::completion) add("data.learn", quoted("completion"), "the prompt is given");
  if (rows_.kind == RowKind::chat) add("data.learn", quoted("assistant"), "what users say is given");
  add("data.samples", quoted(has_labels() && encoder_ ? "padded" : "packed"),
      has_labels() && encoder_ ? "rows of like length share a microbatch" : "no padding");
}

// As it is said, with the usual minibatch where that leaves it open.
BatchOptions Chooser::batch() const {
  const BatchOptions& said = said_.batch;
  BatchOptions batch{.minibatch = said.minibatch, .micro_batch = said.micro_batch, .micro_batches = said.micro_batches};
  const bool follows = said.micro_batch > 0 && said.micro_batches > 0;
  if (!follows && !is_said("batch.minibatch")) batch.minibatch = kMinibatch;
  return batch;
}

// About 8,000 rows are seen, each at least once and at most ten times.
std::int64_t Chooser::passes() const {
  if (!has_labels()) return 1;
  const double wanted = 8000 / static_cast<double>(training_rows());
  return std::clamp<std::int64_t>(std::llround(wanted), 1, rows_.rows < 800 ? 10 : 3);
}

std::int64_t Chooser::steps() const {
  double sequences = static_cast<double>(training_rows());
  if (!has_labels()) sequences *= std::max(1.0, mean_tokens_) / static_cast<double>(sequence_);
  const BatchOptions given = batch();
  // Whether it can be cut as it is said is checked with the other options.
  const std::int64_t minibatch = given.minibatch > 0 ? given.minibatch : runtime::resolved(given, 1).minibatch;
  const double steps = std::ceil(sequences * static_cast<double>(passes()) / static_cast<double>(minibatch));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
}

void Chooser::add_optimizer() {
  const double rate = model_.hidden >= 1024 ? 2e-5 : model_.hidden >= 768 ? 5e-5 : 1e-4;
  const std::int64_t count = is_said("run.steps") ? said_.run.steps : steps();
  if (const std::int64_t minibatch = batch().minibatch; minibatch > 0) {
    add("batch.minibatch", std::to_string(minibatch), "usual for fine-tuning");
  }
  add("optimizer.learning_rate", short_number(rate),
      "all weights of a model with hidden = " + std::to_string(model_.hidden) +
          " are trained; Devlin et al. (2019) took 2e-5 to 5e-5 for 768 and 1024, smaller models bear more");
  add("optimizer.clip", quoted("global"), "a bad row does little harm");
  add("schedule.kind", quoted("linear"), "usual for fine-tuning");
  add("schedule.warmup_steps", std::to_string(std::max<std::int64_t>(1, count / 10)), "a tenth of the steps");
  add("run.steps", std::to_string(count),
      passes() == 1 ? "one pass over the rows" : std::to_string(passes()) + " passes over the rows");
  add("run.validate_every", std::to_string(std::max<std::int64_t>(1, count / 4)), "about four times in the run");
}

// By the bytes of its weights.
double Chooser::parameters() const {
  double bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(pretrained_)) {
    if (entry.path().extension() == ".safetensors") bytes += static_cast<double>(entry.file_size());
  }
  const nlohmann::json config = parse_json(InputFile(pretrained_ / "config.json").text());
  std::string dtype = "float32";
  for (const char* const key : {"torch_dtype", "dtype"}) {
    if (const auto value = config.find(key); value != config.end() && value->is_string()) dtype = *value;
  }
  return bytes / (dtype == "float32" ? 4 : 2);
}

void Chooser::add_machine() {
  const double room = 0.8 * static_cast<double>(HostMemory().available().bytes), count = parameters();
  const std::string moments = 12 * count < room ? "fp32" : 8 * count < room ? "bf16" : "int8";
  add("optimizer.moments", quoted(moments),
      short_number(std::round(count / 1e5) / 10) + " million parameters, " +
          format_bytes(static_cast<Bytes>(room / 0.8)) + " of host memory free");
  add("checkpoint.directory", quoted((output_ / "checkpoints").string()), "--output");
}

ChosenRun Chooser::run() {
  add_model();
  add_data();
  add_sequence();
  add_optimizer();
  add_machine();
  const auto held = rows_.rows - training_rows();
  run_.data = std::to_string(rows_.rows) + " rows with ";
  if (rows_.classes > 0) {
    run_.data += std::string(rows_.kind == RowKind::words ? "words of " : "a label of ") +
                 std::to_string(rows_.classes) + " (the most frequent: " + percent(rows_.largest_class) + ")";
  } else {
    run_.data += rows_.kind == RowKind::scored       ? "a number to predict"
                 : rows_.kind == RowKind::choices    ? "choices"
                 : rows_.kind == RowKind::completion ? "prompt and completion"
                 : rows_.kind == RowKind::chat       ? "messages"
                                                     : "text";
  }
  run_.data += "; " + std::to_string(held) + " are held out for validation";
  if (rows_.empty > 0 && learns_usual_parts()) {
    run_.data += "; " + std::to_string(rows_.empty) + (rows_.empty == 1 ? " has " : " have ") + lack() +
                 ", from which " + (rows_.kind == RowKind::completion ? "no text" : "nothing") + " is learnt";
  }
  if (!rows_.unread.empty()) run_.data += "; not read: " + list_of(rows_.unread);
  return std::move(run_);
}

}  // namespace

void ChosenRun::set(const std::string& key, const std::string& value, const std::string& reason) {
  for (ChosenKey& each : keys) {
    if (each.key != key) continue;
    each.value = value;
    each.reason = reason;
    return;
  }
  keys.push_back({key, value, reason});
}

std::string ChosenRun::config(const fs::path& folder) const {
  std::vector<std::string> sections;
  const auto section_of = [](const std::string& key) { return key.substr(0, key.find('.')); };
  for (const ChosenKey& each : keys) {
    const std::string section = section_of(each.key);
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) sections.push_back(section);
  }
  const Options own = folder.empty() ? Options() : options();
  const Options beside = folder.empty() ? Options() : with_paths_beside(own, folder);
  const auto value_of = [&](const ChosenKey& each) {
    const std::string named = runtime::value_of(beside, each.key);
    return named == runtime::value_of(own, each.key) ? each.value : named;
  };
  std::string text;
  for (const std::string& section : sections) {
    text += (text.empty() ? "[" : "\n[") + section + "]\n";
    for (const ChosenKey& each : keys) {
      if (section_of(each.key) != section) continue;
      text += each.key.substr(section.size() + 1) + " = " + value_of(each) + "  # " + each.reason + "\n";
    }
  }
  return text;
}

Options ChosenRun::options() const { return parse_options(config(), "(chosen options)"); }

// As choose_run() names them in its folder.
static RowParts parts_in(const fs::path& folder) { return {folder / "train.jsonl", folder / "validation.jsonl"}; }

bool are_rows_of(const fs::path& output, const fs::path& data) {
  return runtime::holds_rows(parts_in(output / "data"), data);
}

ChosenRun choose_run(const fs::path& pretrained, const fs::path& data, const fs::path& output,
                     std::span<const std::string> assignments) {
  const fs::path parts = output / "data";
  if (is_there(parts)) throw BadInput(parts.string() + ": is there already; name a new folder");
  const Options said = options_said(assignments);
  Chooser chooser(pretrained, data, output, said);
  ChosenRun run = chooser.run();
  set_all(run, said);
  validate_options(run.options());
  make_folders(parts);
  runtime::split_rows(data, chooser.rows().rows, parts_in(parts));
  return run;
}

}  // namespace l2l
