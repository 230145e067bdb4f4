#include <algorithm>
#include <cstring>
#include <string>

#include "core/dtype.h"
#include "core/hash.h"
#include "l2l/data.h"
#include "l2l/errors.h"
#include "l2l/graph.h"
#include "models/own_layers.h"

namespace l2l {
namespace {

using Element = TensorSpec::Element;

template <typename Given>
bool takes(Element element) {
  const bool half = element == Element::f16 || element == Element::bf16;
  if constexpr (std::is_same_v<Given, float>) return element == Element::f32 || half;
  if constexpr (std::is_same_v<Given, std::uint16_t>) return half;
  if constexpr (std::is_same_v<Given, std::uint8_t>) return element == Element::u8;
  return element == Element::i32;
}

template <typename Given>
const char* name_of_given() {
  if constexpr (std::is_same_v<Given, float>) return "numbers";
  if constexpr (std::is_same_v<Given, std::uint16_t>) return "halves";
  return std::is_same_v<Given, std::uint8_t> ? "bytes" : "indices";
}

// Into `words`, in which the elements of `specs` lie one behind the other.
template <typename Given>
void write_tensor(std::span<const TensorSpec> specs, std::size_t tensor, std::span<const Given> values,
                  std::span<std::int32_t> words) {
  if (tensor >= specs.size()) {
    throw BadInput("tensor " + std::to_string(tensor) + " of a sample; there are " + std::to_string(specs.size()));
  }
  const TensorSpec& spec = specs[tensor];
  const auto elements = static_cast<std::size_t>(models::elements_of(spec));
  if (!takes<Given>(spec.element) || values.size() != elements) {
    throw BadInput("tensor \"" + spec.name + "\" of a sample: " + std::to_string(values.size()) + " " +
                   name_of_given<Given>() + " are written; it has " + std::to_string(elements) + " elements of " +
                   models::name_of(spec.element));
  }
  std::size_t first = 0;
  for (const TensorSpec& before : specs.first(tensor)) first += static_cast<std::size_t>(models::words_of(before));
  std::int32_t* const place = words.subspan(first, static_cast<std::size_t>(models::words_of(spec))).data();
  if constexpr (std::is_same_v<Given, float>) {
    if (spec.element != Element::f32) {
      std::vector<std::uint16_t> halves(values.size());
      std::ranges::transform(values, halves.begin(), [&](float value) {
        return spec.element == Element::f16 ? to_f16(value).bits : to_bf16(value).bits;
      });
      std::memcpy(place, halves.data(), halves.size() * sizeof(std::uint16_t));
      return;
    }
  }
  std::memcpy(place, values.data(), values.size_bytes());
}

}  // namespace

void SampleView::set_input(std::size_t tensor, std::span<const float> values) const {
  write_tensor(input_tensors, tensor, values, tokens);
}

void SampleView::set_input(std::size_t tensor, std::span<const std::int32_t> values) const {
  write_tensor(input_tensors, tensor, values, tokens);
}

void SampleView::set_input(std::size_t tensor, std::span<const std::uint8_t> values) const {
  write_tensor(input_tensors, tensor, values, tokens);
}

void SampleView::set_input(std::size_t tensor, std::span<const std::uint16_t> bits) const {
  write_tensor(input_tensors, tensor, bits, tokens);
}

void SampleView::set_target(std::size_t tensor, std::span<const float> values) const {
  write_tensor(target_tensors, tensor, values, targets);
}

void SampleView::set_target(std::size_t tensor, std::span<const std::int32_t> values) const {
  write_tensor(target_tensors, tensor, values, targets);
}

void SampleView::set_target(std::size_t tensor, std::span<const std::uint8_t> values) const {
  write_tensor(target_tensors, tensor, values, targets);
}

void SampleView::set_target(std::size_t tensor, std::span<const std::uint16_t> bits) const {
  write_tensor(target_tensors, tensor, bits, targets);
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
    : size_(size), identity_(identity), read_(std::move(read)) {
  if (!read_) throw BadInput("CallbackSource: there is no function");
}

CallbackSource::~CallbackSource() = default;

std::int64_t CallbackSource::read(const SamplePosition& position, const SampleView& sample) const {
  return read_(position, sample);
}

}  // namespace l2l
