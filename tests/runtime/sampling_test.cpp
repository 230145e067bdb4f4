// The filters against transformers' processors (tests/fixtures/make_sampling_fixtures.py), and the drawing itself.
#include "runtime/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "base/json.h"
#include "core/files.h"
#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

TEST(Sampling, KeepsWhatTransformersKeeps) {
  const auto file = std::filesystem::path(L2L_FIXTURES) / "sampling.json";
  const nlohmann::json cases = parse_json(InputFile(file).text());
  ASSERT_GT(cases.size(), 200u);
  for (const nlohmann::json& each : cases) {
    auto logits = each.at("logits").get<std::vector<float>>();
    GenerateOptions options;
    options.temperature = each.at("temperature").get<double>();
    options.top_k = each.at("top_k").get<std::int64_t>();
    options.top_p = each.at("top_p").get<double>();
    filter_logits(logits, options);
    std::vector<std::size_t> kept;
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (std::isfinite(logits[id])) kept.push_back(id);
    }
    EXPECT_EQ(kept, each.at("kept").get<std::vector<std::size_t>>()) << json_text(each);
  }
}

TEST(Sampling, DrawsByProbability) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  const auto draw = [&](double uniform, const GenerateOptions& options) {
    std::vector<float> copy = logits;
    return draw_token(copy, options, uniform);
  };
  const GenerateOptions plain{.temperature = 1};
  EXPECT_EQ(draw(0.12, plain), 0);
  EXPECT_EQ(draw(0.13, plain), 1);
  EXPECT_EQ(draw(0.37, plain), 1);
  EXPECT_EQ(draw(0.38, plain), 2);
  EXPECT_EQ(draw(0.0, {.temperature = 0}), 2);
  EXPECT_EQ(draw(0.0, {.temperature = 1, .top_k = 2}), 1);
  EXPECT_EQ(draw(0.0, {.temperature = 1, .top_p = 0.6}), 2);
  // At temperature 1/2 probabilities are squared: 1, 4 and 25 of 30.
  EXPECT_EQ(draw(0.16, {.temperature = 0.5}), 1);
  EXPECT_EQ(draw(0.17, {.temperature = 0.5}), 2);
}

TEST(Sampling, RefusesWhatIsOutOfRange) {
  EXPECT_NO_THROW(check_sampling({}));
  for (const GenerateOptions& bad :
       {GenerateOptions{.tokens = -1}, GenerateOptions{.tokens = (1 << 24) + 1}, GenerateOptions{.temperature = -0.1},
        GenerateOptions{.temperature = NAN}, GenerateOptions{.top_k = -1}, GenerateOptions{.top_p = 0},
        GenerateOptions{.top_p = 1.1}}) {
    EXPECT_THROW(check_sampling(bad), BadInput);
  }
}

}  // namespace
}  // namespace l2l::runtime
