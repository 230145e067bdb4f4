#include "eps/state_gather.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "core/hash.h"

namespace l2l::eps {
namespace {

constexpr GroupIndex kNone = -1;

// What a rank says after `body`: what was thrown, if anything, and the text.
constexpr char kDone = 'D', kCorruptFile = 'C', kBadInput = 'I', kFailed = 'F';

void append(RankExchange& all, RankExchange more) {
  std::ranges::copy(more.sent, std::back_inserter(all.sent));
  std::ranges::copy(more.received, std::back_inserter(all.received));
}

}  // namespace

std::vector<std::string> StateGather::together(const std::function<std::string()>& body) {
  std::string outcome;
  std::exception_ptr own;  // what this rank throws rather than what it says
  try {
    outcome = kDone + body();
  } catch (const CorruptFile& error) {
    own = std::current_exception();
    outcome = kCorruptFile + std::string(error.what());
  } catch (const BadInput& error) {
    own = std::current_exception();
    outcome = kBadInput + std::string(error.what());
  } catch (const CorruptState& error) {
    own = std::current_exception();
    outcome = kFailed + std::string(error.what());
  } catch (const std::exception& error) {
    outcome = kFailed + std::string(error.what());
  }
  std::vector<std::string> outcomes = ranks_.gather_texts(outcome);
  const auto failed = std::ranges::find_if(outcomes, [](const std::string& each) { return each[0] != kDone; });
  if (failed == outcomes.end()) {
    for (std::string& each : outcomes) each.erase(0, 1);
    return outcomes;
  }
  if (own) std::rethrow_exception(own);
  const std::string rank = "rank " + std::to_string(failed - outcomes.begin()), reason = failed->substr(1);
  if (failed->front() == kCorruptFile) throw CorruptFile(rank, reason);
  if (failed->front() == kBadInput) throw BadInput(rank + ": " + reason);
  throw FailureOfAll(rank + ": " + reason);
}

std::vector<GroupIndex> StateGather::next_round(StateSave& save) {
  std::vector<GroupIndex> groups;
  std::exception_ptr failure;  // after which there are no more rounds
  try {
    if (first()) groups = save.next_of_each_writer();
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  groups.resize(static_cast<std::size_t>(ranks_.size()), kNone);
  ranks_.finish(ranks_.broadcast(0, std::as_writable_bytes(std::span(groups))));
  if (failure) std::rethrow_exception(failure);
  std::erase(groups, kNone);
  if (!first()) save.take(groups);
  return groups;
}

bool StateGather::gather_round(std::span<const GroupIndex> groups, bool gives_up) {
  RankExchange exchange{};
  std::exception_ptr failure;  // of which the others hear before any exchange that this rank would miss
  try {
    for (const GroupIndex group : groups) append(exchange, store_.gather_state(group, store_.writer(group)));
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  const bool all_ready = ranks_.all(!failure);
  if (failure) std::rethrow_exception(failure);
  if (!all_ready) return false;
  ranks_.finish(ranks_.exchange(exchange.sent, exchange.received, 0));
  return agree_on_state(groups, gives_up);
}

// After the last read: what was sent is what the checksums were taken of.
bool StateGather::agree_on_state(std::span<const GroupIndex> groups, bool gives_up) {
  std::exception_ptr corrupt;
  try {
    for (const GroupIndex group : groups) store_.check_state(group);
  } catch (const CorruptState&) {
    corrupt = std::current_exception();
  }
  const bool all_go_on = ranks_.all(!corrupt && !gives_up);
  if (corrupt) std::rethrow_exception(corrupt);
  return all_go_on;
}

void StateGather::gather(GroupIndex group) {
  const RankExchange exchange = store_.gather_state(group, 0);
  ranks_.finish(ranks_.exchange(exchange.sent, exchange.received, 0));
  if (agree_on_state(std::span(&group, 1), /*gives_up=*/false)) return;
  throw Error("group " + store_.layout().groups[static_cast<std::size_t>(group)].name +
              ": its state on another rank is not what was last written there");
}

void StateGather::read(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first,
                       std::span<float> values) {
  gather(group);
  if (this->first()) store_.read(group, parameter, part, first, values);
  store_.forget_gathered();
  ranks_.finish(ranks_.broadcast(0, std::as_writable_bytes(values)));
}

std::uint64_t StateGather::state_hash() {
  Hash64 hash;
  for (std::size_t i = 0; i < store_.layout().groups.size(); ++i) {
    gather(static_cast<GroupIndex>(i));
    if (first()) store_.add_to_hash(static_cast<GroupIndex>(i), hash);
  }
  store_.forget_gathered();
  std::uint64_t value = hash.value();
  ranks_.finish(ranks_.broadcast(0, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

}  // namespace l2l::eps
