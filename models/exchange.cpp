#include "models/exchange.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "l2l/errors.h"

namespace l2l::models {
namespace {

const Exchange::Candidate& candidate(const Exchange& exchange, std::uint32_t id) {
  if (const Exchange::Candidate* const found = exchange.find(id)) return *found;
  throw BadInput("layer " + std::to_string(id) +
                 " cannot be in a list: it is neither one of model.blocks (of a custom model, before the last) nor of "
                 "model.reserve");
}

// The key of random numbers of a layer's uses: the first has its own, as it has where it is the only one, and ids of
// all layers are below kFurtherUse.
std::uint32_t id_of_use(std::uint32_t id, std::uint32_t use) {
  constexpr std::uint32_t kStride = 0x9e3779b1u;
  return use == 0 ? id : kFurtherUse | (id + use * kStride);
}

// Of `most` layers, blocks of every type among them; what they read and make does not count.
std::vector<std::uint32_t> longest_list(const Exchange& exchange) {
  const auto most = static_cast<std::size_t>(exchange.most);
  const auto most_of_all = exchange.candidates.size() * static_cast<std::size_t>(exchange.most_uses);
  if (most > most_of_all) {
    throw BadInput("model.reserve.most_layers = " + std::to_string(most) + ", but " +
                   std::to_string(exchange.candidates.size()) + " layers, each at most " +
                   std::to_string(exchange.most_uses) + " times, make " + std::to_string(most_of_all));
  }
  std::vector<std::uint32_t> list;
  std::set<int> types;
  std::vector<int> uses(exchange.candidates.size());
  const auto add = [&](std::size_t i) {
    list.push_back(exchange.candidates[i].id);
    ++uses[i];
  };
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (types.insert(exchange.candidates[i].type).second) add(i);
  }
  if (list.size() > most) {
    throw BadInput("model.reserve.most_layers = " + std::to_string(most) + ", but there are layers of " +
                   std::to_string(list.size()) + " types: reserve at least as many");
  }
  for (int use = 1; list.size() < most; ++use) {
    for (std::size_t i = 0; i < uses.size() && list.size() < most; ++i) {
      if (uses[i] < use) add(i);
    }
  }
  return list;
}

}  // namespace

void exchange_blocks(Model& model, const LayerReserve& reserve) {
  for (const Exchange::Candidate& each : model.exchange.candidates) {
    model.exchange.place_of.emplace(each.id, model.exchange.place_of.size());
  }
  model.exchange.most = static_cast<int>(reserve.most_layers);
  model.exchange.most_uses = static_cast<int>(reserve.most_uses);
  check_list(model, model.exchange.initial);
  set_list(model, {});
  const int without = model.layout.further_uses(), most = model.exchange.most, uses = model.exchange.most_uses;
  model.layout.exchange = ModelLayout::Exchange{without + most - (most + uses - 1) / uses, model.exchange.first_group,
                                                model.exchange.end_group};
  set_list(model, longest_list(model.exchange));
}

void check_list(const Model& model, std::span<const std::uint32_t> ids) {
  const Exchange& exchange = model.exchange;
  if (exchange.most == 0) throw BadInput("the layers of this model are fixed: set model.reserve");
  if (ids.empty()) throw BadInput("an empty list of layers: name at least one");
  if (ids.size() > static_cast<std::size_t>(exchange.most)) {
    throw BadInput("a list of " + std::to_string(ids.size()) +
                   " layers, but model.reserve.most_layers = " + std::to_string(exchange.most) + ": " +
                   std::to_string(ids.size() - static_cast<std::size_t>(exchange.most)) + " too many");
  }
  std::map<std::uint32_t, int> uses;
  int lies = exchange.input;
  const Exchange::Candidate* before = nullptr;
  const auto shapes = [&](int number) { return exchange.shapes[static_cast<std::size_t>(number)]; };
  const auto found = [&] {
    return (before == nullptr ? "what stands before the list gives "
                              : "layer " + std::to_string(before->id) + " returns ") +
           shapes(lies);
  };
  for (const std::uint32_t id : ids) {
    const Exchange::Candidate& next = candidate(exchange, id);
    if (++uses[id] > exchange.most_uses) {
      throw BadInput("layer " + std::to_string(id) + " stands " + std::to_string(std::ranges::count(ids, id)) +
                     " times in a list, but model.reserve.most_uses = " + std::to_string(exchange.most_uses));
    }
    if (next.input != lies) {
      throw BadInput("layer " + std::to_string(id) + " reads " + shapes(next.input) + ", but " + found() +
                     ": no such list is possible");
    }
    lies = next.output;
    before = &next;
  }
  if (lies != exchange.output)
    throw BadInput("what follows the list reads " + shapes(exchange.output) + ", but " + found());
}

void set_list(Model& model, std::span<const std::uint32_t> ids) {
  const auto first = static_cast<std::ptrdiff_t>(model.exchange.first), head = std::ptrdiff_t{model.head()};
  const std::ptrdiff_t first_input = first - model.embedding_layers;
  std::vector<LayerSpec> layers;
  std::vector<int> types;
  std::vector<Bytes> inputs;
  std::map<std::uint32_t, std::uint32_t> uses;
  for (const std::uint32_t id : ids) {
    const Exchange::Candidate& next = candidate(model.exchange, id);
    layers.push_back(next.layer);
    layers.back().id = id_of_use(next.layer.id, uses[id]++);
    types.push_back(next.type);
    inputs.push_back(next.input_bytes);
  }
  const auto replace = [](auto& all, std::ptrdiff_t begin, std::ptrdiff_t end, const auto& by) {
    all.erase(all.begin() + begin, all.begin() + end);
    all.insert(all.begin() + begin, by.begin(), by.end());
  };
  replace(model.layout.layers, first, head, layers);
  replace(model.type_of, first, head, types);
  replace(model.input_bytes, first_input, head - model.embedding_layers, inputs);
  model.find_lowest_trained();
}

}  // namespace l2l::models
