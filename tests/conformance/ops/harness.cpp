#include "tests/conformance/ops/harness.h"

#include <cmath>
#include <cstring>
#include <span>
#include <sstream>

#include "compiler/fusion/unfuse.h"
#include "core/dtype.h"
#include "l2l/errors.h"
#include "tests/conformance/ops/guard.h"

namespace l2l::test {
namespace {

void write_element(std::byte* to, DType dtype, double value) {
  const auto store = [to](auto stored) { std::memcpy(to, &stored, sizeof stored); };
  switch (dtype) {
    case DType::f32:
      return store(static_cast<float>(value));
    case DType::f64:
      return store(value);
    case DType::bf16:
      return store(to_bf16(static_cast<float>(value)));
    case DType::f16:
      return store(to_f16(static_cast<float>(value)));
    case DType::i32:
      return store(static_cast<std::int32_t>(value));
  }
}

template <typename T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

double read_element(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(read_as<float>(from));
    case DType::f64:
      return read_as<double>(from);
    case DType::bf16:
      return static_cast<double>(to_float(read_as<bf16>(from)));
    case DType::f16:
      return static_cast<double>(to_float(read_as<f16>(from)));
    case DType::i32:
      return static_cast<double>(read_as<std::int32_t>(from));
  }
  return 0;
}

// Bytes at an address with the given remainder modulo 64, a guard behind.
struct Guarded {
  std::vector<std::byte> storage;
  std::size_t offset;

  Guarded(std::size_t bytes, std::size_t remainder) : storage(bytes + 128 + kGuardBytes, kGuard) {
    offset = (64 - reinterpret_cast<std::uintptr_t>(storage.data()) % 64) % 64 + remainder;
  }
};

}  // namespace

Memory::Memory(const OpCase& test_case, const Tensors& operands) {
  const auto& op = test_case.op();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_output = i >= op.inputs.size();
    const DType dtype = test_case.graph.value(is_output ? op.outputs[i - op.inputs.size()] : op.inputs[i]).dtype;
    const std::size_t bytes = operands[i].size() * size_of(dtype);
    Guarded guarded(bytes, 16);
    for (std::size_t k = 0; k < operands[i].size(); ++k) {
      write_element(guarded.storage.data() + guarded.offset + k * size_of(dtype), dtype, operands[i][k]);
    }
    blocks_.push_back({std::move(guarded.storage), guarded.offset, bytes, dtype, is_output});
  }
}

std::vector<std::byte*> Memory::pointers() {
  std::vector<std::byte*> pointers;
  for (Block& block : blocks_) pointers.push_back(block.storage.data() + block.offset);
  return pointers;
}

std::vector<std::span<std::byte>> Memory::with_guards() {
  std::vector<std::span<std::byte>> spans;
  for (Block& block : blocks_) spans.emplace_back(block.storage.data() + block.offset, block.bytes + kGuardBytes);
  return spans;
}

Tensors Memory::read() const {
  Tensors tensors;
  for (const Block& block : blocks_) {
    Tensor& tensor = tensors.emplace_back();
    for (std::size_t byte = 0; byte < block.bytes; byte += size_of(block.dtype)) {
      tensor.push_back(read_element(block.storage.data() + block.offset + byte, block.dtype));
    }
  }
  return tensors;
}

std::vector<std::byte> Memory::output_bytes() const {
  std::vector<std::byte> bytes;
  for (const Block& block : blocks_) {
    const auto begin = block.storage.begin() + static_cast<std::ptrdiff_t>(block.offset);
    if (block.is_output) bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(block.bytes));
  }
  return bytes;
}

void Memory::check_guards() const {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (!intact(blocks_[i].storage.data() + blocks_[i].offset + blocks_[i].bytes)) {
      throw Error("operand " + std::to_string(i) + " was written behind its end");
    }
  }
}

bool has_rounded_weights(const OpCase& test_case) {
  switch (const compiler::OpKind kind = test_case.op().kind) {
    case compiler::OpKind::attention:
    case compiler::OpKind::attention_backward:
    case compiler::OpKind::attention_probabilities:
    case compiler::OpKind::attention_probabilities_backward:
    case compiler::OpKind::attention_mix:
    case compiler::OpKind::attention_mix_backward:
      return rounds_attention_weights(kind, test_case.graph.values[0].dtype);
    default:
      return false;
  }
}

namespace {

struct Tolerance {
  double l2, element;  // relative: to the norm, and to the larger of the element and the root mean square
};

// f32 sums differ from float64 by rounding; a bf16 result is the nearest to within its 8 significant bits, an f16 one
// within its 11. Rounded dlogits, and what a fused op hands from part to part, may fall to the other side of a tie,
// which sums in f32 show. Attention that multiplies rounded weights adds their errors, which are as large as the
// result's own on the whole, and on one element of thousands four standard deviations or more. Of TF32 each factor is
// off by up to 2^-11, q, k and v included; where dy v and dy y nearly cancel, what is left has the error of both.
Tolerance tolerance_of(const OpCase& test_case, const compiler::Value& value) {
  const DType dtype = value.dtype;
  if (has_rounded_weights(test_case)) {
    if (test_case.graph.values[0].dtype == DType::f32) return {1e-3, 8e-3};
    if (dtype == DType::bf16) return {3e-3, 1.6e-2};
    if (dtype == DType::f16) return {4.9e-4, 2e-3};
  }
  // The roundings of few different values do not average out: up to half a unit in the last place, 2^-8.
  using compiler::OpKind;
  const OpKind kind = test_case.op().kind;
  const bool few = value.shape.elements() == 1 || kind == OpKind::broadcast || kind == OpKind::sum ||
                   kind == OpKind::softmax || kind == OpKind::unpack;
  if (dtype == DType::bf16 && few) return {3.95e-3, 8.1e-3};
  if (dtype == DType::bf16) return {2.5e-3, 8.1e-3};
  if (dtype == DType::f16) return {4.9e-4, 1.1e-3};
  const bool through_rounded = compiler::is_fused(kind) || kind == OpKind::linear_cross_entropy_backward ||
                               kind == OpKind::chunk_cross_entropy_backward;
  if (through_rounded && dtype == DType::f32) {
    if (test_case.graph.values[0].dtype == DType::bf16) return {5e-4, 5e-3};
    if (test_case.graph.values[0].dtype == DType::f16) return {8e-5, 8e-4};
  }
  return {1e-5, 1e-4};
}

double root_mean_square(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// `row`: elements per row, where an element is held against its row's typical size if that is the larger; 0: nowhere.
std::string compare_tensor(const Tensor& expected, const Tensor& actual, Tolerance tolerance, std::size_t row) {
  double norm = 0, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    norm += expected[i] * expected[i];
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  }
  double typical = root_mean_square(expected);
  const double least = typical;
  std::ostringstream text;
  if (!(std::sqrt(difference) <= tolerance.l2 * std::sqrt(norm) + 1e-30)) {
    text << "relative L2 error " << std::sqrt(difference / norm) << " > " << tolerance.l2 << "; ";
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (row > 0 && i % row == 0) typical = std::max(least, root_mean_square(std::span(expected).subspan(i, row)));
    const double allowed = tolerance.element * std::max(std::abs(expected[i]), typical) + 1e-30;
    if (std::abs(actual[i] - expected[i]) <= allowed) continue;
    text << "element " << i << " of " << expected.size() << " is " << actual[i] << ", expected " << expected[i];
    break;
  }
  return text.str();
}

}  // namespace

std::string compare(const OpCase& test_case, const Tensors& expected, const Tensors& actual) {
  const auto& op = test_case.op();
  for (std::size_t i = op.inputs.size(); i < expected.size(); ++i) {
    const compiler::Value& value = test_case.graph.value(op.outputs[i - op.inputs.size()]);
    // The first keys of causal attention have far larger gradients than the others.
    const std::size_t row = has_rounded_weights(test_case) ? static_cast<std::size_t>(value.shape[1]) : 0;
    const std::string text = compare_tensor(expected[i], actual[i], tolerance_of(test_case, value), row);
    if (!text.empty()) return "output " + std::to_string(i - op.inputs.size()) + ": " + text;
  }
  return "";
}

}  // namespace l2l::test
