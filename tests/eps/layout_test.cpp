#include "core/model_layout.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

TEST(Layout, CountsOfTheToyModel) {
  const ModelLayout layout = toy_layout();
  EXPECT_EQ(layout.uses()[kTable], 2);
  EXPECT_EQ(layout.uses()[kBlock0], 1);
  EXPECT_EQ(layout.parameters(), 41 * 15 + 8 * 16 + 2 * (13 + 150 * 130 + 130) + 32);
  EXPECT_EQ(layout.largest_layer(), 19776);
  EXPECT_NO_THROW(layout.validate());
}

// What validate() says of a toy layout after `damage`.
template <typename Damage>
std::string complaint(const Damage& damage) {
  ModelLayout layout = toy_layout();
  damage(layout);
  try {
    layout.validate();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Layout, DamageIsNamed) {
  const auto overlap = complaint([](ModelLayout& l) { l.groups[kBlock0].parameters[1].offset = 12; });
  EXPECT_TRUE(contains(overlap, "h.0.fc.weight")) << overlap;
  const auto beyond = complaint([](ModelLayout& l) { l.groups[kBlock1].elements = 19600; });
  EXPECT_TRUE(contains(beyond, "h.1.fc.bias")) << beyond;
  const auto twice = complaint([](ModelLayout& l) { l.groups[kBlock1].parameters[0].name = "wte.weight"; });
  EXPECT_TRUE(contains(twice, "occurs twice")) << twice;
  const auto parts = complaint([](ModelLayout& l) { l.layers[kHead].parts[1].offset = 63; });
  EXPECT_TRUE(contains(parts, "layer \"head\": group \"wte\"")) << parts;
  const auto outside = complaint([](ModelLayout& l) { l.layers[kHead].elements = 767; });
  EXPECT_TRUE(contains(outside, "layer \"head\"")) << outside;
  const auto index = complaint([](ModelLayout& l) { l.layers[kHead].parts[0].group = 5; });
  EXPECT_TRUE(contains(index, "group 5 of 5")) << index;
  const auto unused = complaint([](ModelLayout& l) { l.layers[kFirstBlock].parts.clear(); });
  EXPECT_TRUE(contains(unused, "\"h.0\" is part of no layer")) << unused;
  const auto hole =
      complaint([](ModelLayout& l) { l.layers[kHead].parts[1].begin = l.layers[kEmbedding].parts[0].begin = 8; });
  EXPECT_TRUE(contains(hole, "\"wte\": element 0 is part of no layer")) << hole;
  const auto range = complaint([](ModelLayout& l) { l.layers[kHead].parts[1].elements = 641; });
  EXPECT_TRUE(contains(range, "its range")) << range;
  const auto id = complaint([](ModelLayout& l) { l.groups[kBlock1].id = 0; });
  EXPECT_TRUE(contains(id, "has id 0")) << id;
  const auto same = complaint([](ModelLayout& l) { l.layers[kHead].parts[0].group = kTable; });
  EXPECT_TRUE(contains(same, "layer \"head\"")) << same;
}

}  // namespace
}  // namespace l2l::eps::testing
