// A source of samples over what options take from files.
#include "l2l/data.h"
#include "l2l/errors.h"
#include "runtime/options/resolved_options.h"

namespace l2l {

struct FileSource::Implementation {
  bool trains;
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
  if (!samples) throw BadInput(std::string("data.") + (trains ? "train" : "validation") + ": names no file");
  implementation_ = std::make_unique<const Implementation>(Implementation{trains, std::move(samples)});
}

FileSource::~FileSource() = default;

std::uint64_t FileSource::size() const {
  const runtime::Samples& samples = *implementation_->samples;
  return implementation_->trains ? samples.samples_per_epoch() : samples.windows();
}

std::uint64_t FileSource::identity() const { return implementation_->samples->hash(); }

std::int64_t FileSource::read(const SamplePosition& position, const SampleView& sample) const {
  const runtime::Samples& samples = *implementation_->samples;
  if (!implementation_->trains) {
    samples.validation_window(position.index, sample);
    return samples.validation_rows(position.index);
  }
  const std::uint64_t number = position.epoch * samples.samples_per_epoch() + position.index;
  samples.sample(number, sample);
  return samples.rows(number);
}

}  // namespace l2l
