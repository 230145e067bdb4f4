// l2l-export: writes a checkpoint or a model directory as a plain Hugging Face model directory.
#include <iostream>

#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/progress.h"

int main(int argc, char** argv) {
  using namespace l2l;
  using namespace l2l::tools;
  std::string source, target;
  ExportSettings settings;
  bool quiet = false;
  Command command("l2l-export", "Writes a Hugging Face model directory, which transformers loads.", [&] {
    ByteProgress progress("exporting", quiet);
    export_model(source, target, settings, [&](std::uint64_t done, std::uint64_t all) { progress.show(done, all); });
    return kSuccess;
  });
  command.add("SOURCE", &source, "a checkpoint, a directory of them (the newest is taken), or a model directory",
              {.required = true});
  command.add("OUT", &target, "the new directory", {.required = true});
  command.add("--dtype", &settings.dtype, "of the weights", {.one_of = {"fp32", "bf16", "fp16"}});
  command.add("--max-shard-size", &settings.max_shard_size, "of a file; a larger model gets several and an index");
  command.add("--merge", &settings.merge,
              "of a checkpoint of adapters: the model with what they add, instead of a PEFT adapter directory");
  command.add("--quiet", &quiet, "no progress");
  return command.run(argc, argv);
}
