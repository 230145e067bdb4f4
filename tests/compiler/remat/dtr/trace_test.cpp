#include "compiler/remat/dtr/trace.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "compiler/remat/dtr/simulate.h"
#include "l2l/errors.h"
#include "tests/compiler/remat/dtr/random_program.h"

namespace l2l::compiler::remat::dtr {
namespace {

const std::string kStart = R"({"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"})"
                           "\n";

Trace read(const std::string& text) {
  std::istringstream stream(text);
  return read_trace(stream, "t.log");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

std::string constant(const std::string& name, const std::string& bytes) {
  return R"({"INSTRUCTION": "CONSTANT", "NAME": ")" + name + R"("})" + "\n" + R"({"INSTRUCTION": "MEMORY", "NAME": ")" +
         name + R"(", "MEMORY": )" + bytes + "}\n";
}

std::string memory_and_alias(const std::string& name, const std::string& bytes, const std::string& alias) {
  return R"({"INSTRUCTION": "MEMORY", "NAME": ")" + name + R"(", "MEMORY": )" + bytes + "}\n" +
         R"({"INSTRUCTION": "ALIAS", "NAME": ")" + name + R"(", "ALIAS": )" + alias + "}\n";
}

std::string call(const std::string& args, const std::string& results, const std::string& time) {
  return R"({"INSTRUCTION": "CALL", "NAME": "op", "ARGS": [)" + args + R"(], "RESULT": [)" + results +
         R"(], "TIME": )" + time + "}\n";
}

// A constant c of 8 bytes in lines 2 and 3, and y = op(c) of 4 in 4 to 6.
const std::string kSmall =
    kStart + constant("c", "\"8\"") + call("\"c\"", "\"y\"", "\"5\"") + memory_and_alias("y", "\"4\"", "\"-1\"");

TEST(Trace, IsResolvedToTensorsAndSteps) {
  const Trace trace =
      read(R"({"INSTRUCTION": "CONSTANT", "NAME": "before"})"
           "\n\r\n" +
           kSmall + R"({"INSTRUCTION": "ANNOTATE", "ANNOTATION": "BACKWARD"})" + "\n" +
           call("\"y\", \"c\"", "\"v\", \"z\"", "\"7\"") + memory_and_alias("v", "\"4\"", "\"0\"") +
           memory_and_alias("z", "\"2\"", "\"-1\"") + R"({"INSTRUCTION": "COPY", "DST": "k", "SRC": "z"})" + "\n" +
           R"({"INSTRUCTION": "MUTATE", "NAME": "op_", "ARGS": ["v", "c"], "MUTATE": [0], "TIME": "3"})" + "\n" +
           R"({"INSTRUCTION": "RELEASE", "NAME": "y"})" + "\n" + R"({"INSTRUCTION": "RELEASE", "NAME": "before"})" +
           "\n" + R"({"INSTRUCTION": "COPY_FROM", "DST": "k", "SRC": "v"})");
  ASSERT_EQ(trace.ops.size(), 4u);
  EXPECT_EQ(trace.time, 15);
  EXPECT_EQ(trace.ops[1].args, (std::vector<Index>{0}));
  EXPECT_EQ(trace.ops[1].outputs[0].bytes, 4u);
  EXPECT_EQ(trace.ops[2].args, (std::vector<Index>{1, 0}));
  EXPECT_EQ(trace.ops[2].outputs[0].alias, 0u);
  EXPECT_EQ(trace.ops[2].outputs[0].bytes, 0u);  // what MEMORY says of an alias is that of its storage
  EXPECT_EQ(trace.ops[2].outputs[1].alias, kNone);
  EXPECT_EQ(trace.ops[3].args, (std::vector<Index>{2, 0}));  // the tensors before
  EXPECT_EQ(trace.ops[3].outputs[0].bytes, 4u);              // of the storage that v shares with y
  using Action = Trace::Action;
  const std::vector<std::pair<Action, Index>> expected = {
      {Action::run, 0},    {Action::pin, 0},     {Action::run, 1},     {Action::run, 2},
      {Action::retain, 3}, {Action::run, 3},     {Action::release, 2}, {Action::release, 1},  // v before, y
      {Action::retain, 4}, {Action::release, 3},                                              // k becomes v
      {Action::pin, 0},    {Action::pin, 4},     {Action::pin, 3},     {Action::pin, 4}};     // c, v, z, k
  ASSERT_EQ(trace.steps.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(trace.steps[i].action, expected[i].first) << i;
    EXPECT_EQ(trace.steps[i].index, expected[i].second) << i;
  }
}

TEST(Trace, NumbersMayBeBare) {
  const Trace trace = read(kStart + constant("c", "8") + call("", "\"y\"", "5") + memory_and_alias("y", "4", "-1"));
  EXPECT_EQ(trace.time, 5);
  EXPECT_EQ(trace.ops[0].outputs[0].bytes, 8u);
}

struct BadTrace {
  const char* what;
  std::string text;     // after kSmall, unless it is a whole file
  std::string message;  // a part of it
  bool whole = false;
};

std::vector<BadTrace> bad_traces() {
  const std::string most = "\"" + std::to_string(std::int64_t{1} << 60) + "\"";
  const std::string release = R"({"INSTRUCTION": "RELEASE", "NAME": "y"})"
                              "\n";
  const auto mutate = [](const std::string& indices) {
    return R"({"INSTRUCTION": "MUTATE", "NAME": "m", "ARGS": ["y"], "MUTATE": )" + indices + R"(, "TIME": "1"})";
  };
  std::string deep = R"({"INSTRUCTION": )";
  deep += std::string(200'000, '[') + std::string(200'000, ']') + "}";
  return {
      {"empty", "", "t.log: has no record", true},
      {"no start", constant("c", "\"8\""), "t.log: has no record", true},
      {"not json", "CALL op\n", "t.log:7: is not a JSON object"},
      {"not json before the start", "# log\n" + kStart, "t.log:1: is not a JSON object", true},
      {"not an object", "[1]\n", "t.log:7: is not a JSON object"},
      {"cut off", R"({"INSTRUCTION": "RELEASE", "NAME": "y")", "t.log:7: is not a JSON object"},
      {"bytes that are no text", "{\"INSTRUCTION\": \"\xff\xfe\"}\n", "t.log:7: is not a JSON object"},
      {"a zero byte", std::string("\0\n", 2), "t.log:7: is not a JSON object"},
      {"nested deeply", deep, "t.log:7: is not a JSON object"},
      {"a line without end", std::string(2 << 20, ' '), "t.log:7: is longer than 1048576 bytes"},
      {"no instruction", R"({"NAME": "y"})", "t.log:7: INSTRUCTION: is missing"},
      {"instruction unknown", R"({"INSTRUCTION": "FREE", "NAME": "y"})", "t.log:7: INSTRUCTION: 'FREE' is none of"},
      {"memory of nothing", R"({"INSTRUCTION": "MEMORY", "NAME": "y", "MEMORY": "4"})", "t.log:7: INSTRUCTION: MEMORY"},
      {"alias of nothing", R"({"INSTRUCTION": "ALIAS", "NAME": "y", "ALIAS": "-1"})", "t.log:7: INSTRUCTION: ALIAS"},
      {"annotation missing", R"({"INSTRUCTION": "ANNOTATE"})", "t.log:7: ANNOTATION: is missing"},
      {"constant without name", R"({"INSTRUCTION": "CONSTANT"})", "t.log:7: NAME: is missing"},
      {"name a number", R"({"INSTRUCTION": "RELEASE", "NAME": 4})", "t.log:7: NAME: 4 is not a string"},
      {"constant without memory", R"({"INSTRUCTION": "CONSTANT", "NAME": "d"})", "t.log:7: MEMORY of 'd' is missing"},
      {"constant with another's memory",
       R"({"INSTRUCTION": "CONSTANT", "NAME": "d"})"
       "\n"
       R"({"INSTRUCTION": "MEMORY", "NAME": "e", "MEMORY": "1"})",
       "t.log:8: NAME: 'e' is not 'd'"},
      {"constant twice", constant("c", "\"1\""), "t.log:7: NAME: 'c' was there before, in line 2"},
      {"memory negative", constant("d", "\"-1\""), "t.log:8: MEMORY: \"-1\" is not a whole number from 0"},
      {"memory a fraction", constant("d", "\"1.5\""), "t.log:8: MEMORY: \"1.5\" is not a whole number"},
      {"memory a bare fraction", constant("d", "1.5"), "t.log:8: MEMORY: 1.5 is not a whole number"},
      {"memory with a unit", constant("d", "\"1KiB\""), "t.log:8: MEMORY: \"1KiB\" is not a whole number"},
      {"memory empty", constant("d", "\"\""), "t.log:8: MEMORY: \"\" is not a whole number"},
      {"memory with a space", constant("d", "\" 1\""), "t.log:8: MEMORY: \" 1\" is not a whole number"},
      {"memory of 2^64 and 1", constant("d", "\"18446744073709551617\""), "t.log:8: MEMORY: "},
      {"memory of 2^63", constant("d", "9223372036854775808"), "t.log:8: MEMORY: "},
      {"memory null", constant("d", "null"), "t.log:8: MEMORY: null is not a whole number"},
      {"memory a list", constant("d", "[1]"), "t.log:8: MEMORY: a list is not a whole number"},
      {"memory in sum", constant("d", most), "t.log:7: MEMORY: brings the bytes of all storages above 2^60"},
      {"call without args", R"({"INSTRUCTION": "CALL", "NAME": "op", "RESULT": ["z"], "TIME": "1"})",
       "t.log:7: ARGS: is missing"},
      {"args no list", R"({"INSTRUCTION": "CALL", "NAME": "op", "ARGS": "y", "RESULT": ["z"], "TIME": "1"})",
       "t.log:7: ARGS: \"y\" is not a list"},
      {"an arg no name", call("7", "\"z\"", "\"1\""), "t.log:7: ARGS: 7 is not a string"},
      {"an arg unknown", call("\"w\"", "\"z\"", "\"1\""), "t.log:7: ARGS: there is no tensor 'w'"},
      {"an arg its own result", call("\"z\"", "\"z\"", "\"1\""), "t.log:7: ARGS: there is no tensor 'z'"},
      {"no result", call("\"y\"", "", "\"1\""), "t.log:7: RESULT: is empty"},
      {"a result that is there", call("\"y\"", "\"c\"", "\"1\"") + memory_and_alias("c", "\"1\"", "\"-1\""),
       "t.log:7: RESULT: 'c' was there before, in line 2"},
      {"a result twice", call("\"y\"", "\"z\", \"z\"", "\"1\"") + memory_and_alias("z", "\"1\"", "\"-1\""),
       "t.log:7: RESULT: 'z' was there before, in line 7"},
      {"time missing", R"({"INSTRUCTION": "CALL", "NAME": "op", "ARGS": [], "RESULT": ["z"]})",
       "t.log:7: TIME: is missing"},
      {"time negative", call("\"y\"", "\"z\"", "\"-1\""), "t.log:7: TIME: \"-1\" is not a whole number from 0"},
      {"time no number", call("\"y\"", "\"z\"", "\"fast\""), "t.log:7: TIME: \"fast\" is not a whole number"},
      {"time in sum", call("\"y\"", "\"z\"", most) + memory_and_alias("z", "\"1\"", "\"-1\""),
       "t.log:7: TIME: brings the time of all ops"},
      {"result without memory", call("\"y\"", "\"z\"", "\"1\""), "t.log:7: MEMORY of 'z' is missing at the end"},
      {"result without alias",
       call("\"y\"", "\"z\"", "\"1\"") + R"({"INSTRUCTION": "MEMORY", "NAME": "z", "MEMORY": "1"})" + "\n" + release,
       "t.log:9: INSTRUCTION: ALIAS of 'z' is missing here"},
      {"alias beyond the args", call("\"y\"", "\"z\"", "\"1\"") + memory_and_alias("z", "\"1\"", "\"1\""),
       "t.log:9: ALIAS: \"1\" is not a whole number from -1 to 0"},
      {"alias before the args", call("\"y\"", "\"z\"", "\"1\"") + memory_and_alias("z", "\"1\"", "\"-2\""),
       "t.log:9: ALIAS: \"-2\" is not"},
      {"alias of no args", call("", "\"z\"", "\"1\"") + memory_and_alias("z", "\"1\"", "\"0\""),
       "t.log:9: ALIAS: \"0\" is not a whole number from -1 to -1"},
      {"mutate beyond the args", mutate("[1]"), "t.log:7: MUTATE: 1 is not a whole number from 0 to 0"},
      {"mutate nothing", mutate("[]"), "t.log:7: MUTATE: is empty"},
      {"mutate no list", mutate("\"0\""), "t.log:7: MUTATE: \"0\" is not a list"},
      {"mutate what is released", release + mutate("[0]"), "t.log:8: MUTATE: 'y' has no reference left to release"},
      {"copy of nothing", R"({"INSTRUCTION": "COPY", "DST": "d", "SRC": "w"})", "t.log:7: SRC: there is no tensor 'w'"},
      {"copy to what is there", R"({"INSTRUCTION": "COPY", "DST": "c", "SRC": "y"})",
       "t.log:7: DST: 'c' was there before, in line 2"},
      {"copy of what is released", release + R"({"INSTRUCTION": "COPY", "DST": "d", "SRC": "y"})",
       "t.log:8: SRC: 'y' has no reference left to copy"},
      {"copy from to nothing", R"({"INSTRUCTION": "COPY_FROM", "DST": "d", "SRC": "y"})",
       "t.log:7: DST: there is no tensor 'd'"},
      {"released twice", release + release, "t.log:8: NAME: 'y' has no reference left to release"},
  };
}

TEST(Trace, LinesMayBeLongerThanUsual) {
  for (const std::size_t usual : {4096, 8192}) {
    for (std::size_t length = usual - 3; length <= usual + 3; ++length) {
      const std::string name(length, 'x'), blank(length, ' ');
      const Trace trace = read(blank + "\n" + kStart + constant(name, "8") + blank);
      ASSERT_EQ(trace.ops.size(), 1u) << length;
      EXPECT_EQ(trace.ops[0].outputs[0].bytes, 8) << length;
    }
  }
}

TEST(Trace, RefusesWithLineAndField) {
  for (const BadTrace& bad : bad_traces()) {
    const std::string found = refusal(bad.whole ? bad.text : kSmall + bad.text);
    EXPECT_NE(found.find(bad.message), std::string::npos) << bad.what << ": '" << found << "'";
    EXPECT_LT(found.size(), 300u) << bad.what;
  }
  EXPECT_THROW(read_trace("/nonexistent/t.log"), BadInput);
  EXPECT_THROW(read_trace("/"), BadInput);
}

// Another digit, mostly: most other changes leave no JSON.
void change(std::mt19937_64& random, std::string& text) {
  const std::size_t at = kStart.size() + random() % (text.size() - kStart.size());
  static const std::string kDigits = "0123456789", kBytes = kDigits + "-\"x,:[]{}\n";
  if (const std::size_t digit = text.find_first_of(kDigits, at); random() % 4 && digit != text.npos) {
    text[digit] = kDigits[random() % kDigits.size()];
  } else if (random() % 2) {
    text[at] = kBytes[random() % kBytes.size()];
  } else {
    text.erase(at, 1);
  }
}

// Anything is refused or can be simulated.
TEST(Trace, MutatedFiles) {
  std::mt19937_64 random(3);
  int read_well = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = text_of(random_program(random, {}));
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) change(random, text);
    try {
      const Trace trace = read(text);
      Options options;
      options.heuristic = static_cast<Score>(i % 6);
      options.repeated_limit = trace.time;
      options.budget = simulate(trace, options).peak / 2 + 1;
      EXPECT_LE(simulate(trace, options).peak, options.budget);
      ++read_well;
    } catch (const BadInput&) {
      ++refused;
    }
  }
  EXPECT_GT(read_well, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace l2l::compiler::remat::dtr
