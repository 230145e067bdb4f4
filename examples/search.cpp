// Searches a transformer: which kind of block stands at each of eight places, or none. All candidates share the weights
// of their blocks, which are trained first, a random candidate in each step (single path one-shot; Guo et al., 2020).
// Then 200 candidates are judged by validation loss: by evolution, and, for comparison, at random.
//   g++ search.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l)
//   ./a.out TEXT_FILE [STEPS [CANDIDATES [SEED]]]
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "l2l/l2l.h"

namespace {

using l2l::Distribution, l2l::Value;

constexpr std::size_t kPlaces = 8, kParents = 10;
struct Kind {
  const char* name;
  bool attends;
  std::int64_t width;  // of the MLP
};
constexpr std::array<Kind, 4> kKinds = {
    {{"mlp-128", false, 128}, {"mlp-256", false, 256}, {"attention-64", true, 64}, {"attention-256", true, 256}}};
constexpr std::uint32_t kNone = kKinds.size();         // no block at this place
using Candidate = std::array<std::uint32_t, kPlaces>;  // a kind for each place, or kNone

std::vector<Value> block(l2l::LayerBuilder& graph, Value x, const Kind& kind) {
  const std::int64_t hidden = graph.columns(x);
  const auto norm = [&](Value value, const std::string& name) {
    const Value gain = graph.vector(name + ".weight", hidden, Distribution::ones());
    return graph.layer_norm(value, gain, graph.vector(name + ".bias", hidden, Distribution::zeros()));
  };
  const auto linear = [&](Value value, const std::string& name, std::int64_t out) {
    return graph.linear(value, graph.matrix(name, graph.columns(value), out, Distribution::normal(0.02)));
  };
  if (kind.attends) {
    const Value mixed = graph.attention(linear(norm(x, "ln_1"), "qkv", 3 * hidden), {.heads = 4});
    x = graph.add(x, linear(mixed, "out", hidden));
  }
  return {graph.add(x, linear(graph.gelu(linear(norm(x, "ln_2"), "up", kind.width)), "down", hidden))};
}

// Every kind at every place is a layer, of which a list has at most one for each place.
l2l::Options options_for(const char* text, std::uint64_t seed) {
  l2l::Options options;
  options.model.hidden = 64;
  options.model.heads = 4;
  options.model.sequence = 64;
  options.model.reserve = l2l::LayerReserve{.most_layers = kPlaces};
  for (std::uint32_t id = 0; id < kPlaces * kKinds.size(); ++id) {
    const Kind& kind = kKinds[id % kKinds.size()];
    const auto build = [&kind](l2l::LayerBuilder& graph, std::span<const Value> x) { return block(graph, x[0], kind); };
    (id % kKinds.size() == 0 ? options.model.blocks : options.model.reserve->layers)
        .push_back({.id = id, .type = kind.name, .build = build});
  }
  options.data.train = options.data.validation = {text};
  options.batch.micro_batch = 8;
  options.optimizer.learning_rate = 2e-3;
  options.transfer.stash = "host";
  options.recompute.policy = "full";
  options.run.seed = seed;
  return options;
}

class Search {
 public:
  Search(l2l::Trainer& trainer, std::uint64_t seed) : trainer_(trainer), random_(seed) {}

  void use(const Candidate& candidate) {
    std::vector<std::uint32_t> ids;
    for (std::uint32_t place = 0; place < kPlaces; ++place) {
      if (candidate[place] != kNone)
        ids.push_back(place * static_cast<std::uint32_t>(kKinds.size()) + candidate[place]);
    }
    trainer_.set_layers(ids);
  }
  Candidate draw() {
    Candidate candidate;
    for (std::uint32_t& kind : candidate) kind = random_() % (kNone + 1);
    return std::ranges::count(candidate, kNone) == kPlaces ? draw() : candidate;
  }
  // The best of so many different candidates, and its validation loss.
  std::pair<Candidate, double> best_of(std::size_t candidates, bool evolves) {
    std::map<Candidate, double> losses;
    std::vector<std::pair<Candidate, double>> best;  // ascending
    while (losses.size() < candidates) {
      const Candidate next = evolves && losses.size() > candidates / 4 ? child(best) : draw();
      if (losses.contains(next)) continue;
      use(next);
      best.emplace_back(next, losses[next] = trainer_.evaluate()->loss);
      std::ranges::sort(best, {}, [](const auto& each) { return each.second; });
      if (best.size() > kParents) best.pop_back();
    }
    return best.front();
  }

 private:
  // One of the best, with another kind at one or two places.
  Candidate child(const std::vector<std::pair<Candidate, double>>& best) {
    Candidate candidate = best[random_() % best.size()].first;
    for (auto changes = 1 + random_() % 2; changes > 0; --changes) {
      candidate[random_() % kPlaces] = random_() % (kNone + 1);
    }
    return std::ranges::count(candidate, kNone) == kPlaces ? draw() : candidate;
  }

  l2l::Trainer& trainer_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 5 || (count > 3 && std::atoi(arguments[3]) < 1)) {
    std::fprintf(stderr, "usage: search TEXT_FILE [STEPS [CANDIDATES [SEED]]]\n");
    return 2;
  }
  try {
    const int steps = count > 2 ? std::atoi(arguments[2]) : 400;
    const std::size_t candidates = count > 3 ? std::strtoul(arguments[3], nullptr, 10) : 200;
    const std::uint64_t seed = count > 4 ? std::strtoull(arguments[4], nullptr, 10) : 1;
    l2l::Trainer trainer(options_for(arguments[1], seed));
    Search search(trainer, seed);
    for (int step = 0; step < steps; ++step) {
      search.use(search.draw());
      trainer.step();
    }
    for (const bool evolves : {true, false}) {
      const auto [best, loss] = search.best_of(candidates, evolves);
      std::printf("%s, %zu candidates: validation loss %.4f:", evolves ? "evolution" : "at random", candidates, loss);
      for (const std::uint32_t kind : best) std::printf(" %s", kind == kNone ? "-" : kKinds[kind].name);
      std::printf("\n");
    }
    std::printf("%.1f MiB on the device throughout\n", static_cast<double>(trainer.device_peak_bytes()) / (1 << 20));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
