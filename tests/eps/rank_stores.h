// Ranks of one process: a store for each, and a thread on which it does what all do together.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/threads.h"
#include "eps/state_gather.h"
#include "tests/eps/small_checkpoint.h"

namespace l2l::eps::testing {

struct StoreOfRank {
  StoreOfRank(const ModelLayout& layout, StoreOptions options, std::unique_ptr<collectives::Transport> transport)
      : ranks(std::move(transport)), run(layout, of_rank(options, ranks)), gather(run.store, ranks) {}

  ParameterStore& store() { return run.store; }
  int index() const { return ranks.rank(); }

  collectives::Collectives ranks;
  TestRun run;
  StateGather gather;

 private:
  static StoreOptions of_rank(StoreOptions options, const collectives::Collectives& ranks) {
    options.rank = {ranks.rank(), ranks.size()};
    return options;
  }
};

// Of the calling thread, within RankStores::together().
inline thread_local std::size_t rank_of_thread = 0;

// Two or more.
class RankStores {
 public:
  RankStores(const ModelLayout& layout, int count, const StoreOptions& options = toy_options()) {
    for (auto& transport : collectives::connected_threads(count)) {
      ranks_.push_back(std::make_unique<StoreOfRank>(layout, options, std::move(transport)));
    }
  }

  // What `body` throws on each rank, by rank; empty where it returns.
  std::vector<std::string> together(const std::function<void(StoreOfRank&)>& body) {
    std::vector<std::string> thrown(ranks_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back([&, i] {
        rank_of_thread = i;
        try {
          body(*ranks_[i]);
        } catch (const std::exception& error) {
          thrown[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return thrown;
  }

  // Nothing is thrown anywhere.
  void all(const std::function<void(StoreOfRank&)>& body) {
    EXPECT_EQ(together(body), std::vector<std::string>(ranks_.size()));
  }

  std::uint64_t state_hash() {
    std::vector<std::uint64_t> hashes(ranks_.size());
    all([&](StoreOfRank& rank) { hashes[static_cast<std::size_t>(rank.index())] = rank.gather.state_hash(); });
    EXPECT_EQ(std::vector<std::uint64_t>(hashes.size(), hashes[0]), hashes);
    return hashes[0];
  }

  // Saves what the stores hold now; what each rank throws.
  std::vector<std::string> try_save(const fs::path& directory, const SavedRun& state, int keep) {
    return together([&](StoreOfRank& rank) {
      save_on_ranks(directory, rank.store(), rank.store().begin_save(), state, keep, {}, rank.gather);
    });
  }
  fs::path save(const fs::path& directory, const SavedRun& state, int keep) {
    EXPECT_EQ(try_save(directory, state, keep), std::vector<std::string>(ranks_.size()));
    return find_checkpoint(directory);
  }

  StoreOfRank& operator[](std::size_t rank) { return *ranks_[rank]; }
  std::size_t size() const { return ranks_.size(); }

 private:
  std::vector<std::unique_ptr<StoreOfRank>> ranks_;
};

}  // namespace l2l::eps::testing
