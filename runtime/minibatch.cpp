#include "runtime/minibatch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "models/streams.h"

namespace l2l::runtime {

using device::BufferView;
using transfer::Traffic;

MinibatchPart::MinibatchPart(transfer::Link& link, LayerRunner& runner, int microbatches, std::int64_t sequence,
                             BufferView staging)
    : link_(link),
      runner_(runner),
      microbatches_(microbatches),
      id_bytes_(runner.model().tokens_bytes() + runner.model().targets_bytes()),
      sequences_(static_cast<int>(runner.model().rows / sequence)),
      staging_(staging),
      done_(link.device().create_event()) {
  for (int u = 0; u < microbatches; ++u) set_longest(u);
}

void MinibatchPart::set_length(int microbatch, int length) {
  set_length_alone(microbatch, length);
  if (!runner_.model().packed) return;
  models::write_single_documents(row_fields(microbatch), runner_.model_of(microbatch).rows / sequences_);
}

namespace {

std::span<std::int32_t> words_of(BufferView view) {
  return {reinterpret_cast<std::int32_t*>(view.data), view.size / sizeof(std::int32_t)};
}

}  // namespace

BufferView MinibatchPart::staged_inputs(int microbatch) const {
  return staging_.slice(static_cast<Bytes>(microbatch) * id_bytes_, runner_.model_of(microbatch).tokens_bytes());
}

BufferView MinibatchPart::staged_targets(int microbatch) const {
  return staging_.slice(static_cast<Bytes>(microbatch) * id_bytes_ + runner_.model().tokens_bytes(),
                        runner_.model_of(microbatch).targets_bytes());
}

std::span<std::int32_t> MinibatchPart::tokens(int microbatch) { return words_of(staged_inputs(microbatch)); }

std::span<std::int32_t> MinibatchPart::targets(int microbatch) { return words_of(staged_targets(microbatch)); }

std::span<std::int32_t> MinibatchPart::row_fields(int microbatch) { return words_of(staged_fields(microbatch)); }

SequenceView MinibatchPart::sequence(int index) {
  const int u = index / sequences_;
  return sequence_of(tokens(u), targets(u), row_fields(u), sequences_, index % sequences_);
}

// Behind the ids.
BufferView MinibatchPart::staged_fields(int microbatch) const {
  const Bytes most = runner_.model().row_fields_bytes();
  return staging_.slice(static_cast<Bytes>(microbatches_) * id_bytes_ + static_cast<Bytes>(microbatch) * most,
                        runner_.model_of(microbatch).row_fields_bytes());
}

void MinibatchPart::take_from(const MinibatchPart& other) {
  const Bytes input = static_cast<Bytes>(microbatches_) * (id_bytes_ + runner_.model().row_fields_bytes());
  std::memcpy(staging_.data, other.staging_.data, input);
}

void MinibatchPart::upload() {
  link_.device().annotate(runner_.compute(), -1, -1);
  for (int u = 0; u < microbatches_; ++u) {
    const auto place = static_cast<std::size_t>(u);
    const BufferView inputs = staged_inputs(u), targets = staged_targets(u);
    link_.to_device(Traffic::batch, runner_.compute(), runner_.inputs()[place].slice(0, inputs.size), inputs);
    link_.to_device(Traffic::batch, runner_.compute(), runner_.targets()[place].slice(0, targets.size), targets);
  }
  for (std::size_t u = 0; u < runner_.row_fields().size(); ++u) {
    const BufferView fields = staged_fields(static_cast<int>(u));
    link_.to_device(Traffic::batch, runner_.compute(), runner_.row_fields()[u].slice(0, fields.size), fields);
  }
}

// Results lie behind the input.
BufferView MinibatchPart::results(Bytes begin, Bytes bytes) const {
  const Bytes input = id_bytes_ + runner_.model().row_fields_bytes();
  return staging_.slice(static_cast<Bytes>(microbatches_) * input + begin, bytes);
}

void MinibatchPart::wait() {
  link_.device().record(*done_, runner_.compute());
  link_.device().synchronize(*done_);
}

void MinibatchPart::fetch_losses() {
  Bytes end = 0;
  link_.device().annotate(runner_.compute(), -1, -1);
  for (const BufferView& loss : runner_.losses()) {
    link_.to_host(Traffic::results, runner_.compute(), results(end, loss.size), loss);
    end += loss.size;
  }
  wait();
}

double MinibatchPart::result(int microbatch, int index) const {
  double value = 0;
  const Bytes begin = static_cast<Bytes>(microbatch) * runner_.model().results_bytes();
  std::memcpy(&value, results(begin + static_cast<Bytes>(index) * sizeof value, sizeof value).data, sizeof value);
  return value;
}

namespace {

// From samples, one behind the other, to tensors.
void copy_tensors(std::span<const std::int32_t> from, const std::vector<models::SampleTensor>& tensors,
                  std::int64_t samples, std::span<std::int32_t> to) {
  if (tensors.size() == 1) {
    std::copy_n(from.begin(), to.size(), to.begin());
    return;
  }
  std::ptrdiff_t words = 0, first = 0;
  for (const models::SampleTensor& tensor : tensors) words += tensor.words;
  models::for_each_tensor(tensors, samples, [&](const models::SampleTensor& tensor, Bytes begin) {
    auto next = to.begin() + static_cast<std::ptrdiff_t>(begin / sizeof(std::int32_t));
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      next = std::copy_n(from.begin() + sample * words + first, tensor.words, next);
    }
    first += tensor.words;
  });
}

}  // namespace

void Minibatch::take(PreparedMinibatch& samples) {
  for (int u = 0; u < microbatches(); ++u) {
    part(u).set_length_alone(place(u), samples.length(u));
    const models::Model& model = part(u).model();
    copy_tensors(samples.tokens(u), model.inputs, part(u).rows(place(u)), tokens(u));
    copy_tensors(samples.targets(u), model.targets, part(u).rows(place(u)), targets(u));
    const std::span<std::int32_t> fields = part(u).row_fields(place(u));
    std::copy_n(samples.fields(u).begin(), fields.size(), fields.begin());
  }
}

std::int64_t Minibatch::rows() {
  std::int64_t rows = 0;
  for (int u = 0; u < microbatches(); ++u) rows += part(u).rows(place(u));
  return ranks_.sum(rows);
}

namespace {

// A word of numbers from 0 to 1, or of bytes.
template <typename Draw>
std::int32_t draw_word(WordElement type, const Draw& draw) {
  const auto number = [&] { return static_cast<float>(draw(1024)) / 1024; };
  const auto pair = [](std::int32_t low, std::int32_t high) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(high) << 16 | static_cast<std::uint32_t>(low));
  };
  if (type == WordElement::whole) return std::bit_cast<std::int32_t>(number());
  const auto half = [&]() -> std::int32_t {
    if (type == WordElement::u8) return draw(1 << 16);
    return type == WordElement::f16 ? to_f16(number()).bits : to_bf16(number()).bits;
  };
  const std::int32_t low = half(), high = half();
  return pair(low, high);
}

}  // namespace

// Indices and numbers; each sample counts.
template <typename Draw>
void Minibatch::draw_tensors(const models::Model& model, const Draw& draw) {
  const auto fill = [&](const std::vector<models::SampleTensor>& tensors, std::span<std::int32_t> words) {
    models::for_each_tensor(tensors, model.rows, [&](const models::SampleTensor& tensor, Bytes begin) {
      const auto count = static_cast<std::size_t>(model.rows * tensor.words);
      for (std::int32_t& word : words.subspan(begin / sizeof(std::int32_t), count)) {
        word = tensor.below > 0 ? draw(tensor.below) : draw_word(tensor.element, draw);
      }
    });
  };
  for (int u = 0; u < microbatches(); ++u) {
    fill(model.inputs, tokens(u));
    fill(model.targets, targets(u));
    std::ranges::fill(targets(u).last(static_cast<std::size_t>(model.rows)), 1);
  }
}

void Minibatch::draw(const models::Model& model) {
  std::uint32_t state = 1;
  const auto draw = [&](std::int64_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::int32_t>((state >> 8) % static_cast<std::uint32_t>(below));
  };
  if (model.head_kind == models::HeadKind::custom) return draw_tensors(model, draw);
  for (int u = 0; u < microbatches(); ++u) {
    for (std::int32_t& token : tokens(u)) token = draw(model.vocabulary);
    for (std::int32_t& target : targets(u)) target = draw(model.outputs());
  }
}

std::int64_t Minibatch::predicted() {
  const bool numbers = parts_[0]->head() == models::HeadKind::regression;
  std::int64_t count = 0;
  if (parts_[0]->head() == models::HeadKind::custom) {
    for (int u = 0; u < microbatches(); ++u) {
      for (const std::int32_t of_sample : targets(u).last(static_cast<std::size_t>(part(u).rows(place(u))))) {
        count += of_sample;
      }
    }
    return ranks_.sum(count);
  }
  for (int u = 0; u < microbatches(); ++u) {
    for (const std::int32_t target : targets(u)) count += target >= 0 || (numbers && target != -1) ? 1 : 0;
  }
  return ranks_.sum(count);
}

double Minibatch::sum_of(int index) const {
  double sum = 0;
  if (!ranks_.several()) {
    for (int u = 0; u < microbatches(); ++u) sum += part(u).result(place(u), index);
    return sum;
  }
  std::vector<double> own;
  for (int u = 0; u < microbatches(); ++u) own.push_back(part(u).result(place(u), index));
  for (const double of_microbatch : ranks_.gather(std::span<const double>(own))) sum += of_microbatch;
  return sum;
}

double Minibatch::loss_sum() const { return sum_of(0); }

double Minibatch::drift() const { return std::sqrt(sum_of(1) / sum_of(2)); }

namespace {

void to_floats(DType dtype, const std::byte* from, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f32) {
      std::memcpy(&values[i], from + i * sizeof(float), sizeof(float));
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
      values[i] = dtype == DType::bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
    }
  }
}

}  // namespace

void MinibatchPart::fetch_values(BufferView source, std::span<float> values) {
  const BufferView row = results(0, source.size);
  link_.to_host(Traffic::results, runner_.compute(), row, source);
  wait();
  to_floats(runner_.model().compute, row.data, values);
}

// Behind the losses and the room of fetch_values().
BufferView MinibatchPart::staged_logits(int microbatch) const {
  const models::Model& model = runner_.model();
  const Bytes room = static_cast<Bytes>(std::max(model.outputs(), model.hidden)) * size_of(model.compute);
  const Bytes begin = static_cast<Bytes>(microbatches_) * model.results_bytes() + room +
                      static_cast<Bytes>(microbatch) * model.label_logits_bytes();
  return results(begin, runner_.model_of(microbatch).label_logits_bytes());
}

void MinibatchPart::fetch_logits() {
  if (runner_.model().label_logits_bytes() == 0) return;
  for (int u = 0; u < microbatches_; ++u) {
    link_.to_host(Traffic::results, runner_.compute(), staged_logits(u), runner_.label_logits(u));
  }
}

void MinibatchPart::logits(int microbatch, std::int64_t row, std::span<float> values) const {
  const DType dtype = runner_.model().compute;
  to_floats(dtype, staged_logits(microbatch).data + static_cast<Bytes>(row) * values.size() * size_of(dtype), values);
}

void Minibatch::for_each_own_output(const TakeOutput& take) {
  std::vector<float> values(static_cast<std::size_t>(parts_[0]->labels()));
  std::vector<std::int32_t> its_targets;
  for (int u = 0; u < microbatches(); ++u) {
    const models::Model& model = part(u).model();
    const std::span<const std::int32_t> all = targets(u);
    for (std::int64_t row = 0; row < model.rows; ++row) {
      part(u).logits(place(u), row, values);
      its_targets.clear();
      models::for_each_tensor(model.targets, model.rows, [&](const models::SampleTensor& tensor, Bytes begin) {
        const auto first = static_cast<std::ptrdiff_t>(begin / sizeof(std::int32_t)) + row * tensor.words;
        its_targets.insert(its_targets.end(), all.begin() + first, all.begin() + first + tensor.words);
      });
      take(values, its_targets);
    }
  }
}

void Minibatch::for_each_own_labelled(const TakeLabelled& take) {
  std::vector<float> values(static_cast<std::size_t>(parts_[0]->labels()));
  for (int u = 0; u < microbatches(); ++u) {
    const std::span<const std::int32_t> targets = this->targets(u), fields = part(u).row_fields(place(u));
    const std::size_t length = targets.size() / static_cast<std::size_t>(sequences() / microbatches());
    const auto begin_of = [&](std::size_t row) {  // of its document, within the microbatch
      const std::size_t sequence = row / length * length;
      if (fields.empty()) return sequence;
      const std::size_t at = static_cast<std::size_t>(compiler::RowField::begin) * targets.size() + row;
      return sequence + static_cast<std::size_t>(fields[at]);
    };
    std::size_t document = targets.size();
    for (std::size_t row = 0; row < targets.size(); ++row) {
      if (targets[row] == -1) continue;
      part(u).logits(place(u), static_cast<std::int64_t>(row), values);
      take(values, targets[row], document != begin_of(row));
      document = begin_of(row);
    }
  }
}

namespace {

// Values and integers of one row, in the bytes that ranks exchange.
void append_row(std::span<const float> values, std::span<const std::int32_t> integers, std::vector<std::byte>& bytes) {
  const std::span<const std::byte> first = std::as_bytes(values), second = std::as_bytes(integers);
  bytes.insert(bytes.end(), first.begin(), first.end());
  bytes.insert(bytes.end(), second.begin(), second.end());
}

// Calls take(values, integers) for each row, of so many of both.
template <typename Take>
void for_each_row(std::span<const std::byte> bytes, std::size_t values, std::size_t integers, const Take& take) {
  std::vector<float> first(values);
  std::vector<std::int32_t> second(integers);
  const std::span<std::byte> whole[] = {std::as_writable_bytes(std::span(first)),
                                        std::as_writable_bytes(std::span(second))};
  for (std::size_t at = 0; at < bytes.size();) {
    for (const std::span<std::byte> part : whole) {
      std::copy_n(bytes.data() + at, part.size(), part.data());
      at += part.size();
    }
    take(std::span<const float>(first), std::span<const std::int32_t>(second));
  }
}

}  // namespace

void Minibatch::for_each_output(const TakeOutput& take) {
  if (!ranks_.several()) return for_each_own_output(take);
  std::vector<std::byte> own;
  for_each_own_output([&](std::span<const float> values, std::span<const std::int32_t> its_targets) {
    append_row(values, its_targets, own);
  });
  std::size_t words = 0;
  for (const models::SampleTensor& tensor : parts_[0]->model().targets) words += static_cast<std::size_t>(tensor.words);
  for_each_row(ranks_.gather(own), static_cast<std::size_t>(parts_[0]->labels()), words, take);
}

void Minibatch::for_each_labelled(const TakeLabelled& take) {
  if (!ranks_.several()) return for_each_own_labelled(take);
  std::vector<std::byte> own;
  for_each_own_labelled([&](std::span<const float> logits, std::int32_t target, bool begins) {
    append_row(logits, std::array<std::int32_t, 2>{target, begins ? 1 : 0}, own);
  });
  for_each_row(ranks_.gather(own), static_cast<std::size_t>(parts_[0]->labels()), 2,
               [&](std::span<const float> logits, std::span<const std::int32_t> integers) {
                 take(logits, integers[0], integers[1] != 0);
               });
}

}  // namespace l2l::runtime
