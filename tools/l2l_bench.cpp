// l2l-bench: benchmarks that measure both sides of a comparison in one run.
#include "l2l/errors.h"
#include "tools/bench_relay.h"
#include "tools/bench_save.h"
#include "tools/command.h"

int main(int argc, char** argv) {
  using namespace l2l::tools;
  CLI::App app("Benchmarks; every ratio is measured in one run, both sides in turn.", "l2l-bench");
  std::string name;
  bool json = false;
  app.add_option("NAME", name, "relay: relay against resident execution; save: a checkpoint every ten steps")
      ->required();
  app.add_flag("--json", json, "one JSON document instead of a table");
  return run(app, argc, argv, [&] {
    if (name == "relay") return bench_relay(json);
    if (name == "save") return bench_save(json);
    throw l2l::BadInput("unknown benchmark " + name + "; there are: relay, save");
  });
}
