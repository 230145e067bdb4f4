#include "runtime/data/text_documents.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <ctime>

#include "core/choice_target.h"
#include "core/log.h"
#include "runtime/data/document_encoder.h"
#include "runtime/data/find_sources.h"
#include "runtime/data/tokenized_files.h"
#include "tests/runtime/test_data.h"
#include "tests/support/instrumented.h"
#include "tests/support/refusal.h"

namespace l2l::runtime {
namespace {

using namespace test;

std::vector<TextDocument> read(const Data& data, const std::string& name, const TextSettings& settings) {
  const std::unique_ptr<DocumentReader> reader = read_documents(data.path(name), settings);
  std::vector<TextDocument> documents;
  for (TextDocument document; reader->next(document);) documents.push_back(document);
  return documents;
}

std::vector<std::string> texts(const Data& data, const std::string& bytes, const TextSettings& settings) {
  data.write("source", bytes);
  std::vector<std::string> texts;
  for (const TextDocument& document : read(data, "source", settings)) texts.push_back(document.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(TextDocuments, AFileIsOneDocumentOrSeveral) {
  const Data data;
  EXPECT_EQ(texts(data, "a\n\nb", {}), (Texts{"a\n\nb"}));
  EXPECT_EQ(texts(data, "", {}), Texts{});
  EXPECT_EQ(texts(data, "a|--|b|--||--|c|--|", {.separator = "|--|"}), (Texts{"a", "b", "c"}));
  // Across the windows in which a file is read.
  const std::string piece(700'000, 'x');
  EXPECT_EQ(texts(data, piece + "--" + piece + "-" + piece + "--" + piece, {.separator = "--"}),
            (Texts{piece, piece + "-" + piece, piece}));
  for (std::size_t size = (1 << 20) - 5; size <= (1 << 20) + 1; ++size) {
    const std::string first(size, 'x');
    EXPECT_EQ(texts(data, first + "|--|b|--|c", {.separator = "|--|"}), (Texts{first, "b", "c"})) << size;
  }
  std::string many;
  Texts expected;
  for (int i = 0; i < 50'000; ++i) {
    expected.push_back("document " + std::to_string(i));
    many += expected.back() + "--";
  }
  EXPECT_EQ(texts(data, many, {.separator = "--"}), expected);
}

TEST(TextDocuments, JsonLines) {
  const Data data;
  const TextSettings settings{.kind = TextKind::jsonl};
  EXPECT_EQ(texts(data, "{\"text\": \"a\\nb\"}\n\n{\"id\": 3, \"text\": \"\\u00e9\"}\r\n{\"text\": \"\"}", settings),
            (Texts{"a\nb", "\xc3\xa9"}));
  EXPECT_EQ(texts(data, "{\"prompt\": \"Q: \", \"completion\": \"A\"}", settings), (Texts{"Q: A"}));
  EXPECT_EQ(read(data, "source", settings)[0].first, 3u);
  EXPECT_EQ(texts(data, "{\"text\": [], \"text\": \"last\"}", settings), (Texts{"last"}));  // as in Python
  EXPECT_EQ(texts(data, "{\"body\": \"x\"}", {.kind = TextKind::jsonl, .columns = {"body"}}), (Texts{"x"}));
}

TEST(TextDocuments, Tables) {
  const Data data;
  const TextSettings csv{.kind = TextKind::csv}, tsv{.kind = TextKind::tsv, .columns = {"sentence"}};
  EXPECT_EQ(texts(data, "id,text\n1,\"a, \"\"b\"\"\nc\"\n2,d\n", csv), (Texts{"a, \"b\"\nc", "d"}));
  EXPECT_EQ(texts(data, "text\nonly\n", csv), (Texts{"only"}));
  // Line breaks in quotes are the text's own.
  EXPECT_EQ(texts(data, "id,text\r\n1,\"a\r\n\r\nb\nc\"\r\n2,d\r\n", csv), (Texts{"a\r\n\r\nb\nc", "d"}));
  EXPECT_EQ(texts(data, "\xef\xbb\xbfsentence\tlabel\nit's \"fine\"\t1\n", tsv), (Texts{"it's \"fine\""}));
  EXPECT_EQ(texts(data, "\xef\xbb\xbf\"id\",\"text\"\n1,a\n", csv), (Texts{"a"}));
  EXPECT_EQ(texts(data, "\xef\xbb\xbf{\"text\": \"a\"}\n", {.kind = TextKind::jsonl}), (Texts{"a"}));
  EXPECT_SAYS(bad_input([&] { texts(data, "text,id,text\na,1,b\n", csv); }),
              "line 1: two columns are named \"text\"; rename one of them");
  EXPECT_EQ(texts(data, "id,text,id\n1,a,2\n", csv), (Texts{"a"}));  // neither is read
  const TextSettings pair{.kind = TextKind::csv, .columns = {"q", "a"}, .learn = Learn::completion};
  EXPECT_EQ(texts(data, "a,q\nyes,is it? \n", pair), (Texts{"is it? yes"}));
}

TEST(TextDocuments, ClassesOfRows) {
  const Data data;
  const TextSettings jsonl{
      .kind = TextKind::jsonl, .head = models::HeadKind::classification, .label = "class", .labels = 3},
      tsv{.kind = TextKind::tsv,
          .columns = {"a", "b"},
          .token_types = 2,
          .head = models::HeadKind::classification,
          .label = "class",
          .labels = 3};
  data.write("source", R"({"text": "x", "class": 2}
{"text": "y", "class": "0"})");
  EXPECT_EQ(read(data, "source", jsonl)[0].label, 2);
  EXPECT_EQ(read(data, "source", jsonl)[1].label, 0);
  // A row without a text has a class all the same.
  data.write("source", R"({"text": "", "class": 1}
{"text": "y", "class": 0})");
  ASSERT_EQ(read(data, "source", jsonl).size(), 2u);
  EXPECT_EQ(read(data, "source", jsonl)[0].label, 1);
  data.write("source", "class\tb\ta\n1\t\t\n\n");
  ASSERT_EQ(read(data, "source", tsv).size(), 1u);
  EXPECT_EQ(read(data, "source", tsv)[0].label, 1);
  data.write("source", "class\tb\ta\n1\tsecond\tfirst\n");
  const TextDocument pair = read(data, "source", tsv)[0];
  EXPECT_EQ(pair.label, 1);
  EXPECT_EQ(pair.text, "firstsecond");
  EXPECT_EQ(pair.first, 5u);
  const auto refusal = [&](const std::string& bytes, const TextSettings& settings) {
    return bad_input([&] { texts(data, bytes, settings); });
  };
  EXPECT_SAYS(refusal("{\"text\": \"x\"}", jsonl), "line 1: has no \"class\"");
  for (const char* const wrong : {"3", "-1", "1.0", "\"good\"", "null", "\"1 \""}) {
    EXPECT_SAYS(refusal(std::string("{\"text\": \"x\", \"class\": ") + wrong + "}", jsonl),
                "not a class from 0 to 2 (model.labels = 3)");
  }
  EXPECT_SAYS(refusal("a\tb\nx\ty\n", tsv), "there is no column \"class\" among \"a\", \"b\"; set data.label");
}

TEST(TextDocuments, NumbersAndNamedClassesOfRows) {
  const Data data;
  const TextSettings numbers{.kind = TextKind::jsonl, .head = models::HeadKind::regression, .label = "score"};
  data.write("source", R"({"text": "x", "score": -2.5}
{"text": "y", "score": "1e-1"})");
  EXPECT_EQ(std::bit_cast<float>(read(data, "source", numbers)[0].label), -2.5f);
  EXPECT_EQ(std::bit_cast<float>(read(data, "source", numbers)[1].label), 0.1f);
  const TextSettings named{.kind = TextKind::csv,
                           .head = models::HeadKind::classification,
                           .label = "mood",
                           .labels = 2,
                           .label_names = {"bad", "good"}};
  data.write("source", "text,mood\nx,good\ny,0\n");
  EXPECT_EQ(read(data, "source", named)[0].label, 1);
  EXPECT_EQ(read(data, "source", named)[1].label, 0);
  const auto refusal = [&](const std::string& bytes, const TextSettings& settings) {
    return bad_input([&] { texts(data, bytes, settings); });
  };
  for (const char* const wrong : {"\"much\"", "\"nan\"", "\"inf\"", "\"\"", "[1]", "\"1e99\""}) {
    EXPECT_SAYS(refusal(std::string("{\"text\": \"x\", \"score\": ") + wrong + "}", numbers), "not a number");
  }
  EXPECT_SAYS(refusal("text,mood\nx,fine\n", named),
              "line 2: \"mood\" is \"fine\", not a class from 0 to 1, \"bad\", \"good\"");
}

TEST(TextDocuments, ClassesOfWords) {
  const Data data;
  const TextSettings settings{.kind = TextKind::jsonl,
                              .tokenizer = "bytes",
                              .head = models::HeadKind::tokens,
                              .label = "tags",
                              .labels = 3,
                              .label_names = {"O", "B-X", "I-X"}};
  data.write("source", R"({"tokens": ["in", "New", "York"], "tags": ["O", "B-X", 2]}
{"tokens": [], "tags": []}
{"tokens": ["a"], "tags": [0]})");
  const std::vector<TextDocument> rows = read(data, "source", settings);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].tags, (std::vector<std::int32_t>{0, 1, 2}));
  std::size_t failed = 0;
  const EncodedDocument encoded = DocumentEncoder(settings, 1).encode(rows, failed)[0];
  EXPECT_EQ(std::string(encoded.ids.begin(), encoded.ids.end()), "inNewYork");
  EXPECT_EQ(encoded.tags, (std::vector<std::int32_t>{0, -1, 1, -1, -1, 2, -1, -1, -1}));
  const auto refusal = [&](const std::string& bytes) { return bad_input([&] { texts(data, bytes, settings); }); };
  EXPECT_SAYS(refusal(R"({"tokens": ["a"], "tags": []})"), "line 1: \"tokens\" has 1 words, \"tags\" has 0");
  EXPECT_SAYS(refusal(R"({"tokens": "a", "tags": []})"), "\"tokens\" is not a list");
  EXPECT_SAYS(refusal(R"({"tokens": [1], "tags": [0]})"), "word 1 is not a string");
  EXPECT_SAYS(refusal(R"({"tokens": ["a"], "tags": ["B-Y"]})"), "\"tags\" is \"B-Y\", not a class");
  EXPECT_SAYS(refusal(R"({"tokens": ["a"]})"), "has no \"tags\"");
}

TEST(TextDocuments, ChoicesOfAQuestion) {
  const Data data;
  const TextSettings settings{
      .kind = TextKind::jsonl, .token_types = 2, .head = models::HeadKind::choice, .label = "label"};
  data.write("source", R"({"context": "Q", "choices": ["a", "bc"], "label": 1})");
  const std::vector<TextDocument> rows = read(data, "source", settings);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].text, "Qbc");
  EXPECT_EQ(rows[1].first, 1u);
  EXPECT_TRUE(rows[1].is_pair);
  EXPECT_EQ(rows[0].label, choice_target(2, 1));
  EXPECT_EQ(rows[1].label, kFurtherChoice);
  const auto refusal = [&](const std::string& bytes) { return bad_input([&] { texts(data, bytes, settings); }); };
  EXPECT_SAYS(refusal(R"({"context": "Q", "choices": ["a"], "label": 0})"), "has 1 choices, not 2 to 255");
  EXPECT_SAYS(refusal(R"({"context": "Q", "choices": ["a", "b"], "label": 2})"), "not a choice from 0 to 1");
  EXPECT_SAYS(refusal(R"({"context": "Q", "choices": ["a", 3], "label": 0})"), "choice 1 is no text");
  EXPECT_SAYS(refusal(R"({"choices": ["a", "b"], "label": 0})"), "has no \"context\"");
}

// Named by file, line and field.
TEST(TextDocuments, RefusesBadRows) {
  const Data data;
  const auto refusal = [&](const std::string& bytes, const TextSettings& settings) {
    return bad_input([&] { texts(data, bytes, settings); });
  };
  const TextSettings jsonl{.kind = TextKind::jsonl, .chat_template = "gemma"}, csv{.kind = TextKind::csv};
  EXPECT_SAYS(refusal("{\"text\": \"a\"}\n{\"text\": \"\xff\"}", jsonl), "source: line 2: is not JSON in UTF-8");
  EXPECT_SAYS(refusal("{\"text\": 3}", jsonl), "line 1: \"text\" is not a string");
  const TextSettings classes{
      .kind = TextKind::jsonl, .head = models::HeadKind::classification, .label = "label", .labels = 2};
  EXPECT_SAYS(
      refusal("{\"text\": \"a\", \"label\": " + std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}", classes),
      "source: line 1: is nested deeper than 128 levels");
  EXPECT_SAYS(refusal("[1]", jsonl), "line 1: is not a JSON object");
  EXPECT_SAYS(refusal("{\"body\": \"a\"}", jsonl), "it has \"body\"; name the column");
  EXPECT_SAYS(refusal("{\"prompt\": \"a\"}", jsonl), "has no \"completion\"");
  EXPECT_SAYS(refusal("{\"messages\": []}", jsonl), "\"messages\" is not a list of messages");
  EXPECT_SAYS(refusal("{\"messages\": [{\"role\": \"user\"}]}", jsonl), "message 1 has no string \"content\"");
  EXPECT_SAYS(refusal("{\"messages\": [{\"role\": \"system\", \"content\": \"\"}]}", jsonl), "take turns");
  EXPECT_SAYS(refusal("{\"text\": \"a\"}", {.kind = TextKind::jsonl, .learn = Learn::assistant}),
              "would learn nothing");
  EXPECT_SAYS(refusal("a,text\n1,2,3\n", csv), "source: line 2: has 3 columns; the header names 2");
  EXPECT_SAYS(refusal("a,b\n", csv), "there is no column \"text\" among \"a\", \"b\"");
  EXPECT_SAYS(refusal("text\n\"a\nb\n", csv), "a field in quotes does not end");
  EXPECT_SAYS(refusal("text\n\"a\"b\n", csv), "there is text behind the quotes");
}

TEST(TextDocuments, NamesOfColumnsAreShownAsText) {
  const Data data;
  const TextSettings csv{.kind = TextKind::csv}, named{.kind = TextKind::jsonl};
  const auto refusal = [&](const std::string& bytes, const TextSettings& settings) {
    return bad_input([&] { texts(data, bytes, settings); });
  };
  EXPECT_SAYS(refusal("caf\xe9\x01,\xc3\xa9,\x7f\n", csv), "among \"caf??\", \"\xc3\xa9\", \"?\"; set data.columns");
  EXPECT_SAYS(refusal(std::string(79, 'x') + "\xc3\xa9,b\n", csv),
              "among \"" + std::string(79, 'x') + "...\", \"b\"; set");
  EXPECT_SAYS(refusal("{\"a\\nb\": 1}", named), "it has \"a?b\"; name the column");
}

TEST(TextDocuments, Utf16IsRefused) {
  const Data data;
  const auto refusal = [&](const std::string& bytes) {
    data.write("rows.csv", bytes);
    return bad_input([&] { refuse_utf16(data.path("rows.csv")); });
  };
  const std::string way_out = "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)";
  for (const char* const mark : {"\xff\xfe", "\xfe\xff"}) {
    EXPECT_EQ(refusal(mark + std::string("t\0", 2)),
              data.path("rows.csv") + ": is UTF-16 (it begins with a byte order mark): " + way_out);
  }
  EXPECT_SAYS(refusal(std::string("a\nt\0e\0", 6)), "rows.csv: line 2: holds zero bytes, as UTF-16 does: " + way_out);
  EXPECT_EQ(refusal("\xef\xbb\xbftext\n\xc3\xa9\n"), "(no BadInput)");
  EXPECT_EQ(refusal(""), "(no BadInput)");
}

TEST(TextDocuments, ErrorsSayWhatTheyAreAbout) {
  const Data data;
  const ErrorPlace row =
      l2l::testing::place_of_refusal([&] { texts(data, "a,text\n1,2,3\n", {.kind = TextKind::csv}); });
  EXPECT_EQ(row.file, data.path("source"));
  EXPECT_EQ(row.field, "line 2");
  data.write("tokenizer.json", "{\"model\": 1}");
  const TextSettings settings{.tokenizer = data.path("tokenizer.json")};
  const ErrorPlace tokenizer = l2l::testing::place_of_refusal([&] { DocumentEncoder encoder(settings, 1); });
  EXPECT_EQ(tokenizer.file, data.path("tokenizer.json"));
  EXPECT_EQ(tokenizer.key, "data.tokenizer");
  const ErrorPlace nothing = l2l::testing::place_of_refusal([&] { data.find({"none"}); });
  EXPECT_EQ(nothing.file, data.path("none"));
  EXPECT_EQ(nothing.key, "data.train");
}

// By the templates that the model families publish.
TEST(ChatTemplates, AreThoseOfTheFamilies) {
  const Data data;
  data.write("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}}");
  const std::vector<Message> chat = {{"user", " Hi "}, {"assistant", "Yes. "}, {"user", "So?"}, {"assistant", "No"}};
  const auto rendered = [&](const char* name) {
    const RenderedChat result = ChatTemplate(name, data.path("tokenizer.json")).render(chat);
    std::string marked = result.text;  // what is learnt in brackets
    for (auto range = result.of_assistant.rbegin(); range != result.of_assistant.rend(); ++range) {
      marked.insert(range->end, "]").insert(range->begin, "[");
    }
    return marked;
  };
  EXPECT_EQ(
      rendered("chatml"),
      "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n[Yes. <|im_end|>\n]<|im_start|>user\nSo?<|im_end|>\n"
      "<|im_start|>assistant\n[No<|im_end|>\n]");
  EXPECT_EQ(
      rendered("llama3"),
      "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
      "[Yes.<|eot_id|>]<|start_header_id|>user<|end_header_id|>\n\nSo?<|eot_id|><|start_header_id|>assistant"
      "<|end_header_id|>\n\n[No<|eot_id|>]");
  EXPECT_EQ(rendered("gemma"),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n[Yes.<end_of_turn>\n]<start_of_turn>user\n"
            "So?<end_of_turn>\n<start_of_turn>model\n[No<end_of_turn>\n]");
  EXPECT_EQ(rendered("mistral"), "<s>[INST]  Hi  [/INST][Yes. </s>][INST] So? [/INST][No</s>]");
  EXPECT_EQ(rendered("zephyr"),
            "<|user|>\n Hi </s>\n<|assistant|>\n[Yes. </s>\n]<|user|>\nSo?</s>\n<|assistant|>\n[No</s>\n]");
}

TEST(ChatTemplates, AreFoundBesideTheTokenizer) {
  const Data data;
  // ChatML as Hugging Face's libraries print it, with other white space and a comment.
  data.write("tokenizer_config.json",
             "{\"chat_template\": \"{#- ours -#}\\n{%- for message in messages %}{{'<|im_start|>' + message['role'] + "
             "'\\\\n' + message['content'] + '<|im_end|>' + '\\\\n'}}\\n{% endfor %}{% if add_generation_prompt %}{{ "
             "'<|im_start|>assistant\\\\n' }}{% endif %}\"}");
  EXPECT_EQ(ChatTemplate("auto", data.path("tokenizer.json")).name(), "chatml");
  data.write("chat_template.jinja", "{{ messages }}");
  EXPECT_SAYS(bad_input([&] { ChatTemplate("auto", data.path("tokenizer.json")); }),
              "is not one of those that are built");
  data.write("empty/x", "");
  EXPECT_SAYS(bad_input([&] { ChatTemplate("auto", data.path("empty")); }), "has no chat template");
}

TEST(DocumentEncoder, RefusesAChoiceWithoutTokens) {
  const TextSettings settings{
      .kind = TextKind::jsonl, .tokenizer = "bytes", .head = models::HeadKind::choice, .label = "label"};
  const std::vector<TextDocument> documents = {{.text = "a"}, {.text = ""}};
  std::size_t failed = 0;
  EXPECT_SAYS(bad_input([&] { DocumentEncoder(settings, 1).encode(documents, failed); }), "have no tokens");
  EXPECT_EQ(failed, 1u);
}

TEST(DocumentEncoder, MarksWhatIsLearnt) {
  TextSettings settings{
      .kind = TextKind::jsonl, .learn = Learn::assistant, .chat_template = "chatml", .tokenizer = "bytes"};
  std::size_t failed = 0;
  const RenderedChat chat = ChatTemplate("chatml", "bytes").render({{"user", "a"}, {"assistant", "bc"}, {"user", "d"}});
  ASSERT_LT(chat.of_assistant[0].end, chat.text.size());
  const TextDocument document{.text = chat.text, .is_chat = true, .learnt = chat.of_assistant};
  const std::vector<EncodedDocument> encoded = DocumentEncoder(settings, 2).encode(std::span(&document, 1), failed);
  ASSERT_EQ(encoded[0].ids.size(), chat.text.size());
  for (std::size_t i = 0; i < chat.text.size(); ++i) {
    EXPECT_EQ(encoded[0].learnt[i], i >= chat.of_assistant[0].begin && i < chat.of_assistant[0].end) << i;
  }
  settings.learn = Learn::completion;
  const TextDocument completion{.text = "ask: answer", .first = 5};
  const EncodedDocument marked = DocumentEncoder(settings, 1).encode(std::span(&completion, 1), failed)[0];
  EXPECT_EQ(std::count(marked.learnt.begin(), marked.learnt.end(), true), 6);
  EXPECT_FALSE(marked.learnt[4]);
  EXPECT_TRUE(marked.learnt[5]);
}

// Which tokens are learnt, by decoding the text from its beginning for each count of tokens that is looked at.
std::vector<bool> learnt_by_prefixes(const std::string& path, const TextDocument& document) {
  const std::unique_ptr<text::Tokenizer> tokenizer = text::open_tokenizer_or_bytes(path);
  std::vector<std::int32_t> ids;
  tokenizer->make_encoder()->encode(document.text, /*special=*/false, ids);
  const auto without_spaces = [](std::string text) { return std::erase(text, ' '), text.size(); };
  const auto bytes_of = [&](std::size_t count) {
    return without_spaces(tokenizer->decode(std::span(ids).first(count), /*special=*/true));
  };
  const auto tokens_within = [&](std::size_t bytes) {
    std::size_t least = 0, most = ids.size();
    while (least < most) {
      const std::size_t middle = (least + most + 1) / 2;
      bytes_of(middle) <= bytes ? least = middle : most = middle - 1;
    }
    return least;
  };
  std::vector<bool> learnt(ids.size());
  for (const TextRange& range : document.learnt) {
    const std::size_t bytes = without_spaces(document.text.substr(0, range.end));
    std::size_t end = tokens_within(bytes);
    if (end < ids.size() && bytes_of(end) < bytes) ++end;
    for (std::size_t i = tokens_within(without_spaces(document.text.substr(0, range.begin))); i < end; ++i)
      learnt[i] = true;
  }
  return learnt;
}

// `turns` turns of some of `words`, every other one learnt, from its first or second character on.
TextDocument conversation(int turns, const std::vector<std::string>& words) {
  TextDocument document;
  document.is_chat = true;
  std::uint32_t random = 1;
  const auto draw = [&](std::size_t below) { return (random = random * 1664525 + 1013904223) / 65536 % below; };
  for (int turn = 0; turn < turns; ++turn) {
    const std::size_t begin = document.text.size() + draw(2);
    document.text += 't';
    for (std::size_t left = 5 + draw(20); left > 0; --left) document.text += words[draw(words.size())];
    if (turn % 2 == 1) document.learnt.push_back({begin, document.text.size()});
  }
  return document;
}

TEST(DocumentEncoder, MarksLongConversationsAsDecodedPrefixesDo) {
  const Data data;
  const auto write = [&](const std::string& name, const std::string& json) {
    data.write(name, json);
    return data.path(name);
  };
  const std::string byte_level = write("byte_level.json", R"({"pre_tokenizer": {"type": "ByteLevel",
      "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"t": 0, "h": 1,
      "e": 2, "Ġ": 3, "Ċ": 4, "Ã": 5, "©": 6, "±": 7, "th": 8, "the": 9, "Ġthe": 10}, "merges": ["t h", "th e", "Ġ the"]}})");
  const std::string pieces = write("pieces.json", R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type":
      "WordPiece", "prefix": "##", "cleanup": true}, "model": {"type": "WordPiece", "unk_token": "?", "vocab": {"?": 0,
      "t": 1, "##t": 2, "##h": 3, "##e": 4, "e": 5, "##the": 6, "##é": 7, "the": 8, "é": 9},
      "continuing_subword_prefix": "##", "max_input_chars_per_word": 1000}})");
  const std::string fallback = write("fallback.json", R"({"normalizer": {"type": "Replace", "pattern": {"String": " "},
      "content": "▁"}, "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"},
      "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}, "model": {"type": "BPE", "byte_fallback": true,
      "unk_token": "?", "vocab": {"?": 0, "t": 1, "h": 2, "e": 3, "▁": 4, "th": 5, "the": 6, "<0x0A>": 7, "<0xC3>": 8,
      "<0xA9>": 9, "<0xB1>": 10}, "merges": ["t h", "th e"]}})");
  const std::vector<std::string> words = {"the", " the", "th", " ", "e", "é"};
  std::vector<std::string> lines = words;
  lines.insert(lines.end(), {"\n", "ñ", "éñé"});
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"bytes", lines}, {byte_level, lines}, {pieces, words}, {fallback, lines}};
  for (const auto& [tokenizer, its_words] : cases) {
    SCOPED_TRACE(tokenizer);
    const TextSettings settings{
        .kind = TextKind::jsonl, .learn = Learn::assistant, .chat_template = "chatml", .tokenizer = tokenizer};
    const TextDocument document = conversation(60, its_words);
    std::size_t failed = 0;
    EncodedDocument encoded;
    const std::string refused =
        bad_input([&] { encoded = DocumentEncoder(settings, 1).encode(std::span(&document, 1), failed)[0]; });
    if (refused.find("this build has no tokenizers") != std::string::npos) continue;
    ASSERT_EQ(refused, "(no BadInput)");
    EXPECT_EQ(encoded.learnt, learnt_by_prefixes(tokenizer, document));
    EXPECT_GT(std::count(encoded.learnt.begin(), encoded.learnt.end(), true), 100);
  }
}

// Decoding all before each turn takes half a minute here.
TEST(DocumentEncoder, TimeIsProportionalToAConversation) {
  L2L_NEEDS_TRUE_TIMES();
  const TextSettings settings{
      .kind = TextKind::jsonl, .learn = Learn::assistant, .chat_template = "chatml", .tokenizer = "bytes"};
  const TextDocument document = conversation(10'000, {"the", "th"});
  DocumentEncoder encoder(settings, 1);
  std::size_t failed = 0;
  const std::clock_t begin = std::clock();
  encoder.encode(std::span(&document, 1), failed);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5.0);
}

// A row without a text is one where the tokenizer puts tokens around texts.
TEST(TokenizedFiles, RowsWithoutATokenAreCounted) {
  const Data data;
  ::setenv("XDG_CACHE_HOME", data.path("cache").c_str(), 1);
  data.write("rows.jsonl", R"({"text": "", "class": 1}
{"text": "ab", "class": 0}
{"text": "", "class": 1})");
  data.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nab\n");
  TextSettings settings{.kind = TextKind::jsonl,
                        .tokenizer = "bytes",
                        .head = models::HeadKind::classification,
                        .label = "class",
                        .labels = 2};
  const auto ends = [&](std::string& said) {
    set_log_sink([&](LogLevel level, std::string_view message) {
      if (level == LogLevel::warning) said += message;
    });
    const DataFiles files = tokenized("data.train", find_files({data.path("rows.jsonl")}, "data.train"), settings);
    set_log_sink({});
    EXPECT_EQ(files.labels.size(), files.document_ends.size());
    return files.document_ends;
  };
  using Ends = std::vector<std::uint64_t>;
  std::string bytes, words;
  EXPECT_EQ(ends(bytes), Ends{2});
  EXPECT_EQ(bytes, data.path("rows.jsonl") + ": 2 rows have a label, but no token of a text, and are left out");
  settings.tokenizer = data.path("vocab.txt");
  if (bad_input([&] { EXPECT_EQ(ends(words), (Ends{2, 5, 7})); }).find("no tokenizers") < 1000) {
    GTEST_SKIP() << "no tokenizers";
  }
  EXPECT_EQ(words, "");
  ::unsetenv("XDG_CACHE_HOME");
}

// Ids and token types of the pair (a b, c), as Hugging Face's tokenizers gives them.
TEST(DocumentEncoder, PutsPairsTogetherAsTheTokenizerSays) {
  const Data data;
  const std::string model =
      R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
          "vocab": {"?": 0, "[C]": 1, "[S]": 2, "a": 3, "b": 4, "c": 5}})";
  const auto pair = [&](const std::string& post_processor, std::int64_t token_types) {
    data.write("tokenizer.json", model + post_processor + "}");
    const TextSettings settings{
        .kind = TextKind::tsv, .tokenizer = data.path("tokenizer.json"), .token_types = token_types};
    const TextDocument document{.text = "a bc", .first = 3, .is_pair = true};
    std::size_t failed = 0;
    const EncodedDocument encoded = DocumentEncoder(settings, 1).encode(std::span(&document, 1), failed)[0];
    return std::pair(encoded.ids, encoded.types);
  };
  using Ids = std::vector<std::int32_t>;
  if (bad_input([&] { pair("", 2); }).find("this build has no tokenizers") < 1000) GTEST_SKIP() << "no tokenizers";
  EXPECT_EQ(pair("", 2), std::pair(Ids({3, 4, 5}), Ids({0, 0, 1})));
  EXPECT_EQ(pair(R"(, "post_processor": {"type": "BertProcessing", "cls": ["[C]", 1], "sep": ["[S]", 2]})", 2),
            std::pair(Ids({1, 3, 4, 2, 5, 2}), Ids({0, 0, 0, 0, 1, 1})));
  EXPECT_EQ(pair(R"(, "post_processor": {"type": "RobertaProcessing", "cls": ["[C]", 1], "sep": ["[S]", 2]})", 1),
            std::pair(Ids({1, 3, 4, 2, 2, 5, 2}), Ids({0, 0, 0, 0, 0, 0, 0})));
  const auto template_of = [](const std::string& parts) {
    return R"(, "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"[S]": {"id": "[S]", "ids": [2], "tokens": ["[S]"]}}, "pair": [)" +
           parts + "]}";
  };
  const std::string second_first = template_of(R"({"Sequence": {"id": "B", "type_id": 1}},
      {"SpecialToken": {"id": "[S]", "type_id": 1}}, {"Sequence": {"id": "A", "type_id": 0}})");
  EXPECT_EQ(pair(second_first, 2), std::pair(Ids({5, 2, 3, 4}), Ids({1, 1, 0, 0})));
  EXPECT_SAYS(bad_input([&] { pair(second_first, 1); }), "token type 1; model.token_types = 1");
  EXPECT_SAYS(bad_input([&] { pair(template_of(""), 2); }), "no template for a pair");
  const std::string third = template_of(R"({"Sequence": {"id": "C", "type_id": 0}})");
  EXPECT_SAYS(bad_input([&] { pair(third, 2); }), "expected \"A\" or \"B\"");
}

}  // namespace
}  // namespace l2l::runtime
