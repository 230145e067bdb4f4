// Parameters by name, for programs that read or write them between steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eps/parameter_store.h"
#include "eps/state_gather.h"
#include "l2l/trainer.h"

namespace l2l::runtime {

std::vector<Parameter> list_parameters(const ModelLayout& layout);
// As Trainer's functions; no update may be pending. `store`: whose layout it is. `gather`: of several ranks, all of
// which call it; else null.
void read_parameter(const eps::ParameterStore& store, eps::StateGather* gather, const std::string& name,
                    ParameterPart part, std::int64_t first, std::span<float> values);
void write_parameter(eps::ParameterStore& store, const std::string& name, ParameterPart part, std::int64_t first,
                     std::span<const float> values);

}  // namespace l2l::runtime
