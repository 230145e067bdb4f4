#include "tools/bench/benches.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/json.h"
#include "l2l/l2l.h"
#include "runtime/tuning/median.h"
#include "tools/bench/synthetic_text.h"

namespace l2l::tools {
namespace {

constexpr int kSaveRounds = 3;  // of each kind of save, in turn
constexpr int kEvery = 10;      // steps between checkpoints

// Beside training: the checkpoint is written while the ten steps run. Between steps: they wait for it.
enum class Save { none, beside, between };

Options options_of(const std::string& precision, const std::filesystem::path& text,
                   const std::filesystem::path& directory) {
  Options options;
  options.model = {.layers = 4, .hidden = 512, .heads = 8, .sequence = 256};
  options.data.train = {text.string()};
  options.batch = {.micro_batch = 4, .micro_batches = 4};
  options.precision.compute = precision;
  options.checkpoint.directory = directory.string();
  options.checkpoint.keep = 1;
  options.recompute.policy = "full";
  return options;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Cost {
  double seconds = 0, cpu = 0;            // per step
  double save_seconds = 0, save_cpu = 0;  // of the save alone; between steps
};

// Ten steps and, unless `save` is none, one checkpoint, from its beginning to its end.
Cost run_block(Trainer& trainer, Save save) {
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  if (save == Save::between) trainer.save();
  const std::chrono::duration<double> saved = std::chrono::steady_clock::now() - begin;
  const double save_cpu = cpu_seconds() - cpu;
  if (save == Save::beside) trainer.start_save();
  for (int step = 0; step < kEvery; ++step) trainer.step();
  trainer.finish_save();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return {elapsed.count() / kEvery, (cpu_seconds() - cpu) / kEvery, saved.count(), save_cpu};
}

struct SaveCost {
  std::int64_t parameters = 0;
  std::uintmax_t bytes = 0;           // of a checkpoint
  double step_ms = 0;                 // without saving, median
  double beside = 0, beside_cpu = 0;  // ratios to the step without, medians of the rounds
  double between = 0;
  double save_ms = 0, save_cpu = 0;  // one save: until it is on the disk; its CPU time over that of ten steps
  std::uint64_t memory = 0;          // growth of the process's peak by saving beside training
};

std::uintmax_t folder_bytes(const std::filesystem::path& folder) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

SaveCost measure(const std::string& precision, const std::filesystem::path& text) {
  const std::filesystem::path directory = text.string() + ".checkpoints";
  SaveCost result;
  std::vector<double> step_ms, beside, beside_cpu, between, save_ms, save_cpu;
  {
    Trainer trainer(options_of(precision, text, directory));
    trainer.step();
    result.parameters = trainer.contract().parameters;
    const std::uint64_t before = trainer.host_peak_bytes();
    for (int round = 0; round < kSaveRounds; ++round) {
      const Cost none = run_block(trainer, Save::none);
      const Cost with = run_block(trainer, Save::beside);
      if (round == 0) result.memory = trainer.host_peak_bytes() - before;
      step_ms.push_back(1e3 * none.seconds);
      beside.push_back(with.seconds / none.seconds);
      beside_cpu.push_back(with.cpu / none.cpu);
      const Cost apart = run_block(trainer, Save::between);
      between.push_back(apart.seconds / none.seconds);
      save_ms.push_back(1e3 * apart.save_seconds);
      save_cpu.push_back(apart.save_cpu / (kEvery * none.cpu));
    }
    result.bytes = folder_bytes(directory);
  }
  std::filesystem::remove_all(directory);
  result.step_ms = runtime::median(step_ms);
  result.beside = runtime::median(beside);
  result.beside_cpu = runtime::median(beside_cpu);
  result.between = runtime::median(between);
  result.save_ms = runtime::median(save_ms);
  result.save_cpu = runtime::median(save_cpu);
  return result;
}

nlohmann::ordered_json to_json(const std::string& precision, const SaveCost& result) {
  return {{"precision", precision},          {"parameters", result.parameters}, {"checkpoint_bytes", result.bytes},
          {"step_ms", result.step_ms},       {"ratio_beside", result.beside},   {"ratio_beside_cpu", result.beside_cpu},
          {"ratio_between", result.between}, {"save_ms", result.save_ms},       {"save_cpu", result.save_cpu},
          {"memory_bytes", result.memory}};
}

}  // namespace

int bench_save(bool json) {
  const SyntheticText text;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf("a checkpoint every %d steps of 4,096 tokens; ratios to the step time without\n", kEvery);
    std::printf("%-5s %12s %14s %10s %8s %10s %14s %10s %12s %12s\n", "", "parameters", "checkpoint", "step", "beside",
                "CPU time", "between steps", "save", "CPU of save", "memory");
    std::fflush(stdout);
  }
  for (const char* const precision : {"fp32", "bf16"}) {
    const SaveCost result = measure(precision, text.path());
    rows.push_back(to_json(precision, result));
    if (json) continue;
    std::printf("%-5s %12lld %10.1f MiB %7.0f ms %8.3f %10.3f %14.3f %7.0f ms %11.2f%% %8.1f MiB\n", precision,
                static_cast<long long>(result.parameters), static_cast<double>(result.bytes) / 1048576.0,
                result.step_ms, result.beside, result.beside_cpu, result.between, result.save_ms, 100 * result.save_cpu,
                static_cast<double>(result.memory) / 1048576.0);
    std::fflush(stdout);
  }
  if (json) std::cout << json_text(rows) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools
