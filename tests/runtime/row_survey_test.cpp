#include "runtime/options/row_survey.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using namespace test;
using Names = std::vector<std::string>;

RowSurvey survey(const Data& data, const std::string& bytes) {
  data.write("rows.jsonl", bytes);
  return survey_rows(data.path("rows.jsonl"));
}

std::string refusal(const std::string& bytes) {
  const Data data;
  return bad_input([&] { survey(data, bytes); });
}

std::string labelled(const Names& labels) {
  std::string rows;
  for (const std::string& label : labels) rows += "{\"text\": \"x\", \"label\": " + label + "}\n";
  return rows;
}

TEST(RowSurvey, KindsOfRows) {
  const Data data;
  EXPECT_EQ(survey(data, "{\"text\": \"a\"}\n\n{\"text\": \"b\"}").kind, RowKind::text);
  EXPECT_EQ(survey(data, "{\"prompt\": \"a\", \"completion\": \"b\"}").kind, RowKind::completion);
  EXPECT_EQ(survey(data, "{\"messages\": []}").kind, RowKind::chat);
  EXPECT_EQ(survey(data, "{\"context\": \"q\", \"choices\": [\"a\", \"b\"], \"label\": 0}").kind, RowKind::choices);
  const RowSurvey words = survey(data, "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\", \"B-X\"]}");
  EXPECT_EQ(words.kind, RowKind::words);
  EXPECT_EQ(words.class_names, (Names{"B-X", "O"}));
}

TEST(RowSurvey, LabelsAreClassesOrNumbers) {
  const Data data;
  const RowSurvey names = survey(data, labelled({"\"pos\"", "\"neg\"", "\"pos\""}));
  EXPECT_EQ(names.kind, RowKind::classified);
  EXPECT_EQ(names.rows, 3u);
  EXPECT_EQ(names.classes, 2);
  EXPECT_EQ(names.class_names, (Names{"neg", "pos"}));
  EXPECT_NEAR(names.largest_class, 2.0 / 3, 1e-12);
  EXPECT_TRUE(survey(data, labelled({"1", "0", "2"})).class_names.empty());
  EXPECT_EQ(survey(data, labelled({"10", "2", "5"})).class_names, (Names{"2", "5", "10"}));
  EXPECT_EQ(survey(data, labelled({"true", "false"})).class_names, (Names{"false", "true"}));
  EXPECT_EQ(survey(data, labelled({"0.5", "2", "3"})).kind, RowKind::scored);
  Names many;
  for (int i = 0; i < 60; ++i) many.push_back(std::to_string(i));
  EXPECT_EQ(survey(data, labelled(many)).kind, RowKind::scored);
}

TEST(RowSurvey, RefusesWhatNoRunCanLearn) {
  EXPECT_SAYS(refusal(""), "rows.jsonl: has no rows");
  EXPECT_SAYS(refusal("{\"text\": \"a\"}\n[]"), "line 2: is not a JSON object");
  EXPECT_SAYS(refusal("{\"sentence\": \"a\"}"), "line 1: has \"sentence\"; rows have \"text\"");
  EXPECT_SAYS(refusal("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"}"),
              "line 2: has no \"label\", as the first row has");
  EXPECT_SAYS(refusal(labelled({"1", "1"})), "all rows have the label \"1\"");
  EXPECT_SAYS(refusal("text,label\nx,1"), "line 1: is not a JSON object in UTF-8; tables and plain text");
  for (const char* const broken : {"{\"text\": \"\xff\"}", "{\"text\": "}) {
    EXPECT_TRUE(refusal(broken).ends_with("rows.jsonl: line 1: is not a JSON object in UTF-8")) << refusal(broken);
  }
  const std::pair<const char*, const char*> labels[] = {
      {"null", "line 2: \"label\" is null; leave out"},
      {"[1]", "line 2: \"label\" is a list"},
      {"\"\"", "line 2: \"label\" is empty"},
      {"\" pos\"", "line 2: \"label\" is \" pos\", which begins or ends with white space"},
      {"\"pos\\n\"", "line 2: \"label\" is \"pos\\n\", which begins or ends with white space"},
      {"\"a\\u007fb\"",
       "line 2: \"label\" is \"a\x7f"
       "b\", which has a line break or the like"}};
  for (const auto& [label, reason] : labels) EXPECT_SAYS(refusal(labelled({"\"neg\"", label, "\"pos\""})), reason);
  EXPECT_EQ(refusal(labelled({"\"neg\"", "\"very good\"", "\"\xc3\xa9\""})), "(no BadInput)");
  EXPECT_SAYS(refusal("{\"tokens\": [\"a\"], \"tags\": [null]}"), "line 1: \"tags\" is null");
  Names texts;
  for (int i = 0; i < 1100; ++i) texts.push_back("\"t" + std::to_string(i) + "\"");
  EXPECT_SAYS(refusal(labelled(texts)), "more than 1000 different ones");
}

TEST(RowSurvey, HoldsOutOneOfTwenty) {
  std::uint64_t held = 0, neighbours = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    held += is_held_out(i, 2000) ? 1 : 0;
    neighbours += i > 0 && is_held_out(i, 2000) && i % 20 == 0 ? 1 : 0;
  }
  EXPECT_EQ(held, 100u);
  EXPECT_GT(neighbours, 0u);
  EXPECT_LT(neighbours, 20u);  // not every twentieth: files may be periodic
  EXPECT_FALSE(is_held_out(5, 21));
  EXPECT_TRUE(is_held_out(20, 21));
  const Data data;
  std::string rows;
  for (int i = 0; i < 50; ++i) rows += "{\"text\": \"" + std::to_string(i) + "\"}\n\n";
  data.write("rows.jsonl", rows);
  const RowParts parts{data.path("train"), data.path("held")};
  split_rows(data.path("rows.jsonl"), 50, parts);
  EXPECT_TRUE(holds_rows(parts, data.path("rows.jsonl")));
  const auto lines = [&](const char* name) {
    std::ifstream file(data.path(name));
    Names found;
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  };
  Names all = lines("train"), validation = lines("held");
  EXPECT_EQ(all.size() + validation.size(), 50u);
  EXPECT_GE(validation.size(), 2u);
  all.insert(all.end(), validation.begin(), validation.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace l2l::runtime
