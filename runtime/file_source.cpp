// A source of samples over what options take from files.
#include <string>

#include "core/error_place.h"
#include "l2l/data.h"
#include "l2l/errors.h"
#include "runtime/options/resolved_options.h"

namespace l2l {

struct FileSource::Implementation {
  bool trains;
  runtime::DatasetSettings settings;
  std::unique_ptr<runtime::Samples> samples;
};

FileSource::FileSource(const Options& options, Files files) {
  Options alone = options;
  (files == Files::train ? alone.data.train_source : alone.data.validation_source) = nullptr;
  const runtime::ResolvedOptions resolved = runtime::resolve(alone);
  runtime::DatasetSettings settings = runtime::dataset_settings(resolved);
  settings.in_order = true;  // whoever draws from this source has an order of its own
  const bool trains = files == Files::train;
  auto samples =
      trains ? runtime::training_samples(resolved, settings) : runtime::validation_samples(resolved, settings);
  if (!samples) {
    const std::string key = trains ? "data.train" : "data.validation";
    throw BadInput(key + ": names no file", of_key(key));
  }
  implementation_ = std::make_unique<const Implementation>(Implementation{trains, settings, std::move(samples)});
}

FileSource::~FileSource() = default;

std::uint64_t FileSource::size() const {
  const runtime::Samples& samples = *implementation_->samples;
  return implementation_->trains ? samples.samples_per_epoch() : samples.windows();
}

std::uint64_t FileSource::identity() const { return implementation_->samples->hash(); }

std::int64_t FileSource::read(const SamplePosition& position, const SampleView& sample) const {
  const runtime::Samples& samples = *implementation_->samples;
  const runtime::DatasetSettings& settings = implementation_->settings;
  if (!sample.input_tensors.empty()) throw BadInput("a source of files has tokens, and no tensors of a custom model");
  if (static_cast<std::int64_t>(sample.tokens.size()) < settings.sequence) {
    throw BadInput("a source of files with model.sequence = " + std::to_string(settings.sequence) +
                   " is read by a model of " + std::to_string(sample.tokens.size()) +
                   "; make it with the same options");
  }
  if (settings.kind != runtime::SampleKind::stream && sample.positions.empty()) {
    throw BadInput(
        "a source of files has documents, which the model that reads it does not tell apart: set "
        "data.samples = \"packed\"");
  }
  if (!implementation_->trains) {
    samples.validation_window(position.index, sample);
    return samples.validation_rows(position.index);
  }
  const std::uint64_t number = position.epoch * samples.samples_per_epoch() + position.index;
  samples.sample(number, sample);
  return samples.rows(number);
}

}  // namespace l2l
