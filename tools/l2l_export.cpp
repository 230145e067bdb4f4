// l2l-export: writes a checkpoint or a model directory as a plain Hugging Face model directory or as a GGUF file.
#include <iostream>

#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/progress.h"

int main(int argc, char** argv) {
  using namespace l2l;
  using namespace l2l::tools;
  std::string source, target;
  ExportSettings settings;
  std::string format = "hf";
  GgufSettings gguf;
  bool quiet = false;
  Command command("l2l-export", "Writes a model directory for transformers, or a file for llama.cpp.", [&] {
    ByteProgress progress("exporting", quiet);
    const auto show = [&](std::uint64_t done, std::uint64_t all) { progress.show(done, all); };
    format == "gguf" ? export_gguf(source, target, gguf, show) : export_model(source, target, settings, show);
    return kSuccess;
  });
  command.add("SOURCE", &source, "a checkpoint, a directory of them (the newest is taken), or a model directory",
              {.required = true});
  command.add("OUT", &target, "the new directory, or GGUF file", {.required = true});
  command.add("--format", &format, "hf: a Hugging Face directory; gguf: one file for llama.cpp",
              {.one_of = {"hf", "gguf"}});
  command.add("--type", &gguf.type, "gguf: of the matrices", {.one_of = {"f32", "f16", "bf16", "q8_0"}});
  command.add("--dtype", &settings.dtype, "hf: of the weights", {.one_of = {"fp32", "bf16", "fp16"}});
  command.add("--max-shard-size", &settings.max_shard_size, "hf: of a file; a larger model gets several and an index");
  command.add("--merge", &settings.merge,
              "of a checkpoint of adapters: the model with what they add, instead of a PEFT adapter directory");
  command.add("--quiet", &quiet, "no progress");
  return command.run(argc, argv);
}
