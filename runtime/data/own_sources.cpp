#include <algorithm>
#include <string>

#include "core/hash.h"
#include "l2l/data.h"
#include "l2l/errors.h"

namespace l2l {

SampleSource::~SampleSource() = default;

MemorySource::MemorySource(std::vector<Sample> samples) : samples_(std::move(samples)) {
  Hash64 hash;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const auto& [tokens, targets] = samples_[i];
    const std::string name = "sample " + std::to_string(i) + ": has " + std::to_string(tokens.size()) + " tokens";
    if (tokens.size() < (targets.empty() ? 2 : 1)) {
      throw BadInput(name + "; without targets it needs at least 2, of which each learns the next");
    }
    if (!targets.empty() && targets.size() != tokens.size()) {
      throw BadInput(name + ", but " + std::to_string(targets.size()) + " targets");
    }
    const std::uint64_t sizes[] = {tokens.size(), targets.size()};
    hash.update(std::as_bytes(std::span(sizes)));
    hash.update(std::as_bytes(std::span(tokens)));
    hash.update(std::as_bytes(std::span(targets)));
  }
  identity_ = hash.value();
}

MemorySource::~MemorySource() = default;

std::int64_t MemorySource::read(const SamplePosition& position, const SampleView& sample) const {
  if (position.index >= samples_.size()) {
    throw BadInput("sample " + std::to_string(position.index) + " of " + std::to_string(samples_.size()) +
                   " is asked for");
  }
  const auto& [tokens, targets] = samples_[position.index];
  const std::size_t rows = targets.empty() ? tokens.size() - 1 : tokens.size();
  if (rows > sample.tokens.size()) {
    throw BadInput("sample " + std::to_string(position.index) + ": has " + std::to_string(rows) +
                   " rows, but model.sequence = " + std::to_string(sample.tokens.size()));
  }
  std::copy_n(tokens.begin(), rows, sample.tokens.begin());
  std::copy_n(targets.empty() ? tokens.begin() + 1 : targets.begin(), rows, sample.targets.begin());
  return static_cast<std::int64_t>(rows);
}

CallbackSource::CallbackSource(std::uint64_t size, std::uint64_t identity, Read read)
    : size_(size), identity_(identity), read_(std::move(read)) {}

CallbackSource::~CallbackSource() = default;

std::int64_t CallbackSource::read(const SamplePosition& position, const SampleView& sample) const {
  return read_(position, sample);
}

}  // namespace l2l
