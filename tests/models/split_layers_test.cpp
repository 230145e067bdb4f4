// A model that is split over devices is the whole model: loss and gradients of a step, by the float64 references of
// ops.
#include "models/split_layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/philox.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/make_model.h"
#include "tests/conformance/ops/graph_reference.h"

namespace l2l::models {
namespace {

using compiler::Graph;
using compiler::OpKind;
using compiler::Region;
using l2l::test::RegionTensors;
using l2l::test::Tensor;

using Tensors = std::map<std::string, Tensor>;  // by parameter

constexpr std::int64_t kMicroBatch = 2, kSequence = 12;

ModelOptions options_of(const std::string& architecture) {
  ModelOptions options;
  options.architecture = architecture;
  options.layers = 2;
  options.hidden = 64;
  options.heads = 8;
  options.intermediate = 48;
  options.vocabulary = 61;  // of which the last device has fewer
  options.sequence = kSequence;
  options.dropout = architecture == "gpt2" || architecture == "bert" || architecture == "roberta" ? 0.2 : 0;
  return options;
}

bool groups_heads(const ModelOptions& options) {
  return options.architecture != "gpt2" && options.architecture != "bert" && options.architecture != "roberta";
}

// What of a step may differ.
struct Way {
  int devices = 1;
  bool packed = false;
  bool whole_rows = false;  // tensor parallelism alone
  // Negative controls: whose dropout masks all draw, if not each its own; gradients of what several devices have are
  // those of the first.
  int masks = -1;
  bool only_first = false;
};

Model model_of(const ModelOptions& options, compiler::Shard shard, const Way& way = {}) {
  // Whole, the table is one layer.
  return make_model(options, {.micro_batch = kMicroBatch,
                              .vocabulary_chunk = options.vocabulary,
                              .packed = way.packed,
                              .shard = shard,
                              .whole_rows = way.whole_rows});
}

// Of neighbours that have a parameter alike.
bool is_first(const ParameterSpec& parameter, int device) {
  return parameter.share ? device % parameter.share->devices == 0 : device == 0;
}

double number(std::uint32_t op, std::int64_t i) {
  return static_cast<double>(to_uniform(philox({.seed = 11, .op = op}, static_cast<std::uint32_t>(i))[0])) - 0.5;
}

// Values of all parameters of a whole model, such that no op is at an end of its range.
Tensors drawn(const Model& model) {
  Tensors values;
  std::uint32_t op = 0;
  for (const GroupSpec& group : model.layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      Tensor& value = values[parameter.name];
      ++op;
      for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) {
        value.push_back((parameter.initial == Initial::ones ? 1 : 0) + 0.4 * number(op, i));
      }
    }
  }
  return values;
}

// The devices of a model and what they have of one step.
class Step {
 public:
  Step(const ModelOptions& options, const Tensors& values, const Way& way = {}) : way_(way) {
    for (int i = 0; i < way.devices; ++i) {
      models_.push_back(model_of(options, {way.devices, i}, way));
      if (way.masks >= 0) draw_as(way.masks, models_.back());
    }
    const Model& model = models_[0];
    std::vector<RegionTensors> last = run(0, &LayerType::forward, values, {});
    std::vector<std::vector<Tensor>> inputs(static_cast<std::size_t>(model.layers()));
    for (int layer = 1; layer < model.layers(); ++layer) {
      inputs[static_cast<std::size_t>(layer)] = results(last);
      const auto pass = layer == model.head() ? &LayerType::backward : &LayerType::forward;
      last = run(layer, pass, values, inputs[static_cast<std::size_t>(layer)]);
    }
    loss = last[0][Region::loss][0];
    for (const RegionTensors& device : last) EXPECT_EQ(device[Region::loss][0], loss);
    take_gradients(model.head(), last);
    for (int layer = model.head() - 1; layer >= 0; --layer) {
      std::vector<Tensor> gradients;
      for (RegionTensors& device : last) gradients.push_back(std::move(device[Region::input_gradient]));
      last = run(layer, &LayerType::backward, values, inputs[static_cast<std::size_t>(layer)], gradients);
      take_gradients(layer, last);
    }
  }

  double loss = 0;
  Tensors gradients;  // of whole parameters
  const std::vector<Model>& models() const { return models_; }

 private:
  static void draw_as(int device, Model& model) {
    for (LayerType& type : model.types) {
      for (Graph* const graph : {&type.forward, &type.backward}) {
        for (compiler::Op& op : graph->ops) {
          if (op.attributes.probability > 0) op.attributes.shard.index = device;
        }
      }
    }
  }

  // A table's rows in a chunk of their own end in the carry.
  static std::vector<Tensor> results(std::vector<RegionTensors>& memories) {
    std::vector<Tensor> results;
    for (RegionTensors& memory : memories) {
      Tensor& output = memory[Region::output];
      results.push_back(output.empty() ? std::move(memory[Region::carry]) : std::move(output));
    }
    return results;
  }

  std::vector<RegionTensors> run(int layer, Graph LayerType::*pass, const Tensors& values,
                                 const std::vector<Tensor>& inputs, const std::vector<Tensor>& gradients = {}) {
    std::vector<RegionTensors> memories(models_.size());
    std::vector<const Graph*> graphs;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      graphs.push_back(&(models_[i].type(layer).*pass));
      bind_weights(models_[i], layer, values, memories[i][Region::weights]);
      if (!inputs.empty()) memories[i][Region::input] = inputs[i];
      if (!gradients.empty()) memories[i][Region::output_gradient] = gradients[i];
      bind_sample(memories[i]);
    }
    l2l::test::run_split_graphs(graphs, memories, {.seed = 5, .step = 2, .layer = static_cast<std::uint32_t>(layer)});
    return memories;
  }

  // Two documents in each sequence, where they are packed.
  void bind_sample(RegionTensors& memory) const {
    constexpr std::int64_t kRows = kMicroBatch * kSequence, kFirst = 5;
    for (std::int64_t row = 0; row < kRows; ++row) {
      memory[Region::tokens].push_back(static_cast<double>(row * 17 % 61));
      memory[Region::targets].push_back(row == 7 ? -1 : static_cast<double>(row * 23 % 61));
    }
    if (!way_.packed) return;
    for (const auto field : {compiler::RowField::position, compiler::RowField::begin, compiler::RowField::end,
                             compiler::RowField::token_type}) {
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::int64_t place = row % kSequence, begin = place < kFirst ? 0 : kFirst;
        const std::int64_t of_fields[] = {place - begin, begin, place < kFirst ? kFirst : kSequence, place % 2};
        memory[Region::rows].push_back(static_cast<double>(of_fields[static_cast<std::size_t>(field)]));
      }
    }
  }

  // Calls visit(parameter, its first element in the layer's wire).
  template <typename Visit>
  static void for_each_parameter(const Model& model, int layer, const Visit& visit) {
    const ModelLayout& layout = model.device_layout();
    for (const LayerPart& part : layout.layers[static_cast<std::size_t>(layer)].parts) {
      for (const ParameterSpec& parameter : layout.groups[static_cast<std::size_t>(part.group)].parameters) {
        visit(parameter, static_cast<std::size_t>(part.offset + parameter.offset));
      }
    }
  }

  // Calls visit(element of the share, element of the whole parameter).
  template <typename Visit>
  static void for_each_element(const ParameterSpec& parameter, const Visit& visit) {
    for (const SharedBlock& block : shared_blocks(parameter)) {
      for (std::int64_t row = 0; row < block.rows; ++row) {
        for (std::int64_t column = 0; column < block.columns; ++column) {
          visit(static_cast<std::size_t>(block.own + row * block.own_stride + column),
                static_cast<std::size_t>(block.whole + row * block.whole_stride + column));
        }
      }
    }
  }

  static void bind_weights(const Model& model, int layer, const Tensors& values, Tensor& wire) {
    wire.resize(static_cast<std::size_t>(model.wire_bytes(layer) / size_of(model.compute)));
    for_each_parameter(model, layer, [&](const ParameterSpec& parameter, std::size_t first) {
      const Tensor& whole = values.at(parameter.name);
      for_each_element(parameter, [&](std::size_t own, std::size_t at) { wire[first + own] = whole[at]; });
    });
  }

  // Of what one device has, its own; of what several have, the sum.
  void take_gradients(int layer, const std::vector<RegionTensors>& memories) {
    for (std::size_t i = 0; i < models_.size(); ++i) {
      for_each_parameter(models_[i], layer, [&](const ParameterSpec& parameter, std::size_t first) {
        if (way_.only_first && !is_first(parameter, static_cast<int>(i))) return;
        const Shape& whole = parameter.share ? parameter.share->whole : parameter.shape;
        Tensor& sums = gradients[parameter.name];
        sums.resize(static_cast<std::size_t>(whole.elements()));
        for_each_element(parameter, [&](std::size_t own, std::size_t at) {
          sums[at] += memories[i][Region::gradients][first + own];
        });
      });
    }
  }

  const Way way_;
  std::vector<Model> models_;
};

// The largest difference of two steps' gradients, relative to each parameter's largest; and of the losses.
double difference(const Step& a, const Step& b) {
  double largest = std::abs(a.loss - b.loss) / std::abs(b.loss);
  EXPECT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, expected] : b.gradients) {
    const Tensor& actual = a.gradients.at(name);
    double scale = 0, error = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      scale = std::max(scale, std::abs(expected[i]));
      error = std::max(error, std::abs(actual.at(i) - expected[i]));
    }
    largest = std::max(largest, error / std::max(scale, 1e-3));  // that of BERT's biases of keys is 0
  }
  return largest;
}

class SplitModels : public ::testing::TestWithParam<std::string> {};

// With `way` over 2, 4 and 8 devices.
void expect_whole(const ModelOptions& options, Way way) {
  const Tensors values = drawn(model_of(options, {}, {.packed = way.packed}));
  const Step whole(options, values, {.packed = way.packed});
  for (const int devices : {2, 4, 8}) {
    way.devices = devices;
    EXPECT_LT(difference(Step(options, values, way), whole), 1e-12) << devices << ", " << way.packed;
  }
}

TEST_P(SplitModels, AreTheWholeModel) {
  const ModelOptions options = with_defaults(options_of(GetParam()));
  for (const bool packed : {false, true}) expect_whole(options, {.packed = packed});
}

TEST_P(SplitModels, AreTheWholeModelWithAllRowsOnEachDevice) {
  const ModelOptions options = with_defaults(options_of(GetParam()));
  for (const bool packed : {false, true}) expect_whole(options, {.packed = packed, .whole_rows = true});
}

// Heads of keys and values that several heads of queries share: as many on each device, or one that several have.
TEST_P(SplitModels, AreTheWholeModelWithGroupedHeads) {
  ModelOptions options = with_defaults(options_of(GetParam()));
  if (!groups_heads(options)) GTEST_SKIP() << "each head has its own keys and values";
  for (const std::int64_t heads : {4, 2, 1}) {
    options.kv_heads = heads;
    for (const bool packed : {false, true}) expect_whole(options, {.packed = packed});
    expect_whole(options, {.whole_rows = true});
  }
}

// What all devices have of rows and parameters is what one has, and 1/T of what is split.
TEST_P(SplitModels, HaveSharesOfParametersAndActivations) {
  ModelOptions options = with_defaults(options_of(GetParam()));
  for (const std::int64_t heads : {8, 2, 1}) {
    if (heads < 8 && !groups_heads(options)) break;
    if (groups_heads(options)) options.kv_heads = heads;
    const Model whole = model_of(options, {});
    std::int64_t parameters = 0, copies = 0;
    for (int i = 0; i < 4; ++i) {
      const Model share = model_of(options, {4, i});
      EXPECT_NO_THROW(share.shares->validate());
      EXPECT_EQ(share.layout.parameters(), whole.layout.parameters());
      EXPECT_EQ(share.layers(), whole.layers());
      EXPECT_EQ(4 * share.activation_bytes(share.block(1)), whole.activation_bytes(whole.block(1)));
      for (const GroupSpec& group : share.shares->groups) {
        for (const ParameterSpec& parameter : group.parameters) {
          (parameter.share || i == 0 ? parameters : copies) += parameter.shape.elements();
          if (!is_first(parameter, i) && parameter.share) parameters -= parameter.shape.elements();
        }
      }
    }
    EXPECT_EQ(parameters, whole.layout.parameters()) << heads;
    EXPECT_LT(copies, parameters / 2);  // norms, biases of sums, positions, BERT's dense layer before the table
  }
}

// Of 8 heads of queries and 2 of keys and values, each of 4 devices has 2 and 1.
TEST_P(SplitModels, HaveTheKeysOfTheirQueries) {
  ModelOptions options = with_defaults(options_of(GetParam()));
  if (!groups_heads(options)) GTEST_SKIP() << "each head has its own keys and values";
  options.kv_heads = 2;
  for (int i = 0; i < 4; ++i) {
    const Model share = model_of(options, {4, i});
    int seen = 0;
    for (const GroupSpec& group : share.shares->groups) {
      for (const ParameterSpec& parameter : group.parameters) {
        if (!parameter.name.ends_with("k_proj.weight") && !parameter.name.ends_with("v_proj.weight")) continue;
        const std::int64_t size = options.head_dim;
        EXPECT_EQ(parameter.shape[0], size) << parameter.name;
        EXPECT_EQ(parameter.share->ranges[0].first, i < 2 ? 0 : size) << parameter.name;
        EXPECT_EQ(parameter.share->devices, 2) << parameter.name;
        ++seen;
      }
    }
    EXPECT_EQ(seen, 2 * options.layers);
  }
}

// Two all-gathers and two reduce-scatters in a block's forward pass, as many in its backward pass (Korthikanti et al.,
// Figure 5), and what the backward pass gathers again. With all rows on each device (Figure 4), what both exchange is
// two sums, each a reduce-scatter and an all-gather.
TEST_P(SplitModels, ExchangeFourTimesInEachPassOfABlock) {
  const auto count = [](const Graph& graph, OpKind kind) {
    return std::ranges::count_if(graph.ops, [&](const compiler::Op& op) { return op.kind == kind; });
  };
  // Everything is computed again but the block's result, and with it the last sum.
  const bool ends_with_a_sum = GetParam() == "gpt2" || GetParam().starts_with("llama") ||
                               GetParam().starts_with("mistral") || GetParam().starts_with("qwen");
  const int sums_again = ends_with_a_sum ? 1 : 2;
  for (const bool whole_rows : {false, true}) {
    const Model share = model_of(with_defaults(options_of(GetParam())), {2, 0}, {.whole_rows = whole_rows});
    const LayerType& block = share.type(share.head() - 1);
    EXPECT_EQ(count(block.forward, OpKind::all_gather_rows), 2);
    EXPECT_EQ(count(block.forward, OpKind::reduce_scatter_rows), 2);
    EXPECT_EQ(count(block.backward, OpKind::all_gather_rows), 2 + (whole_rows ? sums_again : 2));
    EXPECT_EQ(count(block.backward, OpKind::reduce_scatter_rows), 2 + sums_again);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SplitModels,
                         ::testing::Values("gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2",
                                           "gemma3"),
                         [](const auto& family) { return family.param; });

TEST(SplitModelsControl, AnotherDevicesMasksAreNoticed) {
  const ModelOptions options = with_defaults(options_of("gpt2"));
  const Tensors values = drawn(model_of(options, {}));
  const Step whole(options, values);
  EXPECT_GT(difference(Step(options, values, {.devices = 2, .masks = 0}), whole), 1e-3);
}

TEST(SplitModelsControl, AMissingSumIsNoticed) {
  ModelOptions options = with_defaults(options_of("llama"));
  options.kv_heads = 1;
  const Tensors values = drawn(model_of(options, {}));
  const Step whole(options, values), split(options, values, {.devices = 2, .only_first = true});
  EXPECT_GT(difference(split, whole), 1e-3);
  const std::string keys = "model.layers.0.self_attn.k_proj.weight";
  EXPECT_NE(split.gradients.at(keys), whole.gradients.at(keys));
}

TEST(SplitModelsControl, RefuseWhatCannotBeSplit) {
  const auto refusal = [](const std::function<void(ModelOptions&)>& change, int devices = 4) -> std::string {
    ModelOptions options = options_of("gpt2");
    change(options);
    try {
      model_of(with_defaults(options), {devices, 0});
    } catch (const BadInput& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](ModelOptions&) {}), "");
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal([](ModelOptions& model) { model.heads = 2; }), "2 heads (model.heads) cannot be split over 4 devices");
  const auto grouped = [](ModelOptions& model) {
    model.architecture = "llama";
    model.dropout = 0;
    model.heads = 12;
    model.head_dim = 8;
    model.kv_heads = 6;
  };
  expect(refusal(grouped), "6 heads of keys and values (model.kv_heads) cannot be split over 4 devices");
  expect(refusal([](ModelOptions& model) { model.intermediate = 50; }), "50 columns of the MLP");
  expect(refusal([](ModelOptions& model) { model.vocabulary = 17; }), "a vocabulary of 17 tokens");
  expect(refusal([](ModelOptions& model) { model.attention = "core"; }), "model.attention = \"core\"");
  expect(refusal([](ModelOptions& model) { model.reversible = "float"; }), "model.reversible is set");
  expect(refusal([](ModelOptions& model) { model.sequence = 13; }), "26 rows of a microbatch");
}

}  // namespace
}  // namespace l2l::models
