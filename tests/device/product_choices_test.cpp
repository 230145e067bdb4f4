// Choices of algorithms as texts of files and other devices, which may hold anything.
#include "device/kernels/common/product_choices.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "tests/support/refusal.h"

namespace l2l::device::cuda {
namespace {

constexpr const char* kHere = "a GPU, version 1";
const std::string kText = std::string(111, '0') + "123456789abcdef01";  // the last two words: 1, 23456789abcdef01

std::optional<ProductAlgorithm> none() { return std::nullopt; }
bool any(const ProductAlgorithm&) { return true; }

TEST(ProductChoicesTest, AlgorithmsComeBackToTheBit) {
  ProductChoices choices(kHere);
  choices.take({{kHere, {{"a product", kText}}}});
  const std::optional<ProductAlgorithm> algorithm = choices.get("a product", any, none);
  ASSERT_TRUE(algorithm);
  EXPECT_EQ(*algorithm, (ProductAlgorithm{0, 0, 0, 0, 0, 0, 1, 0x23456789abcdef01}));
  EXPECT_EQ(choices.used(), (KernelChoices{{kHere, {{"a product", kText}}}}));
  EXPECT_FALSE(choices.get("another", any, none));
}

TEST(ProductChoicesTest, ThoseOfAnotherGpuOrLibraryAreNotTaken) {
  ProductChoices choices(kHere);
  choices.take({{"a GPU, version 2", {{"a product", "whatever"}}}});
  EXPECT_FALSE(choices.get("a product", any, none));
}

TEST(ProductChoicesTest, DamagedTextIsRefusedByItsProductAndNothingIsTaken) {
  for (const std::string& text : {std::string(), std::string("0"), kText.substr(1), kText + "0", "-" + kText.substr(1),
                                  "g" + kText.substr(1), "0x" + kText.substr(2), kText.substr(1) + " "}) {
    ProductChoices choices(kHere);
    const std::string said = testing::refusal([&] {
      choices.take({{kHere, {{"a product", kText}, {"b", text}, {"c", kText}}}});
    });
    EXPECT_EQ(said, "\"b\" is not 128 hexadecimal digits, an algorithm of cuBLASLt") << text;
    EXPECT_FALSE(choices.get("a product", any, none));
  }
}

}  // namespace
}  // namespace l2l::device::cuda
