#include "formats/event_file.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "tests/support/temporary_folder.h"

namespace l2l::formats {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[static_cast<unsigned char>(byte) >> 4], kDigits[static_cast<unsigned char>(byte) & 15]};
  }
  return text;
}

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, OfKnownBytes) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

// As protoc's text format of event.proto has it: wall_time: 1.5, step: 300, summary {value {tag: "loss"
// simple_value: 2.5}}.
TEST(EventFile, MessagesAreProtocolBuffers) {
  EXPECT_EQ(hex(scalar_event(1.5, 300, {{"loss", 2.5}})),
            "09000000000000f83f"  // field 1, a double
            "10ac02"              // field 2, 300 as a varint
            "2a0d"                // field 5, 13 bytes
            "0a0b"                // field 1, 11 bytes
            "0a046c6f7373"        // field 1, "loss"
            "1500002040");        // field 2, a float
}

// The first record of every file that TensorFlow writes at time 0.
TEST(EventFile, RecordsCarryMaskedChecksums) {
  const std::string record = event_record(std::string("\x09\0\0\0\0\0\0\0\0\x1a\x0d", 11) + "brain.Event:2");
  EXPECT_EQ(record.size(), 8u + 4 + 24 + 4);
  EXPECT_EQ(hex(record.substr(0, 12)), "1800000000000000a37f4b22");
}

TEST(EventFile, ADirectoryThatCannotBeMadeIsRefused) {
  const ::l2l::testing::TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(EventFile(folder / "file" / "events"), BadInput);
  EventFile file(folder / "new" / "events");
  file.add(1, {{"loss", 1}});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "new" / "events"), {}), 1);
}

}  // namespace
}  // namespace l2l::formats
