#include "eps/group_lanes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace l2l::eps {
namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// The lane that would finish first with `more` bytes added.
std::size_t lightest(std::span<const double> load, std::span<const int> workers, double more) {
  const auto time = [&](std::size_t lane) { return (load[lane] + more) / workers[lane]; };
  std::size_t best = 0;
  for (std::size_t lane = 1; lane < load.size(); ++lane) {
    if (time(lane) < time(best)) best = lane;
  }
  return best;
}

// Shares of what is left that bring all lanes to loads in proportion to their workers.
std::vector<double> shares(std::span<const double> load, std::span<const int> workers, double left) {
  const double total = sum(load) + left;
  const double all_workers = std::accumulate(workers.begin(), workers.end(), 0.0);
  std::vector<double> share(load.size());
  for (std::size_t lane = 0; lane < load.size(); ++lane) {
    share[lane] = std::max(0.0, total * workers[lane] / all_workers - load[lane]);
  }
  const double room = sum(share);
  for (double& part : share) part = room > 0 ? part / room : 0;
  return share;
}

}  // namespace

std::vector<int> spread_groups(std::span<const Bytes> groups, std::span<const int> workers) {
  std::vector<int> lanes(groups.size(), 0);
  const double total = std::accumulate(groups.begin(), groups.end(), 0.0);
  const auto large = [&](std::size_t i) {
    return static_cast<double>(groups[i]) * static_cast<double>(groups.size()) > total;
  };
  std::vector<double> load(workers.size()), given(workers.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!large(i)) continue;
    const double bytes = static_cast<double>(groups[i]);
    const std::size_t lane = lightest(load, workers, bytes);
    load[lane] += bytes;
    lanes[i] = static_cast<int>(lane);
  }
  const std::vector<double> share = shares(load, workers, total - sum(load));
  double done = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (large(i)) continue;
    done += static_cast<double>(groups[i]);
    const auto behind = [&](std::size_t lane) { return share[lane] * done - given[lane]; };
    std::size_t lane = 0;
    for (std::size_t other = 1; other < workers.size(); ++other) {
      if (behind(other) > behind(lane)) lane = other;
    }
    given[lane] += static_cast<double>(groups[i]);
    lanes[i] = static_cast<int>(lane);
  }
  return lanes;
}

}  // namespace l2l::eps
