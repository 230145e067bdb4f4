#include "collectives/threads.h"

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "l2l/errors.h"

namespace l2l::collectives {
namespace {

// How many pieces of an exchange are still to come or to go.
struct Progress {
  std::size_t left = 0;
};

// Of all groups of a run.
struct Common {
  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;  // guarded by mutex
};

// Ranks that exchange. Thread-safe.
class Group {
 public:
  Group(std::shared_ptr<Common> common, int ranks) : common_(std::move(common)), ranks_(ranks) {}
  int ranks() const { return ranks_; }

  std::shared_ptr<Progress> start(int rank, std::span<const Send> sent, std::span<const Receive> received, int number) {
    const std::lock_guard lock(common_->mutex);
    check();
    auto progress = std::make_shared<Progress>(Progress{sent.size() + received.size()});
    for (const Send& piece : sent) {
      Channel& channel = channels_[{rank, piece.to, number}];
      channel.sent.push_back({piece.bytes, progress});
      match(channel);
    }
    for (const Receive& piece : received) {
      Channel& channel = channels_[{piece.from, rank, number}];
      channel.received.push_back({piece.bytes, progress});
      match(channel);
    }
    return progress;
  }
  bool done(const Progress& progress) {
    const std::lock_guard lock(common_->mutex);
    if (progress.left > 0) check();
    return progress.left == 0;
  }
  void wait(const Progress& progress) {
    std::unique_lock lock(common_->mutex);
    common_->changed.wait(lock, [&] { return progress.left == 0 || !common_->failure.empty(); });
    if (progress.left > 0) check();
  }
  // The group of the ranks with this color, and the rank's place in it, once all ranks have come.
  std::pair<std::shared_ptr<Group>, int> split(int rank, int color) {
    std::unique_lock lock(common_->mutex);
    check();
    const std::size_t round = splits_of_[rank]++;
    if (splits_.size() <= round) splits_.resize(round + 1);
    splits_[round].colors[rank] = color;
    common_->changed.notify_all();
    common_->changed.wait(lock, [&] {
      return splits_[round].colors.size() == static_cast<std::size_t>(ranks_) || !common_->failure.empty();
    });
    check();
    int before = 0, same = 0;
    for (const auto& [other, its] : splits_[round].colors) {
      if (its != color) continue;
      before += other < rank ? 1 : 0;
      ++same;
    }
    std::shared_ptr<Group>& group = splits_[round].groups[color];
    if (group == nullptr) group = std::make_shared<Group>(common_, same);
    return {group, before};
  }
  // Whoever has the exchange will not wait for it.
  void leave(const Progress& progress) {
    const std::lock_guard lock(common_->mutex);
    if (progress.left > 0 && common_->failure.empty()) common_->failure = "a rank ended early";
    common_->changed.notify_all();
  }
  // The first reason stays.
  void fail(const std::string& reason) {
    const std::lock_guard lock(common_->mutex);
    if (common_->failure.empty()) common_->failure = reason;
    common_->changed.notify_all();
  }

 private:
  // What one rank has for another, in the order in which it was started.
  struct Channel {
    std::deque<std::pair<std::span<const std::byte>, std::shared_ptr<Progress>>> sent;
    std::deque<std::pair<std::span<std::byte>, std::shared_ptr<Progress>>> received;
  };
  struct Split {
    std::map<int, int> colors;  // by rank
    std::map<int, std::shared_ptr<Group>> groups;
  };

  void check() const {
    if (!common_->failure.empty()) throw Error(common_->failure);
  }
  void match(Channel& channel) {
    while (!channel.sent.empty() && !channel.received.empty()) {
      const auto [from, sender] = channel.sent.front();
      const auto [to, receiver] = channel.received.front();
      if (from.size() != to.size()) {
        common_->failure =
            "a rank sent " + std::to_string(from.size()) + " bytes where another expected " + std::to_string(to.size());
        common_->changed.notify_all();
        check();
      }
      if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
      --sender->left;
      --receiver->left;
      channel.sent.pop_front();
      channel.received.pop_front();
      common_->changed.notify_all();
    }
  }

  const std::shared_ptr<Common> common_;
  const int ranks_;
  // By sender, receiver and channel. Guarded by Common::mutex, as are the next two.
  std::map<std::array<int, 3>, Channel> channels_;
  std::map<int, std::size_t> splits_of_;  // so far, by rank
  std::vector<Split> splits_;
};

class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<Group> group, std::shared_ptr<Progress> progress)
      : group_(std::move(group)), progress_(std::move(progress)) {}
  ~ThreadExchange() override {
    if (abandoned_) return;
    try {
      std::uncaught_exceptions() > exceptions_ ? group_->leave(*progress_) : group_->wait(*progress_);
    } catch (const Error&) {  // whoever waits for something else is told
    }
  }
  bool done() override { return group_->done(*progress_); }
  void wait() override { group_->wait(*progress_); }
  void abandon() override {
    group_->leave(*progress_);
    abandoned_ = true;
  }

 private:
  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Progress> progress_;
  const int exceptions_ = std::uncaught_exceptions();
  bool abandoned_ = false;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->ranks(); }
  std::unique_ptr<Exchange> start(std::span<const Send> sent, std::span<const Receive> received, int channel) override {
    return std::make_unique<ThreadExchange>(group_, group_->start(rank_, sent, received, channel));
  }
  int channels() const override { return std::numeric_limits<int>::max(); }
  int neighbours() const override { return size(); }
  Bytes buffer_bytes() const override { return 0; }
  std::unique_ptr<Transport> split(int color) override {
    const auto [group, rank] = group_->split(rank_, color);
    return std::make_unique<ThreadTransport>(group, rank);
  }
  void end_is_agreed() override {}
  void abort(const std::string& reason) override {
    group_->fail(reason);
    throw Error(reason);
  }

 private:
  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> connected_threads(int ranks) {
  const auto group = std::make_shared<Group>(std::make_shared<Common>(), ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) transports.push_back(std::make_unique<ThreadTransport>(group, rank));
  return transports;
}

}  // namespace l2l::collectives
