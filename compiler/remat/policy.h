// Which values of a layer's forward visit survive until its backward visit, beside the layer input: what a
// recomputation policy decides. differentiate() (graph/differentiate.h) makes the two programs of that choice.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/remat/min_cut.h"

namespace l2l::compiler::remat {

enum class Policy : std::uint8_t {
  full,       // nothing: the backward visit recomputes all it reads
  none,       // all that it reads: it recomputes nothing
  selective,  // all but the core of attention, where that is ops of its own (Korthikanti et al. 2022, section 5)
  min_cut,    // the fewest bytes from which ops that are no products rebuild the rest (He and Yu 2023)
};
// Throws BadInput, naming the known ones.
Policy parse_policy(std::string_view name);
std::string_view name_of(Policy policy);

// Results of ops of `forward`, in the order in which they are made. Throws BadInput when the graph has no derivative.
std::vector<ValueId> values_to_save(const Graph& forward, Policy policy);

// What min_cut() chooses from: values and ops are those of `forward`. Products may not run again; random ops may, since
// their numbers are a function of their key.
CutProblem cut_problem(const Graph& forward);

}  // namespace l2l::compiler::remat
