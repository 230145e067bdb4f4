// The whole state of one parameter at once.
#pragma once

#include <span>

#include "eps/parameter_store.h"

namespace l2l::eps {

// Without padding. The spans have the parameter's length; `moment2` is empty where the optimizer has one moment.
struct ParameterState {
  std::span<float> master, moment1, moment2;
};

inline void read_state(const ParameterStore& store, GroupIndex group, std::size_t parameter,
                       const ParameterState& state) {
  store.read(group, parameter, StatePart::master, 0, state.master);
  store.read(group, parameter, StatePart::moment1, 0, state.moment1);
  if (!state.moment2.empty()) store.read(group, parameter, StatePart::moment2, 0, state.moment2);
}

inline void write_state(ParameterStore& store, GroupIndex group, std::size_t parameter, const ParameterState& state) {
  store.write(group, parameter, StatePart::master, 0, state.master);
  store.write(group, parameter, StatePart::moment1, 0, state.moment1);
  if (!state.moment2.empty()) store.write(group, parameter, StatePart::moment2, 0, state.moment2);
}

}  // namespace l2l::eps
