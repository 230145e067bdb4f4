#include "tests/eps/toy.h"
#include "tests/support/parameter_state.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <random>

namespace l2l::eps::testing {
namespace {

ParameterSpec parameter(std::string name, Shape shape, std::int64_t offset, Initial initial) {
  return {.name = std::move(name),
          .shape = shape,
          .offset = offset,
          .decay = initial == Initial::normal,
          .initial = initial,
          .deviation = 0.02f};
}

GroupSpec block(const std::string& name, std::uint32_t id) {
  GroupSpec group{.name = name, .id = id, .parameters = {}, .elements = 19776};
  group.parameters.push_back(parameter(name + ".ln.weight", {13}, 0, Initial::ones));
  group.parameters.push_back(parameter(name + ".fc.weight", {150, 130}, 64, Initial::normal));
  group.parameters.push_back(parameter(name + ".fc.bias", {130}, 19584, Initial::zeros));
  return group;
}

}  // namespace

std::byte* TestMemory::allocate(Bytes size, std::string_view purpose) {
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(4096, align_up(size, 4096)));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, size);
  blocks_.emplace_back(data);
  requests_.push_back({size, std::string(purpose)});
  total_ += size;
  return data;
}

Bytes TestMemory::total_for(std::string_view text) const {
  Bytes sum = 0;
  for (const Request& request : requests_) sum += request.purpose.find(text) != std::string::npos ? request.size : 0;
  return sum;
}

ModelLayout toy_layout() {
  ModelLayout layout;
  layout.groups.push_back({"wte", 100, {parameter("wte.weight", {41, 15}, 0, Initial::normal)}, 640});
  layout.groups.push_back({"wpe", 101, {parameter("wpe.weight", {8, 16}, 0, Initial::normal)}, 128});
  layout.groups.push_back(block("h.0", 0));
  layout.groups.push_back(block("h.1", 1));
  layout.groups.push_back(
      {"ln_f",
       102,
       {parameter("ln_f.weight", {16}, 0, Initial::ones), parameter("ln_f.bias", {16}, 16, Initial::zeros)},
       64});
  layout.layers.push_back({"embedding", 200, {{kTable, 0}, {kPositions, 640}}, 768});
  layout.layers.push_back({"h.0", 0, {{kBlock0, 0}}, 19776});
  layout.layers.push_back({"h.1", 1, {{kBlock1, 0}}, 19776});
  layout.layers.push_back({"head", 201, {{kNorm, 0}, {kTable, 128}}, 768});
  return layout;
}

StoreOptions toy_options() {
  StoreOptions options;
  optimizers::AdamWSettings adamw;
  adamw.weight_decay = 0.1f;
  options.optimizer = adamw;
  options.seed = 7;
  return options;
}

double toy_learning_rate(std::uint64_t step) { return 0.01 / static_cast<double>(step + 1); }

std::vector<float> toy_gradient(const ModelLayout& layout, LayerIndex layer, int device, std::uint64_t step,
                                DType type) {
  const LayerSpec& spec = layout.layers[static_cast<std::size_t>(layer)];
  std::mt19937_64 generator(step * 1000 + static_cast<std::uint64_t>(layer * 10 + device));
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> values(static_cast<std::size_t>(spec.elements), std::numeric_limits<float>::quiet_NaN());
  for (const LayerPart& part : spec.parts) {
    for (const ParameterSpec& parameter : layout.groups[static_cast<std::size_t>(part.group)].parameters) {
      float* const to = values.data() + part.offset + parameter.offset;
      for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) to[i] = normal(generator);
    }
  }
  for (float& value : values) {
    if (type == DType::bf16) value = to_float(to_bf16(value));
    if (type == DType::f16) value = to_float(to_f16(value));
  }
  return values;
}

void store_as(const std::vector<float>& values, DType type, std::byte* destination) {
  if (type == DType::f32) {
    std::memcpy(destination, values.data(), values.size() * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = type == DType::bf16 ? to_bf16(values[i]).bits : to_f16(values[i]).bits;
    std::memcpy(destination + i * sizeof bits, &bits, sizeof bits);
  }
}

void push_gradient(ParameterStore& store, const std::vector<float>& values, DType type, LayerIndex layer, int device,
                   std::optional<double> squares) {
  GradientBuffer buffer = store.gradient_buffer(layer, device);
  store_as(values, type, buffer.data());
  store.push(layer, device, std::move(buffer), squares);
}

void push_all(ParameterStore& store, const StoreOptions& options, std::uint64_t step) {
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    for (int device = 0; device < options.devices; ++device) {
      push_gradient(store, toy_gradient(store.layout(), layer, device, step, options.gradients), options.gradients,
                    layer, device);
    }
  }
}

void run_step(ParameterStore& store, const StoreOptions& options, std::uint64_t step) {
  store.begin_step(step, toy_learning_rate(step));
  push_all(store, options, step);
  store.finish_step();
  store.complete_updates();
}

std::vector<float> whole_state(const ParameterStore& store) {
  std::vector<float> all;
  for (std::size_t group = 0; group < store.layout().groups.size(); ++group) {
    const std::vector<ParameterSpec>& parameters = store.layout().groups[group].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::size_t count = static_cast<std::size_t>(parameters[i].shape.elements());
      const std::size_t begin = all.size(), second = store.moments() == 2 ? count : 0;
      all.resize(begin + 2 * count + second);
      const std::span<float> space = std::span(all).subspan(begin);
      read_state(store, static_cast<GroupIndex>(group), i,
                 {space.subspan(0, count), space.subspan(count, count), space.subspan(2 * count, second)});
    }
  }
  return all;
}

std::vector<std::byte> leased_bytes(const WeightLease& lease) {
  std::vector<std::byte> bytes;
  for (const WirePart& part : lease.parts()) {
    if (bytes.size() < part.offset + part.bytes) bytes.resize(part.offset + part.bytes);
    std::memcpy(bytes.data() + part.offset, part.data, part.bytes);
  }
  return bytes;
}

}  // namespace l2l::eps::testing
