#include "runtime/minibatch.h"

#include <cstring>

#include "core/dtype.h"

namespace l2l::runtime {

using device::BufferView;
using transfer::Traffic;

Minibatch::Minibatch(transfer::Link& link, LayerRunner& runner, int microbatches, BufferView staging)
    : link_(link),
      runner_(runner),
      microbatches_(microbatches),
      id_bytes_(runner.tokens()[0].size),
      staging_(staging),
      done_(link.device().create_event()) {}

std::span<std::int32_t> Minibatch::ids(int index) {
  const BufferView view = staging_.slice(static_cast<Bytes>(index) * id_bytes_, id_bytes_);
  return {reinterpret_cast<std::int32_t*>(view.data), view.size / sizeof(std::int32_t)};
}

std::int64_t Minibatch::predicted() {
  std::int64_t count = 0;
  for (int u = 0; u < microbatches_; ++u) {
    for (const std::int32_t target : targets(u)) count += target >= 0 ? 1 : 0;
  }
  return count;
}

void Minibatch::upload() {
  link_.device().annotate(runner_.compute(), -1, -1);
  for (int i = 0; i < 2 * microbatches_; ++i) {
    link_.to_device(Traffic::batch, runner_.compute(), runner_.tokens()[static_cast<std::size_t>(i)],
                    staging_.slice(static_cast<Bytes>(i) * id_bytes_, id_bytes_));
  }
}

// Results lie behind the ids.
BufferView Minibatch::fetch(BufferView source) {
  const Bytes begin = static_cast<Bytes>(2 * microbatches_) * id_bytes_;
  const BufferView destination = staging_.slice(begin, source.size);
  link_.device().annotate(runner_.compute(), -1, -1);
  link_.to_host(Traffic::results, runner_.compute(), destination, source);
  link_.device().record(*done_, runner_.compute());
  link_.device().synchronize(*done_);
  return destination;
}

double Minibatch::loss_sum() {
  double sum = 0;
  for (const BufferView& loss : runner_.losses()) {
    double value = 0;
    std::memcpy(&value, fetch(loss).data, sizeof(value));
    sum += value;
  }
  return sum;
}

void Minibatch::logits(std::span<float> values) {
  const BufferView row = fetch(runner_.logits_row());
  if (runner_.model().compute == DType::f32) {
    std::memcpy(values.data(), row.data, values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    bf16 value;
    std::memcpy(&value, row.data + i * sizeof(value), sizeof(value));
    values[i] = to_float(value);
  }
}

}  // namespace l2l::runtime
