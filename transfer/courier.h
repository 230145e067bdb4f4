// Makes a rank's exchanges with the other ranks as they fall due in the parameter server: gradients to the rank that
// has the shard, sums of squares, new weights, or weights for a visit. A thread of its own starts them, asks whether
// they are done, and says so to the server; none waits for another. It also tells the next rank, four times a second,
// that this one is alive.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/collectives.h"
#include "core/failure.h"
#include "core/trace.h"
#include "eps/parameter_store.h"

namespace l2l::transfer {

// The counters are thread-safe, the rest thread-bound.
class Courier {
 public:
  // Of several ranks. `ranks`: of the courier's thread alone from now on. `failure`: receives what fails on this
  // thread; and an Error that names the rank before this one where that has said nothing for `timeout` (0: whatever it
  // takes). All must outlive the courier. Throws Error where the transport has too few channels for so many groups and
  // layers.
  Courier(eps::ParameterStore& store, collectives::Collectives& ranks, Failure& failure,
          std::chrono::seconds timeout = std::chrono::seconds(0), Trace* trace = nullptr);
  // Between steps, when all updates are complete: the ranks end together. After a failure, or while an exception
  // passes, this one ends alone.
  ~Courier();

  // What was started so far.
  collectives::Traffic traffic(eps::ExchangeKind kind) const;

 private:
  struct UnderWay;
  class Pulse;
  void run();
  bool goes_on() const;
  // Until an exchange is under way, or until none is any more.
  void take_turns();
  void take_turn();
  void abandon();
  UnderWay start(eps::RankExchange exchange);
  void finish(const UnderWay& exchange);

  eps::ParameterStore& store_;  // constant after construction, as are the next four
  collectives::Collectives& ranks_;
  Failure& failure_;
  Trace* const trace_;
  const int track_;
  std::atomic<bool> stopping_{false}, abandons_{false};
  const int exceptions_ = std::uncaught_exceptions();
  // Of the courier's thread; what a failure leaves in them ends with the courier.
  std::vector<UnderWay> under_way_;
  std::unique_ptr<Pulse> pulse_;
  std::array<std::atomic<Bytes>, eps::kExchangeKinds> sent_{}, received_{};  // written by the courier's thread
  std::thread thread_;                                                       // last: it uses all of the above
};

}  // namespace l2l::transfer
