#include "compiler/memory/search/shared.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <numeric>

#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {
namespace {

struct Features {
  double size, width, load, begin, end;
  double area() const { return size * width; }
};

void features_along_line(const Blocks& blocks, std::vector<Features>& features) {
  const Timeline line = make_timeline(blocks);
  std::vector<Bytes> loads(line.sections + 1, 0);
  for (Index block = 0; block < blocks.count(); ++block) {
    loads[line.begin[block]] += blocks.size(block);
    loads[line.end[block]] -= blocks.size(block);
  }
  std::partial_sum(loads.begin(), loads.end(), loads.begin());
  for (Index block = 0; block < blocks.count(); ++block) {
    features[block].width = line.end[block] - line.begin[block];
    features[block].load = static_cast<double>(*std::max_element(&loads[line.begin[block]], &loads[line.end[block]]));
  }
}

void features_of_neighbours(const Blocks& blocks, std::vector<Features>& features) {
  for (Index block = 0; block < blocks.count(); ++block) {
    Features& its = features[block];
    its.width = static_cast<double>(blocks.neighbours(block).size());
    its.load = its.size;
    for (const Index other : blocks.neighbours(block)) its.load += static_cast<double>(blocks.size(other));
  }
}

std::vector<Features> features_of(const Blocks& blocks) {
  const Problem& problem = blocks.problem();
  std::vector<Features> features;
  for (Index block = 0; block < blocks.count(); ++block) {
    Features its{static_cast<double>(blocks.size(block)), 0, 0, 0, 0};
    its.begin = entry_sum(problem.begin_of(blocks.parts(block).front().tensor));
    its.end = entry_sum(problem.end_of(blocks.parts(block).back().tensor));
    features.push_back(its);
  }
  problem.streams == 1 && !blocks.grouped() ? features_along_line(blocks, features)
                                            : features_of_neighbours(blocks, features);
  return features;
}

using Key = std::array<double, 3>;

std::vector<Key> keys_of(const Features& its) {
  return {{its.load, its.area(), its.width},
          {its.area(), its.load, its.width},
          {its.size, its.width, its.load},
          {its.load, its.width, its.size},
          {its.load, its.size, its.width},
          {its.width, its.size, its.load},
          {-its.begin, 0, 0},
          {its.end, its.width, its.size}};
}

}  // namespace

std::vector<std::vector<Index>> sorted_orders(const Blocks& blocks) {
  std::vector<std::vector<Key>> keys;
  for (const Features& its : features_of(blocks)) keys.push_back(keys_of(its));
  std::vector<std::vector<Index>> orders;
  for (std::size_t kind = 0; !keys.empty() && kind < keys[0].size(); ++kind) {
    std::vector<Index> order(blocks.count());
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return keys[a][kind] > keys[b][kind]; });
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(std::move(order));
  }
  return orders;
}

std::vector<double> areas_of(const Blocks& blocks) {
  std::vector<double> areas;
  for (const Features& its : features_of(blocks)) areas.push_back(its.area());
  return areas;
}

std::size_t race(std::size_t count, int threads,
                 const std::function<bool(std::size_t index, const std::function<bool()>& lost)>& task) {
  std::atomic<std::size_t> next{0}, winner{count};
  const auto run = [&] {
    for (std::size_t index = next++; index < winner; index = next++) {
      if (!task(index, [&winner, index] { return winner < index; })) continue;
      std::size_t before = winner;
      while (index < before && !winner.compare_exchange_weak(before, index)) {
      }
    }
  };
  std::vector<std::future<void>> others;
  for (int thread = 1; thread < std::min(threads, static_cast<int>(count)); ++thread) {
    others.push_back(std::async(std::launch::async, run));
  }
  run();
  for (std::future<void>& other : others) other.get();
  return winner;
}

}  // namespace l2l::compiler::memory
