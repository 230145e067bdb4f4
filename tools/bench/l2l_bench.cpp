// l2l-bench: benchmarks that measure both sides of a comparison in one run.
#include "tools/bench/bench_clip.h"
#include "tools/bench/bench_eps.h"
#include "tools/bench/bench_inner_loop.h"
#include "tools/bench/bench_link.h"
#include "tools/bench/bench_overlap.h"
#include "tools/bench/bench_planner.h"
#include "tools/bench/bench_relay.h"
#include "tools/bench/bench_save.h"
#include "tools/bench/bench_schedule.h"
#include "tools/bench/bench_step.h"
#include "tools/command.h"

int main(int argc, char** argv) {
  using namespace l2l::tools;
  CLI::App app("Benchmarks; every ratio is measured in one run, both sides in turn.", "l2l-bench");
  app.require_subcommand(1);
  bool json = false;
  app.add_flag("--json", json, "one JSON document instead of a table");
  const auto command = [&](const char* name, const char* what) {
    CLI::App* const subcommand = app.add_subcommand(name, what);
    subcommand->fallthrough();
    return subcommand;
  };

  command("relay", "relay against resident execution: throughput and memory");
  command("save", "what a checkpoint every ten steps costs, saved beside training");
  command("overlap", "a link that takes 0.6 of compute: step against perfect overlap, and against none");
  command("clip", "steps with exact global clipping against steps without, behind a paced device");
  command("planner", "arenas of layer programs on three streams and of contiguous groups, and the cost of safe pairs");
  command("inner_loop", "throughput over microbatches, against the cost model of the L2L paper");
  CLI::App* const link = command("link", "bandwidth of page-locked copies, each way alone and both at once");
  LinkArguments link_arguments;
  link->add_option("--device", link_arguments.device.kind, "auto, host or cuda");
  link->add_option("--index", link_arguments.device.index, "which CUDA device");
  link->add_option("--size", link_arguments.size, "bytes of a copy, such as 64MiB");
  CLI::App* const eps =
      command("eps", "updates of the parameter server: every optimizer and format against the speed of memory");
  EpsArguments eps_arguments;
  eps_arguments.add_to(*eps);
  CLI::App* const schedule = command("schedule", "where the time of a step goes, visit by visit");
  CLI::App* const step =
      command("step", "what a config reaches per step: speed, memory, bytes, stalls; nothing is saved");
  ConfigArguments config;
  ScheduleArguments arguments;
  for (CLI::App* const subcommand : {schedule, step}) {
    config.add_to(*subcommand);
    subcommand->add_option("--steps", arguments.steps, "steps that count")->check(CLI::Range(1, 1000));
  }
  schedule->add_option("--pace", arguments.pace, "a paced device with the table in this JSON file");
  schedule->add_flag("--serial", arguments.serial, "nothing on the device beside anything else");
  schedule->add_option("--trace", arguments.trace, "write the timeline to this file (Chrome trace JSON)");

  return run(app, argc, argv, [&] {
    if (app.got_subcommand("relay")) return bench_relay(json);
    if (app.got_subcommand("save")) return bench_save(json);
    if (app.got_subcommand("overlap")) return bench_overlap(json);
    if (app.got_subcommand("clip")) return bench_clip(json);
    if (app.got_subcommand("inner_loop")) return bench_inner_loop(json);
    if (app.got_subcommand("planner")) return bench_planner(json);
    if (app.got_subcommand("link")) return bench_link(link_arguments, json);
    if (app.got_subcommand("eps")) return bench_eps(eps_arguments, json);
    arguments.options = config.load();
    if (app.got_subcommand("step")) return bench_step(std::move(arguments.options), arguments.steps, json);
    return bench_schedule(arguments, json);
  });
}
