#include "runtime/options/resolved_options.h"

#include "runtime/data/find_sources.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/pretrained.h"

namespace l2l::runtime {
namespace {

std::optional<DataFiles> find(const std::vector<std::string>& patterns, const Options& options, const char* key) {
  if (patterns.empty()) return std::nullopt;
  return find_sources(patterns, options.data, key);
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
                          find(given.data.train, given, "data.train"),
                          find(given.data.validation, given, "data.validation"),
                          leaves_micro_batch(given)};
  const std::optional<DataFiles>& files = options.train ? options.train : options.validation;
  options.data.samples = name_of(sample_kind(options.data, files ? &*files : nullptr));
  options.batch = resolved(given.batch, given.device.count);
  if (options.recompute.policy == "budget") options.recompute.policy = "full";
  return options;
}

Options without_files(Options options) {
  options.data.train.clear();
  options.data.validation.clear();
  options.run.validate_every = 0;
  options.checkpoint = {};
  return options;
}

}  // namespace l2l::runtime
