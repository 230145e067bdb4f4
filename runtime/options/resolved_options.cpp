#include "runtime/options/resolved_options.h"

#include "runtime/data/tokenized_files.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/pretrained.h"

namespace l2l::runtime {
namespace {

std::optional<DataFiles> find(const std::vector<std::string>& patterns, const Options& options, const char* key) {
  if (patterns.empty()) return std::nullopt;
  const DataFiles files = find_data(patterns, parse_token_format(options.data.format), key);
  const bool bytes = files.format != TokenFormat::text || options.data.tokenizer == "bytes";
  return bytes ? files : tokenized(files, options.data.tokenizer);
}

}  // namespace

ResolvedOptions resolve(const Options& asked) {
  validate_options(asked);
  const Options given = with_pretrained_model(asked);
  ResolvedOptions options{given,
                          asked.model.pretrained,
                          asked.model.new_head,
                          find(given.data.train, given, "data.train"),
                          find(given.data.validation, given, "data.validation"),
                          leaves_micro_batch(given)};
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
