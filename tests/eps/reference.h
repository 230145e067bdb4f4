// The training step of the parameter store, written down plainly: no blocks, threads, modes or formats. With T = float
// every operation is rounded as the contract says, and the store must agree bit for bit; with T = double it is an
// oracle of the arithmetic itself.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "eps/parameter_store.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {

template <typename T>
class Reference {
 public:
  // Takes the initial weights from `store`.
  Reference(const ParameterStore& store, const StoreOptions& options) : layout_(store.layout()), options_(options) {
    for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
      const std::size_t elements = static_cast<std::size_t>(layout_.groups[group].elements);
      groups_.push_back({std::vector<T>(elements), std::vector<T>(elements), std::vector<T>(elements)});
      for (std::size_t i = 0; i < layout_.groups[group].parameters.size(); ++i) read_initial(store, group, i);
    }
  }

  // gradients[layer][device], in fp32. Returns the norm before clipping.
  double step(const std::vector<std::vector<std::vector<float>>>& gradients, double learning_rate) {
    std::vector<std::vector<T>> sums;
    std::vector<double> norms;
    double squares = 0;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      sums.push_back(sum(gradients, static_cast<GroupIndex>(group)));
      double own = 0;
      for_each_element(group, [&](std::size_t i, bool) {
        own += static_cast<double>(sums[group][i]) * static_cast<double>(sums[group][i]);
      });
      norms.push_back(std::sqrt(own));
      squares += own;
    }
    const double norm = std::sqrt(squares);
    ++count_;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      T factor = 1;
      if (options_.clip != ClipMode::none) {
        const double clipped = options_.clip == ClipMode::global ? norm : norms[group];
        factor = static_cast<T>(std::min(1.0, options_.max_norm / (clipped + 1e-6)));
      }
      update(group, sums[group], factor, learning_rate);
    }
    return norm;
  }

  // In the order of whole_state().
  std::vector<T> whole_state() const {
    std::vector<T> all;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (const ParameterSpec& parameter : layout_.groups[group].parameters) {
        for (const std::vector<T>* field : {&groups_[group].master, &groups_[group].moment1, &groups_[group].moment2}) {
          const auto begin = field->begin() + parameter.offset;
          all.insert(all.end(), begin, begin + parameter.shape.elements());
        }
      }
    }
    return all;
  }

  const std::vector<T>& master(GroupIndex group) const { return groups_[static_cast<std::size_t>(group)].master; }

 private:
  struct State {
    std::vector<T> master, moment1, moment2;
  };

  void read_initial(const ParameterStore& store, std::size_t group, std::size_t index) {
    const ParameterSpec& parameter = layout_.groups[group].parameters[index];
    const std::size_t count = static_cast<std::size_t>(parameter.shape.elements());
    std::vector<float> master(count), moment1(count), moment2(count);
    read_state(store, static_cast<GroupIndex>(group), index, {master, moment1, moment2});
    const auto offset = parameter.offset;
    std::copy(master.begin(), master.end(), groups_[group].master.begin() + offset);
    std::copy(moment1.begin(), moment1.end(), groups_[group].moment1.begin() + offset);
    std::copy(moment2.begin(), moment2.end(), groups_[group].moment2.begin() + offset);
  }

  // Of devices [first, end): the first half, a power of two of them, and then the rest.
  static T tree(const std::vector<std::vector<float>>& devices, std::size_t first, std::size_t end, std::size_t at) {
    if (end - first == 1) return static_cast<T>(devices[first][at]);
    const std::size_t middle = first + std::bit_floor(end - first - 1);
    return tree(devices, first, middle, at) + tree(devices, middle, end, at);
  }

  // Head first, then embedding.
  std::vector<T> sum(const std::vector<std::vector<std::vector<float>>>& gradients, GroupIndex group) const {
    std::vector<T> total(groups_[static_cast<std::size_t>(group)].master.size(), T(-0.0));
    for (std::size_t layer = layout_.layers.size(); layer-- > 0;) {
      for (const LayerPart& part : layout_.layers[layer].parts) {
        if (part.group != group) continue;
        for (std::size_t i = 0; i < total.size(); ++i) {
          total[i] += tree(gradients[layer], 0, gradients[layer].size(), static_cast<std::size_t>(part.offset) + i);
        }
      }
    }
    return total;
  }

  template <typename F>
  void for_each_element(std::size_t group, const F& function) const {
    for (const ParameterSpec& parameter : layout_.groups[group].parameters) {
      for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) {
        function(static_cast<std::size_t>(parameter.offset + i), parameter.decay);
      }
    }
  }

  void update(std::size_t group, const std::vector<T>& gradient, T factor, double learning_rate) {
    const auto& adamw = std::get<optimizers::AdamWSettings>(options_.optimizer);
    const double beta1 = adamw.beta1, beta2 = adamw.beta2;
    const double rate = static_cast<float>(learning_rate), decay = adamw.weight_decay;
    const float correction1 = static_cast<float>(1 - std::pow(beta1, count_));
    const float correction2 = static_cast<float>(1 - std::pow(beta2, count_));
    const double root = std::sqrt(static_cast<double>(correction2));
    const T step_size = static_cast<T>(rate * root / correction1);
    const T epsilon = static_cast<T>(static_cast<double>(adamw.epsilon) * root);
    for_each_element(group, [&](std::size_t i, bool decays) {
      State& state = groups_[group];
      const T g = gradient[i] * factor;
      T& m = state.moment1[i];
      T& v = state.moment2[i];
      m = std::fma(static_cast<T>(beta1), m, static_cast<T>(1 - beta1) * g);
      v = std::fma(static_cast<T>(beta2), v, static_cast<T>(1 - beta2) * g * g);
      const T keep = static_cast<T>(decays ? 1 - rate * decay : 1);
      state.master[i] = std::fma(keep, state.master[i], -(step_size * m / (std::sqrt(v) + epsilon)));
    });
  }

  ModelLayout layout_;
  StoreOptions options_;
  std::vector<State> groups_;
  unsigned count_ = 0;
};

}  // namespace l2l::eps::testing
