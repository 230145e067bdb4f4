#include "formats/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/host_name.h"
#include "l2l/errors.h"

namespace l2l::formats {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0);
    table[byte] = value;
  }
  return table;
}

// Little-endian.
template <typename Number>
std::string bytes_of(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  return bytes;
}

std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

// What protocol buffers know: field number and wire type, then the value.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string field(int number, Wire wire, const std::string& value) {
  const std::string key = varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(wire));
  return key + (wire == Wire::bytes ? varint(value.size()) : "") + value;
}

// Fields of Event, Summary and Summary.Value.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kValue = 1, kTag = 1, kSimpleValue = 2;

std::string time_field(double wall_time) {
  return field(kWallTime, Wire::fixed64, bytes_of(std::bit_cast<std::uint64_t>(wall_time)));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string shown_host() {
  const std::string name = host_name();
  return name.empty() ? "host" : name;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_table();
  std::uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string event_record(std::string_view message) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(message.size()));
  return length + bytes_of(masked(crc32c(length))) + std::string(message) + bytes_of(masked(crc32c(message)));
}

std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars) {
    const std::string number = bytes_of(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    summary += field(kValue, Wire::bytes, field(kTag, Wire::bytes, name) + field(kSimpleValue, Wire::fixed32, number));
  }
  return time_field(wall_time) + field(kStep, Wire::varint, varint(static_cast<std::uint64_t>(step))) +
         field(kSummary, Wire::bytes, summary);
}

EventFile::EventFile(const std::filesystem::path& directory) {
  const auto seconds = static_cast<std::int64_t>(now());
  path_ = directory / ("events.out.tfevents." + std::to_string(seconds) + "." + shown_host() + "." +
                       std::to_string(getpid()) + ".l2l");
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  file_.open(path_, std::ios::binary);
  if (error || !file_) throw BadInput(path_.string() + ": cannot be written" + (error ? ": " + error.message() : ""));
  write(time_field(now()) + field(kFileVersion, Wire::bytes, "brain.Event:2"));
}

void EventFile::add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  write(scalar_event(now(), step, scalars));
}

void EventFile::write(const std::string& message) {
  if (!(file_ << event_record(message) << std::flush)) {
    throw Error(path_.string() + ": cannot be written: " + std::strerror(errno));
  }
}

}  // namespace l2l::formats
