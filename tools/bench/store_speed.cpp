#include "tools/bench/store_speed.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "core/trace.h"

namespace l2l::tools {
namespace {

constexpr std::int64_t kWidth = 1024;
constexpr double kStoreLearningRate = 1e-6;
constexpr double kSquares = 1;  // as if computed by a device, so that no check reads the gradients

// Layers of one matrix and one bias each.
ModelLayout layout_of(std::int64_t parameters, std::int64_t layer_parameters) {
  ModelLayout layout;
  const std::int64_t rows = std::max<std::int64_t>(2, std::min(parameters, layer_parameters) / kWidth);
  const std::int64_t elements = rows * kWidth;
  for (std::int64_t first = 0; first == 0 || first + elements <= parameters; first += elements) {
    const auto index = static_cast<std::uint32_t>(layout.layers.size());
    const std::string name = "layer" + std::to_string(index);
    GroupSpec group{.name = name, .id = index, .parameters = {}, .elements = elements};
    group.parameters.push_back(
        {.name = name + ".weight", .shape = {rows - 1, kWidth}, .offset = 0, .decay = true, .initial = Initial::ones});
    group.parameters.push_back({.name = name + ".bias", .shape = {kWidth}, .offset = elements - kWidth});
    layout.groups.push_back(std::move(group));
    layout.layers.push_back({name, index, {{static_cast<GroupIndex>(index)}}, elements});
  }
  return layout;
}

eps::StoreOptions with_staging(eps::StoreOptions options, const ModelLayout& layout) {
  options.staging_slots = static_cast<int>(layout.layers.size()) * options.devices;
  return options;
}

}  // namespace

Bytes StoreBench::bytes(std::int64_t parameters, std::int64_t layer_parameters, const eps::StoreOptions& options) {
  const ModelLayout layout = layout_of(parameters, layer_parameters);
  const eps::StoreBytes bytes = eps::ParameterStore::bytes_needed(layout, with_staging(options, layout));
  return bytes.from_source();
}

StoreBench::StoreBench(std::int64_t parameters, std::int64_t layer_parameters, const eps::StoreOptions& options,
                       eps::MemorySource& memory) {
  ModelLayout layout = layout_of(parameters, layer_parameters);
  const eps::StoreOptions all = with_staging(options, layout);
  store_ = std::make_unique<eps::ParameterStore>(std::move(layout), all, memory, failure_, nullptr);
  fill_gradients();
}

// Takes all buffers at once, so that each is filled; they keep their contents when they are returned.
void StoreBench::fill_gradients() {
  std::vector<eps::GradientBuffer> buffers;
  const auto layers = static_cast<LayerIndex>(store_->layout().layers.size());
  for (LayerIndex layer = 0; layer < layers; ++layer) {
    buffers.push_back(store_->gradient_buffer(layer, 0));
    // 1e-3 in bf16, twice; a harmless number in the other types too.
    std::fill_n(reinterpret_cast<std::uint32_t*>(buffers.back().data()), buffers.back().bytes() / 4, 0x3a833a83u);
  }
}

std::uint64_t StoreBench::updates() const {
  std::uint64_t updates = 0;
  const auto groups = static_cast<GroupIndex>(store_->layout().groups.size());
  for (GroupIndex group = 0; group < groups; ++group) updates += store_->update_count(group);
  return updates;
}

double StoreBench::step() {
  const Clock::time_point begin = Clock::now();
  store_->begin_step(steps_, kStoreLearningRate);
  for (auto layer = static_cast<LayerIndex>(store_->layout().layers.size()); layer-- > 0;) {
    store_->push(layer, 0, store_->gradient_buffer(layer, 0), kSquares);
  }
  store_->finish_step();
  store_->complete_updates();
  ++steps_;
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace l2l::tools
