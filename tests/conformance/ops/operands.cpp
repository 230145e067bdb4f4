#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/choice_target.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

double size_of_rows(const OpCase& test_case, std::size_t input) {
  return static_cast<double>(test_case.graph.value(test_case.op().inputs[input]).shape[0]);
}

void fill_normal(Tensor& tensor, double deviation, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, deviation);
  for (double& value : tensor) value = normal(random);
}

// In [lowest, end).
void fill_integers(Tensor& tensor, double lowest, double end, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(lowest, end);
  for (double& value : tensor) value = std::floor(uniform(random));
}

// A forward op with the attributes of `backward`.
OpCase alike(OpCase forward, const OpCase& backward) {
  return varied(std::move(forward), "",
                [&](compiler::Attributes& attributes) { attributes = backward.op().attributes; });
}

// inverse_rms of the heads of qkv.
void prepare_head_norm_backward(const OpCase& test_case, Tensors& operands) {
  const auto& attributes = test_case.op().attributes;
  const Shape qkv = test_case.graph.values[1].shape, gain = test_case.graph.values[2].shape;
  const AttentionCase shape{qkv[0] / attributes.sequence, attributes.sequence, attributes.heads, gain[0], 0,
                            attributes.kv_heads};
  const OpCase forward = alike(head_norm_case(test_case.graph.values[0].dtype, shape), test_case);
  Tensors values = {operands[1], operands[2], operands[3], operands[1], operands[4]};
  run_reference({forward.graph, forward.op(), forward.parameters, values});
  operands[4] = values[4];
}

// mean and inverse_deviation of x.
void prepare_layer_norm_backward(const OpCase& test_case, Tensors& operands) {
  const auto dtype = test_case.graph.values[0].dtype;
  const Shape x = test_case.graph.values[1].shape;
  const OpCase forward = layer_norm_case(dtype, x[0], x[1]);
  Tensors values = {operands[1], operands[2], Tensor(operands[2].size()), operands[1], operands[3], operands[4]};
  run_reference({forward.graph, forward.op(), forward.parameters, values});
  operands[3] = values[4];
  operands[4] = values[5];
}

// inverse_rms of x.
void prepare_rms_norm_backward(const OpCase& test_case, Tensors& operands) {
  const Shape x = test_case.graph.values[1].shape;
  const OpCase forward = alike(rms_norm_case(test_case.graph.values[0].dtype, x[0], x[1]), test_case);
  Tensors values = {operands[1], operands[2], operands[1], operands[3]};
  run_reference({forward.graph, forward.op(), forward.parameters, values});
  operands[3] = values[3];
}

// Documents of 1 to 40 rows, cut off at the ends of sequences. `operand`: [2][rows], begins and ends, or [rows],
// positions.
void fill_documents(const OpCase& test_case, Tensor& operand, std::mt19937_64& random) {
  const auto sequence = static_cast<std::size_t>(test_case.op().attributes.sequence);
  const auto rows = static_cast<std::size_t>(size_of_rows(test_case, 0));
  const bool positions = operand.size() == rows;
  for (std::size_t begin = 0; begin < rows;) {
    const std::size_t in_sequence = begin % sequence;
    const std::size_t end = std::min(sequence, in_sequence + 1 + random() % 40);
    for (std::size_t row = begin; row < begin + end - in_sequence; ++row) {
      operand[row] = static_cast<double>(positions ? row - begin : in_sequence);
      if (!positions) operand[rows + row] = static_cast<double>(end);
    }
    begin += end - in_sequence;
  }
}

// The rows of each sequence are the last ones of what the cache has of it, of some length; every seventh is none. Of
// every third sequence something has been cut off at the beginning.
void fill_cached_rows(const OpCase& test_case, Tensor& documents, std::mt19937_64& random) {
  const auto& attributes = test_case.op().attributes;
  const auto length = static_cast<std::size_t>(attributes.sequence), rows = documents.size() / 2;
  for (std::size_t sequence = 0; sequence < rows / length; ++sequence) {
    const std::size_t before = random() % (static_cast<std::size_t>(attributes.capacity) - length + 1);
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t row = sequence * length + i;
      const bool none = row % 7 == 5;
      documents[row] = sequence % 3 == 2 ? static_cast<double>(before / 2) : 0;
      documents[rows + row] = none ? 0 : static_cast<double>(before + i + 1);
    }
  }
}

bool has_rows(const OpCase& test_case) {
  const auto& op = test_case.op();
  return op.inputs.size() > 1 && test_case.graph.value(op.inputs.back()).name == "packed";
}

// y and logsumexp of qkv.
void prepare_attention_backward(const OpCase& test_case, Tensors& operands) {
  const auto& attributes = test_case.op().attributes;
  const Shape y = test_case.graph.values[0].shape;
  const AttentionCase shape{y[0] / attributes.sequence, attributes.sequence, attributes.heads, y[1] / attributes.heads,
                            attributes.probability,     attributes.kv_heads, attributes.causal};
  OpCase forward = alike(attention_case(test_case.graph.values[0].dtype, shape), test_case);
  Tensors values = {operands[1], operands[2], operands[3]};
  if (has_rows(test_case)) {
    forward = packed(forward);
    values.insert(values.begin() + 1, operands[4]);
  }
  run_reference({forward.graph, forward.op(), test_case.parameters, values});
  operands[2] = *(values.end() - 2);
  operands[3] = values.back();
}

// Probabilities of qkv. Those of the other ops are any numbers, masked ones included: they must not be read.
void prepare_attention_probabilities_backward(const OpCase& test_case, Tensors& operands) {
  const Shape qkv = test_case.graph.values[2].shape;
  const auto& attributes = test_case.op().attributes;
  const std::int64_t heads = attributes.heads, shared = compiler::kv_heads(attributes);
  const AttentionCase shape{qkv[0] / attributes.sequence, attributes.sequence, heads, qkv[1] / (heads + 2 * shared), 0,
                            attributes.kv_heads,          attributes.causal};
  const OpCase forward = alike(attention_probabilities_case(test_case.graph.values[0].dtype, shape), test_case);
  Tensors values = {operands[2], operands[1]};
  run_reference({forward.graph, forward.op(), forward.parameters, values});
  operands[1] = values[1];
}

// Some rows have seen other chunks already, some are not predicted.
void prepare_statistics(Tensor& statistics, Tensor& targets) {
  for (std::size_t row = 0; row < targets.size(); ++row) {
    double* const numbers = &statistics[3 * row];
    numbers[0] = row % 3 == 0 ? 0 : 1.5 + 0.25 * static_cast<double>(row % 7);
    numbers[1] = row % 3 == 0 ? 0 : 1 + 0.5 * static_cast<double>(row % 4);
    numbers[2] = row % 3 == 0 ? 0 : 0.75;
    if (row % 5 == 2) targets[row] = -1;
  }
}

// What the forward pass over this chunk leaves.
void prepare_chunk_backward(const OpCase& test_case, Tensors& operands) {
  const Shape x = test_case.graph.values[0].shape, table = test_case.graph.values[1].shape;
  const bool bias = test_case.op().inputs.size() > 4;
  const OpCase plain = softmax_statistics_case(test_case.graph.values[0].dtype, x[0], x[1], table[0], bias);
  const OpCase forward = varied(
      plain, "", [&](compiler::Attributes& attributes) { attributes.softcap = test_case.op().attributes.softcap; });
  Tensors values = {operands[0], operands[1], operands[2], operands[3]};
  if (bias) values.insert(values.begin() + 3, operands[4]);
  run_reference({forward.graph, forward.op(), forward.parameters, values});
  operands[3] = values.back();
}

double end_of_vocabulary(const OpCase& test_case) {
  return static_cast<double>(test_case.graph.ops.front().attributes.vocabulary);
}

// Questions of two to four choices with rows between them that have no target, as many as there is room for.
void fill_questions(Tensor& targets, std::mt19937_64& random) {
  std::fill(targets.begin(), targets.end(), -1.0);
  for (std::size_t row = 1; row + 7 <= targets.size() || row == 1;) {
    const auto choices = static_cast<std::int32_t>(2 + random() % 3);
    targets[row] = choice_target(choices, static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(choices)));
    for (std::int32_t choice = 1; choice < choices; ++choice) {
      row += 1 + (choice == 1 ? random() % 2 : 0);
      targets[row] = kFurtherChoice;
    }
    row += 1 + random() % 2;
  }
}

// Any bytes; f16 below 2 in size, some of them denormal; bf16 of 0.5 to 2, which every dtype holds.
void fill_words(WordElement type, Tensor& words, std::mt19937_64& random) {
  const std::uint32_t allowed = type == WordElement::u8 ? 0xffffffff : 0xbfffbfff;
  const std::uint32_t set = type == WordElement::bf16 ? 0x3f003f00 : 0;
  for (double& word : words) {
    word = static_cast<double>(static_cast<std::int32_t>((static_cast<std::uint32_t>(random()) & allowed) | set));
  }
}

// mean and inverse_deviation of x.
void prepare_group_norm_backward(const OpCase& test_case, Tensors& operands) {
  const auto& attributes = test_case.op().attributes;
  const OpCase forward = group_norm_case(test_case.graph.values[0].dtype, attributes.dims, attributes.groups);
  Tensors values = {operands[1], operands[2], Tensor(operands[2].size()), operands[1], operands[3], operands[4]};
  run_reference({forward.graph, forward.op(), forward.parameters, values});
  operands[3] = values[4];
  operands[4] = values[5];
}

// Multiples of 1/2, which every dtype holds: windows have several largest elements, and some have only negative ones.
void fill_with_ties(Tensor& x) {
  for (double& value : x) value = std::nearbyint(2 * value) / 2;
}

// The result of `forward`, an op of one input.
Tensor result_of(const OpCase& forward, const Tensor& x) {
  Tensors values = {x, Tensor(static_cast<std::size_t>(forward.graph.values[1].shape.elements()))};
  run_reference({forward.graph, forward.op(), forward.parameters, values});
  return values[1];
}

// Some rows of logits have a large sum of exponentials: it overflows fp32 unless the largest one is subtracted first.
void raise_rows(Tensor& logits, std::size_t columns) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i / columns % 4 == 1) logits[i] += 100;
  }
}

// Columns, or -1 in rows without a target.
void fill_targets(const OpCase& test_case, std::size_t logits, Tensors& operands, std::mt19937_64& random) {
  const auto columns = static_cast<std::size_t>(test_case.graph.value(test_case.op().inputs[logits]).shape[1]);
  raise_rows(operands[logits], columns);
  fill_integers(operands[logits + 1], 0, static_cast<double>(columns), random);
  for (std::size_t row = 2; row < operands[logits + 1].size(); row += 5) operands[logits + 1][row] = -1;
}

// The part of a sample that does not count is not read: the mean over no elements is not a number.
void fill_counts(Tensor& parts, Tensor& counts) {
  for (std::size_t sample = 0; sample < counts.size(); ++sample) {
    counts[sample] = sample % 3 == 1 ? 0 : static_cast<double>(1 + sample % 4);
    if (counts[sample] == 0) parts[sample] = std::numeric_limits<double>::quiet_NaN();
  }
}

// Of the ops of a program's own layers.
void prepare_own(const OpCase& test_case, Tensors& operands, std::mt19937_64& random) {
  const auto& attributes = test_case.op().attributes;
  const compiler::Value& first = test_case.graph.values[0];
  switch (test_case.op().kind) {
    case OpKind::reshape:
      if (first.dtype == DType::i32) fill_integers(operands[0], -200000, 200000, random);
      return;
    case OpKind::unpack:
      return fill_words(attributes.word_element, operands[0], random);
    case OpKind::sum:  // sums that do not cancel
    case OpKind::broadcast_backward:
      for (double& value : operands[0]) value += 0.5;
      return;
    case OpKind::softmax:
      return raise_rows(operands[0], static_cast<std::size_t>(first.shape[1]));
    case OpKind::softmax_backward:
      operands[1] =
          result_of(pointwise_case(OpKind::softmax, first.dtype, first.shape[0], first.shape[1]), operands[1]);
      return;
    case OpKind::gather:
    case OpKind::gather_backward:
      return fill_integers(operands[test_case.op().kind == OpKind::gather ? 1 : 0], 0,
                           static_cast<double>(attributes.dims[1]), random);
    case OpKind::lookup:
      return fill_integers(operands[0], 0, size_of_rows(test_case, 1), random);
    case OpKind::max_pool:
      return fill_with_ties(operands[0]);
    case OpKind::max_pool_backward:
      fill_with_ties(operands[1]);
      operands[2] =
          result_of(window_case(OpKind::max_pool, first.dtype, attributes.dims, attributes.image_window), operands[1]);
      return;
    case OpKind::group_norm_backward:
      return prepare_group_norm_backward(test_case, operands);
    case OpKind::batch_norm:  // a variance
      for (double& value : operands[4]) value = value * value + 0.1;
      return;
    case OpKind::batch_statistics:  // 1 / deviation
      for (double& value : operands[1]) value = 0.3 + std::abs(value);
      return;
    case OpKind::row_cross_entropy:
      return fill_targets(test_case, 0, operands, random);
    case OpKind::row_cross_entropy_backward:
      return fill_targets(test_case, 1, operands, random);
    case OpKind::sample_loss:
    case OpKind::sample_loss_backward:
      return fill_counts(operands[0], operands[1]);
    default:
      return;
  }
}

void prepare(const OpCase& test_case, Tensors& operands, std::mt19937_64& random) {
  const bool backward = test_case.op().kind == OpKind::chunk_cross_entropy_backward;
  if (has_rows(test_case)) fill_documents(test_case, operands[test_case.op().inputs.size() - 1], random);
  switch (test_case.op().kind) {
    case OpKind::embedding:
      return fill_integers(operands[0], 0, size_of_rows(test_case, 1), random);
    case OpKind::embedding_backward:
      return fill_integers(operands[0], 0,
                           static_cast<double>(test_case.graph.value(test_case.op().outputs[0]).shape[0]), random);
    case OpKind::linear_cross_entropy:
    case OpKind::linear_cross_entropy_backward:
      fill_integers(operands[2], 0, size_of_rows(test_case, 1), random);
      for (std::size_t row = 2; row < operands[2].size(); row += 5) operands[2][row] = -1;  // not predicted
      return fill_normal(operands[1], 0.3, random);
    case OpKind::embedding_rows:
    case OpKind::embedding_rows_backward:
      return fill_integers(operands[0], 0, end_of_vocabulary(test_case), random);
    case OpKind::softmax_statistics:
    case OpKind::chunk_cross_entropy_backward:
      fill_integers(operands[2], 0, end_of_vocabulary(test_case), random);
      fill_normal(operands[1], 0.3, random);
      prepare_statistics(backward ? operands[3] : operands.back(), operands[2]);
      for (std::size_t i = 0; i < 2; ++i) {
        for (double& value : operands[i]) value = round_to(test_case.graph.values[i].dtype, value);
      }
      if (backward) prepare_chunk_backward(test_case, operands);
      return;
    case OpKind::squared_error:
    case OpKind::squared_error_backward:
      for (std::size_t row = 3; row < operands[1].size(); row += 5) {  // without a target
        operands[1][row] = std::numeric_limits<double>::quiet_NaN();
      }
      return;
    case OpKind::choice_cross_entropy:
    case OpKind::choice_cross_entropy_backward:
      return fill_questions(operands[1], random);
    case OpKind::cached_attention:
      return fill_cached_rows(test_case, operands[1], random);
    case OpKind::cross_entropy:
      prepare_statistics(operands[0], operands[1]);
      for (std::size_t row = 0; row < operands[1].size(); ++row) {
        operands[0][3 * row + 1] += 1;
        if (row % 5 != 2) operands[1][row] = 1;
      }
      return;
    case OpKind::layer_norm_backward:
    case OpKind::layer_norm_backward_add:
      return prepare_layer_norm_backward(test_case, operands);
    case OpKind::rms_norm_backward:
    case OpKind::rms_norm_backward_add:
      return prepare_rms_norm_backward(test_case, operands);
    case OpKind::head_norm_backward:
      return prepare_head_norm_backward(test_case, operands);
    case OpKind::attention_backward:
      return prepare_attention_backward(test_case, operands);
    case OpKind::attention_probabilities_backward:
      return prepare_attention_probabilities_backward(test_case, operands);
    case OpKind::merge_streams:
    case OpKind::read_stream:
    case OpKind::reversible_add:
      for (std::size_t i = 0; i < test_case.op().inputs.size(); ++i) {
        if (test_case.graph.value(test_case.op().inputs[i]).dtype == DType::i32) {
          fill_integers(operands[i], -200000, 200000, random);
        }
      }
      return;
    default:
      return prepare_own(test_case, operands, random);
  }
}

}  // namespace

Tensors make_operands(const OpCase& test_case) {
  std::mt19937_64 random(20);
  const auto& op = test_case.op();
  Tensors operands;
  const auto add = [&](compiler::ValueId id) -> Tensor& {
    return operands.emplace_back(static_cast<std::size_t>(test_case.graph.value(id).shape.elements()));
  };
  const auto round = [&](std::size_t position, compiler::ValueId id) {
    for (double& value : operands[position]) value = round_to(test_case.graph.value(id).dtype, value);
  };
  for (const auto id : op.inputs) {
    fill_normal(add(id), 1, random);
    round(operands.size() - 1, id);
  }
  for (const auto id : op.outputs) {
    Tensor& output = add(id);
    if (test::accumulates(op, operands.size() - 1 - op.inputs.size())) {
      fill_normal(output, 1, random);
    } else {
      std::fill(output.begin(), output.end(), std::numeric_limits<double>::quiet_NaN());
    }
  }
  prepare(test_case, operands, random);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) round(i, op.inputs[i]);
  for (std::size_t i = 0; i < op.outputs.size(); ++i) round(op.inputs.size() + i, op.outputs[i]);
  return operands;
}

}  // namespace l2l::test
