// Names of functions that are in no dynamic symbol table, for messages.
#pragma once

#include <string>

namespace l2l::emulation {

// Of the function at `address`, without its parameters, from the symbol table of its file; "(unnamed)" where that has
// been stripped.
std::string symbol_name(const void* address);

}  // namespace l2l::emulation
