#include "eps/state_gather.h"

#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "core/hash.h"
#include "l2l/errors.h"

namespace l2l::eps {
namespace {

constexpr GroupIndex kNone = -1;

}  // namespace

GroupIndex StateGather::say(GroupIndex group) {
  ranks_.finish(ranks_.broadcast(0, std::as_writable_bytes(std::span(&group, 1))));
  return group;
}

void StateGather::end_groups() {
  if (std::exchange(ended_, true)) return;
  store_.forget_gathered();
  say(kNone);
}

std::optional<GroupIndex> StateGather::announced() {
  const GroupIndex group = say(kNone);
  return group == kNone ? std::nullopt : std::optional(group);
}

std::string StateGather::from_first(const std::string& text) {
  Bytes size = text.size();
  ranks_.finish(ranks_.broadcast(0, std::as_writable_bytes(std::span(&size, 1))));
  std::string announced = text;
  announced.resize(size);
  ranks_.finish(ranks_.broadcast(0, std::as_writable_bytes(std::span(announced))));
  return announced;
}

void StateGather::gather(GroupIndex group) {
  const RankExchange exchange = store_.gather_state(group);
  ranks_.finish(ranks_.exchange(exchange.sent, exchange.received, 0));
  std::exception_ptr corrupt;
  try {
    store_.check_state(group);  // after the last read: what was sent is what the checksums were taken of
  } catch (const CorruptState&) {
    corrupt = std::current_exception();
  }
  const std::byte flag{corrupt ? std::uint8_t{1} : std::uint8_t{0}};
  std::vector<std::byte> flags(static_cast<std::size_t>(first() ? ranks_.size() : 0));
  const std::vector<Bytes> sizes(static_cast<std::size_t>(ranks_.size()), 1);
  ranks_.finish(ranks_.gather(0, std::span(&flag, 1), sizes, flags));
  if (corrupt) std::rethrow_exception(corrupt);
  for (std::size_t rank = 0; rank < flags.size(); ++rank) {
    if (flags[rank] == std::byte{0}) continue;
    throw Error("rank " + std::to_string(rank) + ": its state of group " +
                store_.layout().groups[static_cast<std::size_t>(group)].name + " is not what was last written there");
  }
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
