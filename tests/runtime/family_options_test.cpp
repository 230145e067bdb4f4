// What options of a model ask of each other, family by family.
#include <gtest/gtest.h>

#include "l2l/options.h"
#include "models/architecture.h"
#include "runtime/options/resolved_options.h"
#include "tests/runtime/test_data.h"

namespace l2l {
namespace {

std::string refusal(const std::vector<std::string>& assignments) {
  Options options;
  for (const std::string& assignment : assignments) set_option(options, assignment);
  return runtime::test::bad_input([&] { validate_options(options); });
}

TEST(FamilyOptions, AreCheckedTogether) {
  EXPECT_SAYS(refusal({"model.kv_heads=2"}), "model.kv_heads is set, but gpt2 has no use for it");
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.kv_heads=2"}), "but bert has no use for it");
  EXPECT_SAYS(refusal({"model.architecture=llama", "model.dropout=0.1"}),
              "model.dropout is set, but llama has no dropout: remove it, or set it to 0");
  const auto llama = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"model.architecture=llama", "model.dropout=0"});
    return refusal(more);
  };
  EXPECT_EQ(llama({}), "(no BadInput)");
  EXPECT_EQ(llama({"model.kv_heads=2", "model.tie_embeddings=false"}), "(no BadInput)");
  EXPECT_SAYS(llama({"model.kv_heads=3"}), "model.heads = 4 is not divisible by model.kv_heads = 3");
  EXPECT_SAYS(llama({"model.hidden=100"}), "rotary positions turn pairs of elements");
  const std::vector<std::string> dynamic = {"model.rope_scaling=dynamic", "model.rope_factor=2", "model.positions=128"};
  const auto dynamic_heads_of = [&](const std::string& elements) {
    std::vector<std::string> more = dynamic;
    more.push_back("model.head_dim=" + elements);
    return llama(more);
  };
  EXPECT_SAYS(dynamic_heads_of("2"), "needs heads of more than 2 elements");
  EXPECT_EQ(dynamic_heads_of("4"), "(no BadInput)");
}

Options resolved(const std::vector<std::string>& assignments) {
  Options options;
  for (const std::string& assignment : assignments) set_option(options, assignment);
  return runtime::resolve(options);
}

// What is not set follows the architecture; what it resolves to is a config again.
TEST(FamilyOptions, HaveTheDefaultsOfTheirArchitecture) {
  for (const models::Architecture& architecture : models::architectures()) {
    const Options options = resolved({"model.architecture=" + std::string(architecture.name)});
    EXPECT_EQ(options.model.dropout, architecture.learned_positions ? 0.1 : 0.0) << architecture.name;
    EXPECT_EQ(options.model.vocabulary, architecture.encoder ? 257 : 256) << architecture.name;
    const std::string written = to_toml(options);
    EXPECT_EQ(to_toml(runtime::resolve(parse_options(written, "written"))), written) << architecture.name;
  }
  EXPECT_EQ(resolved({"model.architecture=llama", "model.dropout=0"}).model.dropout, 0);
  EXPECT_EQ(resolved({"model.architecture=bert", "model.dropout=0"}).model.dropout, 0);
  // Whatever worked with 256 tokens still has as many.
  EXPECT_EQ(resolved({"model.architecture=bert", "data.format=tokens"}).model.vocabulary, 256);
  EXPECT_EQ(resolved({"model.architecture=bert", "model.head=classification"}).model.vocabulary, 256);
}

// Nothing says which fields were set: those that differ from Options().
TEST(FamilyOptions, ThatWereMadeInCodeHaveThem) {
  Options options;
  options.model.architecture = "llama";
  EXPECT_EQ(runtime::resolve(options).model.dropout, 0);
  options.model.dropout = 0.2;
  EXPECT_SAYS(runtime::test::bad_input([&] { validate_options(options); }), "llama has no dropout");
  options.model.architecture = "bert";
  options.model.vocabulary = 300;
  EXPECT_EQ(runtime::resolve(options).model.dropout, 0.2);
  EXPECT_EQ(runtime::resolve(options).model.vocabulary, 300);
}

// Every key that one architecture needs is refused by another.
TEST(FamilyOptions, AreOfTheirArchitecture) {
  const std::pair<const char*, std::pair<const char*, const char*>> keys[] = {
      {"model.head_dim=32", {"qwen3", "gpt2"}},
      {"model.token_types=3", {"bert", "llama"}},
      {"model.padding_token=2", {"roberta", "bert"}},
      {"model.attention_bias=true", {"llama", "qwen2"}},
      {"model.mlp_bias=true", {"llama", "qwen3"}},
      {"model.sliding_window=7", {"mistral", "llama"}},
      {"model.attention_softcap=50", {"gemma2", "qwen3"}},
      {"model.logit_softcap=30", {"gemma3", "mistral"}},
      {"model.query_scale=24", {"gemma2", "llama"}},
      {"model.rope_theta=500000", {"llama", "bert"}},
      {"model.rope_local_theta=20000", {"gemma3", "gemma2"}},
      {"model.rope_scaling=yarn", {"llama", "gpt2"}}};
  for (const auto& [key, architectures] : keys) {
    const auto with = [&](const char* architecture) {
      return refusal(
          {std::string("model.architecture=") + architecture, "model.dropout=0", "model.vocabulary=300", key});
    };
    EXPECT_EQ(with(architectures.first), "(no BadInput)") << key;
    EXPECT_SAYS(with(architectures.second), "has no use for it") << key;
  }
}

TEST(FamilyOptions, OfImagesFollowFromTheVariant) {
  const Options plain = resolved({"model.architecture=revbifpn"});
  EXPECT_EQ(plain.model.image_size, 224);
  EXPECT_EQ(plain.model.dropout, 0.25);
  EXPECT_EQ(plain.model.labels, 1000);
  EXPECT_EQ(plain.model.reversible, "float");
  EXPECT_EQ(plain.model.layers, 17);
  EXPECT_TRUE(plain.model.block_names.empty());
  const Options again = runtime::resolve(plain);
  EXPECT_EQ(to_toml(again), to_toml(plain));
  EXPECT_EQ(again.model.blocks.size(), plain.model.blocks.size());
  const Options set = resolved({"model.architecture=revbifpn", "model.variant=S6", "model.image_size=64",
                                "model.dropout=0", "model.labels=2", "model.reversible=none"});
  EXPECT_EQ(set.model.image_size, 64);
  EXPECT_EQ(set.model.dropout, 0);
  EXPECT_EQ(set.model.labels, 2);
  EXPECT_EQ(set.model.reversible, "none");
  EXPECT_EQ(set.model.layers, 26);
  EXPECT_EQ(set.model.targets[0].below, 2);
  Options changed = plain;  // has layers for what it was
  changed.model.labels = 7;
  EXPECT_EQ(runtime::resolve(changed).model.targets[0].below, 7);
  changed.model.blocks = {{.id = 0, .type = "own", .build = plain.model.blocks[0].build}};
  changed.model.loss = nullptr;
  EXPECT_SAYS(runtime::test::bad_input([&] { runtime::resolve(changed); }), "follow from its keys");
  for (const char* const key : {"model.hidden=512", "model.layers=3", "model.activation=silu", "data.label=x",
                                "data.tokenizer=nowhere", "data.samples=padded"}) {
    EXPECT_SAYS(refusal({"model.architecture=revbifpn", key}), "has no use for it") << key;
  }
  for (const char* const key : {"model.variant=S1", "model.image_size=64", "model.image_channels=1"}) {
    EXPECT_EQ(refusal({"model.architecture=revbifpn", key}), "(no BadInput)") << key;
    EXPECT_SAYS(refusal({key}), "gpt2 has no use for it") << key;
  }
  EXPECT_EQ(refusal({"model.architecture=revbifpn", "model.layers=17", "model.hidden=1"}), "(no BadInput)");
  EXPECT_SAYS(refusal({"data.source=[{train=[\"x\"], format=\"png\"}]"}), "is of images");
  EXPECT_SAYS(refusal({"model.architecture=revbifpn", "model.image_size=100"}), "multiple of 32 pixels");
  EXPECT_SAYS(refusal({"model.architecture=revbifpn", "data.format=jsonl", "data.train=[\"x\"]"}), "reads images");
  EXPECT_SAYS(refusal({"data.format=cifar10"}), "is of images");
  EXPECT_SAYS(refusal({"data.augment=crop"}), "is for images");
}

TEST(FamilyOptions, OfLayersAndPositionsFitTogether) {
  const auto gemma = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"model.architecture=gemma2", "model.dropout=0", "model.layers=4"});
    return refusal(more);
  };
  EXPECT_EQ(gemma({"model.sliding_window=7"}), "(no BadInput)");
  EXPECT_SAYS(gemma({"model.layer_types=[\"sliding_attention\"]"}), "model.sliding_window is not set");
  EXPECT_SAYS(gemma({"model.layer_types=[\"chunked_attention\"]"}), "accepted: \"full_attention\"");
  EXPECT_SAYS(gemma({"model.head_dim=7"}), "model.head_dim = 7 is odd");
  EXPECT_SAYS(refusal({"model.positions=100"}), "model.sequence = 256 exceeds model.positions = 100");
  EXPECT_SAYS(refusal({"model.architecture=roberta", "model.vocabulary=300", "model.positions=257"}),
              "leaves room for 255");
  EXPECT_SAYS(refusal({"model.activation=silu"}), "has no gate");
  EXPECT_SAYS(refusal({"model.new_head=true"}), "without model.pretrained");
}

TEST(FamilyOptions, ReversibleBlocksHaveNoNormBehindTheirSums) {
  for (const char* const mode : {"model.reversible=float", "model.reversible=fixed"}) {
    EXPECT_EQ(refusal({mode}), "(no BadInput)");
    EXPECT_EQ(refusal({mode, "transfer.stash=host"}), "(no BadInput)");
    EXPECT_EQ(refusal({mode, "model.architecture=llama", "model.dropout=0"}), "(no BadInput)");
    EXPECT_SAYS(refusal({mode, "model.architecture=bert", "model.vocabulary=264"}),
                "the norms behind the sums of bert cannot be undone");
  }
  EXPECT_EQ(refusal({"model.reversible=none", "model.architecture=bert", "model.vocabulary=264"}), "(no BadInput)");
}

TEST(FamilyOptions, GiveTheMaskATokenOfItsOwn) {
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.vocabulary=256"}), "set it to at least 257");
  EXPECT_EQ(refusal({"model.architecture=bert", "model.vocabulary=257"}), "(no BadInput)");
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.vocabulary=264", "data.mask_token=264"}),
              "data.mask_token = 264 is not below model.vocabulary = 264");
  EXPECT_SAYS(refusal({"model.architecture=bert", "model.vocabulary=264", "data.mask_token=255"}), "is a byte of text");
  EXPECT_EQ(refusal({"model.architecture=bert", "data.format=tokens", "data.mask_token=103"}), "(no BadInput)");
}

// What a source says itself counts as it would in [data].
TEST(FamilyOptions, FitEachSource) {
  const auto sources = [](const std::string& keys, const std::vector<std::string>& more) {
    std::vector<std::string> all = more;
    all.push_back("data.source=[{train=[\"a.jsonl\"]}, {" + keys + "}]");
    return all;
  };
  const auto second = [&](const std::string& keys, const std::vector<std::string>& more = {}) {
    return refusal(sources("train=[\"b.jsonl\"], " + keys, more));
  };
  EXPECT_SAYS(second("learn=\"completion\"", {"model.architecture=bert"}),
              "data.source 2: learn = \"completion\": bert predicts masked tokens");
  EXPECT_EQ(second("learn=\"completion\""), "(no BadInput)");
  EXPECT_SAYS(second("learn=\"completion\"", {"data.samples=stream"}), "data.source 2: learn = \"completion\" with");
  EXPECT_SAYS(second("columns=[\"a\", \"b\", \"c\"]"), "data.source 2: columns names 3 columns");
  EXPECT_SAYS(runtime::test::bad_input([&] {
                resolved(sources("train=[\"b.jsonl\"], learn=\"completion\"",
                                 {"model.head=classification", "data.label=class"}));
              }),
              "and data.learn \"all\", as is that of each source");

  const std::vector<std::string> masks = {"model.architecture=bert", "data.mask_token=103"};
  const std::vector<std::string> few = {"model.vocabulary=100"};
  const auto both = [](const std::string& keys, std::vector<std::string> more) {
    more.push_back("data.source=[{" + keys + "}, {" + keys + "}]");
    return refusal(more);
  };
  for (const char* const ids : {"train=[\"a\"], format=\"tokens\"", "train=[\"a.bin\"]"}) {
    EXPECT_EQ(both(ids, masks), "(no BadInput)") << ids;
    EXPECT_EQ(both(ids, few), "(no BadInput)") << ids;
    EXPECT_SAYS(refusal(sources(ids, masks)), "is a byte of text") << "of the first source";
    EXPECT_SAYS(refusal(sources(ids, few)), "has 256 tokens");
  }
}

}  // namespace
}  // namespace l2l
