// Records the rematerializer's callbacks, and keeps its own account of what is in memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "compiler/remat/dtr/rematerializer.h"

namespace l2l::compiler::remat::dtr {

class Recorder final : public Callbacks {
 public:
  void watch(const Rematerializer& core) { core_ = &core; }

  const std::vector<std::string>& events() const { return events_; }
  Bytes memory() const { return memory_; }
  Bytes peak() const { return peak_; }

  void allocate_buffer(Index tensor, bool spare) override {
    memory_ += graph().tensors()[tensor].bytes;
    peak_ = std::max(peak_, memory_);
    EXPECT_TRUE(allocated_.emplace(tensor, spare).second);
  }
  void perform_op(Index op, bool again) override {
    const Graph::Node& node = graph().ops()[op];
    for (const Index arg : node.args) EXPECT_TRUE(defined_.count(arg)) << "op " << op << " reads tensor " << arg;
    Index missing = 0;
    for (Index t = node.first; t < node.end; ++t) {
      const Index storage = graph().tensors()[t].storage;
      missing += defined_.count(t) || gone_.count(storage) ? 0 : 1;
      if (!gone_.count(storage)) defined_.insert(t);
      const bool alias = graph().storages()[storage].tensors.front() != t;
      EXPECT_EQ(allocated_.count({t, true}) + allocated_.count({t, false}), alias ? 0u : 1u);
    }
    EXPECT_GT(missing, 0u) << "op " << op << " runs for nothing";
    for (const auto& [tensor, spare] : allocated_) memory_ -= spare ? graph().tensors()[tensor].bytes : 0;
    allocated_.clear();
    EXPECT_EQ(again, !performed_.insert(op).second);
    say(again ? "again " : "run ", op);
  }
  void perform_eviction(Index storage, Eviction reason) override {
    memory_ -= graph().storages()[storage].size;
    for (const Index tensor : graph().storages()[storage].tensors) defined_.erase(tensor);
    if (reason == Eviction::banish) gone_.insert(storage);
    EXPECT_TRUE(reason == Eviction::banish || !pinned_.count(storage));
    say(reason == Eviction::budget ? "evict " : reason == Eviction::release ? "release " : "banish ", storage);
  }
  void pin(Index storage) override {
    EXPECT_TRUE(pinned_.insert(storage).second);
    say("pin ", storage);
  }

 private:
  const Graph& graph() const { return core_->graph(); }
  void say(const char* what, Index index) { events_.push_back(what + std::to_string(index)); }

  const Rematerializer* core_ = nullptr;
  std::vector<std::string> events_;
  std::set<Index> defined_, performed_, pinned_, gone_;
  std::set<std::pair<Index, bool>> allocated_;
  Bytes memory_ = 0, peak_ = 0;
};

}  // namespace l2l::compiler::remat::dtr
