// What was measured of this machine, kept between runs in a small JSON file (docs/formats.md, Calibration): rates of
// memory and link, and how long pieces of a step take.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/kernel_choices.h"

namespace l2l::runtime {

// $L2L_CALIBRATION, else l2l/machine-HASH.json in $XDG_CACHE_HOME or ~/.cache; empty (nothing is kept) when none of
// these is set.
std::filesystem::path calibration_file();

// Processor, cores that this process may use, instruction set and version of the library: figures hold for one of
// these.
std::string machine_key();

// Sixteen hexadecimal digits that stand for a long text in a name.
std::string hash_of(const std::string& text);

// Names of figures that benchmarks find, too. Bytes per second that `threads` threads read and write together in an
// update's streams: state that is changed in place (`l2l-bench eps`: the stream baseline).
std::string memory_bandwidth(int threads);
// Bytes per second of large page-locked copies of the device with this description (`l2l-bench link`).
std::string link_bandwidth(const std::string& device, bool to_device);

// Named figures of one machine, and choices of kernels. A file that is missing, unreadable or damaged counts as empty:
// damage is logged as a warning, and the next save() writes a sound file. A file of another kind stays. Thread-bound.
class Calibration {
 public:
  // Reads the figures of `machine`; those of other machines in the same file are kept and not seen.
  explicit Calibration(std::filesystem::path file = calibration_file(), std::string machine = machine_key());

  const std::filesystem::path& file() const { return file_; }

  // Names are free text ("link h2d, host (2 threads, ...)"); units are the caller's. Values are finite and above 0.
  std::optional<double> find(std::string_view name) const;
  // Kept in memory until save(). Throws Error when `value` is not finite or not above 0.
  void set(const std::string& name, double value);

  // Kernels that were chosen by time, of all machines: what they are for says on what.
  const KernelChoices& kernel_choices() const { return kernels_; }
  // Replaces all that is known for each of the devices. Kept in memory until save().
  void set_kernel_choices(const KernelChoices& of_devices);

  // Merges what was set into the file, whole or not at all (another process may have written meanwhile); a warning is
  // logged when it cannot be written. Does nothing when nothing was set. Where more than kMostFigures of the machine
  // would be in the file, only those that this object has found or set stay.
  void save();
  // Whether the file has all that was set.
  bool is_saved() const { return changed_.empty() && changed_kernels_.empty(); }
  // Saves, unless that was a moment ago: what is interrupted loses little. All figures stay.
  void save_now_and_then();

  static constexpr std::size_t kMostFigures = 4096;  // half a megabyte, which each run reads

 private:
  void write(bool all);

  std::filesystem::path file_;
  std::string machine_;
  std::map<std::string, double, std::less<>> values_, changed_;
  mutable std::set<std::string, std::less<>> used_;  // names that were found or set
  KernelChoices kernels_, changed_kernels_;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

}  // namespace l2l::runtime
