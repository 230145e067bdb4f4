// What RevBiFPN-S0's layers rebuild in their backward visits, against what their forward visits read: layer by layer,
// and from the last one down.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "device/host/host_device.h"
#include "l2l/revbifpn.h"
#include "models/make_model.h"
#include "runtime/options/architecture_defaults.h"

namespace l2l::revbifpn_inverse {
namespace {

using compiler::Region;
using device::BufferView;
using device::Executable;

class Chain {
 public:
  Chain(const std::string& reversible, int extra, DType compute = DType::f32)
      : model_(models::make_model(options(reversible, extra), {.micro_batch = 2, .compute = compute})) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const BufferView image = memory(model_.activation_bytes(model_.block(1)));
    const auto pixels = static_cast<std::int64_t>(image.size / size_of(compute));
    for (std::int64_t i = 0; i < pixels; ++i) write(image, i, normal(random), compute);
    inputs_.push_back(image);
    for (int layer = model_.block(1); layer < model_.head(); ++layer) {
      wires_.push_back(wire_of(layer, compute, random));
      inputs_.push_back(memory(model_.activation_bytes(layer + 1)));
      run(layer, model_.type(layer).forward, inputs_[index(layer)], inputs_.back());
    }
  }

  int first() const { return model_.first_rebuilt; }
  int end() const { return model_.head(); }
  BufferView input(int layer) const { return inputs_[index(layer)]; }
  // The input of `layer`, from its output.
  BufferView rebuilt(int layer, BufferView output) {
    const BufferView result = memory(model_.activation_bytes(layer));
    run(layer, model_.type(layer).backward, output, result);
    return result;
  }

 private:
  static ModelOptions options(const std::string& reversible, int extra) {
    RevbifpnSettings settings = revbifpn_settings(0);
    settings.image = {64, 64};
    settings.extra = extra;
    Options options;
    options.precision.compute = "fp32";
    options.model = revbifpn(settings, reversible);
    return runtime::with_architecture_defaults(options).model;
  }
  std::size_t index(int layer) const { return static_cast<std::size_t>(layer - model_.block(1)); }
  static void write(BufferView memory, std::int64_t element, float value, DType dtype) {
    const bf16 rounded = to_bf16(value);
    const void* const bytes = dtype == DType::f32 ? static_cast<const void*>(&value) : &rounded;
    std::memcpy(memory.data + static_cast<Bytes>(element) * size_of(dtype), bytes, size_of(dtype));
  }
  BufferView memory(Bytes size) {
    buffers_.push_back(device_.allocate(std::max<Bytes>(size, 1), "a test's"));
    std::memset(buffers_.back()->view().data, 0, size);
    return buffers_.back()->view();
  }

  // The layer's initial weights.
  BufferView wire_of(int layer, DType compute, std::mt19937& random) {
    const BufferView wire = memory(model_.wire_bytes(layer));
    std::normal_distribution<float> normal;
    const LayerSpec& spec = model_.layout.layers[static_cast<std::size_t>(layer)];
    for (const LayerPart& part : spec.parts) {
      for (const ParameterSpec& parameter : model_.layout.groups[static_cast<std::size_t>(part.group)].parameters) {
        for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) {
          float value = parameter.initial == Initial::ones ? 1.0f : 0.0f;
          if (parameter.initial == Initial::normal) value = parameter.deviation * normal(random);
          write(wire, part.offset + parameter.offset + i, value, compute);
        }
      }
    }
    return wire;
  }

  void run(int layer, const compiler::Graph& graph, BufferView input, BufferView output) {
    std::unique_ptr<Executable>& program = programs_[&graph];
    if (!program) program = device_.compile(graph);
    device::Bindings bindings;
    for (std::size_t i = 0; i < bindings.regions.size(); ++i) {
      const auto region = static_cast<Region>(i);
      const Bytes bytes =
          region == Region::scratch ? program->program().scratch_bytes : program->program().graph.region_bytes(region);
      if (bytes > 0 && region != Region::weights) bindings[region] = memory(bytes);
    }
    bindings[Region::weights] = wires_[index(layer)];
    bindings[Region::input] = input;
    bindings[Region::output] = output;
    device_.launch(*stream_, *program, bindings, {.layer = static_cast<std::uint32_t>(layer)});
    device_.synchronize(*stream_);
  }

  device::HostDevice device_{2, 0};
  std::unique_ptr<device::Stream> stream_ = device_.create_stream("compute");
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
  const models::Model model_;
  std::map<const compiler::Graph*, std::unique_ptr<Executable>> programs_;
  std::vector<BufferView> wires_, inputs_;  // by block; of the head, too
};

double distance(BufferView a, BufferView b) {
  double difference = 0, sum = 0;
  for (Bytes at = 0; at < a.size; at += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data + at, sizeof x);
    std::memcpy(&y, b.data + at, sizeof y);
    difference += (static_cast<double>(x) - y) * (static_cast<double>(x) - y);
    sum += static_cast<double>(y) * y;
  }
  return std::sqrt(difference / sum);
}

TEST(RevbifpnInverse, OfEachLayerIsItsInputInFp32) {
  Chain chain("float", /*extra=*/2);
  for (int layer = chain.first(); layer < chain.end(); ++layer) {
    const double off = distance(chain.rebuilt(layer, chain.input(layer + 1)), chain.input(layer));
    EXPECT_LT(off, 1e-5) << layer;
    EXPECT_GT(off, 0) << layer << " adds nothing";
  }
}

// How far what is rebuilt has drifted when it has come down to the stem.
TEST(RevbifpnInverse, DriftsLittleOverDepth) {
  for (const int extra : {2, 16}) {
    Chain chain("float", extra);
    BufferView streams = chain.input(chain.end());
    for (int layer = chain.end() - 1; layer >= chain.first(); --layer) streams = chain.rebuilt(layer, streams);
    const double drift = distance(streams, chain.input(chain.first()));
    const int layers = chain.end() - chain.first();
    RecordProperty("drift_over_" + std::to_string(layers) + "_layers", std::to_string(drift));
    EXPECT_LT(drift, 1e-5 * layers);
    EXPECT_GT(drift, 0);
  }
}

TEST(RevbifpnInverse, IsExactInFixedPoint) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    Chain chain("fixed", /*extra=*/2, compute);
    BufferView streams = chain.input(chain.end());
    for (int layer = chain.end() - 1; layer >= chain.first(); --layer) {
      streams = chain.rebuilt(layer, streams);
      const BufferView expected = chain.input(layer);
      EXPECT_EQ(std::memcmp(streams.data, expected.data, expected.size), 0) << layer;
    }
  }
}

}  // namespace
}  // namespace l2l::revbifpn_inverse
