#include "runtime/data/prepared_minibatch.h"

#include <numeric>

#include "compiler/ir/graph.h"
#include "models/streams.h"
#include "runtime/data/buckets.h"

namespace l2l::runtime {

using compiler::RowField;

SequenceView sequence_of(std::span<std::int32_t> tokens, std::span<std::int32_t> targets,
                         std::span<std::int32_t> fields, int sequences, int index) {
  const std::size_t length = tokens.size() / static_cast<std::size_t>(sequences);
  const std::size_t row = static_cast<std::size_t>(index) * length;
  const auto field = [&](RowField which) {
    return fields.empty() ? fields : fields.subspan(static_cast<std::size_t>(which) * tokens.size() + row, length);
  };
  const std::size_t words = targets.size() / static_cast<std::size_t>(sequences);
  return {tokens.subspan(row, length), targets.subspan(static_cast<std::size_t>(index) * words, words),
          field(RowField::position),   field(RowField::begin),
          field(RowField::end),        field(RowField::token_type)};
}

std::size_t PreparedMinibatch::lines(const MinibatchShape& shape) {
  return static_cast<std::size_t>(shape.input_words + shape.target_words) +
         (shape.packed ? static_cast<std::size_t>(RowField::count) : 0);
}

std::size_t PreparedMinibatch::most_rows(const MinibatchShape& shape) {
  return static_cast<std::size_t>(shape.sequences) * static_cast<std::size_t>(shape.lengths.back());
}

Bytes PreparedMinibatch::bytes(const MinibatchShape& shape) {
  return static_cast<Bytes>(shape.own_microbatches()) * lines(shape) * most_rows(shape) * sizeof(std::int32_t);
}

PreparedMinibatch::PreparedMinibatch(MinibatchShape shape)
    : shape_(std::move(shape)),
      length_of_(static_cast<std::size_t>(shape_.microbatches), static_cast<int>(shape_.lengths.size()) - 1),
      sample_of_(static_cast<std::size_t>(shape_.samples())),
      values_(bytes(shape_) / sizeof(std::int32_t)) {
  std::iota(sample_of_.begin(), sample_of_.end(), 0);
}

std::span<std::int32_t> PreparedMinibatch::part(int microbatch, std::size_t line, std::size_t count) {
  const auto u = static_cast<std::size_t>(microbatch);
  const auto length = static_cast<std::size_t>(shape_.lengths[static_cast<std::size_t>(this->length(microbatch))]);
  const std::size_t rows = static_cast<std::size_t>(shape_.sequences) * length;
  return std::span(values_).subspan(u * lines(shape_) * most_rows(shape_) + line * rows, count * rows);
}

void PreparedMinibatch::fill(const RowsOf& rows, const Write& write, Workers& workers) {
  if (shape_.lengths.size() > 1) {
    std::vector<std::int64_t> of_sample;
    for (int i = 0; i < shape_.samples(); ++i) of_sample.push_back(rows(i));
    Deal deal = deal_samples(of_sample, shape_.lengths, shape_.sequences, shape_.devices, shape_.parts);
    length_of_ = std::move(deal.length_of);
    sample_of_ = std::move(deal.sample_of);
  }
  for (int u = 0; shape_.packed && u < shape_.own_microbatches(); ++u) {
    models::write_single_documents(fields(u), shape_.lengths[static_cast<std::size_t>(length(u))]);
  }
  const int first = shape_.first_microbatch() * shape_.sequences;
  workers.parallel_for(shape_.own_microbatches() * shape_.sequences, [&](std::int64_t block, int) {
    const int i = static_cast<int>(block), u = i / shape_.sequences;
    write(sample_of_[static_cast<std::size_t>(first + i)],
          sequence_of(tokens(u), targets(u), fields(u), shape_.sequences, i % shape_.sequences));
  });
}

}  // namespace l2l::runtime
