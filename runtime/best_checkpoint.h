// Which validation was the best so far, the checkpoint made then, and when to stop because none has been better since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "l2l/options.h"
#include "l2l/run.h"

namespace l2l::runtime {

// Keeps DIRECTORY/best, a checkpoint that is never pruned, and DIRECTORY/validations.json,
//
//   {"metric": NAME, "data": HEX, "validations": [[step, value], ...]}
//
// of all validations. What it decides follows from these up to the step that a run resumes from, so that a resumed run
// decides as the uninterrupted one did. Thread-bound.
class BestCheckpoint {
 public:
  // `options`: checkpoint.directory, checkpoint.best (empty: nothing is kept), run.patience. `data_hash`: of the
  // validation data. `completed`: steps of the run so far; in a new run, and where metric or data have changed, an
  // earlier DIRECTORY/best is renamed, and nothing before counts. `writes`: else another rank does. Throws CorruptFile
  // and Error.
  BestCheckpoint(const Options& options, std::uint64_t data_hash, std::int64_t completed, bool writes = true);

  // Whether the validation after so many steps is known. Always, where nothing is kept.
  bool has(std::int64_t step) const;
  // Whether DIRECTORY/best is of so many steps.
  bool keeps(std::int64_t step) const;
  // Whether it is the best so far; of equal ones the first is. A value that is not a number is none.
  bool take(std::int64_t step, const Evaluation& validation);
  // The checkpoint `folder`, of the step taken last, becomes DIRECTORY/best.
  void keep(const std::filesystem::path& folder) const;
  // Writes what was taken to validations.json.
  void record() const;
  // run.patience validations in a row were not better.
  bool exhausted() const;

 private:
  void read(std::int64_t completed);
  std::size_t best() const;  // index; of no values 0
  double value_of(const Evaluation& validation) const;
  bool better(double a, double b) const { return lower_is_better_ ? a < b : a > b; }

  const std::filesystem::path directory_;
  const std::string metric_, data_;
  const std::int64_t patience_;
  const bool lower_is_better_, writes_;
  std::vector<std::pair<std::int64_t, double>> values_;
};

}  // namespace l2l::runtime
