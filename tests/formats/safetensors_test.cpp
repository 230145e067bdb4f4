#include "formats/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/hash.h"
#include "formats/safetensors_header.h"
#include "formats/safetensors_writer.h"
#include "l2l/errors.h"
#include "tests/support/memory_files.h"
#include "tests/support/temporary_folder.h"

namespace l2l::formats {
namespace {

using ::l2l::testing::TemporaryFolder;

std::string read_all(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_all(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

// A file by the letter of the format, not by our writer.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\x11');
}

// The message with which the file is refused; "(accepted)" when it is not.
std::string refusal(const std::string& bytes) {
  static const TemporaryFolder folder;
  write_all(folder / "bad.safetensors", bytes);
  try {
    const SafetensorsFile file(folder / "bad.safetensors");
  } catch (const CorruptFile& error) {
    EXPECT_NE(std::string(error.what()).find("bad.safetensors"), std::string::npos) << error.what();
    return error.what();
  }
  return "(accepted)";
}

std::string header_refusal(const std::string& header, std::size_t data_bytes = 8) {
  return refusal(file_of(header, data_bytes));
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Two tensors and an empty one, written in another order than they lie, one of them in pieces. Returns the header's
// hash.
std::uint64_t write_two_tensors(const std::filesystem::path& path,
                                const std::map<std::string, std::string>& metadata = {{"format", "pt"}}) {
  const TensorToWrite tensors[] = {{"a", {2, 3}}, {"b \"quoted\"", {}}, {"empty", {0, 4}}};
  SafetensorsWriter file(path, tensors, metadata);
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {-0.0f};
  file.write(1, 0, std::as_bytes(std::span(b)));
  file.write(0, 4, std::as_bytes(std::span(a).subspan(4)));
  file.write(0, 0, std::as_bytes(std::span(a).first(4)));
  file.finish();
  EXPECT_TRUE(path == "/dev/full" || std::filesystem::file_size(path) == file.bytes());
  return file.header_hash();
}

// Of version 0.8.0 of the reference implementation, all whose elements are whole bytes.
TEST(Safetensors, TypesOfTheReferenceAreRead) {
  for (const char* const type : {"F64", "I64", "U64", "C64", "F32", "I32", "U32", "F16", "BF16", "I16", "U16", "I8",
                                 "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"}) {
    const std::size_t bytes = safetensors_element(type);
    const std::string end = std::to_string(3 * bytes);
    EXPECT_EQ(
        header_refusal(R"({"a":{"dtype":")" + std::string(type) + R"(","shape":[3],"data_offsets":[0,)" + end + "]}}",
                       3 * bytes),
        "(accepted)");
  }
  EXPECT_EQ(safetensors_element("C64"), 8u);
  EXPECT_EQ(safetensors_element("F8_E8M0"), 1u);
  EXPECT_EQ(safetensors_element("F4"), 0u) << "half a byte";
}

TEST(Safetensors, APointerOfGitLfsIsCalledSo) {
  EXPECT_SAYS(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
              "bad.safetensors: is a pointer of Git LFS, not the file itself: run git lfs pull");
}

TEST(Safetensors, WritesTheFormatByTheLetter) {
  const TemporaryFolder folder;
  const std::uint64_t hash = write_two_tensors(folder / "x.safetensors");
  const std::string bytes = read_all(folder / "x.safetensors");
  std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2, 3],"data_offsets":[0,24]},)"
                       R"("b \"quoted\"":{"dtype":"F32","shape":[],"data_offsets":[24,28]},)"
                       R"("empty":{"dtype":"F32","shape":[0, 4],"data_offsets":[28,28]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const float data[] = {1, 2, 3, 4, 5, 6, -0.0f};
  std::string expected = file_of(header, sizeof data);
  std::memcpy(expected.data() + expected.size() - sizeof data, data, sizeof data);
  EXPECT_EQ(bytes, expected);
  Hash64 before_data;
  before_data.update(std::as_bytes(std::span(bytes)).first(bytes.size() - sizeof data));
  EXPECT_EQ(hash, before_data.value());
  EXPECT_EQ(SafetensorsFile(folder / "x.safetensors").header_hash(), hash);
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  write_two_tensors(folder / "x.safetensors", {{"format", "pt"}, {"é", "\n"}});
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("é"), "\n");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.find("missing"), nullptr);
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("a")->shape, (Shape{2, 3}));
  std::vector<float> a(6);
  file.read(*file.find("a"), a);
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  file.read(*file.find("a"), 2, std::span(a).first(3));
  EXPECT_EQ(a, (std::vector<float>{3, 4, 5, 4, 5, 6}));
  EXPECT_THROW(file.read(*file.find("a"), 4, std::span(a).first(3)), CorruptFile);
  float b = 1;
  file.read(*file.find("b \"quoted\""), {&b, 1});
  EXPECT_TRUE(std::signbit(b));
}

TEST(Safetensors, ReadsFilesOfOtherWriters) {
  const TemporaryFolder folder;
  // Tensors in any order of the header, of any dtype; spaces after the header.
  write_all(folder / "x.safetensors",
            file_of(R"({"z":{"data_offsets":[4,6],"dtype":"BF16","shape":[1]}, "y":{"shape":[4],"dtype":"U8",)"
                    R"("data_offsets":[0,4]}}  )"
                    "\n\t",
                    6));
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.tensors()[0].name, "y");
  EXPECT_EQ(file.tensors()[1].name, "z");
  EXPECT_TRUE(file.metadata().empty());
  float value = 0;
  EXPECT_THROW(file.read(*file.find("z"), {&value, 1}), CorruptFile) << "not F32";
}

TEST(Safetensors, RefusesToReadIntoAnotherLength) {
  const TemporaryFolder folder;
  write_two_tensors(folder / "x.safetensors", {});
  const SafetensorsFile file(folder / "x.safetensors");
  std::vector<float> five(5);
  try {
    file.read(*file.find("a"), five);
    FAIL() << "it was read";
  } catch (const CorruptFile& error) {
    EXPECT_EQ(error.place().file, (folder / "x.safetensors").string());
    EXPECT_EQ(error.place().field, "tensor \"a\"");
    EXPECT_EQ(std::string(error.what()).find(error.place().file + ": tensor \"a\": has "), 0u) << error.what();
  }
}

struct BadHeader {
  const char* header;
  const char* reason;
};

// Eight bytes of data follow each.
const BadHeader kBadHeaders[] = {
    {"", "does not begin with '{'"},
    {"[]", "does not begin with '{'"},
    {" {}", "does not begin with '{'"},
    {"\xef\xbb\xbf{}", "does not begin with '{'"},
    {"{", "is not JSON"},
    {"{}x", "is not JSON"},
    {"{}{}", "is not JSON"},
    {"{}", "the last 8 bytes belong to no tensor"},
    {R"({"t\xff":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "is not JSON"},
    {"{\"t\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "is not JSON in UTF-8"},
    {"{\"t\xed\xa0\x80\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "is not JSON in UTF-8"},
    {R"({"t\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "is not JSON"},
    {R"({"t":1})", "a number where none belongs"},
    {R"({"t":"F32"})", "a string where none belongs"},
    {R"({"t":[0,8]})", "an array where none belongs"},
    {R"({"t":null})", "null where a value belongs"},
    {R"({"t":true})", "true or false"},
    {R"({"t":{}})", "tensor \"t\": has no dtype"},
    {R"({"t":{"dtype":"F32","data_offsets":[0,8]}})", "tensor \"t\": has no shape"},
    {R"({"t":{"dtype":"F32","shape":[2]}})", "tensor \"t\": has no data_offsets"},
    {R"({"t":{"dtype":"","shape":[2],"data_offsets":[0,8]}})", "unknown dtype \"\""},
    {R"({"t":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})", "tensor \"t\": unknown dtype \"f32\""},
    {R"({"t":{"dtype":32,"shape":[2],"data_offsets":[0,8]}})", "a number where none belongs"},
    {R"({"t":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})", "an array as the value of \"dtype\""},
    {R"({"t":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "a number where none belongs"},
    {R"({"t":{"dtype":"F32","shape":"2","data_offsets":[0,8]}})", "a string where none belongs"},
    {R"({"t":{"dtype":"F32","shape":{"0":2},"data_offsets":[0,8]}})", "an object where none belongs"},
    {R"({"t":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "tensor \"t\": a negative number"},
    {R"({"t":{"dtype":"F32","shape":[-0],"data_offsets":[0,8]}})", "tensor \"t\": a negative number"},
    {R"({"t":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "not a whole one"},
    {R"({"t":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}})", "not a whole one"},
    {R"({"t":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "an array where none belongs"},
    {R"({"t":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})", "rank above 8"},
    {R"({"t":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]}})", "not a whole one below 2^64"},
    {R"({"t":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", "is too large"},
    {R"({"t":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}})", "does not fit in 64 bits"},
    {R"({"t":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})", "does not fit in 64 bits"},
    {R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "F32 [3] takes 12 bytes"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "more than two numbers"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8]}})", "has not two numbers"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "do not lie within"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", "a negative number"},
    {R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "do not lie within the 8 bytes"},
    {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "the last 4 bytes belong to no tensor"},
    {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "tensor \"t\": a hole of bytes lies before [4, 8)"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     "tensor \"u\": [4, 8) overlaps"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
     "overlaps"},
    {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     "tensor \"t\": stands twice"},
    {R"({"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "dtype stands twice"},
    {R"({"t":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", "shape stands twice"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,8]}})", "data_offsets stands twice"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", "a number where none belongs"},
    {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":"x"}})", "a string where none belongs"},
    {R"({"__metadata__":{"a":1},"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "a number where none belongs"},
    {R"({"__metadata__":{"a":{}},"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "an object where none"},
    {R"({"__metadata__":{"a":"x","a":"y"},"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "stands twice"},
    {R"({"__metadata__":{},"__metadata__":{},"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "stands twice"},
    {R"({"__metadata__":"x","t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "a string where none belongs"},
    {R"({"__metadata__":null,"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "null where a value belongs"},
};

TEST(Safetensors, RefusesHostileHeaders) {
  for (const BadHeader& bad : kBadHeaders) {
    EXPECT_SAYS(header_refusal(bad.header), bad.reason) << bad.header;
  }
  const std::string good = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(header_refusal(good), "(accepted)");
  EXPECT_SAYS(header_refusal(good + std::string(1, '\0')), "NUL") << "the JSON library takes a NUL for the end";
  EXPECT_SAYS(header_refusal(good + std::string("\0}", 2)), "NUL");
}

TEST(Safetensors, RefusesImpossibleHeaderLengths) {
  EXPECT_SAYS(refusal(""), "too short");
  EXPECT_SAYS(refusal("1234567"), "too short");
  for (const std::uint64_t length :
       {std::uint64_t{1}, std::uint64_t{100'000'001}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_SAYS(refusal(bytes), "header: a length of " + std::to_string(length));
  }
}

TEST(Safetensors, RefusesDeepNestingWithoutRecursion) {
  EXPECT_SAYS(header_refusal("{\"a\":" + std::string(1'000'000, '[')), "an array where none belongs");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_SAYS(header_refusal(objects), "an object where none belongs");
}

TEST(Safetensors, LongAndUnprintableNamesAreShownShort) {
  EXPECT_EQ(show_name("a\nb"), "\"a?b\"");
  EXPECT_LT(show_name(std::string(1000, 'x')).size(), 130u);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const TemporaryFolder folder;
  write_two_tensors(folder / "x.safetensors");
  const std::string bytes = read_all(folder / "x.safetensors");
  ASSERT_EQ(refusal(bytes), "(accepted)");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(refusal(bytes.substr(0, length)), "(accepted)") << length;
  }
  EXPECT_NE(refusal(bytes + '\0'), "(accepted)");
}

// A flipped bit may leave a valid file (data, a letter of a name); it must never do worse than be refused.
TEST(Safetensors, SurvivesEveryFlippedBit) {
  const TemporaryFolder folder;
  write_two_tensors(folder / "x.safetensors");
  const std::string bytes = read_all(folder / "x.safetensors");
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    refused += refusal(damaged) != "(accepted)";
  }
  EXPECT_GT(refused, static_cast<int>(4 * bytes.size()));
}

TEST(Safetensors, AMillionTensorsTakeLinearTime) {
  constexpr int kTensors = 200'000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i) {
    header += (i ? ",\"layer." : "\"layer.") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  header += "}";
  const TemporaryFolder folder;
  write_all(folder / "x.safetensors", file_of(header, kTensors));
  const auto begin = std::chrono::steady_clock::now();
  const SafetensorsFile file(folder / "x.safetensors");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(file.tensors().size(), static_cast<std::size_t>(kTensors));
  EXPECT_EQ(file.find("layer.777")->begin, 777u);
  EXPECT_LT(seconds.count(), 10) << "quadratic time would be minutes";
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  const auto message = [&](const std::filesystem::path& path) -> std::string {
    try {
      const SafetensorsFile file(path);
    } catch (const CorruptFile& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_SAYS(message(folder / "missing"), "missing: cannot be opened: No such file");
  EXPECT_SAYS(message(folder.path()), "is not a regular file");
  EXPECT_SAYS(message("/dev/zero"), "is not a regular file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_SAYS(message(folder / "pipe"), "is not a regular file");
}

TEST(Safetensors, AFailedWriteNamesTheFile) {
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      write_two_tensors(path, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "(written)";
  };
  EXPECT_SAYS(message("/nonexistent/x.safetensors"), "/nonexistent/x.safetensors: cannot be created: No such file");
  EXPECT_SAYS(message("/dev/full"), "/dev/full: cannot be written: No space");
}

}  // namespace
}  // namespace l2l::formats
