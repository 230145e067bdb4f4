#include "core/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "l2l/errors.h"
#include "tests/support/temporary_folder.h"

namespace l2l {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

json written(const Trace& trace) {
  const testing::TemporaryFolder folder;
  trace.write(folder / "trace.json");
  std::ifstream file(folder / "trace.json");
  return json::parse(file);
}

std::vector<json> spans(const json& trace) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") found.push_back(event);
  }
  return found;
}

TEST(Trace, SpansHaveMicrosecondsTracksAndArguments) {
  Trace trace(8);
  const int compute = trace.add_track("compute");
  const int copies = trace.add_track("copies");
  const Clock::time_point start = Clock::now();
  trace.record(compute, "block", start, start + nanoseconds(1'234'567), 3, 5);
  trace.record(copies, "copy h2d", start + microseconds(10), start + microseconds(12), -1, -1);
  const std::vector<json> found = spans(written(trace));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].at("name"), "block");
  EXPECT_EQ(found[0].at("tid"), compute);
  EXPECT_EQ(found[0].at("dur"), 1234.567);
  EXPECT_EQ(found[0].at("args"), (json{{"layer", 3}, {"microbatch", 5}}));
  EXPECT_EQ(found[1].at("tid"), copies);
  EXPECT_EQ(found[1].at("args"), json::object());
  EXPECT_NEAR(found[1].at("ts").get<double>() - found[0].at("ts").get<double>(), 10.0, 0.0011);
}

TEST(Trace, NamesMayGoBeforeItIsWritten) {
  Trace trace(2);
  const int track = trace.add_track("t");
  for (std::string name : {"a program of a layer that is gone", "another program, which is gone as well"}) {
    trace.record(track, name, Clock::now(), Clock::now(), 0, 0);
    name.assign(name.size(), '#');
  }
  const std::vector<json> found = spans(written(trace));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].at("name"), "a program of a layer that is gone");
  EXPECT_EQ(found[1].at("name"), "another program, which is gone as well");
}

TEST(Trace, ASpanMayHaveBegunBeforeTheTrace) {
  const Clock::time_point early = Clock::now() - microseconds(1500);
  Trace trace(1);
  trace.record(trace.add_track("t"), "s", early, early + nanoseconds(5), -1, -1);
  const std::vector<json> found = spans(written(trace));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_LE(found[0].at("ts").get<double>(), -1500.0);
  EXPECT_EQ(found[0].at("dur"), 0.005);
}

TEST(Trace, NamesEveryTrackWhateverItsCharacters) {
  Trace trace(1);
  const std::string odd = "a \"quoted\\\" name\nwith\tcontrol \x01 characters";
  trace.add_track("plain");
  trace.add_track(odd);
  std::map<int, std::string> names;
  const json file = written(trace);
  for (const json& event : file.at("traceEvents")) {
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{0, "plain"}, {1, odd}}));
}

TEST(Trace, CountsWhatDoesNotFit) {
  Trace trace(3);
  const int track = trace.add_track("t");
  const Clock::time_point now = Clock::now();
  for (int i = 0; i < 5; ++i) trace.record(track, "s", now, now, -1, i);
  const json file = written(trace);
  EXPECT_EQ(spans(file).size(), 3u);
  EXPECT_EQ(file.at("otherData").at("dropped_spans"), 2);
}

TEST(Trace, KeepsTheSpansOfAllThreads) {
  Trace trace(4000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    const int track = trace.add_track("thread " + std::to_string(t));
    threads.emplace_back([&trace, track] {
      const Clock::time_point now = Clock::now();
      for (int i = 0; i < 1000; ++i) trace.record(track, "s", now, now, i, -1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<int, int> layers;  // sum per track
  for (const json& span : spans(written(trace))) layers[span.at("tid")] += span.at("args").at("layer").get<int>();
  EXPECT_EQ(layers, (std::map<int, int>{{0, 499500}, {1, 499500}, {2, 499500}, {3, 499500}}));
}

TEST(Trace, NamesTheFileItCannotWrite) {
  const Trace trace(1);
  try {
    trace.write("/nonexistent/trace.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/trace.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace l2l
