#include "runtime/data/source_samples.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <exception>
#include <string>

#include "core/failure.h"
#include "core/hash.h"
#include "l2l/errors.h"
#include "models/own_layers.h"
#include "runtime/data/permutation.h"

namespace l2l::runtime {
namespace {

std::string place_of(const SamplePosition& position) {
  return "sample " + std::to_string(position.index) + " of the program's source";
}

std::uint64_t hash_of(const SampleSource& source) {
  const std::array<std::uint64_t, 2> both{source.size(), source.identity()};
  Hash64 hash;
  hash.update(std::as_bytes(std::span(both)));
  return hash.value();
}

// A document of its own, which predicts nothing.
void pad(const SequenceView& sequence, std::size_t row) {
  sequence.tokens[row] = 0;
  sequence.targets[row] = -1;
  if (sequence.positions.empty()) return;
  sequence.positions[row] = sequence.token_types[row] = 0;
  sequence.begins[row] = static_cast<std::int32_t>(row);
  sequence.ends[row] = static_cast<std::int32_t>(row + 1);
}

}  // namespace

SourceSamples::SourceSamples(std::shared_ptr<const SampleSource> source, const DatasetSettings& settings)
    : source_(std::move(source)), settings_(settings), size_(source_->size()), hash_(hash_of(*source_)) {
  if (size_ == 0) throw BadInput("the program's source of samples is empty: size() is 0");
}

std::uint64_t SourceSamples::tokens() const { return size_ * static_cast<std::uint64_t>(settings_.sequence); }

void SourceSamples::sample(std::uint64_t position, const SequenceView& sequence) const {
  const std::uint64_t epoch = position / size_, place = position % size_;
  const std::uint64_t index = settings_.in_order ? place : permute(place, size_, settings_.seed, epoch);
  read({index, epoch, position}, sequence);
}

void SourceSamples::validation_window(std::uint64_t window, const SequenceView& sequence) const {
  if (window < size_) return read({window, 0, window}, sequence);
  if (settings_.head == models::HeadKind::custom) {
    std::ranges::fill(sequence.tokens, 0);
    std::ranges::fill(sequence.targets, 0);
    return;
  }
  for (std::size_t row = 0; row < sequence.tokens.size(); ++row) pad(sequence, row);
}

namespace {

// Throws BadInput where an element in `words`, a tensor's, is none of those that `spec` allows.
void check_tensor_words(const TensorSpec& spec, std::span<const std::int32_t> words, std::int32_t least,
                        const std::string& where) {
  const bool indices = spec.element == TensorSpec::Element::i32;
  const WordElement type = models::word_element(spec.element);
  if (type == WordElement::u8) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(models::elements_of(spec)); ++i) {
    if (indices ? words[i] >= least && words[i] < spec.below : std::isfinite(element_of(type, words, i))) continue;
    throw BadInput(where + ", tensor \"" + spec.name + "\", element " + std::to_string(i) +
                   (indices ? " is " + std::to_string(words[i]) + "; it is " + std::to_string(least) + " to " +
                                  std::to_string(spec.below - 1)
                            : " is not finite"));
  }
}

// The elements of each of `specs`, one behind the other in `words`.
void check_all_words(std::span<const TensorSpec> specs, std::span<const std::int32_t> words, std::int32_t least,
                     const std::string& where) {
  for (const TensorSpec& spec : specs) {
    const auto its_words = static_cast<std::size_t>(models::words_of(spec));
    check_tensor_words(spec, words.first(its_words), least, where);
    words = words.subspan(its_words);
  }
}

}  // namespace

// Behind the targets is what the sample counts for.
void SourceSamples::read_custom(const SamplePosition& position, const SequenceView& sequence) const {
  SequenceView view = sequence;
  view.targets = sequence.targets.first(sequence.targets.size() - 1);
  view.input_tensors = settings_.inputs;
  view.target_tensors = settings_.targets;
  std::ranges::fill(sequence.tokens, 0);
  std::ranges::fill(sequence.targets, 0);
  const std::int64_t counts = ask(position, view);
  const std::string where = place_of(position);
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  if (counts < 1 || counts > kMost) {
    throw BadInput(where + ": read() returned " + std::to_string(counts) + "; a sample counts for 1 to " +
                   std::to_string(kMost));
  }
  sequence.targets.back() = static_cast<std::int32_t>(counts);
  check_all_words(settings_.inputs, view.tokens, 0, where);
  check_all_words(settings_.targets, view.targets, -1, where);
}

void SourceSamples::read(const SamplePosition& position, const SequenceView& sequence) const {
  if (settings_.head == models::HeadKind::custom) return read_custom(position, sequence);
  std::fill(sequence.tokens.begin(), sequence.tokens.end(), 0);
  std::fill(sequence.targets.begin(), sequence.targets.end(), -1);
  const auto length = static_cast<std::int64_t>(sequence.tokens.size());
  const std::int64_t rows = ask(position, sequence);
  if (rows < 1 || rows > length) {
    throw BadInput(place_of(position) + ": read() returned " + std::to_string(rows) +
                   " rows; it is 1 to model.sequence = " + std::to_string(length));
  }
  // The document that reached behind the rows ends with them.
  for (std::int64_t row = 0; row < rows && !sequence.ends.empty(); ++row) {
    std::int32_t& end = sequence.ends[static_cast<std::size_t>(row)];
    if (end == length) end = static_cast<std::int32_t>(rows);
  }
  for (std::int64_t row = rows; row < length; ++row) pad(sequence, static_cast<std::size_t>(row));
  check(position, sequence, rows);
}

// Errors of the library, which a source of files throws, say enough; to others the sample is added.
std::int64_t SourceSamples::ask(const SamplePosition& position, const SequenceView& sequence) const {
  try {
    return source_->read(position, sequence);
  } catch (const Error&) {
    throw;
  } catch (...) {
    std::throw_with_nested(Error(place_of(position) + ": " + message_of_current_exception()));
  }
}

// `rows`: behind them is padding.
void SourceSamples::check(const SamplePosition& position, const SequenceView& sequence, std::int64_t rows) const {
  const auto refuse = [&](std::size_t row, const std::string& what, std::int32_t value, const std::string& bound) {
    throw BadInput(place_of(position) + ", row " + std::to_string(row) + ": " + what + " is " + std::to_string(value) +
                   "; it is " + bound);
  };
  const auto below = [](std::int32_t value, std::int64_t end) { return value >= 0 && value < end; };
  const bool numbers = settings_.head == models::HeadKind::regression;
  const bool language = settings_.head == models::HeadKind::language;
  const std::int64_t outputs = language ? settings_.vocabulary : settings_.labels;
  for (std::size_t row = 0; row < sequence.tokens.size(); ++row) {
    const std::int32_t token = sequence.tokens[row], target = sequence.targets[row];
    if (!below(token, settings_.vocabulary)) {
      refuse(row, "the token", token, "0 to " + std::to_string(settings_.vocabulary - 1) + " (model.vocabulary)");
    }
    if (target != -1 && numbers && !std::isfinite(std::bit_cast<float>(target))) {
      refuse(row, "the target", target, "the bits of a float that is finite, or -1");
    }
    if (target != -1 && !numbers && !below(target, outputs)) {
      refuse(row, "the target", target,
             "-1, or 0 to " + std::to_string(outputs - 1) + (language ? " (model.vocabulary)" : " (model.labels)"));
    }
    if (sequence.positions.empty()) continue;
    const auto here = static_cast<std::int32_t>(row);
    const std::int32_t begin = sequence.begins[row], end = sequence.ends[row];
    // Either a document begins here, where the one before ended, or this is the next row of that one.
    const bool first = row == 0, fresh = begin == here && (first || sequence.ends[row - 1] == here);
    const bool goes_on = !first && begin == sequence.begins[row - 1] && end == sequence.ends[row - 1];
    if (!below(sequence.positions[row], settings_.sequence)) {
      refuse(row, "its position", sequence.positions[row], "0 to model.sequence - 1");
    }
    if (begin < 0 || begin > here) refuse(row, "the begin of its document", begin, "0 to the row");
    const std::int64_t last = here < rows ? rows : here + 1;
    if (end <= here || end > last) {
      refuse(row, "the end of its document", end, "behind the row, and behind the sample's last one at most");
    }
    if (!fresh && !goes_on) {
      refuse(row, "the begin of its document", begin, "that of the row before, or the row where the one before ends");
    }
    const std::int64_t types = std::max<std::int64_t>(1, settings_.token_types);
    if (!below(sequence.token_types[row], types)) {
      refuse(row, "its token type", sequence.token_types[row], "0 to " + std::to_string(types - 1));
    }
  }
}

}  // namespace l2l::runtime
