#include "compiler/memory/search/timeline.h"

#include <algorithm>

namespace l2l::compiler::memory {

// Sweeps over time: a section is complete whenever an end follows a begin.
Timeline make_timeline(const Blocks& blocks) {
  struct Event {
    Time time;
    bool begins;  // of one time, ends first: lifetimes are half-open
    Index block;
  };
  const Problem& problem = blocks.problem();
  std::vector<Event> events;
  for (Index block = 0; block < blocks.count(); ++block) {
    const Index tensor = blocks.parts(block)[0].tensor;
    events.push_back({problem.begin[tensor], true, block});
    events.push_back({problem.end[tensor], false, block});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.begins != b.begins ? a.begins < b.begins : a.block < b.block;
  });
  Timeline line{0, std::vector<Index>(blocks.count()), std::vector<Index>(blocks.count())};
  bool grew = false;
  for (const Event& event : events) {
    if (!event.begins && grew) ++line.sections;
    grew = event.begins;
    (event.begins ? line.begin : line.end)[event.block] = static_cast<Index>(line.sections);
  }
  return line;
}

}  // namespace l2l::compiler::memory
