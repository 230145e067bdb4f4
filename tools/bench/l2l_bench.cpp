// l2l-bench: benchmarks that measure both sides of a comparison in one run.
#include "l2l/trainer.h"
#include "tools/bench/benches.h"
#include "tools/terminal.h"

int main(int argc, char** argv) {
  using namespace l2l::tools;
  bool json = false;
  LinkArguments link_arguments;
  EpsArguments eps_arguments;
  PyramidArguments pyramid_arguments;
  ConfigArguments config;
  ScheduleArguments schedule_arguments;

  Command command("l2l-bench", "Benchmarks; every ratio is measured in one run, both sides in turn.");
  command.add("--json", &json, "one JSON document instead of a table");
  // `bench`, behind a line that says what its figures belong to: on standard error, where it is apart from JSON.
  const auto measured = [](auto bench) {
    return [bench] {
      write_message("l2l-bench on " + l2l::machine_description() + "\n");
      return bench();
    };
  };
  const auto add = [&](const char* name, const char* what, int (*bench)(bool json)) {
    command.add_subcommand(name, what, measured([bench, &json] { return bench(json); }));
  };
  add("relay", "relay against resident execution: throughput and memory", bench_relay);
  add("save", "what a checkpoint every ten steps costs, saved beside training", bench_save);
  add("lists", "another list of layers in each step, against a fixed model of as many", bench_lists);
  add("overlap", "a link that takes 0.6 of compute: step against perfect overlap, and against none", bench_overlap);
  add("ranks",
      "a network between ranks that takes 0.6 and 1.5 of compute: step against its prediction; mpirun makes the ranks "
      "processes",
      bench_ranks);
  add("scaling", "calculated: efficiency of 2 to 64 nodes with 8 H100s each, against one", bench_scaling);
  add("split_layers",
      "what recomputation and sequence parallelism cost a block split over 8 GPUs, by its ops and on paced devices",
      bench_split_layers);
  add("clip", "steps with exact global clipping against steps without, behind a paced device", bench_clip);
  add("planner", "arenas of layer programs on three streams and of contiguous groups, and the cost of safe pairs",
      bench_planner);
  add("inner_loop", "throughput over microbatches, against the cost model of the L2L paper", bench_inner_loop);

  Command& link = command.add_subcommand("link", "bandwidth of page-locked copies, each way alone and both at once",
                                         measured([&] { return bench_link(link_arguments, json); }));
  link.add("--device", &link_arguments.device.kind, "auto, host or cuda");
  link.add("--index", &link_arguments.device.index, "which CUDA device");
  link.add("--size", &link_arguments.size, "bytes of a copy, such as 64MiB");

  eps_arguments.add_to(command.add_subcommand(
      "eps", "updates of the parameter server: every optimizer and format against the speed of memory",
      measured([&] { return bench_eps(eps_arguments, json); })));

  pyramid_arguments.add_to(command.add_subcommand(
      "pyramid", "RevBiFPN, whose layers rebuild their inputs, against the same that keep them: memory, and steps",
      measured([&] { return bench_pyramid(pyramid_arguments, json); })));

  Command& schedule =
      command.add_subcommand("schedule", "where the time of a step goes, visit by visit",
                             measured([&] { return bench_schedule(config.load(), schedule_arguments, json); }));
  Command& step =
      command.add_subcommand("step", "what a config reaches per step: speed, memory, bytes, stalls; nothing is saved",
                             measured([&] { return bench_step(config.load(), schedule_arguments.steps, json); }));
  for (Command* const its : {&schedule, &step}) {
    config.add_to(*its);
    its->add("--steps", &schedule_arguments.steps, "steps that count", {.least = 1, .most = 1000});
  }
  schedule.add("--pace", &schedule_arguments.pace, "a paced device with the table in this JSON file");
  schedule.add("--serial", &schedule_arguments.serial, "nothing on the device beside anything else");
  schedule.add("--trace", &schedule_arguments.trace, "write the timeline to this file (Chrome trace JSON)");
  command.add_example("l2l-bench relay", "measures relay against resident execution");
  command.add_example("l2l-bench step run.toml --steps 20 --json",
                      "measures what a config reaches per step, and prints it as JSON");
  return command.run(argc, argv);
}
