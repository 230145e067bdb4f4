#include "runtime/options/resolved_options.h"

#include "runtime/data/find_sources.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/pretrained.h"

namespace l2l::runtime {
namespace {

DataOptions options_of(const DataSource& source, DataOptions data) {
  const auto set = [](auto& target, const auto& value) {
    if (!value.empty()) target = value;
  };
  set(data.format, source.format);
  set(data.separator, source.separator);
  set(data.columns, source.columns);
  set(data.learn, source.learn);
  set(data.chat_template, source.chat_template);
  data.source.clear();
  return data;
}

std::vector<DataFiles> find_training(const DataOptions& data) {
  std::vector<DataFiles> files;
  if (!data.train.empty()) files.push_back(find_sources(data.train, data, "data.train"));
  for (std::size_t i = 0; i < data.source.size(); ++i) {
    const std::string key = "data.source " + std::to_string(i + 1);
    files.push_back(find_sources(data.source[i].train, options_of(data.source[i], data), key));
  }
  return files;
}

std::optional<DataFiles> find_validation(const DataOptions& data) {
  if (data.validation.empty()) return std::nullopt;
  return find_sources(data.validation, data, "data.validation");
}

// data.samples as options give it; "auto": packed where all sources have documents that rows or separators tell apart.
SampleKind kind_of(const ResolvedOptions& options) {
  const DataOptions& data = options.data;
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

}  // namespace

SampleKind sample_kind(const Options& options) { return sample_kind(options.data, nullptr); }

ResolvedOptions resolve(const Options& asked) {
  validate_options(asked);
  const Options given = with_pretrained_model(asked);
  ResolvedOptions options{given,
                          asked.model.pretrained,
                          asked.model.new_head,
                          find_training(given.data),
                          find_validation(given.data),
                          leaves_micro_batch(given)};
  options.data.samples = name_of(kind_of(options));
  options.batch = resolved(given.batch, given.device.count);
  if (options.recompute.policy == "budget") options.recompute.policy = "full";
  return options;
}

Options without_files(Options options) {
  options.data.train.clear();
  options.data.source.clear();
  options.data.validation.clear();
  options.run.validate_every = 0;
  options.checkpoint = {};
  return options;
}

}  // namespace l2l::runtime
