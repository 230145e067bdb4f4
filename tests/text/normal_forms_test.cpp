// Texts in pieces have the normal form, and the grapheme clusters, of the whole text.
#include "text/normal_forms.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "text/utf8.h"

namespace l2l::text {
namespace {

// Random runs of characters that compose, reorder, join or stand alone, some of them newer than Unicode 9.
std::string random_text(std::mt19937& random) {
  constexpr char32_t kCharacters[] = {U'a',   U'e',   U'\n',   U'\r',   0xe9,    0x300,   0x301,  0x323,   0x345,
                                      0x5b0,  0x915,  0x94d,   0x9be,   0x9c7,   0x1100,  0x1161, 0x11a8,  0xac00,
                                      0xfb01, 0x200d, 0x1f469, 0x1f3fd, 0x1f1e9, 0x1f1ea, 0x1df6, 0x1fae0, 0x110ba};
  std::string text;
  const int size = std::uniform_int_distribution(1, 40)(random);
  for (int i = 0; i < size; ++i) {
    append_code_point(text,
                      kCharacters[std::uniform_int_distribution<std::size_t>(0, std::size(kCharacters) - 1)(random)]);
  }
  return text;
}

std::vector<std::string> graphemes(std::string_view text, std::size_t piece_bytes) {
  std::vector<std::string> clusters;
  for_each_grapheme(
      text, [&](std::string_view cluster) { clusters.emplace_back(cluster); }, piece_bytes);
  return clusters;
}

TEST(NormalForms, OfPiecesAreThoseOfTheWhole) {
  std::mt19937 random(1);
  for (int repetition = 0; repetition < 500; ++repetition) {
    const std::string text = random_text(random);
    for (const NormalForm form : {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc, NormalForm::nfkd}) {
      const std::string whole = normal_form(text, form);
      for (const std::size_t bytes : {1, 2, 5, 16}) ASSERT_EQ(normal_form(text, form, bytes), whole) << text;
    }
  }
}

TEST(Graphemes, OfPiecesAreThoseOfTheWhole) {
  std::mt19937 random(2);
  for (int repetition = 0; repetition < 500; ++repetition) {
    const std::string text = random_text(random);
    const std::vector<std::string> whole = graphemes(text, kPieceBytes);
    for (const std::size_t bytes : {1, 2, 5, 16}) ASSERT_EQ(graphemes(text, bytes), whole) << text;
  }
  EXPECT_EQ(graphemes("e\u0301\r\na", 1), (std::vector<std::string>{"e\u0301", "\r\n", "a"}));
  EXPECT_TRUE(graphemes("", 1).empty());
}

}  // namespace
}  // namespace l2l::text
