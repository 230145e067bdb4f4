// Trainer::run(): when a run saves, validates and ends, as its options say.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/event_file.h"
#include "l2l/trainer.h"
#include "runtime/best_checkpoint.h"
#include "runtime/ranks.h"
#include "runtime/run_requests.h"

namespace l2l::runtime {

// A checkpoint in the run's own directory.
struct OwnCheckpoint {
  std::filesystem::path folder;  // empty: there is none
  std::int64_t step = -1;        // completed in it
  std::int64_t edits = 0;        // of parameters, by the program, before it; -1: a better one may replace it
};

// What a run goes by of its trainer, as it changes.
struct RunState {
  OwnCheckpoint newest = {};  // of which this run is the continuation, then the newest of the run
  std::int64_t edits = 0;     // of parameters and of the list of layers, by the program
  // Of the validation data; constant, as is in how many minibatches a validation takes them.
  std::uint64_t validation_hash = 0, validation_minibatches = 0;
  bool prepares = false;  // a step finds its learning rate and its samples, and has changed nothing yet
  bool telling = false;   // the observer is being called
};

// One run. Thread-bound.
class RunLoop {
 public:
  // The references must outlive this object.
  RunLoop(Trainer& trainer, Ranks& ranks, RunRequests& requests, RunState& state, RunObserver& observer,
          const RunLimits& limits);
  // Uses up a request to stop, whether that has ended the run or not.
  ~RunLoop();
  RunLoop(const RunLoop&) = delete;
  RunLoop& operator=(const RunLoop&) = delete;

  RunResult run();

 private:
  using Clock = std::chrono::steady_clock;

  // Calls call(observer), within which most of the trainer may not be used.
  template <typename Call>
  void tell(const Call& call);
  void begin();
  void train();
  [[noreturn]] void end_diverged(const NumericError& error);
  std::string save_before_failure();
  void take(const StepReport& report);
  std::optional<RunEnd> reason_to_end();
  // What is to be done after a step, where requests and clocks of any rank say so.
  struct Due {
    bool stop = false, asked = false, save = false, validation = false;
    bool saving = false;  // a checkpoint is still being written
  };
  Due agree_on_due(std::int64_t step);
  bool is_stopped() const { return requests_.stop || !failure_.empty(); }
  // Whether what is due every so many steps, or minutes after `last`, is due after this step.
  static bool due(std::int64_t step, std::int64_t every, Clock::time_point last, double minutes);
  void save_if_due();
  void start_save(SaveReason reason);
  std::filesystem::path save(SaveReason reason);
  void finish_save();
  // A validation was made, or due, after the last step before a resume, and a stop or a kill came before it was
  // recorded.
  bool owes_validation() const;
  bool is_validated() const;
  void validate();
  void warn_of_unsaved_work(const StepReport& report) const;
  void draw(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

  Trainer& trainer_;
  Ranks& ranks_;
  RunRequests& requests_;
  RunObserver& observer_;
  const Options& options_;
  const bool saves_;                  // there is a directory
  const std::int64_t first_, steps_;  // completed when the run begins, and when it ends at the latest
  const Clock::time_point since_;
  Clock::time_point last_save_, last_validation_;
  std::optional<std::pair<std::int64_t, std::int64_t>> validated_;  // steps and edits of the last validation
  RunState& state_;
  Due due_ = {};  // after the last step
  std::optional<formats::EventFile> events_;
  std::string failure_;                 // of `events_`, which ends the run
  std::optional<BestCheckpoint> best_;  // from begin() on
  RunResult result_;
};

}  // namespace l2l::runtime
