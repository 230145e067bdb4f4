// l2l-export: writes a checkpoint or a model directory as a plain Hugging Face model directory or as a GGUF file.
#include <filesystem>
#include <iostream>

#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace l2l::tools {
namespace {

// What the command line says; empty: nothing.
struct Arguments {
  std::string source, target, format = "hf", dtype, max_shard_size, type;
  bool merge = false, quiet = false;
};

void refuse_with(const Arguments& arguments, const std::string& option, const std::string& value) {
  if (value.empty()) return;
  throw BadInput(option + " has no meaning with --format " + arguments.format + "; remove one of them");
}

int export_as(const Arguments& arguments) {
  ByteProgress progress("exporting", arguments.quiet);
  const auto show = [&](std::uint64_t done, std::uint64_t all) { progress.show(done, all); };
  if (arguments.format == "gguf") {
    refuse_with(arguments, "--dtype", arguments.dtype);
    refuse_with(arguments, "--max-shard-size", arguments.max_shard_size);
    GgufSettings settings;
    if (!arguments.type.empty()) settings.type = arguments.type;
    export_gguf(arguments.source, arguments.target, settings, show);
    return kSuccess;
  }
  if (std::filesystem::path(arguments.target).extension() == ".gguf") {
    throw BadInput(arguments.target +
                   ": is the name of a GGUF file, but --format hf makes a directory; add --format gguf");
  }
  refuse_with(arguments, "--type", arguments.type);
  ExportSettings settings;
  if (!arguments.dtype.empty()) settings.dtype = arguments.dtype;
  settings.merge = arguments.merge;
  if (!arguments.max_shard_size.empty()) settings.max_shard_size = arguments.max_shard_size;
  export_model(arguments.source, arguments.target, settings, show);
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l;
  using namespace l2l::tools;
  Arguments arguments;
  Command command("l2l-export", "Writes a model directory for transformers, or a file for llama.cpp.",
                  [&] { return export_as(arguments); });
  command.add("SOURCE", &arguments.source,
              "a checkpoint, a directory of them (the newest is taken), a folder of --output, or a model directory",
              {.required = true});
  command.add("OUT", &arguments.target, "the new directory, or GGUF file", {.required = true});
  command.add("--format", &arguments.format, "hf: a Hugging Face directory; gguf: one file for llama.cpp",
              {.one_of = {"hf", "gguf"}});
  command.add("--type", &arguments.type, "gguf: of the matrices (default: f16)",
              {.one_of = {"f32", "f16", "bf16", "q8_0"}});
  command.add("--dtype", &arguments.dtype, "hf: of the weights (default: fp32)", {.one_of = {"fp32", "bf16", "fp16"}});
  command.add("--max-shard-size", &arguments.max_shard_size,
              "hf: of a file; a larger model gets several and an index; 0: one file (default: 5GB)");
  command.add("--merge", &arguments.merge,
              "of a checkpoint of adapters: the model with what they add, instead of a PEFT adapter directory");
  command.add("--quiet", &arguments.quiet, "no progress");
  command.add_example("l2l-export checkpoints/run tuned --dtype bf16",
                      "writes the newest checkpoint as a model directory for transformers");
  command.add_example("l2l-export checkpoints/run tuned.gguf --format gguf --type q8_0",
                      "writes it as one file for llama.cpp");
  return command.run(argc, argv);
}
