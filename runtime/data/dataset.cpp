#include "runtime/data/dataset.h"

#include <algorithm>

#include "l2l/errors.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/mixture.h"
#include "runtime/data/permutation.h"

namespace l2l::runtime {

std::unique_ptr<Samples> make_samples(const DataFiles& files, const DatasetSettings& settings) {
  if (settings.kind == SampleKind::stream) return std::make_unique<Dataset>(files, settings);
  return std::make_unique<DocumentDataset>(files, settings);
}

std::unique_ptr<Samples> make_samples(const std::vector<DataFiles>& sources, const std::vector<double>& weights,
                                      const DatasetSettings& settings) {
  if (weights.empty()) return make_samples(sources.at(0), settings);
  std::vector<std::unique_ptr<Samples>> samples;
  for (const DataFiles& files : sources) samples.push_back(make_samples(files, settings));
  return std::make_unique<Mixture>(std::move(samples), weights, settings.seed);
}

Dataset::Dataset(const DataFiles& files, const DatasetSettings& settings)
    : settings_(settings),
      sequence_(static_cast<std::uint64_t>(settings.sequence)),
      description_(files.description()),
      store_(files) {
  if (settings.sequence < 1) throw BadInput("model.sequence = " + std::to_string(settings.sequence) + ": at least 1");
  if (tokens() < 2) throw BadInput(description_ + ": " + std::to_string(tokens()) + " tokens; at least 2 are needed");
  if (files.flagged) {
    throw BadInput(
        description_ +
        ": only parts are to be learnt, which a stream does not tell: data.samples = \"packed\" or \"padded\"");
  }
  hash_ = store_.check(settings.vocabulary);
  // Beside the inputs: the last target, or the tokens that any phase may leave out.
  const std::uint64_t beside = settings.in_order ? 1 : sequence_;
  per_epoch_ = tokens() >= sequence_ + beside ? (tokens() - beside) / sequence_ : 1;
}

void Dataset::require_training_data() const {
  const std::uint64_t need = sequence_ + 1;
  if (tokens() >= need) return;
  throw BadInput(description_ + ": " + std::to_string(tokens()) +
                 " tokens, but model.sequence = " + std::to_string(sequence_) + " needs at least " +
                 std::to_string(need) + "; give more data or lower model.sequence");
}

std::uint64_t Dataset::phase(std::uint64_t epoch) const {
  // Less than a sequence where the stream is short: the last window must end within it.
  const std::uint64_t room = std::min(sequence_, tokens() - per_epoch_ * sequence_);
  const PhiloxBlock block = philox(data_key(settings_.seed, epoch, DataDraw::phase), 0);
  const std::uint64_t word = (static_cast<std::uint64_t>(block[1]) << 32) | block[0];
  return word % room;
}

std::size_t Dataset::copy(std::uint64_t begin, std::span<std::int32_t> destination) const {
  const std::uint64_t left = begin < tokens() ? tokens() - begin : 0;
  const std::size_t count = std::min<std::uint64_t>(left, destination.size());
  store_.read(begin, destination.first(count));
  return count;
}

void Dataset::sample(std::uint64_t position, const SequenceView& sequence) const {
  const std::uint64_t epoch = position / per_epoch_, index = position % per_epoch_;
  const std::uint64_t window = settings_.in_order ? index : permute(index, per_epoch_, settings_.seed, epoch);
  const std::uint64_t begin = (settings_.in_order ? 0 : phase(epoch)) + window * sequence_;
  copy(begin, sequence.tokens);
  if (settings_.masking.share > 0) {
    mask_tokens(settings_.masking, data_key(settings_.seed, position, DataDraw::mask), sequence.tokens,
                sequence.targets);
  } else {
    copy(begin + 1, sequence.targets);
  }
}

void Dataset::validation_window(std::uint64_t window, const SequenceView& sequence) const {
  const auto [tokens, targets] = std::pair(sequence.tokens, sequence.targets);
  if (settings_.masking.share > 0) return masked_window(window, tokens, targets);
  const std::uint64_t begin = window * sequence_;
  const std::size_t predicted = copy(begin + 1, targets);
  std::fill(targets.begin() + predicted, targets.end(), -1);
  copy(begin, tokens.first(predicted));
  std::fill(tokens.begin() + predicted, tokens.end(), 0);
}

void Dataset::masked_window(std::uint64_t window, std::span<std::int32_t> tokens,
                            std::span<std::int32_t> targets) const {
  const std::uint64_t last = store_.tokens() > sequence_ ? store_.tokens() - sequence_ : 0;
  const std::uint64_t begin = window < windows() ? std::min(window * sequence_, last) : store_.tokens();
  const std::size_t count = copy(begin, tokens);
  std::fill(tokens.begin() + count, tokens.end(), 0);
  std::fill(targets.begin() + count, targets.end(), -1);
  if (count == 0) return;
  mask_tokens(settings_.masking, data_key(settings_.seed, window, DataDraw::validation_mask), tokens.first(count),
              targets.first(count));
}

}  // namespace l2l::runtime
