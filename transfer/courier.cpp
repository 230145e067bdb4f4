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
constexpr std::chrono::hours kUntilThereIsOne{1};

// Exchanges of one kind of one group follow each other; all others may overtake each other.
int channel_of(const eps::GroupExchange& what) {
  return 1 + static_cast<int>(what.group) * eps::kExchangeKinds + static_cast<int>(what.kind);
}

const char* name_of(eps::ExchangeKind kind) {
  constexpr const char* kNames[] = {"gradients of ranks", "squares of ranks", "wires of ranks"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

struct Courier::UnderWay {
  eps::GroupExchange what;
  LayerIndex layer;
  Clock::time_point begin;
  std::unique_ptr<collectives::Exchange> exchange;
};

Courier::Courier(eps::ParameterStore& store, collectives::Collectives& ranks, Failure& failure, Trace* trace)
    : store_(store),
      ranks_(ranks),
      failure_(failure),
      trace_(trace),
      track_(trace != nullptr ? trace->add_track("courier") : 0) {
  const auto groups = static_cast<GroupIndex>(store.layout().groups.size());
  if (channel_of({eps::ExchangeKind::gradients, groups}) > ranks.channels()) {
    throw Error(std::to_string(groups) + " parameter groups are too many for this transport between ranks, which has " +
                std::to_string(ranks.channels()) + " channels");
  }
  thread_ = std::thread([this] { run(); });
}

Courier::~Courier() {
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
    std::vector<UnderWay> under_way;
    while (true) {
      const bool asks = !under_way.empty();
      std::optional<eps::RankExchange> next =
          store_.next_exchange(asks ? std::chrono::nanoseconds(kBetweenQuestions) : kUntilThereIsOne);
      if (next) {
        under_way.push_back(start(std::move(*next)));
      } else if (!asks && stopping_) {
        return;
      }
      std::erase_if(under_way, [&](const UnderWay& exchange) {
        const bool done = exchange.exchange->done();
        if (done) finish(exchange);
        return done;
      });
    }
  } catch (...) {
    failure_.fail(named_exception("courier"));
  }
}

Courier::UnderWay Courier::start(eps::RankExchange exchange) {
  const ActivitySpan span(Doing::acts, "an exchange between ranks", exchange.layer);
  const auto kind = static_cast<std::size_t>(exchange.what.kind);
  for (const collectives::Send& piece : exchange.sent) sent_[kind] += piece.bytes.size();
  for (const collectives::Receive& piece : exchange.received) received_[kind] += piece.bytes.size();
  return {exchange.what, exchange.layer, Clock::now(),
          ranks_.exchange(exchange.sent, exchange.received, channel_of(exchange.what))};
}

void Courier::finish(const UnderWay& exchange) {
  if (trace_ != nullptr) {
    trace_->record(track_, name_of(exchange.what.kind), exchange.begin, Clock::now(), exchange.layer, -1);
  }
  store_.finish_exchange(exchange.what);
}

}  // namespace l2l::transfer
