// The memory contract for people.
#pragma once

#include <ostream>

#include "l2l/trainer.h"

namespace l2l::tools {

void print_contract(std::ostream& out, const MemoryContract& contract, const Options& options);

// "1.50 GiB"
std::string human_bytes(std::uint64_t bytes);

}  // namespace l2l::tools
