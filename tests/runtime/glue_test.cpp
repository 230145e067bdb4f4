// Rows in the form in which GLUE's files are distributed, made up for this test.
#include "runtime/data/glue.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

#include "runtime/data/text_documents.h"
#include "runtime/options/resolved_options.h"
#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using namespace test;

TextSettings settings_of(const std::string& task) {
  Options options;
  options.data.task = task;
  options = with_task(options);
  return {.kind = TextKind::tsv,
          .columns = options.data.columns,
          .token_types = options.data.columns.size() == 2 ? 2 : 0,
          .head = models::head_kind_of(options.model.head),
          .label = options.data.label,
          .labels = options.model.labels,
          .label_names = options.model.label_names,
          .task = task};
}

std::vector<TextDocument> read(const Data& data, const std::string& task, const std::string& bytes) {
  data.write("rows.tsv", bytes);
  const TextSettings settings = settings_of(task);
  const std::unique_ptr<DocumentReader> reader = read_documents(data.path("rows.tsv"), settings);
  std::vector<TextDocument> documents;
  for (TextDocument document; reader->next(document);) documents.push_back(document);
  return documents;
}

std::string refusal(const std::string& task, const std::string& bytes) {
  const Data data;
  return bad_input([&] { read(data, task, bytes); });
}

// A file of a task: its rows, what is expected of the first (text, first text of a pair, label), and a bad row with the
// reason.
struct Sample {
  const char *task, *bytes;
  std::size_t rows;
  const char *first, *second;
  std::int32_t label;
  const char *bad, *reason;
};

constexpr const char* kMnli =
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
    "sentence1\tsentence2\tlabel1\tgold_label\n";

const Sample kSamples[] = {
    // No line of names.
    {"cola", "gj04\t1\t\tThe boats \"sail\".\nbc01\t0\t*\tBoats the sail.\n", 2, "The boats \"sail\".", "", 1,
     "gj04\t2\t\tX.\n", "line 1: \"label\" is \"2\""},
    {"sst2", "sentence\tlabel\na warm film \t1\ndull \t0\n", 2, "a warm film ", "", 1, "sentence\tlabel\nx\tgood\n",
     "line 2: \"label\" is \"good\", not a class from 0 to 1, \"negative\", \"positive\""},
    // A byte order mark, and quotes that do not end.
    {"mrpc",
     "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said \"yes.\tHe "
     "agreed.\r\n0\t9\t10\tA.\tB.\n",
     2, "He said \"yes.", "He agreed.", 1, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tonly one\n",
     "line 2: has 4 columns; the header names 5"},
    {"stsb",
     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
     "0\tmain\tf\t2012\t1\tnone\tnone\tA plane.\tA jet.\t4.250\n",
     1, "A plane.", "A jet.", std::bit_cast<std::int32_t>(4.25f),
     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
     "0\tmain\tf\t2012\t1\tnone\tnone\tA.\tB.\t\n",
     "\"score\" is \"\", not a number"},
    // A row that was broken in two, as some are; both parts are left out.
    {"qqp",
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy?\tWhat for?\t1\n4\t5\t6\tHow\nmany?\tSo?\t0\n"
     "7\t8\t9\tWho?\tWhen?\t0\n",
     2, "Why?", "What for?", 1, "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta\tb\tc\td\n",
     "line 2: has 7 columns; the header names 6"},
    {"qnli", "index\tquestion\tsentence\tlabel\n0\tWhere?\tHere.\tentailment\n1\tQ?\tNo.\tnot_entailment\n", 2,
     "Where?", "Here.", 0, "index\tquestion\tsentence\tlabel\n0\ta\tb\tneutral\n", "\"label\" is \"neutral\""},
    {"rte", "index\tsentence1\tsentence2\tlabel\n0\tRain.\tWet.\tnot_entailment\n", 1, "Rain.", "Wet.", 1,
     "index\tsentence1\tlabel\n0\ta\tentailment\n", "there is no column \"sentence2\""},
    {"wnli", "index\tsentence1\tsentence2\tlabel\n0\tIt fell.\tThe cup fell.\t1\n", 1, "It fell.", "The cup fell.", 1,
     "index\tsentence1\tsentence2\n0\ta\tb\n", "there is no column \"label\""},
};

TEST(Glue, ReadsTheFilesOfEachTask) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.task);
    const Data data;
    const std::vector<TextDocument> rows = read(data, sample.task, sample.bytes);
    ASSERT_EQ(rows.size(), sample.rows);
    EXPECT_EQ(rows[0].text, std::string(sample.first) + sample.second);
    EXPECT_EQ(rows[0].is_pair, *sample.second != '\0');
    if (rows[0].is_pair) {
      EXPECT_EQ(rows[0].first, std::string(sample.first).size());
    }
    EXPECT_EQ(rows[0].label, sample.label);
    EXPECT_SAYS(refusal(sample.task, sample.bad), sample.reason);
  }
}

TEST(Glue, Mnli) {
  const Data data;
  const std::string row = "0\t1\t1e\tfiction\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tRain.\tWet.\t";
  const std::vector<TextDocument> rows = read(data, "mnli", kMnli + row + "neutral\tneutral\n");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].text, "Rain.Wet.");
  EXPECT_EQ(rows[0].label, 1);
  EXPECT_SAYS(refusal("mnli", kMnli + row + "neutral\t-\n"), "\"gold_label\" is \"-\"");
}

constexpr const char* kPairTokenizer =
    R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "WordPiece", "unk_token": "?",
        "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"?": 0, "[C]": 1, "[S]": 2}},
        "post_processor": {"type": "BertProcessing", "cls": ["[C]", 1], "sep": ["[S]", 2]}})";

TEST(Glue, TheBestByTheMismatchedSetOfMnliNeedsThatSet) {
  const Data data;
  const std::string row = "0\t1\t1e\tfiction\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tRain.\tWet.\tneutral\tneutral\n";
  for (const char* const name : {"dev_matched.tsv", "dev_mismatched.tsv"}) data.write(name, kMnli + row);
  Options options;
  options.model.architecture = "bert";
  ::setenv("XDG_CACHE_HOME", data.path("cache").c_str(), 1);
  data.write("tokenizer.json", kPairTokenizer);
  options.data.tokenizer = data.path("tokenizer.json");
  options.data.task = "mnli";
  options.data.validation = {data.path("dev_matched.tsv")};
  options.checkpoint.directory = data.path("run");
  options.checkpoint.best = "accuracy_mismatched";
  const std::string refused = bad_input([&] { resolve(options); });
  if (refused.find("this build has no tokenizers") < 1000) GTEST_SKIP() << "no tokenizers";
  EXPECT_SAYS(refused, "names no file with \"mismatched\" in its name");
  options.data.validation.push_back(data.path("dev_mismatched.tsv"));
  EXPECT_EQ(bad_input([&] { resolve(options); }), "(no BadInput)");
  ::unsetenv("XDG_CACHE_HOME");
}

TEST(Glue, EachTaskSetsWhatItStandsFor) {
  EXPECT_EQ(glue_tasks().size(), 9u);
  Options options;
  options.data.task = "mnli";
  options = with_task(options);
  EXPECT_EQ(options.model.head, "classification");
  EXPECT_EQ(options.model.labels, 3);
  EXPECT_EQ(options.model.label_names[2], "contradiction");
  EXPECT_EQ(with_task(options).data.columns, options.data.columns);  // a saved config says the same again
  options.data.label = "label1";
  EXPECT_SAYS(bad_input([&] { with_task(options); }), "data.label = \"label1\", but data.task = \"mnli\" stands for");
  options = {};
  options.data.task = "stsb";
  EXPECT_EQ(with_task(options).model.head, "regression");
}

}  // namespace
}  // namespace l2l::runtime
