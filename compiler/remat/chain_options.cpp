#include "compiler/remat/chain_options.h"

#include <algorithm>
#include <set>
#include <utility>

namespace l2l::compiler::remat {
namespace {

bool as_good(const Load& a, const Load& b) { return a.time <= b.time && a.device <= b.device && a.host <= b.host; }

// Of options as good as each other the first.
bool surpassed(const std::vector<Load>& loads, std::size_t o) {
  for (std::size_t other = 0; other < loads.size(); ++other) {
    if (other == o || !as_good(loads[other], loads[o])) continue;
    if (other < o || !as_good(loads[o], loads[other])) return true;
  }
  return false;
}

void add_type(Selection& selection, const LayerType& type, const LoadOf& load_of) {
  std::vector<std::size_t> fitting;
  std::vector<Load> loads;
  for (std::size_t o = 0; o < type.options.size(); ++o) {
    if (type.options[o].arena > selection.arena) continue;
    fitting.push_back(o);
    loads.push_back(load_of(type, type.options[o]));
  }
  selection.options.emplace_back();
  selection.loads.emplace_back();
  for (std::size_t k = 0; k < loads.size(); ++k) {
    if (surpassed(loads, k)) continue;
    selection.options.back().push_back(fitting[k]);
    selection.loads.back().push_back(loads[k]);
  }
  selection.layers.push_back(type.layers);
}

std::set<Bytes> arenas_of(const std::vector<LayerType>& types) {
  std::set<Bytes> arenas;
  for (const LayerType& type : types) {
    for (const LayerOption& option : type.options) {
      if (type.layers > 0) arenas.insert(option.arena);
    }
  }
  if (arenas.empty()) arenas.insert(0);  // no layers
  return arenas;
}

}  // namespace

std::vector<Selection> select_by_arena(const std::vector<LayerType>& types, const LoadOf& load_of) {
  std::vector<Selection> all;
  for (const Bytes arena : arenas_of(types)) {
    Selection selection{arena};
    for (std::size_t t = 0; t < types.size(); ++t) {
      if (types[t].layers == 0) continue;
      selection.types.push_back(t);
      add_type(selection, types[t], load_of);
    }
    const auto none = [](const std::vector<std::size_t>& options) { return options.empty(); };
    if (std::none_of(selection.options.begin(), selection.options.end(), none)) all.push_back(std::move(selection));
  }
  return all;
}

}  // namespace l2l::compiler::remat
