// What options of a model ask of each other, family by family.
#include <gtest/gtest.h>

#include "l2l/options.h"
#include "tests/runtime/test_data.h"

namespace l2l {
namespace {

std::string refusal(const std::vector<std::string>& assignments) {
  Options options;
  for (const std::string& assignment : assignments) set_option(options, assignment);
  return runtime::test::bad_input([&] { validate_options(options); });
}

TEST(FamilyOptions, AreCheckedTogether) {
  EXPECT_SAYS(refusal({"model.kv_heads=2"}), "gpt2 has as many heads of keys and values");
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.kv_heads=2"}), "bert has as many heads of keys and values");
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.vocabulary=300", "model.tie_embeddings=false"}),
              "bert ties its embeddings");
  EXPECT_SAYS(refusal({"model.architecture=llama"}), "model.dropout = 0.100000: llama has no dropout, set it to 0");
  const auto llama = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"model.architecture=llama", "model.dropout=0"});
    return refusal(more);
  };
  EXPECT_EQ(llama({}), "(no BadInput)");
  EXPECT_EQ(llama({"model.kv_heads=2", "model.tie_embeddings=false"}), "(no BadInput)");
  EXPECT_SAYS(llama({"model.kv_heads=3"}), "model.heads = 4 is not divisible by model.kv_heads = 3");
  EXPECT_SAYS(llama({"model.hidden=100"}), "rotary positions turn pairs of elements");
}

TEST(FamilyOptions, ReversibleBlocksHaveNoNormBehindTheirSums) {
  for (const char* const mode : {"model.reversible=float", "model.reversible=fixed"}) {
    EXPECT_EQ(refusal({mode}), "(no BadInput)");
    EXPECT_EQ(refusal({mode, "transfer.stash=host"}), "(no BadInput)");
    EXPECT_EQ(refusal({mode, "model.architecture=llama", "model.dropout=0"}), "(no BadInput)");
    EXPECT_SAYS(refusal({mode, "model.architecture=bert", "model.vocabulary=264"}),
                "the norms behind bert's sums cannot be undone");
  }
  EXPECT_EQ(refusal({"model.reversible=none", "model.architecture=bert", "model.vocabulary=264"}), "(no BadInput)");
}

TEST(FamilyOptions, GiveTheMaskATokenOfItsOwn) {
  EXPECT_SAYS(refusal({"model.architecture=bert"}), "set it to at least 257");
  EXPECT_EQ(refusal({"model.architecture=bert", "model.vocabulary=257"}), "(no BadInput)");
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.vocabulary=264", "data.mask_token=264"}),
              "data.mask_token = 264 is not below model.vocabulary = 264");
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.vocabulary=264", "data.mask_token=255"}),
              "is a byte of data.format");
  EXPECT_EQ(refusal({"model.architecture=bert", "data.format=tokens", "data.mask_token=103"}), "(no BadInput)");
}

}  // namespace
}  // namespace l2l
