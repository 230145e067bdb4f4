// References of the ops that move elements or repeat them, and of sums over dimensions.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

using FourIndices = std::array<std::size_t, 4>;

FourIndices dims_of(const ReferenceCall& call) {
  FourIndices dims;
  std::copy(call.op.attributes.dims.begin(), call.op.attributes.dims.end(), dims.begin());
  return dims;
}

// Of the element at `place` of an array of `dims`, the last one innermost.
FourIndices indices_of(std::size_t place, const FourIndices& dims) {
  FourIndices indices;
  for (std::size_t i = 4; i-- > 0;) {
    indices[i] = place % dims[i];
    place /= dims[i];
  }
  return indices;
}

// Of the element of `dims` at `place`: its place in the array that has the kept dimensions alone.
std::size_t place_among_kept(const ReferenceCall& call, std::size_t place) {
  const FourIndices dims = dims_of(call), indices = indices_of(place, dims);
  std::size_t among = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    if ((call.op.attributes.kept >> i & 1u) != 0) among = among * dims[i] + indices[i];
  }
  return among;
}

double factor_of(const ReferenceCall& call) { return static_cast<double>(call.op.attributes.factor); }

}  // namespace

void reference_reshape(const ReferenceCall& call) { call[1] = call[0]; }

void reference_pad_columns(const ReferenceCall& call) {
  const auto count = static_cast<std::size_t>(call.shape(0)[1]), width = static_cast<std::size_t>(call.shape(1)[1]);
  const auto first = static_cast<std::size_t>(call.op.attributes.first);
  std::fill(call[1].begin(), call[1].end(), 0.0);
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    call[1][i / count * width + first + i % count] = factor_of(call) * call[0][i];
  }
}

// The number that a float of 16 bits, of which `exponent` are its exponent's, stands for. None is infinite.
static double half_of(std::uint32_t bits, int exponent) {
  const int digits = 15 - exponent, bias = (1 << (exponent - 1)) - 1;
  const auto digit = static_cast<double>(bits & ((1u << digits) - 1)) / (1 << digits);
  const auto power = static_cast<int>(bits >> digits & ((1u << exponent) - 1));
  const double size = power == 0 ? std::ldexp(digit, 1 - bias) : std::ldexp(1 + digit, power - bias);
  return bits >> 15 != 0 ? -size : size;
}

void reference_unpack(const ReferenceCall& call) {
  const bool bytes = call.op.attributes.word_element == WordElement::u8;
  const int exponent = call.op.attributes.word_element == WordElement::f16 ? 5 : 8;
  const auto words = static_cast<std::size_t>(call.shape(0)[1]);
  const std::size_t elements = call[1].size() / static_cast<std::size_t>(call.shape(0)[0]), each = bytes ? 4 : 2;
  for (std::size_t i = 0; i < call[1].size(); ++i) {
    const std::size_t row = i / elements, element = i % elements;
    const auto word = static_cast<std::uint32_t>(static_cast<std::int64_t>(call[0][row * words + element / each]));
    const std::uint32_t bits = word >> 32 / each * (element % each);  // the first one in the lowest bits
    call[1][i] = bytes ? bits & 0xff : half_of(bits & 0xffff, exponent);
  }
}

void reference_permute(const ReferenceCall& call) {
  const FourIndices from = dims_of(call);
  FourIndices to;
  for (std::size_t i = 0; i < 4; ++i) to[i] = from[call.op.attributes.axes[i]];
  for (std::size_t place = 0; place < call[0].size(); ++place) {
    const FourIndices indices = indices_of(place, from);
    std::size_t target = 0;
    for (std::size_t i = 0; i < 4; ++i) target = target * to[i] + indices[call.op.attributes.axes[i]];
    call[1][target] = call[0][place];
  }
}

void reference_broadcast(const ReferenceCall& call) {
  for (std::size_t place = 0; place < call[1].size(); ++place) {
    call[1][place] = factor_of(call) * call[0][place_among_kept(call, place)];
  }
}

void reference_broadcast_backward(const ReferenceCall& call) {
  for (std::size_t place = 0; place < call[0].size(); ++place) {
    call[1][place_among_kept(call, place)] += factor_of(call) * call[0][place];
  }
}

void reference_sum(const ReferenceCall& call) {
  std::fill(call[1].begin(), call[1].end(), 0.0);
  reference_broadcast_backward(call);
}

}  // namespace l2l::test
