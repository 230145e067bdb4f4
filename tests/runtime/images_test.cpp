// Sets of images in files: PNG against Pillow, CIFAR's binary files, NumPy's arrays.
#include "runtime/data/images.h"

#include <gtest/gtest.h>

#include "tests/runtime/image_data.h"
#include "tests/runtime/test_data.h"

namespace l2l::runtime::images_test {
namespace {

using namespace image_data;
using namespace test;
using Names = std::vector<std::string>;

class ImageFiles : public ::testing::Test {
 protected:
  std::shared_ptr<const ImageSet> open(Names names, const std::string& format = "auto") const {
    for (std::string& name : names) name = data_.path(name);
    return open_image_set(names, "data.train", format);
  }
  std::string refused(const Names& names, const std::string& format = "auto") const {
    return bad_input([&] { open(names, format); });
  }
  std::vector<std::int32_t> labels(const Names& names, const std::string& format = "auto") const {
    const auto set = open(names, format);
    std::vector<std::int32_t> labels;
    for (std::uint64_t i = 0; i < set->size(); ++i) labels.push_back(set->label(i));
    return labels;
  }
  static std::vector<std::uint8_t> pixels(const ImageSet& set, std::uint64_t image) {
    std::vector<std::uint8_t> pixels;
    EXPECT_EQ(set.read(image, pixels), set.shape(image));
    return pixels;
  }

  const Data data_;
};

class PngFiles : public ImageFiles {
 protected:
  void SetUp() override {
    data_.write("probe/probe.png", png(0));
    std::vector<std::uint8_t> pixels;
    const std::string said = bad_input([&] { formats::read_png(data_.path("probe/probe.png"), pixels); });
    if (said.find("-Dpng") != std::string::npos) GTEST_SKIP() << "this build has no libpng";
  }
  void write_folders() const {
    const char* const names[] = {"train/dog/b.png", "train/cat/z.png", "train/cat/more/a.PNG", "train/dog/a.png"};
    for (std::size_t i = 0; i < 4; ++i) data_.write(names[i], png(i + 3));
    data_.write("train/readme.txt", "none of these");
  }
  std::string damaged(const std::string& content) const {
    data_.write("damaged/damaged.png", content);
    std::vector<std::uint8_t> pixels;
    return bad_input([&] { open({"damaged/damaged.png"})->read(0, pixels); });
  }
};

TEST_F(PngFiles, AreWhatPillowReads) {
  const auto height = fixture().at("height").get<int>(), width = fixture().at("width").get<int>();
  ASSERT_GE(fixture().at("files").size(), 36u);
  for (const nlohmann::json& each : fixture().at("files")) {
    data_.write("kinds/one.png", text_of(bytes_of(each.at("file"))));
    const auto set = open({"kinds/one.png"});
    EXPECT_EQ(set->shape(0), (ImageShape{height, width, each.at("channels").get<int>()})) << json_text(each);
    EXPECT_EQ(pixels(*set, 0), bytes_of(each.at("pixels"))) << json_text(each);
  }
}

TEST_F(PngFiles, TakeTheirClassFromTheirFolder) {
  write_folders();
  const auto set = open({"train"});
  EXPECT_EQ(set->class_names(), (Names{"cat", "dog", "more"}));
  EXPECT_EQ(set->classes(), 3);
  EXPECT_EQ(labels({"train"}), (std::vector<std::int32_t>{2, 0, 1, 1}));
  EXPECT_EQ(pixels(*set, 3), bytes_of(fixture().at("files").at(3).at("pixels")));
  EXPECT_EQ(set->place(3), data_.path("train/dog/b.png"));
  EXPECT_EQ(set->description(), "data.train (" + data_.path("train/cat/more/a.PNG") + " and 3 more)");
  // In the order of the patterns, and none twice.
  EXPECT_EQ(labels({"train/dog/b.png", "train/[cd]*"}), (std::vector<std::int32_t>{1, 2, 0, 1}));
  EXPECT_EQ(labels({"train/dog/"}), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(open({"train/[cd]*/?.png"})->class_names(), (Names{"cat", "dog"}));
  EXPECT_SAYS(refused({"train/*"}, "npy"), "is a directory");
  EXPECT_SAYS(refused({"train/*"}, "png"), "readme.txt: PNG: ");
  EXPECT_SAYS(refused({"train/*"}), "are not of one kind");
}

TEST_F(PngFiles, AreTheSameWhereverTheyLie) {
  write_folders();
  const std::uint64_t identity = open({"train"})->identity();
  std::filesystem::rename(data_.path("train"), data_.path("moved"));
  EXPECT_EQ(open({"moved"})->identity(), identity);
  std::filesystem::rename(data_.path("moved/dog"), data_.path("moved/hound"));
  EXPECT_NE(open({"moved"})->identity(), identity);
  std::filesystem::rename(data_.path("moved/hound"), data_.path("moved/dog"));
  EXPECT_EQ(open({"moved"})->identity(), identity);
  data_.write("moved/dog/a.png", png(6) + "x");
  EXPECT_NE(open({"moved"})->identity(), identity);
}

TEST_F(PngFiles, DamageNamesTheFile) {
  const std::string whole = png(6);
  const std::size_t data_end = whole.size() - 12;  // IEND is not missed
  for (std::size_t length = 0; length < data_end; ++length) {
    const std::string said = damaged(whole.substr(0, length));
    EXPECT_SAYS(said, "data.train: " + data_.path("damaged/damaged.png") + ": PNG: ");
    EXPECT_SAYS(said, "write it again, or leave it out");
  }
  EXPECT_EQ(damaged(whole.substr(0, data_end)), "(no BadInput)");
  for (std::size_t byte = 0; byte < data_end; ++byte) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ 0x24);
    EXPECT_SAYS(damaged(changed), "damaged.png: PNG: ") << byte;
  }
  EXPECT_SAYS(damaged("no image"), "PNG: ");
  const std::string said = bad_input([&] { open({"damaged/damaged.png"})->shape(0); });
  EXPECT_SAYS(said, "PNG: the file is cut short");
}

TEST_F(PngFiles, SizesThatAHeaderClaimsAreBounded) {
  std::string huge = png(6);
  huge.replace(16, 8, "\x00\x10\x00\x00\x00\x10\x00\x00", 8);  // 2^40 pixels, with a checksum that does not fit
  data_.write("damaged/huge.png", huge);
  EXPECT_SAYS(bad_input([&] { open({"damaged/huge.png"})->shape(0); }), "1048576 x 1048576 pixels; 1 to 2^28 are read");
}

TEST_F(PngFiles, RefusesWhatHasNone) {
  std::filesystem::create_directories(data_.path("empty"));
  EXPECT_SAYS(refused({"empty"}), "data.train: " + data_.path("empty") + ": no file *.png");
  EXPECT_SAYS(refused({"absent"}), "no file matches");
  EXPECT_SAYS(refused({}), "data.train: names no file");
  data_.write("mixed/a.png", png(0));
  data_.write("mixed/b.npy", npy("|u1", "1,", "a"));
  EXPECT_SAYS(refused({"mixed/*"}), "are not of one kind");
  data_.write("mixed/c.jpg", "JPEG");
  EXPECT_SAYS(refused({"mixed/c.jpg"}), "c.jpg: no image file by its name (.png, .npy, .bin)");
  EXPECT_SAYS(refused({"mixed/a.png"}, "tokens"), "data.format = \"tokens\" is none of images");
}

TEST_F(ImageFiles, CifarHasPlanes) {
  data_.write("b1.bin", cifar({"\x03", std::string(1, '\0')}));
  data_.write("b2.bin", cifar({"\x09"}, 2));
  const auto set = open({"b?.bin"});
  EXPECT_EQ(labels({"b1.bin", "b2.bin"}), (std::vector<std::int32_t>{3, 0, 9}));
  EXPECT_EQ(set->shape(1), (ImageShape{32, 32, 3}));
  EXPECT_EQ(set->classes(), 10);
  EXPECT_TRUE(set->class_names().empty());
  EXPECT_EQ(set->place(1), data_.path("b1.bin") + ": record 1");
  EXPECT_EQ(set->place(2), data_.path("b2.bin") + ": record 0");
  for (std::size_t image = 0; image < 3; ++image) {
    const std::vector<std::uint8_t> found = pixels(*set, image);
    for (std::size_t i = 0; i < 3072; ++i) ASSERT_EQ(found[i], cifar_value(image, i % 3 * 1024 + i / 3));
  }
  const std::uint64_t identity = set->identity();
  EXPECT_NE(open({"b2.bin", "b1.bin"})->identity(), identity);
  data_.write("b2.bin", cifar({"\x08"}, 2));
  EXPECT_NE(open({"b?.bin"})->identity(), identity);
}

TEST_F(ImageFiles, CifarOfHundredHasTheFineLabelSecond) {
  data_.write("train.bin", cifar({"\x01\x63", "\x05\x07"}));
  EXPECT_EQ(labels({"train.bin"}), (std::vector<std::int32_t>{99, 7}));
  EXPECT_EQ(open({"train.bin"}, "cifar100")->classes(), 100);
  EXPECT_EQ(pixels(*open({"train.bin"}), 1)[4], cifar_value(1, 1025));
}

TEST_F(ImageFiles, CifarThatIsCutShortIsRefused) {
  const std::string whole = cifar({"\x03", "\x04"});
  for (const std::size_t length : {whole.size() - 1, std::size_t{1}, std::size_t{0}}) {
    data_.write("cut.bin", whole.substr(0, length));
    EXPECT_SAYS(refused({"cut.bin"}), "cut.bin: neither CIFAR-10's records of 3073 bytes nor CIFAR-100's");
    EXPECT_SAYS(refused({"cut.bin"}, "cifar10"), "data.train: " + data_.path("cut.bin") + ": " +
                                                     std::to_string(length) + " bytes, which are no whole records");
  }
  data_.write("cut.bin", whole);
  const auto set = open({"cut.bin"});
  data_.write("cut.bin", whole.substr(0, 4000));  // after it was opened
  std::vector<std::uint8_t> pixels;
  EXPECT_SAYS(bad_input([&] { set->read(1, pixels); }), "data.train: " + data_.path("cut.bin"));
}

std::string counting(std::size_t count, std::size_t first = 0) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>((first + i) % 256);
  return bytes;
}

TEST_F(ImageFiles, ArraysLieOneBehindTheOther) {
  data_.write("x0.npy", npy("|u1", "2, 3, 4, 3", counting(72)));
  data_.write("x1.npy", npy("|u1", "1, 3, 4, 3", counting(36, 72)));
  data_.write("y0.npy", npy("<i8", "1,", std::string("\5\0\0\0\0\0\0\0", 8)));
  data_.write("y1.npy", npy("|u1", "2,", "\1\7"));
  const auto set = open({"*.npy"});
  EXPECT_EQ(set->size(), 3u);
  EXPECT_EQ(set->shape(2), (ImageShape{3, 4, 3}));
  EXPECT_EQ(labels({"*.npy"}), (std::vector<std::int32_t>{5, 1, 7}));
  EXPECT_EQ(set->classes(), 8);
  EXPECT_EQ(set->place(2), data_.path("y1.npy") + ": element 1");
  for (std::size_t image = 0; image < 3; ++image) {
    EXPECT_EQ(text_of(pixels(*set, image)), counting(36, 36 * image));
  }
  const std::uint64_t identity = set->identity();
  data_.write("y1.npy", npy("|u1", "2,", "\1\6"));
  EXPECT_NE(open({"*.npy"})->identity(), identity);
}

TEST_F(ImageFiles, LabelsAreIntegersOfAnyType) {
  data_.write("x.npy", npy("|u1", "2, 2, 2", counting(8)));
  const auto of = [&](const std::string& type, const std::string& bytes) {
    data_.write("y.npy", npy(type, "2,", bytes));
    return labels({"y.npy", "x.npy"});
  };
  const std::vector<std::int32_t> small{5, 127}, large{258, 5};
  EXPECT_EQ(of("|i1", "\5\x7f"), small);
  EXPECT_EQ(of("|u1", "\5\x7f"), small);
  for (const char* const type : {"<i2", "<u2"}) EXPECT_EQ(of(type, {"\2\1\5\0", 4}), large);
  for (const char* const type : {">i2", ">u2"}) EXPECT_EQ(of(type, {"\1\2\0\5", 4}), large);
  for (const char* const type : {"<i4", "<u4"}) EXPECT_EQ(of(type, {"\2\1\0\0\5\0\0\0", 8}), large);
  for (const char* const type : {"<i8", "<u8"}) EXPECT_EQ(of(type, {"\2\1\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 16}), large);
  EXPECT_EQ(of(">i8", {"\0\0\0\0\0\0\1\2\0\0\0\0\0\0\0\5", 16}), large);
  const auto refused_label = [&](const std::string& type, const std::string& bytes) {
    return bad_input([&] { of(type, bytes); });
  };
  EXPECT_SAYS(refused_label("|i1", "\5\xff"), "y.npy: element 1: class -1");
  EXPECT_SAYS(refused_label("<u8", std::string(16, '\xff')), "y.npy: element 0: class 9223372036854775807");
  EXPECT_SAYS(refused_label("<i8", std::string(16, '\xff')), "y.npy: element 0: class -1");
  EXPECT_SAYS(refused_label("<f4", std::string(8, '\0')), "labels of type <f4; they are integers");
}

TEST_F(ImageFiles, ArraysThatDoNotFitAreRefused) {
  const std::string images = npy("|u1", "2, 2, 2", counting(8)), labels = npy("|u1", "2,", "\0\1");
  data_.write("y.npy", npy("|u1", "2,", std::string("\0\1", 2)));
  data_.write("fits.npy", images);
  const auto said = [&](const std::string& content) {
    data_.write("x.npy", content);
    const std::string message = refused({"x.npy", "y.npy"});
    EXPECT_SAYS(message, "data.train");
    EXPECT_SAYS(message, data_.path("x.npy"));
    return message;
  };
  EXPECT_SAYS(said(npy("<f4", "1, 1, 1", "1234")), "images of type <f4; they are of uint8");
  EXPECT_SAYS(said(npy("|i1", "1, 2, 2", "1234")), "images of type |i1; they are of uint8");
  EXPECT_SAYS(said(npy("|u1", "2, 2, 2", counting(8), "True")), "Fortran");
  EXPECT_SAYS(said(npy("|u1", "2, 3, 2, 2", counting(24))), "2 channels in its last dimension");
  EXPECT_SAYS(said(npy("|u1", "2, 4", counting(8))), "has 2 dimensions");
  EXPECT_SAYS(said(npy("|u1", "", "1")), "has 0 dimensions");
  EXPECT_SAYS(said(npy("|u1", "2, 0, 4", "")), "0 x 4 pixels");
  EXPECT_SAYS(said(npy("|u1", "0, 2, 2", "")), "no images");
  EXPECT_SAYS(said(npy("|u1", "3, 2, 2", counting(12))), "3 images, but 2 labels");
  EXPECT_SAYS(said(npy("|u1", "1, 2, 2", counting(3))), "'shape' stands for 4 bytes; the file has 3");
  EXPECT_SAYS(said(npy("<U1", "2,", counting(8))), "elements of type <U1 are no numbers");
  EXPECT_SAYS(said(npy("|u1", "4294967296, 4294967296, 16", "")), "does not fit in 64 bits");
  EXPECT_SAYS(said(npy("|u1", "x", "")), "'shape' of the header is not a tuple");
  EXPECT_SAYS(said("no array of NumPy at all"), "is no array of NumPy");
  for (std::size_t length = 0; length < images.size(); ++length) said(images.substr(0, length));
  data_.write("wide.npy", npy("|u1", "1, 2, 3", counting(6)));
  EXPECT_SAYS(refused({"fits.npy", "wide.npy", "y.npy"}), "wide.npy: has images of 2 x 3 x 1");
  EXPECT_SAYS(refused({"fits.npy"}), "no labels; name also an array of integers");
  EXPECT_SAYS(refused({"y.npy"}), "no images; name also an array of uint8");
}

// More than stay open.
TEST_F(ImageFiles, ManyArrays) {
  for (int i = 100; i < 250; ++i) data_.write("x" + std::to_string(i) + ".npy", npy("|u1", "1, 2, 2", counting(4, i)));
  data_.write("y.npy", npy("|u1", "150,", counting(150)));
  const auto set = open({"x*.npy", "y.npy"});
  EXPECT_EQ(set->size(), 150u);
  EXPECT_EQ(text_of(pixels(*set, 149)), counting(4, 249));
}

TEST_F(PngFiles, InLinkedFoldersAreReadOnce) {
  for (const char* const name : {"all/cat/1.png", "all/dog/2.png", "some/ox/3.png"}) data_.write(name, png(0));
  std::filesystem::create_directory_symlink(data_.path("all/cat"), data_.path("some/cat"));
  std::filesystem::create_directory_symlink(data_.path("some"), data_.path("some/ox/again"));
  EXPECT_EQ(open({"some"})->class_names(), (Names{"cat", "ox"}));
  EXPECT_EQ(labels({"some"}), (std::vector<std::int32_t>{0, 1}));
}

}  // namespace
}  // namespace l2l::runtime::images_test
