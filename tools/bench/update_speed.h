// How fast the parameter server's arithmetic runs: every optimizer and format of state, beside the stream
// baseline that reads and writes the same arrays with next to no arithmetic: the limit that memory sets.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace l2l::tools {

struct UpdateSpeedSettings {
  std::int64_t parameters = std::int64_t{1} << 27;
  int rounds = 7;
  std::vector<int> threads;                       // of the worker pools; empty: 1, 2, 4, ... and all cores
  std::vector<int> contributions = {1, 2, 4, 8};  // of one update; 1 to 8
  std::string only;                               // rows whose name begins with it; empty: all
  std::vector<std::string> instruction_sets;      // of the kernels; empty: the one in use (optimizers::kernels())
  bool huge_pages = false;                        // for all of it
};

// Of one row; rates are medians of the rounds, ratios those of ratios taken within a round.
struct UpdateSpeed {
  // "kernel": the kernels alone, over plain arrays, by jobs of a worker pool, layer by layer. "store": a step of the
  // ParameterStore, from the first push to the last version, checks of the gradients included.
  std::string kind;
  std::string instruction_set;
  std::string optimizer, wire, moments;  // "adamw", "bf16", "fp32"
  int contributions = 1, threads = 1;
  double bytes_per_parameter = 0;  // read and written by one update
  double params_per_second = 0;
  double limit_params_per_second = 0;                 // of a kernel: its baseline's; of the store: its kernel's
  double ratio = 0, least_ratio = 0, most_ratio = 0;  // rate / limit
};

struct UpdateSpeeds {
  Bytes host_bytes = 0;  // that the arrays take
  std::vector<UpdateSpeed> rows;
};

// Runs every row once per round, right after the baseline of its streams. The arrays are allocated once; a baseline
// runs twice, which leaves them as they were. LAMB's tensors have 128 Ki elements, each one job: moments, ratio,
// weights. Throws BadInput where the settings leave no row or name an instruction set that this processor lacks, and
// OutOfMemory where the arrays do not fit in the host's free memory.
UpdateSpeeds measure_updates(UpdateSpeedSettings settings);

// Gigabytes per second that baselines reach by number of threads: the best row, recorded as the machine's limit.
std::vector<std::pair<int, double>> memory_limits(const UpdateSpeeds& speeds);

}  // namespace l2l::tools
