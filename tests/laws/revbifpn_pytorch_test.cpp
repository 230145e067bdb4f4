// RevBiFPN-S0 itself has PyTorch's logits, loss, running statistics and gradients of all parameters
// (tests/fixtures/make_revbifpn_fixture.py, in float64): its graphs, by the float64 references of ops, and the relay in
// fp32. Parameters and images follow from their names, there as here; of a gradient the fixture has the norm and the
// products with three vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include "models/make_model.h"
#include "runtime/options/architecture_defaults.h"
#include "tests/conformance/ops/graph_reference.h"
#include "tests/laws/custom_runs.h"
#include "tests/support/fixture.h"

namespace l2l::revbifpn_pytorch {
namespace {

using compiler::Graph;
using compiler::Region;

constexpr std::int64_t kSide = 64, kImages = 4, kClasses = 1000, kFeatures = 1280;
constexpr std::size_t kProbes = 3;
constexpr double kShare = 0.1;  // by which running statistics move

using Tensor = std::vector<double>;
using Gradients = std::map<std::string, Tensor>;  // by parameter; of running statistics what they are after the step

std::uint64_t seed_of(const std::string& name) {  // FNV-1a
  std::uint64_t seed = 0xCBF29CE484222325u;
  for (const char byte : name) seed = (seed ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return seed;
}

// In [-1, 1), multiples of 2^-23: splitmix64 (Steele et al., 2014) from the name's seed.
std::vector<float> uniform(const std::string& name, std::size_t count) {
  std::vector<float> numbers(count);
  std::uint64_t state = seed_of(name);
  for (float& number : numbers) {
    std::uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    number = static_cast<float>((z ^ (z >> 31)) >> 40) * 0x1p-23f - 1;
  }
  return numbers;
}

// A parameter or running statistic.
std::vector<float> value_of(const std::string& name, const std::vector<std::int64_t>& shape) {
  const std::int64_t elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<float> values = uniform(name, static_cast<std::size_t>(elements));
  float scale = 0.5f, offset = name.ends_with("norm.weight") || name.ends_with("running_var") ? 1.0f : 0.0f;
  if (name.find("classes") != std::string::npos) {
    scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kFeatures)));
  } else if (shape.size() > 1) {
    const std::int64_t fan_out = name.ends_with("depthwise.weight") ? elements : shape[0];
    scale = static_cast<float>(std::sqrt(6 / static_cast<double>(fan_out)));
  } else if (name.ends_with("depthwise.norm.running_var")) {
    scale /= 16;
    offset /= 16;
  }
  for (float& value : values) value = scale * value + offset;  // exact where there is an offset
  return values;
}

std::int32_t class_of(std::int64_t image) { return static_cast<std::int32_t>((389 * image + 7) % kClasses); }

const std::vector<float>& images() {
  static const std::vector<float> all = uniform("image.2", static_cast<std::size_t>(kImages * kSide * kSide * 3));
  return all;
}

double norm_of(const Tensor& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Its norm and products.
std::array<double, 1 + kProbes> summary_of(const std::string& name, const Tensor& values) {
  std::array<double, 1 + kProbes> summary{norm_of(values)};
  for (std::size_t i = 0; i < kProbes; ++i) {
    const std::vector<float> probe = uniform(name + ".probe." + std::to_string(i), values.size());
    summary[1 + i] = std::inner_product(values.begin(), values.end(), probe.begin(), 0.0);
  }
  return summary;
}

ModelOptions model_of(const std::string& reversible) {
  RevbifpnSettings settings = revbifpn_settings(0);
  settings.image = {kSide, kSide};
  settings.dropout = 0;
  return revbifpn(settings, reversible);
}

// "layer 8, silo.2.3: up.2.0.project.norm.bias", of "layers.8.up.2.0.project.norm.bias".
std::string described(const std::string& name) {
  const std::size_t begin = name.find('.') + 1, end = name.find('.', begin);
  const std::string layer = name.substr(begin, end - begin);
  static const std::vector<Layer> layers = model_of("none").blocks;
  return "layer " + layer + ", " + layers.at(std::stoul(layer)).type + ": " + name.substr(end + 1);
}

struct Step {
  double loss = 0;
  Gradients gradients = {};
};

struct Off {
  std::string name;  // described()
  double distance;   // the largest of the norm and the products, relative to the norm
};

// Of distances.
struct Limits {
  double loss = 0, median = 0, most = 0;
  std::size_t above = 0;  // tensors that may be above 1e-5
};

constexpr Limits kFixedInFp32{.loss = 1e-5, .median = 1e-4, .most = 1e-3, .above = 1300};

// "" or what is beyond them. `off`: the largest first.
std::string beyond(const Limits& limits, const std::vector<Off>& off) {
  const auto above = [](const Off& each) { return !(each.distance <= 1e-5); };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(off, above));
  const double median = off[off.size() / 2].distance;
  if (off[0].distance <= limits.most && median <= limits.median && count <= limits.above) return "";
  std::ostringstream text;
  text << "median " << median << ", above 1e-5: " << count << " of " << off.size();
  for (std::size_t i = 0; i < 5; ++i) text << "; " << off[i].name << ": " << off[i].distance;
  return text.str();
}

class Expected {
 public:
  explicit Expected(const std::string& reversible) : prefix_(reversible == "fixed" ? "fixed." : "") {}

  double loss() const { return fixture_.doubles(prefix_ + "loss")[0]; }
  Tensor logits() const { return fixture_.doubles("logits"); }
  Tensor predictions() const { return fixture_.doubles("predictions"); }

  // Of all gradients and running statistics, the largest first; what is no number comes before all others.
  std::vector<Off> distances(const Gradients& found) const {
    const Tensor rows = fixture_.doubles(prefix_ + "gradients");
    if (rows.size() != found.size() * (1 + kProbes)) throw std::runtime_error("other parameters than the fixture's");
    std::vector<Off> all;
    std::map<std::string, double> norms;
    auto expected = rows.begin();
    for (const auto& [name, values] : found) {
      norms[name] = *expected;
      double off = 0;
      for (const double each : summary_of(name, values)) {
        const double between = std::abs(each - *expected++);
        off = std::max(off, std::isfinite(between) ? between : std::numeric_limits<double>::infinity());
      }
      all.push_back({name, off});
    }
    for (auto& [name, off] : all) {
      // The batch norm behind some biases takes out what they add: they are held against the gain beside them.
      const bool zero = norms[name] < 1e-12;
      off /= zero ? norms.at(name.substr(0, name.rfind('.')) + ".weight") : norms[name];
      name = described(name);
    }
    std::ranges::sort(all, std::greater{}, &Off::distance);
    return all;
  }

 private:
  const std::string prefix_;
  const testing::Fixture fixture_{"revbifpn_s0.safetensors"};
};

double distance(const Tensor& found, const Tensor& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  Tensor between(found.size());
  std::ranges::transform(found, expected, between.begin(), std::minus{});
  return norm_of(between) / norm_of(expected);
}

// The model's graphs, each op by its reference.
class InDoubles {
 public:
  explicit InDoubles(const std::string& reversible, bool training = true)
      : model_(model(reversible)), parameters_{.training = training, .loss_scale = 1.0f / kImages} {
    inputs_.emplace_back(images().begin(), images().end());
    for (int layer = model_.block(1); layer < model_.head(); ++layer) inputs_.push_back(run_forward(layer));
  }

  Tensor logits() const { return run_forward(model_.head()); }

  Step train() const {
    Step step;
    Memory memory = bound(model_.head(), inputs_.back());
    run(model_.type(model_.head()).backward, memory);
    step.loss = memory[Region::loss][0] / kImages;
    take_gradients(model_.head(), memory, step.gradients);
    Tensor output = inputs_.back();
    for (int layer = model_.head() - 1; layer >= model_.lowest_visited(); --layer) {
      const Tensor gradient = memory[Region::input_gradient];
      memory = bound(layer, model_.rebuilds(layer) ? output : inputs_[index(layer)]);
      memory[Region::output_gradient] = gradient;
      run(model_.type(layer).backward, memory);
      take_gradients(layer, memory, step.gradients);
      if (model_.rebuilds(layer)) output = memory[Region::output];
    }
    return step;
  }

 private:
  using Memory = test::RegionTensors;

  static models::Model model(const std::string& reversible) {
    Options options;
    options.model = model_of(reversible);
    return models::make_model(runtime::with_architecture_defaults(options).model, {.micro_batch = kImages});
  }
  std::size_t index(int layer) const { return static_cast<std::size_t>(layer - model_.block(1)); }

  // Calls visit(parameter, its first element in the wire).
  template <typename Visit>
  void for_each_parameter(int layer, const Visit& visit) const {
    for (const LayerPart& part : model_.layout.layers[static_cast<std::size_t>(layer)].parts) {
      for (const ParameterSpec& parameter : model_.layout.groups[static_cast<std::size_t>(part.group)].parameters) {
        visit(parameter, part.offset + parameter.offset);
      }
    }
  }

  Memory bound(int layer, const Tensor& input) const {
    Memory memory;
    memory[Region::input] = input;
    memory[Region::weights].resize(static_cast<std::size_t>(model_.wire_bytes(layer) / size_of(DType::f32)));
    for_each_parameter(layer, [&](const ParameterSpec& parameter, std::int64_t first) {
      std::vector<std::int64_t> shape;
      for (std::size_t i = 0; i < parameter.shape.rank(); ++i) shape.push_back(parameter.shape[i]);
      std::ranges::copy(value_of(parameter.name, shape), memory[Region::weights].begin() + first);
    });
    memory[Region::targets].resize(32, 1);  // what images count for lies behind their classes
    for (std::int64_t i = 0; i < kImages; ++i) memory[Region::targets][static_cast<std::size_t>(i)] = class_of(i);
    return memory;
  }

  Tensor run_forward(int layer) const {
    Memory memory = bound(layer, inputs_[index(layer)]);
    run(model_.type(layer).forward, memory);
    return memory[Region::output];
  }

  void take_gradients(int layer, Memory& memory, Gradients& gradients) const {
    for_each_parameter(layer, [&](const ParameterSpec& parameter, std::int64_t first) {
      const auto begin = memory[Region::gradients].begin() + first, end = begin + parameter.shape.elements();
      Tensor& values = gradients[parameter.name] = Tensor(begin, end);
      if (parameter.statistic == 0) return;
      EXPECT_FLOAT_EQ(parameter.statistic, kShare);
      auto before = memory[Region::weights].begin() + first;
      for (double& value : values) value = *before + kShare * (value - *before), ++before;
    });
  }

  void run(const Graph& graph, Memory& memory) const { test::run_graph(graph, memory, parameters_); }

  const models::Model model_;
  const device::LaunchParameters parameters_;
  std::vector<Tensor> inputs_;  // by block; of the head, too
};

Options options_of(const std::string& reversible) {
  Options options = testing::custom_options(model_of(reversible));
  options.batch = {.micro_batch = kImages, .micro_batches = 1};
  options.optimizer.name = "sgd";  // whose moment after one step is the gradient
  options.optimizer.momentum = 0.9;
  options.optimizer.weight_decay = 0;
  options.optimizer.clip = "none";
  options.schedule.kind = "constant";
  options.data.order = "sequential";
  options.data.train_source = options.data.validation_source =
      std::make_shared<CallbackSource>(kImages, 1, [](const SamplePosition& position, const SampleView& sample) {
        const std::size_t size = images().size() / kImages;
        sample.set_input(0, std::span(images()).subspan(position.index * size, size));
        const std::int32_t target[] = {class_of(static_cast<std::int64_t>(position.index))};
        sample.set_target(0, std::span<const std::int32_t>(target));
        return 1;
      });
  return options;
}

class Relay {
 public:
  // `other`: a parameter that has another one's value.
  explicit Relay(const std::string& reversible, const std::string& other = "")
      : options_(options_of(reversible)), trainer_(options_) {
    for (const Parameter& parameter : trainer_.parameters()) {
      const std::string name = parameter.name + (parameter.name == other ? "'" : "");
      trainer_.write_parameter(parameter.name, ParameterPart::value, 0, value_of(name, parameter.shape));
    }
  }

  Tensor predictions() {
    Tensor found;
    trainer_.predict(*options_.data.train_source, [&](std::uint64_t, std::span<const float> values) {
      found.insert(found.end(), values.begin(), values.end());
    });
    return found;
  }

  Step train() {
    Step step{.loss = trainer_.step().loss};
    for (const Parameter& parameter : trainer_.parameters()) {
      std::vector<float> values = value_of(parameter.name, parameter.shape);
      const ParameterPart part = parameter.statistic ? ParameterPart::value : ParameterPart::moment1;
      trainer_.read_parameter(parameter.name, part, 0, values);
      step.gradients[parameter.name].assign(values.begin(), values.end());
    }
    return step;
  }

 private:
  const Options options_;
  Trainer trainer_;
};

class RevbifpnAgainstPyTorch : public ::testing::TestWithParam<const char*> {
 protected:
  void expect_step(const Step& step, const Limits& limits) const {
    EXPECT_NEAR(step.loss / expected_.loss(), 1, limits.loss);
    const std::vector<Off> off = expected_.distances(step.gradients);
    RecordProperty("distances", beyond({}, off));
    EXPECT_EQ(beyond(limits, off), "");
  }

  const Expected expected_{GetParam()};
};

TEST_P(RevbifpnAgainstPyTorch, InDoubles) {
  expect_step(InDoubles(GetParam()).train(), {.loss = 1e-13, .median = 1e-13, .most = 1e-11});
}

// What rounding does to PyTorch's own gradients in fp32, says the fixture's script: 1.0e-5 at most; 5.0e-5 at inputs
// that are rebuilt, in the first layer, the last one to be rebuilt; 1.5e-4 where a stream's last bit is 2^-16.
TEST_P(RevbifpnAgainstPyTorch, InFp32) {
  static const std::map<std::string, Limits> limits = {
      {"none", {.loss = 1e-6, .median = 3e-6, .most = 2e-5, .above = 5}},
      {"float", {.loss = 1e-6, .median = 3e-6, .most = 2e-4, .above = 200}},
      {"fixed", kFixedInFp32}};
  expect_step(Relay(GetParam()).train(), limits.at(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Streams, RevbifpnAgainstPyTorch, ::testing::Values("none", "float", "fixed"),
                         [](const auto& info) { return std::string(info.param); });

// By statistics of the minibatch, which fp32 runs do not hand out, and by the running ones.
TEST(RevbifpnLogits, ArePyTorchs) {
  const Expected expected("none");
  for (const char* const reversible : {"none", "float"}) {
    EXPECT_LT(distance(InDoubles(reversible).logits(), expected.logits()), 1e-12);
    EXPECT_LT(distance(InDoubles(reversible, /*training=*/false).logits(), expected.predictions()), 1e-12);
    EXPECT_LT(distance(Relay(reversible).predictions(), expected.predictions()), 2e-5);
  }
}

// Caught where limits are widest.
TEST(RevbifpnAgainstPyTorchNegativeControl, OneOtherParameterIsCaught) {
  const Step step = Relay("fixed", "layers.9.up.3.1.squeeze.reduce.bias").train();
  const Expected expected("fixed");
  EXPECT_GT(std::abs(step.loss / expected.loss() - 1), kFixedInFp32.loss);
  EXPECT_NE(beyond(kFixedInFp32, expected.distances(step.gradients)), "");
}

// Elements in another order have the same norm.
TEST(RevbifpnAgainstPyTorchNegativeControl, GradientsInAnotherOrderAreCaught) {
  int rotated = 0;
  for (const auto& [name, values] : Relay("none").train().gradients) {
    Tensor other = values;
    std::ranges::rotate(other, other.begin() + 1);
    const double changed = distance(other, values);
    if (changed < 1e-3 || norm_of(values) < 1e-6) continue;
    ++rotated;
    const auto summary = summary_of(name, values), found = summary_of(name, other);
    double most = 0;
    for (std::size_t i = 0; i < summary.size(); ++i) most = std::max(most, std::abs(summary[i] - found[i]));
    EXPECT_GT(most, 1e-2 * changed * norm_of(values)) << described(name);
  }
  EXPECT_GT(rotated, 1000);
}

}  // namespace
}  // namespace l2l::revbifpn_pytorch
