#include "runtime/layer_runner.h"

namespace l2l::runtime {

using device::Bindings;
using device::BufferView;
using device::graph::Region;

LayerRunner::LayerRunner(device::Device& device, const models::Model& model, const Programs& programs,
                         const ArenaPlan& plan, BufferView arena, std::uint64_t seed)
    : device_(device),
      model_(model),
      programs_(programs),
      seed_(seed),
      scratch_(plan.views(ArenaPart::scratch, arena)[0]),
      batch_(plan.views(ArenaPart::batch, arena)),
      losses_(plan.views(ArenaPart::losses, arena)),
      logits_(plan.views(ArenaPart::logits, arena)[0]),
      compute_(device.create_stream("compute")) {}

void LayerRunner::forward(int layer, int microbatch, BufferView wire, BufferView input, BufferView output) {
  Bindings bindings = with_batch(microbatch);
  bindings[Region::weights] = wire;
  bindings[Region::input] = input;
  bindings[Region::output] = output;
  launch(*programs_.of(layer).forward, layer, microbatch, bindings);
}

void LayerRunner::head(int microbatch, BufferView wire, BufferView input, BufferView input_gradient,
                       BufferView gradients) {
  Bindings bindings = with_batch(microbatch);
  bindings[Region::weights] = wire;
  bindings[Region::input] = input;
  bindings[Region::input_gradient] = input_gradient;
  bindings[Region::gradients] = gradients;
  launch(*programs_.of(model_.head()).backward, model_.head(), microbatch, bindings);
}

void LayerRunner::backward(int layer, int microbatch, BufferView wire, BufferView input, BufferView output_gradient,
                           BufferView input_gradient, BufferView gradients) {
  Bindings bindings = with_batch(microbatch);
  bindings[Region::weights] = wire;
  bindings[Region::input] = input;
  bindings[Region::output_gradient] = output_gradient;
  bindings[Region::input_gradient] = input_gradient;
  bindings[Region::gradients] = gradients;
  launch(*programs_.of(layer).backward, layer, microbatch, bindings);
}

void LayerRunner::round_gradients(int layer, BufferView gradients, BufferView drained) {
  Bindings bindings;
  bindings[Region::gradients] = gradients;
  bindings[Region::drained] = drained;
  launch(*programs_.of(layer).drain, layer, 0, bindings);
}

void LayerRunner::loss(int microbatch, BufferView wire, BufferView input) {
  Bindings bindings = with_batch(microbatch);
  bindings[Region::weights] = wire;
  bindings[Region::input] = input;
  launch(*programs_.of(model_.head()).forward, model_.head(), microbatch, bindings);
}

void LayerRunner::logits(BufferView wire, BufferView row) {
  Bindings bindings;
  bindings[Region::weights] = wire;
  bindings[Region::input] = row;
  bindings[Region::output] = logits_;
  launch(programs_.logits(), model_.head(), 0, bindings);
}

Bindings LayerRunner::with_batch(int microbatch) const {
  Bindings bindings;
  const auto u = static_cast<std::size_t>(microbatch);
  bindings[Region::tokens] = batch_[2 * u];
  bindings[Region::targets] = batch_[2 * u + 1];
  bindings[Region::loss] = losses_[u];
  return bindings;
}

void LayerRunner::launch(const device::Executable& program, int layer, int microbatch, Bindings& bindings) {
  bindings[Region::scratch] = scratch_;
  const device::LaunchParameters parameters{seed_,
                                            static_cast<std::uint32_t>(pass_.step),
                                            model_.layout.layers[static_cast<std::size_t>(layer)].id,
                                            static_cast<std::uint32_t>(microbatch),
                                            pass_.loss_scale,
                                            pass_.training};
  device_.annotate(*compute_, layer, microbatch);
  device_.launch(*compute_, program, bindings, parameters);
}

}  // namespace l2l::runtime
