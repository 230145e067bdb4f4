#include "compiler/memory/search/race.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <vector>

namespace l2l::compiler::memory {

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
