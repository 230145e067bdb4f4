// What holds for the models of every family.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "models/model.h"

namespace l2l::models::test {

// All names; each occurs once, and matrices alone decay.
inline std::set<std::string> names_with_decay_of_matrices(const Model& model) {
  std::set<std::string> names;
  for (const auto& group : model.layout.groups) {
    for (const auto& parameter : group.parameters) {
      EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
      EXPECT_EQ(parameter.decay, parameter.shape.rank() == 2) << parameter.name;
    }
  }
  return names;
}

// Parts follow each other, and what the graphs read lies inside the wire.
inline void expect_wires_are_filled(const Model& model) {
  EXPECT_NO_THROW(model.layout.validate());
  for (int layer = 0; layer < model.layers(); ++layer) {
    const auto& spec = model.layout.layers[static_cast<std::size_t>(layer)];
    std::int64_t end = 0;
    for (const auto& part : spec.parts) {
      EXPECT_EQ(part.offset, end);
      end += model.layout.elements_of(part);
    }
    EXPECT_EQ(end, spec.elements);
    EXPECT_LE(model.type(layer).forward.region_bytes(compiler::Region::weights), model.wire_bytes(layer));
    EXPECT_LE(model.type(layer).backward.region_bytes(compiler::Region::gradients),
              static_cast<Bytes>(spec.elements) * size_of(DType::f32));
  }
}

}  // namespace l2l::models::test
