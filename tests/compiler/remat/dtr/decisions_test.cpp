// The core against a plain transcription of the semantics (naive.h): the same decisions on random programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "compiler/remat/dtr/simulate.h"
#include "core/fault_point.h"
#include "tests/compiler/remat/dtr/naive.h"
#include "tests/compiler/remat/dtr/recorder.h"

namespace l2l::compiler::remat::dtr {
namespace {

struct Case {
  Program program;
  naive::Setting setting;
  std::string text;
};

// Between two other events any order of banishments, and of the pins that they lead to, is the same; and of what is
// banished there, a pin before tells nothing.
void sort_banishments(std::vector<std::string>& events) {
  const auto is = [](const char* what) {
    return [what](const std::string& event) { return event.rfind(what, 0) == 0; };
  };
  const auto moves = [&](const std::string& event) { return is("banish ")(event) || is("pin ")(event); };
  std::vector<std::string> sorted;
  for (auto begin = events.begin(); begin != events.end();) {
    const auto end = std::find_if_not(begin, events.end(), moves);
    std::set<std::string> run(begin, end);
    for (auto event = begin; event != end; ++event) {
      if (is("banish ")(*event)) run.erase("pin " + event->substr(7));
    }
    sorted.insert(sorted.end(), run.begin(), run.end());
    if (end != events.end()) sorted.push_back(*end);
    begin = end == events.end() ? end : end + 1;
  }
  events = std::move(sorted);
}

Options options_of(const naive::Setting& setting) {
  Options options;
  options.heuristic = static_cast<Score>(setting.heuristic);
  options.unreferenced = static_cast<Unreferenced>(setting.unreferenced);
  options.budget = static_cast<Bytes>(setting.budget);
  options.repeated_limit = setting.repeated_limit;
  return options;
}

naive::Course course_of(const Case& tried) {
  std::istringstream stream(tried.text);
  const Trace trace = read_trace(stream, "random");
  Recorder recorder;
  Rematerializer core(options_of(tried.setting), recorder);
  recorder.watch(core);
  replay(trace, core);
  EXPECT_EQ(recorder.peak(), core.peak());
  EXPECT_EQ(recorder.memory(), core.memory());
  const char* const failures[] = {"", "out of memory", "thrashing"};
  return {recorder.events(), core.clock(), static_cast<std::int64_t>(core.peak()),
          failures[static_cast<int>(core.failure())]};
}

bool same(naive::Course a, naive::Course b) {
  sort_banishments(a.events);
  sort_banishments(b.events);
  return a.events == b.events && a.clock == b.clock && a.peak == b.peak && a.failure == b.failure;
}

std::string difference(naive::Course a, naive::Course b) {
  sort_banishments(a.events);
  sort_banishments(b.events);
  std::ostringstream text;
  std::size_t i = 0;
  while (i < a.events.size() && i < b.events.size() && a.events[i] == b.events[i]) ++i;
  text << "event " << i << ": " << (i < a.events.size() ? a.events[i] : "end") << " instead of "
       << (i < b.events.size() ? b.events[i] : "end") << "; clock " << a.clock << ", " << b.clock << "; peak " << a.peak
       << ", " << b.peak << "; failure '" << a.failure << "', '" << b.failure << "'";
  return text.str();
}

// Case `index` of a series: all heuristics and all fates of what is unreferenced in turn, budgets around what is
// needed.
// Every tenth is long, and most of its ops read one tensor.
Case random_case(std::uint64_t index) {
  std::mt19937_64 random(index);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Case made;
  made.setting = {static_cast<naive::Heuristic>(index / 10 % 6), static_cast<naive::Unreferenced>(index / 60 % 3), 0,
                  std::numeric_limits<std::int64_t>::max()};
  ProgramShape shape;
  shape.hub = index % 10 == 9 ? 40 : 0;
  shape.instructions = static_cast<int>(shape.hub > 0 ? draw(60, 200) : draw(8, 60));
  if (draw(0, 3) == 0) shape.largest = 1, shape.longest = 1;  // ties
  shape.use_released = made.setting.unreferenced != naive::Unreferenced::banish;
  made.program = random_program(random, shape);
  made.text = text_of(made.program);
  const naive::Course free = naive::run(made.program, made.setting);
  if (draw(0, 19) != 0) made.setting.budget = std::max<std::int64_t>(1, free.peak * draw(45, 95) / 100);
  if (draw(0, 3) != 0) made.setting.repeated_limit = (free.clock - 1) * draw(5, 100) / 100;
  return made;
}

struct Tally {
  int cases = 0, evicting = 0, repeating = 0, out_of_memory = 0, thrashing = 0, banishing = 0;
  std::size_t events = 0;

  void count(const naive::Course& course) {
    const auto has = [&](const char* what) {
      return std::any_of(course.events.begin(), course.events.end(),
                         [&](const std::string& event) { return event.rfind(what, 0) == 0; });
    };
    ++cases;
    events += course.events.size();
    evicting += has("evict") ? 1 : 0;
    repeating += has("again") ? 1 : 0;
    banishing += has("banish") ? 1 : 0;
    out_of_memory += course.failure == "out of memory" ? 1 : 0;
    thrashing += course.failure == "thrashing" ? 1 : 0;
  }
};

TEST(Decisions, AreThoseOfAPlainTranscription) {
  Tally tally;
  for (std::uint64_t i = 0; i < 8000; ++i) {
    const Case tried = random_case(i);
    const naive::Course expected = naive::run(tried.program, tried.setting), found = course_of(tried);
    ASSERT_TRUE(same(found, expected)) << "case " << i << ": " << difference(found, expected) << "\n" << tried.text;
    tally.count(expected);
  }
  std::printf("%d programs, %zu events: %d evict, %d recompute, %d banish, %d run out of memory, %d thrash\n",
              tally.cases, tally.events, tally.evicting, tally.repeating, tally.banishing, tally.out_of_memory,
              tally.thrashing);
  EXPECT_GT(tally.repeating, 1500);
  EXPECT_GT(tally.out_of_memory, 100);
  EXPECT_GT(tally.thrashing, 100);
  EXPECT_GT(tally.banishing, 500);
}

#ifdef L2L_FAULT_POINTS
class DecisionsNegativeControl : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { arm_fault_point(""); }
};

TEST_P(DecisionsNegativeControl, ADecisionThatDiffersIsNoticed) {
  arm_fault_point(GetParam());
  int noticed = 0;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const Case tried = random_case(i);
    noticed += same(course_of(tried), naive::run(tried.program, tried.setting)) ? 0 : 1;
  }
  EXPECT_GT(noticed, 0);
}

INSTANTIATE_TEST_SUITE_P(Mutations, DecisionsNegativeControl,
                         ::testing::Values("dtr.first_minimum", "dtr.class_keeps_cost", "dtr.repeated_is_access"));
#endif

}  // namespace
}  // namespace l2l::compiler::remat::dtr
