// Which bug the hand-over has in this process (mutants.py).
#pragma once

#include <string_view>

namespace l2l::eps {

// The name of a row of mutants.py; the same for the whole process.
std::string_view seeded_bug();

}  // namespace l2l::eps
