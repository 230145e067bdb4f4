// What --version prints.
#pragma once

#include <string>

namespace l2l::tools {

// The version of `tool`, the commit, and how it was built, a line each. Throws BadInput where L2L_INSTRUCTION_SET names
// an instruction set that is not there.
std::string version_text(const std::string& tool);

}  // namespace l2l::tools
