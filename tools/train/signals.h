// What signals ask of a training run.
//
//   INT, TERM   finish the step, save, and end; the second one is told what the third does: it ends at once, unsaved
//               (of INT, from the keyboard, only within 3 s)
//   HUP, XCPU   finish the step, save, and end
//   USR1        save after this step and go on
//   USR2        say what the run is doing
//   PIPE, XFSZ  nothing: a write fails instead (XFSZ: in every tool, by Command::run())
//
// A signal that was ignored when the program started stays ignored (nohup).
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "l2l/trainer.h"

namespace l2l::tools {

// One per process. A thread of its own takes the signals, so that answering them needs no care of what a handler may
// call.
class Signals {
 public:
  // Blocks the signals in this thread and those that it makes later: construct it before any other thread. Until
  // begin(), signals act as usual.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // From here to end() signals ask `trainer`, which saves in its checkpoint directory.
  void begin(Trainer& trainer);
  void end();
  // The signal that asked first to end the run: "SIGTERM"; empty: none has.
  std::string stopped_by() const;
  // What the run is doing, for the messages: a step after `completed` ones, which take about `step_ms`; a validation,
  // or no longer; saving, or no longer, after which nothing is left to save until the next step.
  void show_step(std::int64_t completed, double step_ms);
  void show_validation(bool runs) { validating_ = runs; }
  void show_saving(bool runs) { saving_ = runs ? Saving::runs : Saving::done; }

 private:
  enum class Saving : std::uint8_t { none, runs, done };  // since the last step

  void serve();
  void answer(int signal);
  void ask(void (Trainer::*request)());
  void ask_to_stop(int signal);
  std::string what_now(const std::string& verb);

  sigset_t taken_{};
  std::atomic<bool> begun_{false}, done_{false}, validating_{false};
  std::atomic<Saving> saving_{Saving::none};
  std::atomic<int> stopped_by_{0};
  std::mutex mutex_;
  std::string directory_;       // guarded by mutex_
  Trainer* trainer_ = nullptr;  // likewise
  std::atomic<std::int64_t> completed_{0};
  std::atomic<double> step_ms_{0};
  int stops_ = 0;  // INT and TERM so far, and the signals below: of the thread alone
  std::chrono::steady_clock::time_point last_stop_{};
  std::thread thread_;
};

}  // namespace l2l::tools
