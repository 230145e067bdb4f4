#include "collectives/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "core/activity.h"
#include "core/back_off.h"
#include "l2l/errors.h"

namespace l2l::collectives {
namespace {

constexpr int kCollective = 0;  // the channel of all but exchange()

void require(bool right, const char* what) {
  if (!right) throw Error(std::string("exchange between ranks: ") + what);
}

// Where each rank's bytes begin, and their end.
std::vector<Bytes> offsets(std::span<const Bytes> sizes, int ranks, Bytes total, const char* what) {
  require(sizes.size() == static_cast<std::size_t>(ranks), "there is not one size for each rank");
  std::vector<Bytes> begins(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), begins.begin() + 1);
  require(begins.back() == total, what);
  return begins;
}

template <typename Byte>
std::span<Byte> part(std::span<Byte> all, const std::vector<Bytes>& begins, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return all.subspan(begins[r], begins[r + 1] - begins[r]);
}

void copy_local(std::span<const std::byte> from, std::span<std::byte> to) {
  require(from.size() == to.size(), "a rank's own bytes have two sizes");
  if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

std::unique_ptr<Exchange> Collectives::all_gather(std::span<const std::byte> mine, std::span<const Bytes> sizes,
                                                  std::span<std::byte> all) {
  const std::vector<Bytes> begins = offsets(sizes, size(), all.size(), "the sizes are not those of what is gathered");
  copy_local(mine, part(all, begins, rank()));
  std::vector<Send> sent;
  std::vector<Receive> received;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    sent.push_back({peer, mine});
    received.push_back({peer, part(all, begins, peer)});
  }
  return exchange(sent, received, kCollective);
}

std::unique_ptr<Exchange> Collectives::gather(int root, std::span<const std::byte> mine, std::span<const Bytes> sizes,
                                              std::span<std::byte> all) {
  require(root >= 0 && root < size(), "there is no such root");
  if (rank() != root) {
    require(all.empty(), "gathered on another rank");
    return exchange(std::array{Send{root, mine}}, {}, kCollective);
  }
  const std::vector<Bytes> begins = offsets(sizes, size(), all.size(), "the sizes are not those of what is gathered");
  copy_local(mine, part(all, begins, root));
  std::vector<Receive> received;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != root) received.push_back({peer, part(all, begins, peer)});
  }
  return exchange({}, received, kCollective);
}

std::unique_ptr<Exchange> Collectives::all_to_all(std::span<const std::byte> sent, std::span<const Bytes> sent_sizes,
                                                  std::span<std::byte> received,
                                                  std::span<const Bytes> received_sizes) {
  const std::vector<Bytes> from = offsets(sent_sizes, size(), sent.size(), "the sizes are not those of what is sent");
  const std::vector<Bytes> to =
      offsets(received_sizes, size(), received.size(), "the sizes are not those of what is received");
  copy_local(part(sent, from, rank()), part(received, to, rank()));
  std::vector<Send> outgoing;
  std::vector<Receive> incoming;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    outgoing.push_back({peer, part(sent, from, peer)});
    incoming.push_back({peer, part(received, to, peer)});
  }
  return exchange(outgoing, incoming, kCollective);
}

std::unique_ptr<Exchange> Collectives::broadcast(int root, std::span<std::byte> data) {
  require(root >= 0 && root < size(), "there is no such root");
  if (rank() != root) return exchange({}, std::array{Receive{root, data}}, kCollective);
  std::vector<Send> sent;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != root) sent.push_back({peer, data});
  }
  return exchange(sent, {}, kCollective);
}

void Collectives::finish(std::unique_ptr<Exchange> exchange) {
  const ActivitySpan span(Doing::ranks, "the wait for other ranks");
  if (failure_ == nullptr) return exchange->wait();
  for (int times = 0; !exchange->done(); ++times) {
    if (failure_->failed()) {
      exchange->abandon();
      failure_->rethrow();
    }
    back_off(times);
  }
}

void Collectives::barrier() { static_cast<void>(all(true)); }

bool Collectives::all(bool mine) {
  const std::byte own{mine ? std::uint8_t{1} : std::uint8_t{0}};
  std::vector<std::byte> each(static_cast<std::size_t>(size()));
  const std::vector<Bytes> sizes(each.size(), 1);
  finish(all_gather(std::span(&own, 1), sizes, each));
  return std::ranges::count(each, std::byte{0}) == 0;
}

std::vector<std::byte> Collectives::gather_unknown(std::span<const std::byte> mine, std::vector<Bytes>& sizes) {
  const Bytes own = mine.size();
  sizes.resize(static_cast<std::size_t>(size()));
  const std::vector<Bytes> size_of_each(sizes.size(), sizeof own);
  finish(all_gather(std::as_bytes(std::span(&own, 1)), size_of_each, std::as_writable_bytes(std::span(sizes))));
  std::vector<std::byte> all(std::accumulate(sizes.begin(), sizes.end(), Bytes{0}));
  finish(all_gather(mine, sizes, all));
  return all;
}

std::vector<std::string> Collectives::gather_texts(const std::string& mine) {
  std::vector<Bytes> sizes;
  const std::vector<std::byte> all = gather_unknown(std::as_bytes(std::span(mine)), sizes);
  std::vector<std::string> texts;
  const char* begin = reinterpret_cast<const char*>(all.data());
  for (const Bytes bytes : sizes) {
    texts.emplace_back(begin, bytes);
    begin += bytes;
  }
  return texts;
}

std::unique_ptr<Exchange> Collectives::exchange(std::span<const Send> sent, std::span<const Receive> received,
                                                int channel) {
  for (const Send& piece : sent) traffic_.sent += piece.bytes.size();
  for (const Receive& piece : received) traffic_.received += piece.bytes.size();
  return transport_->start(sent, received, channel);
}

}  // namespace l2l::collectives
