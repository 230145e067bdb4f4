#include "tests/collectives/suite.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace l2l::collectives::testing {
namespace {

using Data = std::vector<std::byte>;

// What rank `from` has for rank `to` (-1: for all) in exchange number `number`.
Data data_of(int from, int to, int number, Bytes size) {
  std::uint32_t state = static_cast<std::uint32_t>(1 + from + 31 * (to + 1) + 1009 * number);
  Data data(size);
  for (std::byte& byte : data) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return data;
}

// Of what rank `from` has for rank `to`: some have nothing, some much; in exchange kEven all have the same, so that a
// piece in the wrong place is only seen by what it holds.
constexpr int kEven = 4;
Bytes size_of(int from, int to, int number) {
  if (number == kEven) return 64;
  const int kind = (3 * from + 5 * to + number) % 4;
  return kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? 1000 + static_cast<Bytes>(from) : (Bytes{1} << 20) + 7;
}

Bytes total(const std::vector<Bytes>& sizes) { return std::accumulate(sizes.begin(), sizes.end(), Bytes{0}); }

void append(Data& all, const Data& part) { all.insert(all.end(), part.begin(), part.end()); }

class Suite {
 public:
  explicit Suite(Collectives& ranks) : ranks_(ranks), me_(ranks.rank()), size_(ranks.size()) {}

  std::string run() {
    for (int number = 0; number <= kEven; ++number) {
      all_gather(number);
      all_to_all(number);
      for (int root = 0; root < size_; ++root) gather(root, number), broadcast(root, number);
    }
    several_at_a_time();
    own_bytes_in_their_place();
    channels();
    if (size_ > 1 && ranks_.traffic() != expected_) wrong("traffic");
    parts();
    texts();
    ranks_.barrier();
    return wrong_;
  }

 private:
  void wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = "rank " + std::to_string(me_) + " of " + std::to_string(size_) + ": " + what;
  }
  void expect_equal(const Data& found, const Data& expected, const std::string& what) {
    if (found != expected) wrong(what);
  }
  void count(Traffic traffic) {
    expected_.sent += traffic.sent;
    expected_.received += traffic.received;
  }
  std::vector<Bytes> gathered_sizes(int number) const {
    std::vector<Bytes> sizes;
    for (int rank = 0; rank < size_; ++rank) sizes.push_back(size_of(rank, 0, number));
    return sizes;
  }
  Data gathered(int number) const {
    Data all;
    for (int rank = 0; rank < size_; ++rank) append(all, data_of(rank, -1, number, size_of(rank, 0, number)));
    return all;
  }

  void all_gather(int number) {
    const std::vector<Bytes> sizes = gathered_sizes(number);
    const Bytes own = size_of(me_, 0, number);
    const Data mine = data_of(me_, -1, number, own);
    Data all(total(sizes));
    ranks_.all_gather(mine, sizes, all)->wait();
    expect_equal(all, gathered(number), "all_gather " + std::to_string(number));
    count({own * static_cast<Bytes>(size_ - 1), all.size() - own});
  }

  void gather(int root, int number) {
    const std::vector<Bytes> sizes = gathered_sizes(number);
    const Bytes own = size_of(me_, 0, number);
    const Data mine = data_of(me_, -1, number, own);
    Data all(me_ == root ? total(sizes) : 0);
    ranks_.gather(root, mine, sizes, all)->wait();
    if (me_ == root) expect_equal(all, gathered(number), "gather " + std::to_string(number));
    count(me_ == root ? Traffic{0, all.size() - own} : Traffic{own, 0});
  }

  // Of several lengths, with zeros in them; that of rank 0 is empty.
  void texts() {
    const auto text_of = [](int rank) {
      return std::string(static_cast<std::size_t>(rank) * 1000, '\0') + (rank > 0 ? "end" : "");
    };
    const std::vector<std::string> all = ranks_.gather_texts(text_of(me_));
    for (int rank = 0; rank < size_; ++rank) {
      if (all.size() != static_cast<std::size_t>(size_) || all[static_cast<std::size_t>(rank)] != text_of(rank))
        wrong("texts");
    }
  }

  void all_to_all(int number) {
    Data sent, expected;
    std::vector<Bytes> sent_sizes, received_sizes;
    for (int peer = 0; peer < size_; ++peer) {
      sent_sizes.push_back(size_of(me_, peer, number));
      received_sizes.push_back(size_of(peer, me_, number));
      append(sent, data_of(me_, peer, number, sent_sizes.back()));
      append(expected, data_of(peer, me_, number, received_sizes.back()));
    }
    Data received(expected.size());
    ranks_.all_to_all(sent, sent_sizes, received, received_sizes)->wait();
    expect_equal(received, expected, "all_to_all " + std::to_string(number));
    const Bytes own = size_of(me_, me_, number);
    count({sent.size() - own, received.size() - own});
  }

  void broadcast(int root, int number) {
    const Bytes size = size_of(root, 1, number);
    const Data expected = data_of(root, -1, number, size);
    Data data = me_ == root ? expected : Data(size);
    ranks_.broadcast(root, data)->wait();
    expect_equal(data, expected, "broadcast " + std::to_string(number));
    count(me_ == root ? Traffic{size * static_cast<Bytes>(size_ - 1), 0} : Traffic{0, size});
  }

  // Started in one order, waited for in another; equal sizes, so that a piece in the wrong place is only seen by what
  // it holds.
  void several_at_a_time() {
    constexpr int kCount = 8;
    constexpr Bytes kSize = 5000;
    const std::vector<Bytes> sizes(static_cast<std::size_t>(size_), kSize);
    std::vector<Data> mine, all;
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (int number = 0; number < kCount; ++number) {
      mine.push_back(data_of(me_, -1, number, kSize));
      all.emplace_back(total(sizes));
    }
    for (std::size_t i = 0; i < kCount; ++i) exchanges.push_back(ranks_.all_gather(mine[i], sizes, all[i]));
    while (!exchanges.back()->done()) {
    }
    for (auto exchange = exchanges.rbegin(); exchange != exchanges.rend(); ++exchange) (*exchange)->wait();
    for (int number = 0; number < kCount; ++number) {
      Data expected;
      for (int rank = 0; rank < size_; ++rank) append(expected, data_of(rank, -1, number, kSize));
      expect_equal(all[static_cast<std::size_t>(number)], expected,
                   "exchange " + std::to_string(number) + " of several");
    }
    const Bytes peers = kCount * kSize * static_cast<Bytes>(size_ - 1);
    count({peers, peers});
  }

  // Each rank starts the exchanges of its channels in an order of its own; on one channel the order counts.
  void channels() {
    constexpr int kChannels = 6, kTimes = 2;
    constexpr Bytes kSize = 4000;
    std::vector<Data> mine(kChannels * kTimes), found(mine.size() * static_cast<std::size_t>(size_), Data(kSize));
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (int time = 0; time < kTimes; ++time) {
      for (int i = 0; i < kChannels; ++i) {
        const int channel = (i + 2 * me_) % kChannels, number = time * kChannels + channel;
        Data& sent_data = mine[static_cast<std::size_t>(number)] = data_of(me_, -1, number, kSize);
        std::vector<Send> sent;
        std::vector<Receive> received;
        for (int peer = 0; peer < size_; ++peer) {
          if (peer == me_) continue;
          sent.push_back({peer, sent_data});
          received.push_back({peer, found[static_cast<std::size_t>(number * size_ + peer)]});
        }
        exchanges.push_back(ranks_.exchange(sent, received, 1 + channel));
      }
    }
    for (const auto& exchange : exchanges) exchange->wait();
    for (int number = 0; number < kChannels * kTimes; ++number) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == me_) continue;
        expect_equal(found[static_cast<std::size_t>(number * size_ + peer)], data_of(peer, -1, number, kSize),
                     "exchange " + std::to_string(number) + " of the channels");
      }
    }
    const Bytes peers = kChannels * kTimes * kSize * static_cast<Bytes>(size_ - 1);
    count({peers, peers});
  }

  void own_bytes_in_their_place() {
    constexpr Bytes kSize = 300;
    const std::vector<Bytes> sizes(static_cast<std::size_t>(size_), kSize);
    Data all(total(sizes)), expected;
    for (int rank = 0; rank < size_; ++rank) append(expected, data_of(rank, -1, 9, kSize));
    const std::span<std::byte> own = std::span(all).subspan(static_cast<Bytes>(me_) * kSize, kSize);
    const Data mine = data_of(me_, -1, 9, kSize);
    std::copy(mine.begin(), mine.end(), own.begin());
    ranks_.all_gather(own, sizes, all)->wait();
    expect_equal(all, expected, "all_gather in place");
    count({kSize * static_cast<Bytes>(size_ - 1), kSize * static_cast<Bytes>(size_ - 1)});
  }

  // Even and odd ranks by themselves, while all of them exchange something, too.
  void parts() {
    Collectives part = ranks_.split(me_ % 2);
    if (part.size() != (size_ + 1 - me_ % 2) / 2 || part.rank() != me_ / 2) wrong("split");
    constexpr Bytes kSize = 700;
    const Data mine = data_of(me_, -1, 5, kSize);
    const std::vector<Bytes> all_sizes(static_cast<std::size_t>(size_), kSize);
    const std::vector<Bytes> part_sizes(static_cast<std::size_t>(part.size()), kSize);
    Data of_all(total(all_sizes)), of_part(total(part_sizes)), all_expected, part_expected;
    const auto whole = ranks_.all_gather(mine, all_sizes, of_all);
    const auto half = part.all_gather(mine, part_sizes, of_part);
    half->wait();
    whole->wait();
    for (int rank = 0; rank < size_; ++rank) {
      append(all_expected, data_of(rank, -1, 5, kSize));
      if (rank % 2 == me_ % 2) append(part_expected, data_of(rank, -1, 5, kSize));
    }
    expect_equal(of_all, all_expected, "all ranks beside a part of them");
    expect_equal(of_part, part_expected, "a part of the ranks");
  }

  Collectives& ranks_;
  const int me_, size_;
  Traffic expected_;
  std::string wrong_;
};

}  // namespace

std::string run_suite(Collectives& ranks) { return Suite(ranks).run(); }

}  // namespace l2l::collectives::testing
