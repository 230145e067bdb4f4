// What the ranks of a run exchange. Bytes are moved and never added: the order in which a library adds depends on its
// algorithm and on the network, and sums of a run must have the same bits on any number of ranks.
//
// All ranks make the same calls in the same order, but for those of exchange(). Each call starts an exchange and
// returns; several may be under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport.h"
#include "core/bytes.h"
#include "core/failure.h"

namespace l2l::collectives {

// Bytes to and from other ranks, headers of the network not counted.
struct Traffic {
  Bytes sent = 0, received = 0;
  Bytes either() const { return sent > received ? sent : received; }  // the direction with more
  bool operator==(const Traffic&) const = default;
};
inline Traffic operator+(const Traffic& a, const Traffic& b) { return {a.sent + b.sent, a.received + b.received}; }

// Thread-bound. Sizes are in bytes, by rank; ranks may have different ones, and none. Buffers stay alive
// and unchanged until the exchange is done, and what is read does not overlap what is written, but for a rank's own
// bytes, which may lie in their place already. Functions throw Error where sizes and buffers do not fit.
class Collectives {
 public:
  explicit Collectives(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  // `all`: `mine` of every rank, one behind the other.
  std::unique_ptr<Exchange> all_gather(std::span<const std::byte> mine, std::span<const Bytes> sizes,
                                       std::span<std::byte> all);
  // The same on rank `root`; others give no `all`.
  std::unique_ptr<Exchange> gather(int root, std::span<const std::byte> mine, std::span<const Bytes> sizes,
                                   std::span<std::byte> all);
  // `sent`: what each rank is to get, one behind the other; `received`: what each rank has for this one.
  std::unique_ptr<Exchange> all_to_all(std::span<const std::byte> sent, std::span<const Bytes> sent_sizes,
                                       std::span<std::byte> received, std::span<const Bytes> received_sizes);
  // `data` of rank `root` on every rank. The root sends it to each: it is meant for plans, not for weights.
  std::unique_ptr<Exchange> broadcast(int root, std::span<std::byte> data);
  // Pieces of any sizes, which `channel` keeps apart from all others (Transport::start()); 0 is that of the calls
  // above.
  std::unique_ptr<Exchange> exchange(std::span<const Send> sent, std::span<const Receive> received, int channel);
  int channels() const { return transport_->channels(); }
  int neighbours() const { return transport_->neighbours(); }
  Bytes buffer_bytes() const { return transport_->buffer_bytes(); }
  // Waits; but where what watch() names has failed, abandons the exchange and rethrows that.
  void finish(std::unique_ptr<Exchange> exchange);
  // `failure` lives as long as this object, or until another, or null, takes its place.
  void watch(const Failure* failure) { failure_ = failure; }
  // Returns when every rank has called it.
  void barrier();
  // The same; whether it is true of every rank.
  bool all(bool mine);
  // What each rank gives, one behind the other, of sizes that the others do not know; and these.
  std::vector<std::byte> gather_unknown(std::span<const std::byte> mine, std::vector<Bytes>& sizes);
  // The same, by rank.
  std::vector<std::string> gather_texts(const std::string& mine);

  // The ranks with the same `color`, in order.
  Collectives split(int color) { return Collectives(transport_->split(color)); }
  void end_is_agreed() { transport_->end_is_agreed(); }
  void abort(const std::string& reason) { transport_->abort(reason); }

  // Of all exchanges that were started here.
  const Traffic& traffic() const { return traffic_; }

 private:
  std::unique_ptr<Transport> transport_;
  const Failure* failure_ = nullptr;
  Traffic traffic_;
};

}  // namespace l2l::collectives
