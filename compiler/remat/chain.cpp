#include "compiler/remat/chain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "core/checked.h"
#include "compiler/remat/chain_options.h"
#include "compiler/remat/chain_search.h"

namespace l2l::compiler::remat {
namespace {

void check_sum(const std::vector<LayerType>& types, const char* what,
               const std::function<std::uint64_t(const LayerType&, const LayerOption&)>& get) {
  std::uint64_t all = 0;
  for (const LayerType& type : types) {
    std::uint64_t most = 0;
    for (const LayerOption& option : type.options) most = std::max(most, get(type, option));
    all = checked_add(all, checked_multiply(most, type.layers, what), what);
  }
  if (all >= static_cast<std::uint64_t>(kEndlessTime)) {
    throw BadInput(std::string(what) + " of all layers: " + std::to_string(all) + " is 2^52 or more");
  }
}

void check(const std::vector<LayerType>& types) {
  for (std::size_t t = 0; t < types.size(); ++t) {
    if (types[t].layers > 0 && types[t].options.empty()) {
      throw BadInput("recompute: layers of type " + std::to_string(t) + " have no option");
    }
    for (const LayerOption& option : types[t].options) {
      const Nanoseconds times[] = {option.forward,        option.backward,         option.kept_d2h,
                                   option.kept_h2d,       types[t].weights_up_h2d, types[t].weights_down_h2d,
                                   types[t].gradients_d2h};
      for (const Nanoseconds time : times) {
        if (time >= static_cast<Nanoseconds>(kEndlessTime)) throw BadInput("recompute: a visit of 52 days");
      }
      if (option.arena >= static_cast<Bytes>(kEndlessTime)) throw BadInput("recompute: an arena of 4 PiB");
    }
  }
  check_sum(types, "time", [](const LayerType& type, const LayerOption& option) { return time_of(type, option); });
  check_sum(types, "device bytes", [](const LayerType&, const LayerOption& option) { return option.device; });
  check_sum(types, "host bytes", [](const LayerType&, const LayerOption& option) { return option.host; });
}

std::int64_t signed_of(std::uint64_t n) { return static_cast<std::int64_t>(n); }

Load usual_load(const LayerType& type, const LayerOption& option) {
  return {signed_of(time_of(type, option)), signed_of(option.device), signed_of(option.host)};
}

std::int64_t limited(Bytes bytes) { return static_cast<std::int64_t>(std::min<Bytes>(bytes, kEndlessTime)); }

struct Candidate {
  Selection selection;
  ChainSearch search;
};

// The most promising arena first.
std::vector<Candidate> candidates(const std::vector<LayerType>& types, const ChainBudget& budget,
                                  std::size_t most_strays) {
  std::vector<Candidate> all;
  for (Selection& selection : select_by_arena(types, usual_load)) {
    if (selection.arena > budget.device) break;
    const Bytes device = budget.device - selection.arena;
    ChainSearch search({selection.loads, selection.layers, limited(device), limited(budget.host)}, most_strays);
    all.push_back({std::move(selection), std::move(search)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.search.bound() < b.search.bound(); });
  return all;
}

ChainChoice explain(const std::vector<LayerType>& types, const Selection& selection, const SearchResult& result) {
  ChainChoice choice;
  for (const LayerType& type : types) choice.layers.emplace_back(type.options.size(), 0);
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const LayerType& type = types[selection.types[i]];
    for (std::size_t k = 0; k < result.layers[i].size(); ++k) {
      const std::size_t option = selection.options[i][k], layers = result.layers[i][k];
      if (layers == 0) continue;
      choice.layers[selection.types[i]][option] = layers;
      choice.time += layers * time_of(type, type.options[option]);
      choice.device += layers * type.options[option].device;
      choice.host += layers * type.options[option].host;
      choice.arena = std::max(choice.arena, type.options[option].arena);
    }
  }
  choice.device += choice.arena;
  return choice;
}

std::optional<ChainChoice> fastest(const std::vector<LayerType>& types, const ChainBudget& budget,
                                   std::size_t most_strays) {
  std::vector<Candidate> all = candidates(types, budget, most_strays);
  SearchResult best;
  const Selection* selection = nullptr;
  bool proved = true;
  for (Candidate& candidate : all) {
    const std::int64_t before = best.time;
    proved = candidate.search.improve(best) && proved;
    if (best.time < before) selection = &candidate.selection;
  }
  if (selection == nullptr) return std::nullopt;
  ChainChoice choice = explain(types, *selection, best);
  const double bound = std::max(0.0, std::ceil(all.front().search.bound()));
  choice.bound = proved ? choice.time : std::min(choice.time, static_cast<Nanoseconds>(bound));
  return choice;
}

// The least of what takes the place of time, none when nothing fits.
std::optional<Bytes> least_of(const Selection& selection, std::int64_t device, std::int64_t host,
                              std::size_t most_strays) {
  SearchResult best;
  ChainSearch({selection.loads, selection.layers, device, host}, most_strays).improve(best);
  return best.time == kEndlessTime ? std::nullopt : std::optional<Bytes>(static_cast<Bytes>(best.time));
}

std::optional<Bytes> least_device(const std::vector<LayerType>& types, Bytes host, std::size_t most_strays) {
  std::optional<Bytes> least;
  const auto load = [](const LayerType&, const LayerOption& option) {
    return Load{signed_of(option.device), 0, signed_of(option.host)};
  };
  for (const Selection& selection : select_by_arena(types, load)) {
    const std::optional<Bytes> kept = least_of(selection, 0, limited(host), most_strays);
    if (kept) least = std::min(*kept + selection.arena, least.value_or(~Bytes{0}));
  }
  return least;
}

std::optional<Bytes> least_host(const std::vector<LayerType>& types, Bytes device, std::size_t most_strays) {
  std::optional<Bytes> least;
  const auto load = [](const LayerType&, const LayerOption& option) {
    return Load{signed_of(option.host), signed_of(option.device), 0};
  };
  for (const Selection& selection : select_by_arena(types, load)) {
    if (selection.arena > device) break;
    const std::optional<Bytes> kept = least_of(selection, limited(device - selection.arena), 0, most_strays);
    if (kept) least = std::min(*kept, least.value_or(~Bytes{0}));
  }
  return least;
}

}  // namespace

Nanoseconds time_of(const LayerType& type, const LayerOption& option) {
  const Nanoseconds weights_down = option.weights_stay ? 0 : type.weights_down_h2d;
  return std::max({option.forward, type.weights_up_h2d, option.kept_d2h}) +
         std::max({option.backward, weights_down + option.kept_h2d, type.gradients_d2h});
}

ChainAnswer choose(const std::vector<LayerType>& types, const ChainBudget& budget, std::size_t most_strays) {
  check(types);
  ChainAnswer answer{fastest(types, budget, most_strays), {}, {}};
  if (!answer.choice) {
    answer.least_device = least_device(types, budget.host, most_strays);
    answer.least_host = least_host(types, budget.device, most_strays);
  }
  return answer;
}

}  // namespace l2l::compiler::remat
