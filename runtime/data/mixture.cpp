#include "runtime/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/error_place.h"
#include "core/hash.h"
#include "l2l/errors.h"
#include "runtime/data/permutation.h"

namespace l2l::runtime {
namespace {

constexpr std::uint64_t kMixtureEpoch = ~std::uint64_t{0};  // of the permutation, which no run reaches

}  // namespace

Mixture::Mixture(std::vector<std::unique_ptr<Samples>> sources, const std::vector<double>& weights, std::uint64_t seed)
    : sources_(std::move(sources)), source_of_(kBlock), rank_(kBlock) {
  if (sources_.empty() || sources_.size() > kBlock) {
    throw BadInput("data.source: " + std::to_string(sources_.size()) + " sources; 1 to " + std::to_string(kBlock),
                   of_key("data.source"));
  }
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::uint64_t taken = 0;
  for (const double weight : weights) {
    const double share = std::round(weight / all * static_cast<double>(kBlock));
    of_block_.push_back(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share)));
    taken += of_block_.back();
  }
  // What rounding leaves or takes too much goes to and from the largest.
  for (; taken != kBlock; taken += taken < kBlock ? 1 : -1) {
    *std::max_element(of_block_.begin(), of_block_.end()) += taken < kBlock ? 1 : -1;
  }
  std::uint64_t slot = 0;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    for (std::uint64_t i = 0; i < of_block_[source]; ++i) {
      source_of_[permute(slot++, kBlock, seed, kMixtureEpoch)] = static_cast<std::uint16_t>(source);
    }
  }
  std::vector<std::uint16_t> seen(sources_.size(), 0);
  for (std::uint64_t i = 0; i < kBlock; ++i) rank_[i] = seen[source_of_[i]]++;
  Hash64 hash;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    const std::uint64_t its[] = {sources_[source]->hash(), of_block_[source]};
    hash.update(std::as_bytes(std::span(its)));
  }
  hash_ = hash.value();
}

std::uint64_t Mixture::tokens() const {
  std::uint64_t tokens = 0;
  for (const auto& source : sources_) tokens += source->tokens();
  return tokens;
}

void Mixture::require_training_data() const {
  for (const auto& source : sources_) source->require_training_data();
}

std::uint64_t Mixture::samples_per_epoch() const {
  std::uint64_t most = 0;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    const std::uint64_t blocks = (sources_[source]->samples_per_epoch() + of_block_[source] - 1) / of_block_[source];
    most = std::max(most, blocks * kBlock);
  }
  return most;
}

Mixture::Place Mixture::place(std::uint64_t position) const {
  const std::uint64_t in_block = position % kBlock;
  const std::size_t source = source_of_[in_block];
  return {source, position / kBlock * of_block_[source] + rank_[in_block]};
}

void Mixture::sample(std::uint64_t position, const SequenceView& sequence) const {
  const Place place = this->place(position);
  sources_[place.source]->sample(place.position, sequence);
}

std::int64_t Mixture::rows(std::uint64_t position) const {
  const Place place = this->place(position);
  return sources_[place.source]->rows(place.position);
}

void Mixture::validation_window(std::uint64_t, const SequenceView&) const {
  throw Error("a mixture of sources is no validation data");
}

}  // namespace l2l::runtime
