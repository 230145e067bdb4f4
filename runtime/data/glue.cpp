#include "runtime/data/glue.h"

#include <algorithm>

#include "core/error_place.h"
#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

constexpr const char *kClasses = "classification", *kNumbers = "regression";

std::vector<std::string> texts(const std::vector<const char*>& list) { return {list.begin(), list.end()}; }

std::string show(const std::string& text) { return "\"" + text + "\""; }
std::string show(std::int64_t number) { return std::to_string(number); }
std::string show(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& each : list) text += (text.empty() ? "[\"" : ", \"") + each + "\"";
  return text.empty() ? "[]" : text + "]";
}

// There are as many classes as names, where options do not say how many.
Options with_named_labels(Options options) {
  const std::size_t names = options.model.label_names.size();
  const bool given = std::find(options.given.begin(), options.given.end(), "model.labels") != options.given.end();
  if (names < 2 || given || options.model.labels != ModelOptions().labels) return options;
  options.model.labels = static_cast<std::int64_t>(names);
  options.given.emplace_back("model.labels");
  return options;
}

}  // namespace

std::span<const GlueTask> glue_tasks() {
  static const std::vector<GlueTask> tasks = {
      {"cola",
       kClasses,
       {"unacceptable", "acceptable"},
       {"sentence"},
       "label",
       {"source", "label", "mark", "sentence"}},
      {"sst2", kClasses, {"negative", "positive"}, {"sentence"}, "label"},
      {"mrpc", kClasses, {"not_equivalent", "equivalent"}, {"#1 String", "#2 String"}, "Quality"},
      {"stsb", kNumbers, {}, {"sentence1", "sentence2"}, "score"},
      {"qqp", kClasses, {"not_duplicate", "duplicate"}, {"question1", "question2"}, "is_duplicate", {}, true},
      {"mnli", kClasses, {"entailment", "neutral", "contradiction"}, {"sentence1", "sentence2"}, "gold_label"},
      {"qnli", kClasses, {"entailment", "not_entailment"}, {"question", "sentence"}, "label"},
      {"rte", kClasses, {"entailment", "not_entailment"}, {"sentence1", "sentence2"}, "label"},
      {"wnli", kClasses, {"not_entailment", "entailment"}, {"sentence1", "sentence2"}, "label"},
  };
  return tasks;
}

const GlueTask* glue_task(std::string_view name) {
  const std::span<const GlueTask> tasks = glue_tasks();
  const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const GlueTask& task) { return task.name == name; });
  return found == tasks.end() ? nullptr : &*found;
}

Options with_task(Options options) {
  const GlueTask* const task = glue_task(options.data.task);
  if (task == nullptr) return with_named_labels(std::move(options));
  const auto set = [&](auto& value, const auto& its, const auto& otherwise, const std::string& key) {
    const bool given = std::find(options.given.begin(), options.given.end(), key) != options.given.end();
    if (value != its && (given || value != otherwise)) {
      throw BadInput(key + " = " + show(value) + ", but data.task = \"" + options.data.task + "\" stands for " +
                         show(its) + "; remove one of them",
                     of_key(key));
    }
    value = its;
    if (!given && key.starts_with("model.")) options.given.push_back(key);
  };
  const DataOptions data;
  const ModelOptions model;
  set(options.data.format, std::string("tsv"), data.format, "data.format");
  set(options.data.columns, texts(task->columns), data.columns, "data.columns");
  set(options.data.label, std::string(task->label), data.label, "data.label");
  set(options.model.head, std::string(task->head), model.head, "model.head");
  if (task->label_names.empty()) return options;
  set(options.model.labels, static_cast<std::int64_t>(task->label_names.size()), model.labels, "model.labels");
  set(options.model.label_names, texts(task->label_names), model.label_names, "model.label_names");
  return options;
}

}  // namespace l2l::runtime
