// Keys that are set and change nothing.
#pragma once

#include <string>
#include <vector>

#include "runtime/options/resolved_options.h"

namespace l2l::runtime {

// One line for each key whose value is not its default and has no effect beside another key's value: "schedule.minimum
// = 1e-05 has no effect with schedule.kind = \"constant\"". None where nothing is trained.
std::vector<std::string> unused_keys(const ResolvedOptions& options);

}  // namespace l2l::runtime
