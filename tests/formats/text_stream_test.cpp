#include "formats/text_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "l2l/errors.h"
#include "tests/support/temporary_folder.h"

namespace l2l::formats {
namespace {

// "line 1\nline 2\n" by gzip 1.12 and zstd 1.5.4.
constexpr unsigned char kGzip[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb,
                                   0xc9, 0xcc, 0x4b, 0x55, 0x30, 0xe4, 0xca, 0x01, 0x51, 0x46, 0x5c,
                                   0x00, 0x01, 0xb4, 0x3d, 0x85, 0x0e, 0x00, 0x00, 0x00};
constexpr unsigned char kZstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x71, 0x00, 0x00, 0x6c, 0x69, 0x6e, 0x65, 0x20,
                                   0x31, 0x0a, 0x6c, 0x69, 0x6e, 0x65, 0x20, 0x32, 0x0a, 0x2e, 0xc8, 0x46, 0xb4};

class TextStreams : public ::testing::Test {
 protected:
  template <std::size_t kCount>
  static std::string text_of(const unsigned char (&bytes)[kCount]) {
    return {bytes, bytes + kCount};
  }
  std::filesystem::path write(const std::string& bytes) const {
    std::ofstream(folder_ / "file", std::ios::binary) << bytes;
    return folder_ / "file";
  }
  std::vector<std::string> lines(const std::string& bytes) const {
    TextStream stream(write(bytes));
    std::vector<std::string> lines;
    for (std::string line; stream.read_line(line, 1 << 20);) lines.push_back(line);
    return lines;
  }
  std::string refusal(const std::string& bytes) const {
    try {
      lines(bytes);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "(none)";
  }

  // The text of both compressions, of those that this program was built with.
  std::vector<std::string> compressed() const {
    std::vector<std::string> texts = {text_of(kGzip), text_of(kZstd)};
    std::erase_if(texts, [&](const std::string& text) { return refusal(text).find("built without") < 1000; });
    return texts;
  }

  ::l2l::testing::TemporaryFolder folder_;
};

using Lines = std::vector<std::string>;

TEST_F(TextStreams, ZerosBehindGzipArePadding) {
  const std::string text = text_of(kGzip), zeros(700, '\0');
  if (refusal(text).find("built without") < 1000) GTEST_SKIP();
  const Lines once = lines(text);
  Lines twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(lines(text + zeros), once);
  EXPECT_EQ(lines(text + zeros + text), twice);
  EXPECT_NE(refusal(text + zeros + "text"), "(none)");
}

TEST_F(TextStreams, LinesOfAnyEnd) {
  EXPECT_EQ(lines("a\r\nb\n\nc"), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(lines(""), Lines{});
  const std::string longer(3'000'000, 'x');  // than a window
  TextStream stream(write(longer + "\nend"));
  std::string line;
  ASSERT_TRUE(stream.read_line(line, 3'000'000));
  EXPECT_EQ(line, longer);
  EXPECT_EQ(stream.rest(3), "end");
}

TEST_F(TextStreams, LinesAcrossWindows) {
  Lines expected;
  std::string text;
  for (std::size_t i = 0; i < 40'000; ++i) {
    expected.emplace_back(i % 97, static_cast<char>('a' + i % 26));
    text += expected.back() + "\n";
  }
  EXPECT_EQ(lines(text), expected);
  TextStream stream(write(text));
  std::string line;
  for (std::size_t i = 0; i < 300; ++i) ASSERT_TRUE(stream.read_line(line, 97));
  std::string left = stream.rest(text.size());
  EXPECT_EQ(text.substr(text.size() - left.size()), left);
  EXPECT_EQ(static_cast<std::size_t>(std::count(left.begin(), left.end(), '\n')), expected.size() - 300);
  EXPECT_EQ(stream.rest(0), "");
  EXPECT_THROW(TextStream(write(text)).rest(text.size() - 1), CorruptFile);
}

TEST_F(TextStreams, CompressedFilesAndSeveralMembers) {
  for (const std::string& bytes : compressed()) {
    EXPECT_EQ(lines(bytes), (Lines{"line 1", "line 2"}));
    EXPECT_EQ(lines(bytes + bytes), (Lines{"line 1", "line 2", "line 1", "line 2"}));
  }
}

TEST_F(TextStreams, RefusesWhatIsDamaged) {
  for (std::string bytes : compressed()) {
    EXPECT_NE(refusal(bytes.substr(0, bytes.size() - 5)).find("cut short"), std::string::npos);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
    EXPECT_NE(refusal(bytes).find("is damaged"), std::string::npos) << refusal(bytes);
  }
  TextStream stream(write("0123456789\n"));
  std::string line;
  EXPECT_THROW(stream.read_line(line, 5), CorruptFile);
}

}  // namespace
}  // namespace l2l::formats
