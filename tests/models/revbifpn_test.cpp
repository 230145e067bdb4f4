// RevBiFPN-S0 to S6 have the parameters that their authors count, and their multiply-adds as the authors' tool counts
// them: those of products, one for each element to which squeeze-and-excitation adds a bias, 2 for each element that is
// normed and 11 for each that is interpolated (https://github.com/CerebrasResearch/RevBiFPN, revbifpn.py).
#include "l2l/revbifpn.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "models/make_model.h"
#include "tests/support/refusal.h"

namespace l2l::models {
namespace {

using compiler::OpKind;

struct Counts {
  std::int64_t parameters = 0, operations = 0;
};

std::int64_t operations_of(const compiler::Graph& graph, const compiler::Op& op) {
  const auto elements = [&](compiler::ValueId id) { return graph.value(id).shape.elements(); };
  const std::int64_t made = elements(op.outputs[0]);
  switch (op.kind) {
    case OpKind::matmul:
      return made * elements(op.inputs[0]) / graph.value(op.outputs[0]).shape[0] + (op.inputs.size() > 2 ? made : 0);
    case OpKind::depthwise:
      return made * graph.value(op.inputs[1]).shape[1];
    case OpKind::batch_norm:
      return 2 * made;
    case OpKind::upsample:
      return 11 * made;
    default:
      return 0;
  }
}

Model model_of(const RevbifpnSettings& settings, const std::string& reversible) {
  ModelOptions options = revbifpn(settings, reversible);
  options.head = "custom";  // as options are resolved
  options.hidden = options.heads = options.vocabulary = options.sequence = 1;
  return make_model(options, {.micro_batch = 1});
}

Counts counts_of(const RevbifpnSettings& settings, const std::string& reversible) {
  const Model model = model_of(settings, reversible);
  Counts counts{.parameters = model.layout.parameters()};
  EXPECT_EQ(model.layout.trained_parameters(), counts.parameters);
  for (int layer = 0; layer < model.layers(); ++layer) {
    const compiler::Graph& graph = model.type(layer).forward;
    for (const compiler::Op& op : graph.ops) counts.operations += operations_of(graph, op);
  }
  counts.operations -= settings.classes;  // the last bias is not counted
  return counts;
}

TEST(Revbifpn, HasTheParametersAndOperationsThatWerePublished) {
  constexpr Counts kPublished[] = {{3'419'196, 308'039'716},     {5'112'300, 616'781'508},
                                   {10'576'528, 1'370'329'000},  {19'574'184, 3'330'873'312},
                                   {48'687'336, 10'632'222'080}, {81'998'976, 21'848'995'912},
                                   {142'307'972, 38'084'434'748}};
  for (int scale = 0; scale < 7; ++scale) {
    for (const char* const reversible : {"none", "fixed"}) {
      const Counts counts = counts_of(revbifpn_settings(scale), reversible);
      EXPECT_EQ(counts.parameters, kPublished[scale].parameters) << "S" << scale;
      EXPECT_EQ(counts.operations, kPublished[scale].operations) << "S" << scale;
    }
  }
  EXPECT_THROW(revbifpn_settings(7), BadInput);
  EXPECT_THROW(revbifpn_settings(-1), BadInput);
}

// Operands of the shape that an op takes are read where they lie.
TEST(Revbifpn, RepeatsOnlyWhatIsSmaller) {
  const Model model = model_of(revbifpn_settings(0), "none");
  for (const LayerType& type : model.types) {
    for (const compiler::Op& op : type.forward.ops) {
      if (op.kind != OpKind::broadcast) continue;
      EXPECT_LT(type.forward.value(op.inputs[0]).shape.elements(), type.forward.value(op.outputs[0]).shape.elements());
    }
  }
}

// All layers but the stem rebuild their inputs.
TEST(Revbifpn, KeepsTheImageAlone) {
  const Model model = model_of(revbifpn_settings(0), "float");
  EXPECT_EQ(model.first_rebuilt, model.block(2));
  EXPECT_EQ(model.activation_bytes(model.block(1)), 4u * 224 * 224 * 3);
}

TEST(Revbifpn, SettingsThatDoNotFitTogetherAreRefused) {
  const auto expect = [](const char* message, const std::function<void(RevbifpnSettings&)>& change) {
    RevbifpnSettings settings;
    change(settings);
    const std::string said = testing::refusal([&] { revbifpn(settings); });
    EXPECT_NE(said.find(message), std::string::npos) << said;
  };
  expect("an image of 240 pixels", [](auto& settings) { settings.image[1] = 240; });
  expect("all lists have an entry for each of the 4 scales", [](auto& settings) { settings.squeezes.pop_back(); });
  expect("a multiple of 16", [](auto& settings) { settings.channels[0] = 56; });
  expect("16 for each of the image's 4", [](auto& settings) { settings.image_channels = 4; });
  expect("channels are even", [](auto& settings) { settings.channels[2] = 81; });
  expect("kernels are odd", [](auto& settings) { settings.kernels[1] = 4; });
  expect("widened by is even", [](auto& settings) { settings.widened[1] = 1; });
  expect("counts are positive", [](auto& settings) { settings.head_expansions[0] = 0; });
}

}  // namespace
}  // namespace l2l::models
