// The benchmarks of l2l-bench. Each prints a table, or one JSON object when `json`, and returns the exit status.
#pragma once

#include <string>

#include "device/open.h"
#include "l2l/options.h"
#include "tools/bench/update_speed.h"
#include "tools/command.h"

namespace l2l::tools {

// What exact clipping by the norm of all gradients costs in time: steps with optimizer.clip = "global" over steps with
// "none", in turn, from where the host's work is a small part of the device's to where it is many times that.
int bench_clip(bool json);

struct EpsArguments {
  UpdateSpeedSettings settings;
  bool quick = false;  // 4 Mi parameters, five rounds: for tests

  void add_to(Command& command);
};

// How fast the parameter server's arithmetic runs, against what memory allows.
int bench_eps(EpsArguments arguments, bool json);

// Throughput over microbatches, against the cost model of the paper: microbatches 1, 2, 4, 8 of constant size, a
// layer's wire taking as long as its forward of one microbatch; on the paced device, and on the host device with a
// throttled link.
int bench_inner_loop(bool json);

struct LinkArguments {
  device::DeviceSettings device;
  std::string size = "256MiB";  // of a copy
};

// The bandwidth of page-locked copies, each way alone and both at once, in bytes per second; figures of copies of at
// least 64 MiB are kept for predictions (runtime/tuning/calibration.h).
int bench_link(const LinkArguments& arguments, bool json);

// What it costs to exchange layers before each step, against a fixed model of as many: on the paced device and on the
// host device, with 24 and with 2,000 layers in reserve.
int bench_lists(bool json);

// Does the link hide behind compute, where all bytes take 0.6 of it? On the paced device, and on the host device with a
// throttled link.
int bench_overlap(bool json);

struct PyramidArguments {
  int steps = 0, scale = 0, threads = 1;
  std::int64_t image = 0, micro_batch = 1, micro_batches = 1;
  std::string reversible = "float";

  void add_to(Command& command);
};

// Without steps: memory of RevBiFPN-S0 to S3, and of S0 in other depths and resolutions, with layers that rebuild their
// inputs, and with layers that keep them. With steps: the time of one.
int bench_pyramid(const PyramidArguments& arguments, bool json);

// Arenas of layer programs on three streams, of contiguous groups, and what safe pairs cost.
int bench_planner(bool json);

// Does a network hide behind compute, where its bytes take 0.6 of it each way, and is the step the predicted one, also
// where they take 1.5? 2 and 4 ranks with paced devices; where mpirun has started several processes, they are the
// ranks.
int bench_ranks(bool json);

// Relay against resident execution on the same model.
int bench_relay(bool json);

// What a checkpoint every ten steps costs.
int bench_save(bool json);

// Predicted, nothing runs: how nodes with 8 H100s scale over networks of 100 and 400 Gb/s.
int bench_scaling(bool json);

struct ScheduleArguments {
  std::string pace;  // file of a paced device's table; empty: the device that the options name
  bool serial = false;
  int steps = 5;
  std::string trace;  // file for the timeline; empty: none
};

// Where the time of a step goes, visit by visit. Throws BadInput naming file and field.
int bench_schedule(const Options& options, const ScheduleArguments& arguments, bool json);

// What full and selective recomputation and sequence parallelism cost a block that is split over 8 GPUs, beside
// published figures: calculated from the ops of its programs, and as steps on paced devices.
int bench_split_layers(bool json);

// What a config reaches per step: one untimed step, then `steps` that count. Trains on synthetic bytes when the config
// names no data; checkpoints are neither written nor read.
int bench_step(Options options, int steps, bool json);

}  // namespace l2l::tools
