#include "transfer/courier.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/activity.h"
#include "l2l/errors.h"

namespace l2l::transfer {
namespace {

// How long a thread sleeps that waits for what only asking can tell.
constexpr std::chrono::microseconds kBetweenQuestions{20};
constexpr std::chrono::milliseconds kWithoutExchanges{100};
constexpr std::chrono::milliseconds kPulse{250};  // a fraction of the shortest distributed.timeout

// Exchanges of one kind of one group follow each other, as do visits of a layer; all others may overtake each other.
int channel_of(eps::ExchangeKind kind, std::size_t group) {
  return 1 + static_cast<int>(group) * eps::kGroupExchangeKinds + static_cast<int>(kind);
}
int channel_of(const eps::RankExchange& exchange, std::size_t groups) {
  if (exchange.what.kind != eps::ExchangeKind::visit) {
    return channel_of(exchange.what.kind, static_cast<std::size_t>(exchange.what.group));
  }
  return channel_of(eps::ExchangeKind::gradients, groups) + static_cast<int>(exchange.layer);
}

const char* name_of(eps::ExchangeKind kind) {
  constexpr const char* kNames[] = {"gradients of ranks", "squares of ranks", "wires of ranks", "visits of ranks"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

struct Courier::UnderWay {
  eps::GroupExchange what;
  LayerIndex layer;
  Clock::time_point begin;
  std::unique_ptr<collectives::Exchange> exchange;
};

// Says four times a second to the next rank that this one is alive, and listens to the one before, in a ring. Time in
// which this rank itself was stopped is no silence of the other.
class Courier::Pulse {
 public:
  Pulse(collectives::Collectives& ranks, int channel, std::chrono::seconds timeout)
      : ranks_(ranks), channel_(channel), timeout_(timeout) {
    listen();
  }

  void beat() {
    if (heard_->done()) {
      silence_ = {};
      if (word_ == kAlive) listen();
    }
    if (Clock::now() - last_said_ >= kPulse && (said_ == nullptr || said_->done())) say(kAlive);
    check_silence();
  }
  // All ranks end.
  void end() {
    if (said_ != nullptr) wait_for(*said_);
    say(kEnds);
    while (true) {
      wait_for(*heard_);
      silence_ = {};
      if (word_ != kAlive) break;
      listen();
    }
    wait_for(*said_);
  }
  void abandon() {
    heard_->abandon();
    if (said_ != nullptr) said_->abandon();
  }

 private:
  static constexpr std::byte kAlive{1}, kEnds{0};

  void wait_for(collectives::Exchange& exchange) {
    for (; !exchange.done(); std::this_thread::sleep_for(kBetweenQuestions)) check_silence();
  }
  void check_silence() {
    const Clock::time_point now = Clock::now();
    silence_ += std::min<Clock::duration>(now - last_look_, kPulse);
    last_look_ = now;
    if (timeout_.count() == 0 || silence_ < timeout_) return;
    throw Error("rank " + std::to_string(before()) + " has been silent for " + std::to_string(timeout_.count()) +
                " s (distributed.timeout): it was stopped, hangs, or cannot be reached any more");
  }
  int before() const { return (ranks_.rank() + ranks_.size() - 1) % ranks_.size(); }
  void listen() {
    const collectives::Receive word{before(), std::span(&word_, 1)};
    heard_ = ranks_.exchange({}, std::span(&word, 1), channel_);
  }
  void say(std::byte word) {
    saying_ = word;
    last_said_ = Clock::now();
    const collectives::Send sent{(ranks_.rank() + 1) % ranks_.size(), std::span(&saying_, 1)};
    said_ = ranks_.exchange(std::span(&sent, 1), {}, channel_);
  }

  collectives::Collectives& ranks_;
  const int channel_;
  const std::chrono::seconds timeout_;
  std::byte word_{}, saying_{};
  std::unique_ptr<collectives::Exchange> heard_, said_;
  Clock::duration silence_{};  // since the last word
  Clock::time_point last_look_ = Clock::now(), last_said_;
};

Courier::Courier(eps::ParameterStore& store, collectives::Collectives& ranks, Failure& failure,
                 std::chrono::seconds timeout, Trace* trace)
    : store_(store),
      ranks_(ranks),
      failure_(failure),
      trace_(trace),
      track_(trace != nullptr ? trace->add_track("courier") : 0) {
  const std::size_t groups = store.layout().groups.size(), layers = store.layout().layers.size();
  const int last = channel_of(eps::ExchangeKind::gradients, groups) + static_cast<int>(layers);
  if (last >= ranks.channels()) {
    throw Error(std::to_string(groups) + " parameter groups and " + std::to_string(layers) +
                " layers are too many for this transport between ranks, which has " + std::to_string(ranks.channels()) +
                " channels");
  }
  pulse_ = std::make_unique<Pulse>(ranks, last, timeout);
  thread_ = std::thread([this] { run(); });
}

Courier::~Courier() {
  abandons_ = std::uncaught_exceptions() > exceptions_;
  stopping_ = true;
  store_.stop_exchanges();
  thread_.join();
}

collectives::Traffic Courier::traffic(eps::ExchangeKind kind) const {
  const auto i = static_cast<std::size_t>(kind);
  return {sent_[i].load(std::memory_order_relaxed), received_[i].load(std::memory_order_relaxed)};
}

void Courier::run() {
  const ThreadActivity listed("courier");
  try {
    while (goes_on()) take_turns();
    if (abandons_ || failure_.failed()) return abandon();
    pulse_->end();
  } catch (...) {
    failure_.fail(named_exception("courier"));
    abandon();
  }
}

void Courier::abandon() {
  for (const UnderWay& each : under_way_) each.exchange->abandon();
  pulse_->abandon();
}

bool Courier::goes_on() const { return !abandons_ && (!stopping_ || !under_way_.empty()); }

// One span for all of them: that it looks again and again is no progress of the run.
void Courier::take_turns() {
  const bool idle = under_way_.empty();
  const ActivitySpan span(idle ? Doing::rests : Doing::ranks,
                          idle ? "the wait for something to exchange" : "exchanges with other ranks");
  while (goes_on() && under_way_.empty() == idle) take_turn();
}

void Courier::take_turn() {
  const auto at_most = under_way_.empty() ? std::chrono::nanoseconds(kWithoutExchanges) : kBetweenQuestions;
  if (std::optional<eps::RankExchange> next = store_.next_exchange(at_most)) {
    under_way_.push_back(start(std::move(*next)));
  }
  for (auto exchange = under_way_.begin(); exchange != under_way_.end();) {
    if (!exchange->exchange->done()) {
      ++exchange;
      continue;
    }
    finish(*exchange);
    exchange = under_way_.erase(exchange);
  }
  pulse_->beat();
}

Courier::UnderWay Courier::start(eps::RankExchange exchange) {
  const ActivitySpan span(Doing::acts, "an exchange between ranks", exchange.layer);
  const auto kind = static_cast<std::size_t>(exchange.what.kind);
  for (const collectives::Send& piece : exchange.sent) sent_[kind] += piece.bytes.size();
  for (const collectives::Receive& piece : exchange.received) received_[kind] += piece.bytes.size();
  return {exchange.what, exchange.layer, Clock::now(),
          ranks_.exchange(exchange.sent, exchange.received, channel_of(exchange, store_.layout().groups.size()))};
}

void Courier::finish(const UnderWay& exchange) {
  if (trace_ != nullptr) {
    trace_->record(track_, name_of(exchange.what.kind), exchange.begin, Clock::now(), exchange.layer, -1);
  }
  store_.finish_exchange(exchange.what);
}

}  // namespace l2l::transfer
