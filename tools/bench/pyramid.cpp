// Feature pyramids (l2l/revbifpn.h) whose layers rebuild their inputs, against the same that keep them: memory, and
// steps per second.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "l2l/l2l.h"
#include "runtime/tuning/median.h"
#include "tools/bench/benches.h"
#include "tools/command.h"

namespace l2l::tools {
namespace {

using Json = nlohmann::ordered_json;

// Random pixels, the same for all.
std::shared_ptr<const SampleSource> images() {
  return std::make_shared<CallbackSource>(1 << 16, 1, [](const SamplePosition& position, const SampleView& sample) {
    std::size_t count = 1;
    for (const std::int64_t size : sample.input_tensors[0].shape) count *= static_cast<std::size_t>(size);
    std::vector<float> pixels(count);
    std::uint32_t state = static_cast<std::uint32_t>(position.number) * 2654435761u + 1;
    for (float& pixel : pixels) {
      pixel = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    }
    sample.set_input(0, pixels);
    const auto label =
        static_cast<std::int32_t>(position.index % static_cast<std::uint64_t>(sample.target_tensors[0].below));
    sample.set_target(0, {&label, 1});
    return 1;
  });
}

// fp32, on the host device.
Options options_of(const RevbifpnSettings& settings, const std::string& reversible) {
  Options options;
  options.precision.compute = "fp32";
  options.model = revbifpn(settings, reversible);
  options.data.train_source = images();
  options.device.kind = "host";
  options.device.threads = 1;
  options.batch = {.micro_batch = 1, .micro_batches = 1};
  options.recompute.policy = "full";
  return options;
}

// What does not depend on images: weights, gradients and their sums.
bool is_of_parameters(const ContractLine& line) {
  return line.what.starts_with("weight") || line.what.starts_with("gradient accumulators") ||
         line.what.starts_with("gradients on their way out");
}

// On the device, of one image at a time: activations, their gradients and scratch.
std::uint64_t activation_bytes(const RevbifpnSettings& settings, const char* reversible, const char* policy) {
  Options options = options_of(settings, reversible);
  options.recompute.policy = policy;
  if (options.model.reversible == "none") options.transfer.stash = "device";
  const Trainer trainer(options);
  std::uint64_t bytes = 0;
  for (const ContractLine& line : trainer.contract().device) bytes += is_of_parameters(line) ? 0 : line.bytes;
  return bytes;
}

struct Pyramid {
  int scale;           // of RevBiFPN-S0 to S6
  std::int64_t image;  // pixels along each side; 0: as published
  int extra = -1;      // rounds with all scales; -1: as published
};

RevbifpnSettings settings_of(const Pyramid& pyramid) {
  RevbifpnSettings settings = revbifpn_settings(pyramid.scale);
  if (pyramid.image > 0) settings.image = {pyramid.image, pyramid.image};
  if (pyramid.extra >= 0) settings.extra = pyramid.extra;
  return settings;
}

void print_memory(bool json) {
  Json rows = Json::array();
  if (!json) {
    std::printf(
        "Device memory of RevBiFPN for one image, fp32, in MiB: activations, their gradients and scratch, of\n");
    std::printf("layers that rebuild their inputs, of the same that keep these, and that keep all.\n");
    std::printf("%-5s %6s %6s %9s %9s %9s %8s\n", "model", "image", "extra", "rebuilt", "inputs", "all", "ratio");
  }
  for (const Pyramid& pyramid : {Pyramid{0, 0}, {0, 0, 8}, {0, 0, 32}, {0, 448}, {1, 0}, {2, 0}, {3, 0}}) {
    const RevbifpnSettings settings = settings_of(pyramid);
    const std::uint64_t rebuilt = activation_bytes(settings, "float", "full"),
                        inputs = activation_bytes(settings, "none", "full"),
                        all = activation_bytes(settings, "none", "none");
    const double ratio = static_cast<double>(all) / static_cast<double>(rebuilt);
    rows.push_back({{"scale", pyramid.scale},
                    {"image", settings.image[0]},
                    {"extra", settings.extra},
                    {"rebuilt_bytes", rebuilt},
                    {"inputs_bytes", inputs},
                    {"all_bytes", all},
                    {"ratio", ratio}});
    if (json) continue;
    const auto mib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    std::printf("S%-4d %6lld %6d %9.1f %9.1f %9.1f %8.1f\n", pyramid.scale, static_cast<long long>(settings.image[0]),
                settings.extra, mib(rebuilt), mib(inputs), mib(all), ratio);
    std::fflush(stdout);
  }
  if (json) std::cout << json_text(rows) << std::endl;
}

}  // namespace

void PyramidArguments::add_to(Command& command) {
  command.add("--steps", &steps, "to time; 0: memory alone, of several sizes", {.least = 0, .most = 1000});
  command.add("--scale", &scale, "0 to 6: of RevBiFPN-S0 to S6", {.least = 0, .most = 6});
  command.add("--image", &image, "pixels along each side; 0: as published", {.least = 0, .most = 4096});
  command.add("--micro-batch", &micro_batch, "images", {.least = 1, .most = 4096});
  command.add("--micro-batches", &micro_batches, "of a step", {.least = 1, .most = 4096});
  command.add("--threads", &threads, "of the device", {.least = 1, .most = 1024});
  command.add("--reversible", &reversible, "as model.reversible", {.one_of = {"float", "fixed", "none"}});
}

int bench_pyramid(const PyramidArguments& arguments, bool json) {
  if (arguments.steps == 0) {
    print_memory(json);
    return kSuccess;
  }
  RevbifpnSettings settings = settings_of({arguments.scale, arguments.image});
  settings.dropout = 0;
  Options options = options_of(settings, arguments.reversible);
  options.device.threads = arguments.threads;
  options.batch = {.micro_batch = arguments.micro_batch, .micro_batches = arguments.micro_batches};
  options.optimizer.clip = "none";
  options.run.steps = arguments.steps + 2;
  Trainer trainer(options);
  std::vector<double> step_ms;
  for (int step = -2; step < arguments.steps; ++step) {
    const StepReport report = trainer.step();
    if (step >= 0) step_ms.push_back(report.step_ms);
  }
  const double ms = runtime::median(step_ms);
  const auto samples = static_cast<double>(arguments.micro_batch * arguments.micro_batches);
  const Json result = {{"images_per_second", 1000 * samples / ms},
                       {"step_ms", ms},
                       {"device_peak_bytes", trainer.device_peak_bytes()},
                       {"host_bytes", trainer.host_peak_bytes()}};
  if (json) {
    std::cout << json_text(result) << std::endl;
  } else {
    for (const auto& [key, value] : result.items()) std::printf("%-20s %s\n", key.c_str(), json_text(value).c_str());
  }
  return kSuccess;
}

}  // namespace l2l::tools
