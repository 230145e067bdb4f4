#include "collectives/threads.h"

#include <condition_variable>
#include <cstring>
#include <deque>
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

// Of all meetings of a run.
struct Common {
  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;  // guarded by mutex
};

// Where ranks meet. Thread-safe.
class Meeting {
 public:
  Meeting(std::shared_ptr<Common> common, int ranks) : common_(std::move(common)), ranks_(ranks) {}
  int ranks() const { return ranks_; }

  std::shared_ptr<Progress> start(int rank, std::span<const Outgoing> sent, std::span<const Incoming> received) {
    const std::lock_guard lock(common_->mutex);
    check();
    auto progress = std::make_shared<Progress>(Progress{sent.size() + received.size()});
    for (const Outgoing& piece : sent) {
      Line& line = lines_[{rank, piece.to}];
      line.sent.push_back({piece.bytes, progress});
      match(line);
    }
    for (const Incoming& piece : received) {
      Line& line = lines_[{piece.from, rank}];
      line.received.push_back({piece.bytes, progress});
      match(line);
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
  // The meeting of the ranks with this color, and the rank's place in it, once all ranks have come.
  std::pair<std::shared_ptr<Meeting>, int> split(int rank, int color) {
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
    std::shared_ptr<Meeting>& meeting = splits_[round].meetings[color];
    if (meeting == nullptr) meeting = std::make_shared<Meeting>(common_, same);
    return {meeting, before};
  }
  void abort(const std::string& reason) {
    const std::lock_guard lock(common_->mutex);
    if (common_->failure.empty()) common_->failure = reason;
    common_->changed.notify_all();
  }

 private:
  // What one rank has for another, in the order in which it was started.
  struct Line {
    std::deque<std::pair<std::span<const std::byte>, std::shared_ptr<Progress>>> sent;
    std::deque<std::pair<std::span<std::byte>, std::shared_ptr<Progress>>> received;
  };
  struct Split {
    std::map<int, int> colors;  // by rank
    std::map<int, std::shared_ptr<Meeting>> meetings;
  };

  void check() const {
    if (!common_->failure.empty()) throw Error(common_->failure);
  }
  void match(Line& line) {
    while (!line.sent.empty() && !line.received.empty()) {
      const auto [from, sender] = line.sent.front();
      const auto [to, receiver] = line.received.front();
      if (from.size() != to.size()) {
        common_->failure =
            "a rank sent " + std::to_string(from.size()) + " bytes where another expected " + std::to_string(to.size());
        common_->changed.notify_all();
        check();
      }
      std::memcpy(to.data(), from.data(), from.size());
      --sender->left;
      --receiver->left;
      line.sent.pop_front();
      line.received.pop_front();
      common_->changed.notify_all();
    }
  }

  const std::shared_ptr<Common> common_;
  const int ranks_;
  std::map<std::pair<int, int>, Line> lines_;  // guarded by Common::mutex, as are the next two
  std::map<int, std::size_t> splits_of_;       // so far, by rank
  std::vector<Split> splits_;
};

class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<Meeting> meeting, std::shared_ptr<Progress> progress)
      : meeting_(std::move(meeting)), progress_(std::move(progress)) {}
  ~ThreadExchange() override {
    try {
      meeting_->wait(*progress_);
    } catch (const Error&) {  // whoever waits for something else is told
    }
  }
  bool done() override { return meeting_->done(*progress_); }
  void wait() override { meeting_->wait(*progress_); }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const std::shared_ptr<Progress> progress_;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->ranks(); }
  std::unique_ptr<Exchange> start(std::span<const Outgoing> sent, std::span<const Incoming> received) override {
    return std::make_unique<ThreadExchange>(meeting_, meeting_->start(rank_, sent, received));
  }
  std::unique_ptr<Transport> split(int color) override {
    const auto [meeting, rank] = meeting_->split(rank_, color);
    return std::make_unique<ThreadTransport>(meeting, rank);
  }
  void abort(const std::string& reason) override { meeting_->abort(reason); }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> connected_threads(int ranks) {
  const auto meeting = std::make_shared<Meeting>(std::make_shared<Common>(), ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) transports.push_back(std::make_unique<ThreadTransport>(meeting, rank));
  return transports;
}

}  // namespace l2l::collectives
