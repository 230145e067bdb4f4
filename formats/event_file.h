// Event files, which TensorBoard draws: records of a length, its checksum, an Event message of protocol buffers and its
// checksum (tensorflow/core/lib/io/record_writer.h, core/util/event.proto). Checksums are CRC-32C, masked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace l2l::formats {

// CRC-32C (Castagnoli) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);
// `message` as a record.
std::string event_record(std::string_view message);
// An Event message of numbers by name at `step`. `wall_time`: seconds since 1970.
std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& scalars);

// A new file in a directory, events.out.tfevents.SECONDS.HOST.PID.l2l. Thread-bound.
class EventFile {
 public:
  // Makes the directory. Throws BadInput where that, or the file, cannot be made.
  explicit EventFile(const std::filesystem::path& directory);

  // Numbers become fp32, as TensorBoard keeps them; those that are not finite are written, too. Throws Error when the
  // file cannot be written.
  void add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void write(const std::string& message);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace l2l::formats
