// A program that has the library, for mpirun:
//   ranks_program TEXT_FILE FOLDER twice    trains and saves; then, in a trainer of its own, resumes
//   ranks_program TEXT_FILE FOLDER throws   an exception that the library does not see, on rank 1 alone
// Prints nothing but rank 0's last line.
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "l2l/l2l.h"

namespace {

l2l::Options small_run(const std::string& text, const std::filesystem::path& folder) {
  l2l::Options options;
  options.precision.compute = "fp32";
  options.model.layers = 2;
  options.model.hidden = 32;
  options.model.heads = 2;
  options.model.sequence = 16;
  options.data.train = {text};
  options.batch.micro_batch = 2;
  options.batch.micro_batches = 4;
  options.device.kind = "host";
  options.device.threads = 1;
  options.eps.threads = 1;
  options.checkpoint.directory = folder;
  options.run.steps = 3;
  return options;
}

void train_twice(const l2l::Options& options) {
  l2l::tune(options, {.seconds = 0.1});
  std::uint64_t trained = 0;
  {
    l2l::Trainer trainer(options);
    static_cast<void>(trainer.run());
    trained = trainer.weights_hash();
  }
  l2l::Trainer trainer(options);
  const std::uint64_t fresh = trainer.weights_hash();  // leaves nothing of what it gathers behind
  static_cast<void>(trainer.resume(options.checkpoint.directory));
  const std::uint64_t resumed = trainer.weights_hash();
  if (trainer.rank() == 0) {
    std::printf("%016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", trained, fresh, resumed);
  }
}

void throw_on_one(const l2l::Options& options) {
  l2l::Trainer trainer(options);
  trainer.prepare();
  if (trainer.rank() == 1) throw std::runtime_error("no more");
  for (int i = 0; i < 1000; ++i) static_cast<void>(trainer.step());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  try {
    const l2l::Options options = small_run(arguments[1], arguments[2]);
    std::string(arguments[3]) == "twice" ? train_twice(options) : throw_on_one(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
