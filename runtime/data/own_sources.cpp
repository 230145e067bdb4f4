#include <algorithm>
#include <cstring>
#include <string>

#include "core/hash.h"
#include "l2l/data.h"
#include "l2l/errors.h"
#include "l2l/graph.h"
#include "models/own_layers.h"

namespace l2l {
namespace {

// Into `words`, in which the elements of `specs` lie one behind the other.
template <typename Element>
void write_tensor(std::span<const TensorSpec> specs, std::size_t tensor, TensorSpec::Element element,
                  std::span<const Element> values, std::span<std::int32_t> words) {
  if (tensor >= specs.size()) {
    throw BadInput("tensor " + std::to_string(tensor) + " of a sample; there are " + std::to_string(specs.size()));
  }
  std::size_t first = 0, elements = 0;
  for (std::size_t i = 0; i <= tensor; ++i) {
    first += elements;
    elements = static_cast<std::size_t>(models::elements_of(specs[i]));
  }
  if (specs[tensor].element != element || values.size() != elements) {
    throw BadInput("tensor \"" + specs[tensor].name + "\" of a sample: " + std::to_string(values.size()) + " " +
                   (element == TensorSpec::Element::f32 ? "numbers" : "indices") + " are written; it has " +
                   std::to_string(elements) + " " +
                   (specs[tensor].element == TensorSpec::Element::f32 ? "numbers" : "indices"));
  }
  std::memcpy(words.subspan(first, elements).data(), values.data(), values.size_bytes());
}

}  // namespace

void SampleView::set_input(std::size_t tensor, std::span<const float> values) const {
  write_tensor(input_tensors, tensor, TensorSpec::Element::f32, values, tokens);
}

void SampleView::set_input(std::size_t tensor, std::span<const std::int32_t> values) const {
  write_tensor(input_tensors, tensor, TensorSpec::Element::i32, values, tokens);
}

void SampleView::set_target(std::size_t tensor, std::span<const float> values) const {
  write_tensor(target_tensors, tensor, TensorSpec::Element::f32, values, targets);
}

void SampleView::set_target(std::size_t tensor, std::span<const std::int32_t> values) const {
  write_tensor(target_tensors, tensor, TensorSpec::Element::i32, values, targets);
}

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
  if (!sample.input_tensors.empty()) {
    throw BadInput(
        "a MemorySource has tokens, but samples of a custom model are tensors: write a source that sets them");
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
