// The hand-over, the threads that drive it, and the ledger that watches: one state of an exploration.
#pragma once

#include <array>
#include <string>

#include "tests/eps/model/ledger.h"

namespace l2l::eps::model {

// A value. Thread-bound.
class World {
 public:
  explicit World(const Scenario& scenario);

  // One step of a thread: one transition of the machine, or one half of the work between two. False when the thread
  // must wait or has ended; the world is then to be thrown away. Breaches of the laws go to the ledger.
  bool step(int thread);
  // No thread can move.
  void expect_end();
  // What the thread would do next.
  std::string next_of(int thread) const;

  const std::string& violation() const { return ledger_.violation(); }
  std::string key() const {
    return ledger_.key() + std::string(reinterpret_cast<const char*>(&locals_), sizeof locals_);
  }
  const HandOver& machine() const { return machine_; }

 private:
  static constexpr std::size_t kMostThreads = 4;

  // What a thread knows itself. Bytes only: no padding.
  struct Local {
    std::uint8_t next = 0;   // operation of a script
    std::int8_t phase = 0;   // of a loop: 0 between jobs, 1 and 2 within the work, 3 the work is done
    std::int8_t kind = 0;    // of the updater's job, or of the courier's exchange
    std::int8_t group = -1;  // that the loop works on
    std::int8_t groups = 0;  // that the saver has read in this save
  };

  bool run_script(Local& local, const ThreadSpec& thread);
  bool run(const Operation& operation);
  bool pull(const Operation& operation);
  void push(const Operation& operation);
  bool finish_step();
  bool run_updater(Local& local, int lane);
  bool run_saver(Local& local);
  bool run_courier(Local& local);
  void gather(GroupIndex group);
  bool next_group(Local& local);
  bool end_save(Local& local, bool given_up);

  const Scenario* scenario_;
  HandOver machine_;
  Ledger ledger_;
  std::array<Local, kMostThreads> locals_;
};

}  // namespace l2l::eps::model
