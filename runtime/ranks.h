// The processes that train together, and what they agree on. Each has a rank; the samples of a minibatch are shared
// among the devices of all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "eps/shards.h"
#include "l2l/options.h"

namespace l2l::runtime {

// Thread-bound. All ranks call the same functions in the same order; with one rank they return what they are given.
class Ranks {
 public:
  explicit Ranks(std::unique_ptr<collectives::Transport> transport = collectives::single());

  int rank() const { return peers_->rank(); }
  int count() const { return peers_->size(); }
  bool several() const { return count() > 1; }
  eps::Rank place() const { return {rank(), count(), neighbours()}; }

  // Ranks on this machine, this one included.
  int neighbours() const { return peers_->neighbours(); }
  Bytes buffer_bytes() const { return peers_->buffer_bytes(); }

  // What each rank gives, one behind the other in the order of ranks; sizes may differ.
  std::vector<std::byte> gather(std::span<const std::byte> mine);
  // The same of as many numbers from each.
  std::vector<double> gather(std::span<const double> mine);
  std::vector<std::string> gather(const std::string& mine) { return peers_->gather_texts(mine); }
  std::int64_t sum(std::int64_t mine);
  // Whether it is so on any rank.
  bool any(bool here);
  std::vector<bool> any_each(std::span<const bool> here);
  // What rank 0 gives.
  std::string from_first(std::string text);

  // Bytes per second that ranks send in a ring while each receives as much, the least of all ranks. Takes some
  // exchanges of 4 MiB, and twice that in memory.
  double measure_bandwidth();

  // Runs `body` on every rank. Where it throws on any, every rank throws: that rank what it threw, the others a
  // BadInput or an Error with its message and rank; the end is then agreed, and the ranks have left each other.
  void together(const std::function<void()>& body);
  // `all`: what each rank has. Where it is not what rank 0 has, calls refuse(rank, its, first), which throws on all.
  template <typename T, typename Refuse>
  void require_alike(const std::vector<T>& all, const Refuse& refuse) {
    together([&] {
      for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (!(all[rank] == all[0])) refuse(rank, all[rank], all[0]);
      }
    });
  }
  // Ends the processes of all ranks, with `reason` on standard error; does not return where there are several.
  void abort(const std::string& reason);
  // The run ends on all ranks, also where an exception ends it.
  void end_is_agreed() {
    agreed_ = true;
    peers_->end_is_agreed();
  }
  bool is_end_agreed() const { return agreed_; }

  // What fails in it ends waits for other ranks; null: nothing does.
  void watch(const Failure* failure) { peers_->watch(failure); }

  // For a thread of its own.
  collectives::Collectives split() { return peers_->split(0); }

 private:
  std::vector<std::byte> gather_alike(std::span<const std::byte> mine);
  void leave() { peers_ = std::make_unique<collectives::Collectives>(collectives::single()); }
  std::unique_ptr<collectives::Collectives> peers_;
  bool agreed_ = false;
};

// Where the options leave threads open, those of this rank: its share of the cores that it may run on, among the ranks
// on its machine that may run on the same ones. Warns, on rank 0, of ranks that binding_advice() is for.
void share_cores(Options& options, Ranks& ranks);
// Of a rank that may run on `own` cores, one of `neighbours` on a machine, where mpirun may run on `launcher`: what to
// do where it has fewer than its share; else empty.
std::string binding_advice(int own, int launcher, int neighbours);

// `kind`: distributed.kind. Throws BadInput where it does not fit how this process was started.
Ranks open_ranks(const std::string& kind);

}  // namespace l2l::runtime
