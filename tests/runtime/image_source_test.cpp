// Samples of images: scaling and luma against Pillow, augmentation against what it is defined as.
#include "runtime/data/image_source.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "core/log.h"
#include "tests/runtime/image_data.h"
#include "tests/runtime/test_data.h"

namespace l2l::runtime::image_source_test {
namespace {

using namespace image_data;
using namespace test;
using Bytes8 = std::vector<std::uint8_t>;

class ImageSamples : public ::testing::Test {
 protected:
  // One image, of class 4.
  std::shared_ptr<const ImageSet> set_of(const ImageShape& shape, const Bytes8& pixels) const {
    data_.write("x.npy", npy("|u1",
                             "1, " + std::to_string(shape.height) + ", " + std::to_string(shape.width) + ", " +
                                 std::to_string(shape.channels),
                             text_of(pixels)));
    data_.write("y.npy", npy("|u1", "1,", "\4"));
    return open_image_set({data_.path("x.npy"), data_.path("y.npy")}, "data.train", "npy");
  }
  std::vector<float> numbers(const ImageShape& shape, const Bytes8& pixels, const ImageSettings& settings,
                             std::uint64_t number = 0) const {
    const Read result = read(ImageSource(set_of(shape, pixels), settings), settings, 0, number);
    EXPECT_EQ(result.label, 4);
    return result.numbers;
  }
  static std::vector<float> normalized_all(const Bytes8& pixels, int channels) {
    std::vector<float> numbers;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      numbers.push_back(normalized(pixels[i], channels == 1 ? -1 : static_cast<int>(i % 3)));
    }
    return numbers;
  }
  // Of 32 x 32 pixels, no two of which are equal.
  static Bytes8 distinct() {
    Bytes8 pixels;
    for (int i = 0; i < 32 * 32; ++i) {
      pixels.insert(pixels.end(), {static_cast<std::uint8_t>(i % 256), static_cast<std::uint8_t>(i / 256 + 7), 9});
    }
    return pixels;
  }

  const Data data_;
};

TEST(ImageResize, IsPillows) {
  for (const nlohmann::json& each : fixture().at("scaled")) {
    const auto of = [&](const char* name) { return each.at(name).get<int>(); };
    const Bytes8 pixels = bytes_of(each.at("pixels")), expected = bytes_of(each.at("scaled"));
    const int height = of("to_height"), width = of("to_width"), channels = of("channels");
    const ImageView image = ImageView::of(pixels, {of("height"), of("width"), channels});
    Bytes8 rows, scaled;
    resize_image(image, {height, width, 0, 0, height, width}, rows, scaled);
    EXPECT_EQ(scaled, expected) << json_text(each);
    // A part of it has the same pixels.
    for (const auto& [top, left] : {std::pair{height / 2, 0}, {0, width / 2}, {height - 1, width - 1}}) {
      const int tall = height - top, wide = width - left;
      resize_image(image, {height, width, top, left, tall, wide}, rows, scaled);
      Bytes8 cut;
      for (int y = top; y < height; ++y) {
        const auto row = expected.begin() + y * width * channels;
        cut.insert(cut.end(), row + left * channels, row + width * channels);
      }
      EXPECT_EQ(scaled, cut) << top << " " << left;
    }
  }
}

TEST_F(ImageSamples, AreNormalizedAsImageNetIs) {
  const Bytes8 pixels{0, 128, 255, 17, 44, 200};
  EXPECT_EQ(numbers({1, 2, 3}, pixels, {.height = 1, .width = 2}), normalized_all(pixels, 3));
  EXPECT_EQ(numbers({2, 3, 1}, pixels, {.height = 2, .width = 3, .channels = 1}), normalized_all(pixels, 1));
  const std::vector<float> repeated = numbers({2, 3, 1}, pixels, {.height = 2, .width = 3});
  for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(repeated[i], normalized(pixels[i / 3], static_cast<int>(i % 3)));
}

TEST_F(ImageSamples, LumaIsPillows) {
  const Bytes8 colors = bytes_of(fixture().at("luma").at("colors"));
  EXPECT_EQ(numbers({8, 8, 3}, colors, {.height = 8, .width = 8, .channels = 1}),
            normalized_all(bytes_of(fixture().at("luma").at("luma")), 1));
}

// Of a step of colors in the middle, which stays there.
TEST_F(ImageSamples, OtherSizesAreScaledAndCutInTheMiddle) {
  for (const auto& [height, width] : {std::pair{8, 16}, {16, 8}, {4, 12}, {24, 8}}) {
    Bytes8 pixels;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) pixels.push_back((height < width ? 2 * x < width : 2 * y < height) ? 10 : 210);
    }
    const std::vector<float> found = numbers({height, width, 1}, pixels, {.height = 8, .width = 8, .channels = 1});
    for (int i = 0; i < 64; ++i) {
      const int along = height < width ? i % 8 : i / 8;
      if (along == 3 || along == 4) continue;  // where the step lies
      EXPECT_EQ(found[static_cast<std::size_t>(i)], normalized(along < 4 ? 10 : 210, -1)) << height << " " << i;
    }
    EXPECT_FLOAT_EQ(found[3 * 8 + 3] + found[4 * 8 + 4], normalized(10, -1) + normalized(210, -1));
  }
  // 40 x 33 pixels cover 8 x 8 as 10 x 8, of which the rows 1 to 8 are taken; 33 x 33 as 8 x 8.
  Bytes8 pixels = bytes_of(fixture().at("scaled").at(2).at("pixels")), rows, scaled;
  const ImageSettings settings{.height = 8, .width = 8, .channels = 1};
  resize_image(ImageView::of(pixels, {40, 33, 1}), {10, 8, 0, 0, 10, 8}, rows, scaled);
  EXPECT_EQ(numbers({40, 33, 1}, pixels, settings), normalized_all({scaled.begin() + 8, scaled.end() - 8}, 1));
  pixels.resize(33 * 33);
  resize_image(ImageView::of(pixels, {33, 33, 1}), {8, 8, 0, 0, 8, 8}, rows, scaled);
  EXPECT_EQ(numbers({33, 33, 1}, pixels, settings), normalized_all(scaled, 1));
}

TEST_F(ImageSamples, ExtremeSidesAreScaled) {
  const ImageSettings settings{.height = 8, .width = 8, .channels = 1};
  EXPECT_EQ(numbers({1, 5000, 1}, Bytes8(5000, 77), settings), normalized_all(Bytes8(64, 77), 1));
  EXPECT_EQ(numbers({5000, 1, 1}, Bytes8(5000, 77), settings), normalized_all(Bytes8(64, 77), 1));
}

struct Shift {
  int down, right;
  bool mirrored;
  auto operator<=>(const Shift&) const = default;
};

// By brute force: an image in a border of zeros, from which 32 x 32 pixels are cut out.
std::optional<Shift> find_shift(const std::vector<float>& image, const std::vector<float>& sample) {
  const auto value = [&](int y, int x, int channel) {
    return y < 0 || y >= 32 || x < 0 || x >= 32 ? 0.0f : image[static_cast<std::size_t>((y * 32 + x) * 3 + channel)];
  };
  const auto matches = [&](const Shift& shift, int i) {
    const int y = i / 96, x = i / 3 % 32, column = shift.mirrored ? 31 - x : x;
    return sample[static_cast<std::size_t>(i)] == value(y + shift.down, column + shift.right, i % 3);
  };
  for (int candidate = 0; candidate < 2 * 81; ++candidate) {
    const Shift shift{candidate % 9 - 4, candidate / 9 % 9 - 4, candidate >= 81};
    int i = 0;
    while (i < 3072 && matches(shift, i)) ++i;
    if (i == 3072) return shift;
  }
  return std::nullopt;
}

TEST_F(ImageSamples, ShiftsAreAllOfAnEighthAndMirroredByHalf) {
  const ImageSettings settings{.height = 32, .width = 32, .augmentation = Augmentation::shift, .seed = 5};
  const ImageSource source(set_of({32, 32, 3}, distinct()), settings);
  const std::vector<float> image = normalized_all(distinct(), 3);
  std::map<Shift, int> counts;
  int mirrored = 0;
  constexpr int kDraws = 1600;
  for (std::uint64_t number = 0; number < kDraws; ++number) {
    const std::optional<Shift> shift = find_shift(image, read(source, settings, 0, number).numbers);
    ASSERT_TRUE(shift) << number;
    ++counts[*shift];
    mirrored += shift->mirrored ? 1 : 0;
  }
  EXPECT_EQ(counts.size(), 162u);             // each about ten times
  EXPECT_NEAR(mirrored, kDraws / 2, 4 * 20);  // four standard deviations
  for (const auto& [shift, count] : counts) EXPECT_LT(count, 30);
}

// Red grows along rows, green along columns, so that a sample tells which part it is.
TEST_F(ImageSamples, PartsAreOfEightPercentToAllOfTheArea) {
  constexpr int kSide = 240, kTo = 16;
  Bytes8 pixels;
  for (int i = 0; i < kSide * kSide; ++i) {
    pixels.insert(pixels.end(), {static_cast<std::uint8_t>(i % kSide), static_cast<std::uint8_t>(i / kSide), 0});
  }
  const ImageSettings settings{.height = kTo, .width = kTo, .augmentation = Augmentation::crop, .seed = 3};
  const ImageSource source(set_of({kSide, kSide, 3}, pixels), settings);
  int mirrored = 0, small = 0, wide = 0, left = 0;
  constexpr int kDraws = 1000;
  for (std::uint64_t number = 0; number < kDraws; ++number) {
    const std::vector<float> sample = read(source, settings, 0, number).numbers;
    const auto value = [&](int y, int x, int channel) {  // the byte
      constexpr double kMeans[] = {0.485, 0.456}, kDeviations[] = {0.229, 0.224};
      return 255 *
             (sample[static_cast<std::size_t>((y * kTo + x) * 3 + channel)] * kDeviations[channel] + kMeans[channel]);
    };
    const double across = (value(8, 13, 0) - value(8, 2, 0)) / 11 * kTo,
                 down = (value(13, 8, 1) - value(2, 8, 1)) / 11 * kTo;
    const double area = std::abs(across) * down / (kSide * kSide), ratio = std::abs(across) / down;
    ASSERT_GT(area, 0.08 - 0.01);
    ASSERT_LT(area, 1.02);
    ASSERT_GT(ratio, 0.75 - 0.03);
    ASSERT_LT(ratio, 4.0 / 3 + 0.05);
    mirrored += across < 0 ? 1 : 0;
    small += area < 0.54 ? 1 : 0;
    wide += ratio > 1 ? 1 : 0;
    left += (value(8, 7, 0) + value(8, 8, 0)) / 2 < kSide / 2.0 ? 1 : 0;
  }
  for (const int count : {mirrored, wide, left}) EXPECT_NEAR(count, kDraws / 2, 4 * 16);
  EXPECT_GT(small, kDraws / 2 - 50);  // large parts fit more rarely
  EXPECT_LT(small, kDraws * 7 / 10);
}

// No part of 8% of such an image has allowed sides.
TEST_F(ImageSamples, WherePartsDoNotFitTheMiddleIsTaken) {
  const ImageSettings settings{.height = 5, .width = 4, .channels = 1, .augmentation = Augmentation::crop};
  Bytes8 pixels;
  for (int i = 0; i < 400; ++i) pixels.push_back(static_cast<std::uint8_t>(i / 4));
  Bytes8 middle;
  for (int i = 0; i < 20; ++i) middle.push_back(static_cast<std::uint8_t>(47 + i / 4));
  const ImageSource source(set_of({100, 4, 1}, pixels), settings);
  for (std::uint64_t number = 0; number < 20; ++number) {
    EXPECT_EQ(read(source, settings, 0, number).numbers, normalized_all(middle, 1));
  }
}

TEST_F(ImageSamples, FollowFromSeedAndNumberAlone) {
  for (const Augmentation augmentation : {Augmentation::shift, Augmentation::crop}) {
    const ImageSettings settings{.height = 24, .width = 40, .augmentation = augmentation, .seed = 8};
    ImageSettings reseeded = settings;
    reseeded.seed = 9;
    const auto set = set_of({32, 32, 3}, distinct());
    const ImageSource source(set, settings), again(set, settings), other(set, reseeded);
    constexpr std::uint64_t kDraws = 64;
    std::vector<Read> forward(kDraws), threads(kDraws);
    for (std::uint64_t i = 0; i < kDraws; ++i) forward[i] = read(source, settings, 0, i << 30);
    std::set<std::vector<float>> different;
    int equal = 0;
    for (std::uint64_t i = kDraws; i-- > 0;) {
      EXPECT_EQ(read(again, settings, 0, i << 30), forward[i]);
      equal += read(other, settings, 0, i << 30) == forward[i] ? 1 : 0;
      different.insert(forward[i].numbers);
    }
    EXPECT_LT(equal, 4);
    EXPECT_GT(different.size(), kDraws / 2);
    std::vector<std::thread> workers;
    for (std::uint64_t worker = 0; worker < 4; ++worker) {
      workers.emplace_back([&, worker] {
        for (std::uint64_t i = worker; i < kDraws; i += 4) threads[i] = read(source, settings, 0, i << 30);
      });
    }
    for (std::thread& worker : workers) worker.join();
    EXPECT_EQ(threads, forward);
  }
}

TEST_F(ImageSamples, IdentityTellsTheImages) {
  const auto set = set_of({32, 32, 3}, distinct());
  const std::uint64_t identity = ImageSource(set, {.height = 32, .width = 32}).identity();
  EXPECT_EQ(ImageSource(set, {.height = 16, .width = 16, .augmentation = Augmentation::crop, .seed = 7}).identity(),
            identity);
  EXPECT_NE(ImageSource(set_of({32, 32, 3}, Bytes8(3072)), {.height = 32, .width = 32}).identity(), identity);
}

TEST_F(ImageSamples, ClassesAreThoseThatAreNamed) {
  for (const char* const name : {"train/cat/1.png", "train/dog/1.png"}) data_.write(name, png(0));
  std::shared_ptr<const ImageSet> set;
  const std::string said = bad_input([&] { set = open_image_set({data_.path("train")}, "data.train", "auto"); });
  if (said.find("-Dpng") != std::string::npos) GTEST_SKIP() << "this build has no libpng";
  const auto class_of = [&](std::uint64_t image, const ImageSettings& settings) {
    const ImageSource source(set, settings);
    return read(source, settings, image, 0).label;
  };
  const ImageSettings plain{.height = 6, .width = 5},
      named{.height = 6, .width = 5, .class_names = {"dog", "ox", "cat"}};
  EXPECT_EQ(class_of(0, plain), 0);
  EXPECT_EQ(class_of(1, plain), 1);
  EXPECT_EQ(class_of(0, named), 2);
  EXPECT_EQ(class_of(1, named), 0);
  EXPECT_EQ(ImageSource(set, plain).classes(), 2);
  EXPECT_EQ(ImageSource(set, named).classes(), 3);
  EXPECT_NE(ImageSource(set, plain).identity(), ImageSource(set, named).identity());
  const std::string unknown = bad_input([&] { class_of(0, {.height = 6, .width = 5, .class_names = {"cat", "ox"}}); });
  EXPECT_SAYS(unknown, "data.train: " + data_.path("train/dog/1.png") +
                           ": its folder \"dog\" is none of the classes \"cat\", \"ox\"");
  EXPECT_SAYS(unknown, "model.label_names");
  EXPECT_SAYS(bad_input([&] { class_of(0, {.height = 6, .width = 5, .classes = 1}); }),
              "dog/1.png: class 1 (folder \"dog\") is not below the number of classes, 1");
}

TEST_F(ImageSamples, ImagesOfOneClassAreWarnedOf) {
  using Labels = std::vector<std::string>;
  for (const Labels& labels : {Labels{"\x03", "\x03"}, Labels{"\x03", "\x04"}, Labels{"\x03"}}) {
    data_.write("some.bin", cifar(labels));
    const auto set = open_image_set({data_.path("some.bin")}, "data.train", "cifar10");
    std::string said;
    set_log_sink([&](LogLevel, std::string_view message) { said += message; });
    ImageSource(set, {.height = 32, .width = 32});
    set_log_sink({});
    const bool warned = said.find("data.train: all 2 images are of class 3") != std::string::npos;
    EXPECT_EQ(warned, labels == Labels({"\x03", "\x03"})) << said;
  }
}

TEST_F(ImageSamples, RefusesWhatCannotBe) {
  data_.write("one.bin", cifar({"\x03", "\x0a"}));
  const auto open = [&](const ImageSettings& settings) {
    return std::make_shared<ImageSource>(open_image_set({data_.path("one.bin")}, "data.validation", "cifar10"),
                                         settings);
  };
  const std::string said = bad_input([&] { open({.height = 32, .width = 32}); });
  EXPECT_SAYS(said, "data.validation: " + data_.path("one.bin") +
                        ": record 1: class 10 is not below the number of classes, 10");
  const ImageSettings eleven{.height = 32, .width = 32, .classes = 11};
  EXPECT_EQ(read(*open(eleven), eleven, 1, 0).label, 10);
  EXPECT_SAYS(bad_input([&] { read(*open(eleven), eleven, 2, 0); }), "image 2 of 2 is asked for");
  EXPECT_SAYS(bad_input([&] { open({.height = 0, .width = 32, .classes = 11}); }), "images of 0 x 32 pixels");
  EXPECT_SAYS(bad_input([&] { open({.height = 8, .width = 1 << 17, .classes = 11}); }), "sides are 1 to 65536");
  EXPECT_SAYS(bad_input([&] { open({.height = 8, .width = 8, .channels = 2, .classes = 11}); }), "2 channels");
}

}  // namespace
}  // namespace l2l::runtime::image_source_test
