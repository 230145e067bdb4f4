// Random chains, and a second definition of a correct choice.
#pragma once

#include <algorithm>

#include "compiler/remat/chain.h"
#include "tests/compiler/remat/random_numbers.h"

namespace l2l::compiler::remat {

using Types = std::vector<LayerType>;
enum class Shape { small_numbers, any, trade, proportional };

// trade: the more bytes an option keeps, the less time it takes. proportional: the same at a fixed price per byte, so
// that all options lie on one line.
inline LayerOption random_option(Random& random, Shape shape) {
  const std::uint64_t largest = shape == Shape::small_numbers ? 6 : std::uint64_t{1} << 30;
  const auto some = [&](std::uint64_t most) { return below(random, most + 1); };
  LayerOption option{some(largest),
                     some(largest),
                     some(largest),
                     some(largest),
                     some(largest),
                     some(largest),
                     some(largest / (shape == Shape::small_numbers ? 1 : 8))};
  option.weights_stay = one_in(random, 3);
  if (one_in(random, 3)) option.host = option.kept_d2h = option.kept_h2d = 0;
  if (one_in(random, 3)) option.device = 0;
  if (shape == Shape::trade || shape == Shape::proportional) {
    const std::uint64_t kept = option.device + option.host / 2;
    option.forward = option.kept_d2h = largest;
    option.kept_h2d = option.host;
    option.backward = 4 * largest - kept;
    if (shape == Shape::trade) option.backward += some(largest / 4);
    option.arena = one_in(random, 2) ? 0 : option.arena;
  }
  return option;
}

inline Types random_types(Random& random, Shape shape, std::size_t types, std::size_t most_layers,
                          std::size_t most_options) {
  Types all(types);
  for (LayerType& type : all) {
    type.layers = below(random, most_layers + 1);
    const std::uint64_t largest = shape == Shape::small_numbers ? 6 : std::uint64_t{1} << 29;
    type.weights_forward_h2d = below(random, largest);
    type.weights_backward_h2d = below(random, largest);
    type.gradients_d2h = below(random, largest);
    for (std::size_t o = 1 + below(random, most_options); o > 0; --o) {
      type.options.push_back(random_option(random, shape));
    }
  }
  return all;
}

// Between nothing and a little more than everything.
inline ChainBudget random_budget(Random& random, const Types& types) {
  ChainBudget most{1, 1};
  for (const LayerType& type : types) {
    Bytes device = 0, host = 0;
    for (const LayerOption& option : type.options) {
      device = std::max(device, option.device + option.arena);
      host = std::max(host, option.host);
    }
    most.device += type.layers * device;
    most.host += type.layers * host;
  }
  return {below(random, most.device + 2), below(random, most.host + 2)};
}

struct Sums {
  Nanoseconds time = 0;
  Bytes device = 0, host = 0, arena = 0;

  void add(const LayerType& type, const LayerOption& option, std::size_t layers) {
    const Nanoseconds forward = std::max(option.forward, std::max(type.weights_forward_h2d, option.kept_d2h));
    Nanoseconds backward_link = option.kept_h2d;
    if (!option.weights_stay) backward_link += type.weights_backward_h2d;
    backward_link = std::max(backward_link, type.gradients_d2h);
    time += layers * (forward + std::max(option.backward, backward_link));
    device += layers * option.device;
    host += layers * option.host;
    if (layers > 0) arena = std::max(arena, option.arena);
  }
};

inline bool holds(const Types& types, const ChainBudget& budget, const ChainChoice& choice) {
  Sums sums;
  if (choice.layers.size() != types.size()) return false;
  for (std::size_t t = 0; t < types.size(); ++t) {
    std::size_t layers = 0;
    if (choice.layers[t].size() != types[t].options.size()) return false;
    for (std::size_t o = 0; o < types[t].options.size(); ++o) {
      layers += choice.layers[t][o];
      sums.add(types[t], types[t].options[o], choice.layers[t][o]);
    }
    if (layers != types[t].layers) return false;
  }
  return sums.time == choice.time && sums.arena == choice.arena && sums.device + sums.arena == choice.device &&
         sums.host == choice.host && choice.device <= budget.device && choice.host <= budget.host &&
         choice.bound <= choice.time;
}

}  // namespace l2l::compiler::remat
