// Values of up to eight dimensions: permuted, summed and repeated as loops over their elements do it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/laws/custom_models.h"
#include "tests/support/fixture.h"
#include "tests/support/refusal.h"

namespace l2l::dimensions {
namespace {

using testing::Values;
using testing::ValueSpan;
using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Element by element: of each index of the result, where in `x` its terms lie. What the library makes of a sample.
struct Array {
  Sizes sizes;
  std::vector<double> values;

  std::size_t offset(const Sizes& index) const {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) at = at * sizes[i] + (sizes[i] == 1 ? 0 : index[i]);
    return static_cast<std::size_t>(at);
  }
};

Array array(const Sizes& sizes) { return {sizes, std::vector<double>(static_cast<std::size_t>(product(sizes)))}; }

template <typename Visit>
void each_index(const Sizes& sizes, const Visit& visit) {
  Sizes index(sizes.size(), 0);
  for (std::int64_t left = product(sizes); left > 0; --left) {
    visit(index);
    for (std::size_t i = sizes.size(); i-- > 0 && ++index[i] == sizes[i];) index[i] = 0;
  }
}

Array permuted(const Array& x, const std::vector<int>& axes) {  // axes of a value, whose dimension 0 is the sample
  Sizes sizes;
  for (std::size_t i = 1; i < axes.size(); ++i) sizes.push_back(x.sizes[static_cast<std::size_t>(axes[i]) - 1]);
  Array y = array(sizes);
  each_index(sizes, [&](const Sizes& index) {
    Sizes from(index.size());
    for (std::size_t i = 0; i < index.size(); ++i) from[static_cast<std::size_t>(axes[i + 1]) - 1] = index[i];
    y.values[y.offset(index)] = x.values[x.offset(from)];
  });
  return y;
}

Array summed(const Array& x, const std::vector<int>& dimensions) {
  Sizes sizes = x.sizes;
  for (const int each : dimensions) sizes[static_cast<std::size_t>(each) - 1] = 1;
  Array y = array(sizes);
  each_index(x.sizes, [&](const Sizes& index) { y.values[y.offset(index)] += x.values[x.offset(index)]; });
  return y;
}

Array added(const Array& a, const Array& b) {
  Sizes sizes;
  for (std::size_t i = 0; i < a.sizes.size(); ++i) sizes.push_back(std::max(a.sizes[i], b.sizes[i]));
  Array y = array(sizes);
  each_index(sizes, [&](const Sizes& index) {
    y.values[y.offset(index)] = a.values[a.offset(index)] + b.values[b.offset(index)];
  });
  return y;
}

// One case: x, weighted, is permuted, summed over some dimensions, and added to the permuted x.
struct Case {
  Sizes sizes;
  std::vector<int> axes, dimensions;
};

Array expected(const Array& x, const Case& c) {
  const Array turned = permuted(x, c.axes);
  return added(turned, summed(turned, c.dimensions));
}

Options options_of(const Case& c) {
  Options options;
  options.precision.compute = "fp32";
  options.model.architecture = "custom";
  options.model.inputs = {{.name = "x", .shape = c.sizes}};
  options.model.targets = {{.name = "y", .shape = {product(c.sizes)}}};
  options.model.loss = testing::squared_loss(1);
  options.model.blocks = {
      testing::layer(0, "weigh",
                     [](LayerBuilder& graph, ValueSpan x) -> Values {
                       const std::int64_t columns = graph.columns(x[0]);
                       return {graph.multiply(x[0], graph.vector("gain", columns, Distribution::ones()))};
                     }),
      testing::layer(1, "turn", [c](LayerBuilder& graph, ValueSpan x) -> Values {
        const Value turned = graph.permute(x[0], c.axes);
        const Value y = graph.add(turned, graph.sum(turned, c.dimensions));
        return {graph.multiply(graph.reshape(y, {product(c.sizes)}), graph.vector("out", 1, Distribution::ones()))};
      })};
  options.data.train_source = options.data.validation_source = testing::drawn_samples(6);
  options.device.kind = testing::test_device();
  options.batch = {.micro_batch = 3, .micro_batches = 2};
  options.optimizer = {.name = "sgd", .learning_rate = 1e-5, .momentum = 0, .weight_decay = 0};
  options.recompute.policy = "full";
  return options;
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {{2, 3, 2, 2, 3, 2, 2}, {0, 7, 6, 5, 4, 3, 2, 1}, {1, 3, 5, 7}},  // nothing stays beside its neighbour
      {{2, 3, 2, 2, 3, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7}, {2, 4, 6}},
      {{2, 3, 4, 5, 2}, {0, 3, 4, 5, 1, 2}, {1, 2, 3}},  // two runs
      {{1, 3, 1, 2, 1, 4, 1}, {0, 6, 1, 4, 7, 2, 3, 5}, {1, 4}},
      {{2, 1, 2, 1, 2, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {1, 3, 5, 7}},
      {{3, 4}, {0, 2, 1}, {1}},
  };
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    Case c;
    for (std::size_t k = 0, rank = 4 + random() % 4; k < rank; ++k) {
      c.sizes.push_back(1 + static_cast<std::int64_t>(random() % 3));
      c.axes.push_back(static_cast<int>(k) + 1);
    }
    std::shuffle(c.axes.begin(), c.axes.end(), random);
    c.axes.insert(c.axes.begin(), 0);
    for (std::size_t k = 1; k <= c.sizes.size(); ++k) {
      if (random() % 2 == 0) c.dimensions.push_back(static_cast<int>(k));
    }
    if (c.dimensions.empty()) c.dimensions.push_back(1);
    all.push_back(c);
  }
  return all;
}

TEST(Dimensions, AreTreatedAsLoopsTreatThem) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::PrintToString(c.sizes) + ::testing::PrintToString(c.axes) +
                 ::testing::PrintToString(c.dimensions));
    std::vector<Array> results(6);
    const auto source = std::make_shared<CallbackSource>(6, 1, [&](const SamplePosition& p, const SampleView& sample) {
      Array x = array(c.sizes);
      std::mt19937 random(static_cast<std::uint32_t>(p.index));
      std::vector<float> numbers;
      for (double& value : x.values) {
        numbers.push_back(static_cast<float>(random() % 256) / 128);
        value = numbers.back();
      }
      results[p.index] = expected(x, c);
      sample.set_input(0, numbers);
      sample.set_target(0, std::vector<float>(numbers.size()));
      return 1;
    });
    Trainer trainer(options_of(c));
    trainer.predict(*source, [&](std::uint64_t sample, std::span<const float> y) {
      ASSERT_EQ(y.size(), results[sample].values.size());
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(static_cast<double>(y[i]), results[sample].values[i]) << i;
    });
  }
}

// A step down the gradient lowers the loss by the rate times the gradient's square.
TEST(Dimensions, HaveTheGradientsOfTheirLosses) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::PrintToString(c.sizes) + ::testing::PrintToString(c.axes) +
                 ::testing::PrintToString(c.dimensions));
    Options options = options_of(c);
    Trainer first(options);
    const StepReport report = first.step();
    const double square = report.gradient_norm * report.gradient_norm;
    options.optimizer.learning_rate = 1e-3 * report.loss / square;
    Trainer trainer(options);
    const double before = trainer.step().loss, after = trainer.step().loss;
    EXPECT_NEAR((before - after) / before, 1e-3, 2e-5);
  }
}

TEST(Dimensions, MoreThanEightAreRefused) {
  Options options = options_of({{3, 4}, {0, 2, 1}, {1}});
  options.model.inputs[0].shape = {1, 2, 1, 2, 1, 2, 1, 2};
  const std::string said = testing::refusal([&] { Trainer trainer(options); });
  EXPECT_NE(said.find("more than 7 dimensions"), std::string::npos) << said;
}

}  // namespace
}  // namespace l2l::dimensions
