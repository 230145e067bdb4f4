// Reads the samples of the next minibatch while a step runs, so that the thread that enqueues steps never waits for a
// disk or for a program's own source, unless these are slower than steps.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/data/prepared_minibatch.h"
#include "runtime/minibatch.h"

namespace l2l::runtime {

enum class DrawnFor : std::uint8_t { training, validation };

// Thread-bound. Samples are pure functions of their position, so what was read ahead for nothing, before a validation
// or a resumption, is read again.
class ReadAhead {
 public:
  // `threads`: that read, one of which is made here even so.
  ReadAhead(MinibatchShape shape, int threads);
  // Waits until what is being read is read.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Writes the samples from `first` on into `minibatch`, waiting for them where they were not read ahead, and begins to
  // read those that follow. `samples` must outlive this object. Throws what reading them threw.
  void fill(Minibatch& minibatch, const Samples& samples, DrawnFor use, std::uint64_t first);

 private:
  struct Wanted {
    const Samples* samples = nullptr;
    DrawnFor use = DrawnFor::training;
    std::uint64_t first = 0;
    bool operator==(const Wanted&) const = default;
  };
  enum class State : std::uint8_t { idle, asked, done, ending };

  void serve();
  void read(const Wanted& wanted);
  void ask(const Wanted& wanted);

  PreparedMinibatch prepared_;  // of the reader while `state_` is asked, else of the caller
  Workers workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;  // guarded by mutex_, as are the next two
  Wanted wanted_;
  std::exception_ptr error_;  // of what was read last
  std::thread thread_;        // last: it uses all of the above
};

}  // namespace l2l::runtime
