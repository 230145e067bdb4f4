#include "compiler/memory/streams.h"

#include <algorithm>

#include "l2l/errors.h"

namespace l2l::compiler::memory {
namespace {

// What each op waits for: its predecessor in its stream, and events.
std::vector<std::vector<Index>> waits_of(const StreamProgram& program) {
  constexpr Index kNone = ~Index{0};
  std::vector<std::vector<Index>> waits(program.ops.size());
  std::vector<Index> latest(program.streams, kNone);
  for (Index op = 0; op < program.ops.size(); ++op) {
    if (program.ops[op] >= program.streams) {
      throw BadInput("planner: op " + std::to_string(op) + " is on stream " + std::to_string(program.ops[op]) + " of " +
                     std::to_string(program.streams));
    }
    Index& before = latest[program.ops[op]];
    if (before != kNone) waits[op].push_back(before);
    before = op;
  }
  for (const Event& event : program.events) {
    if (event.after >= program.ops.size() || event.before >= program.ops.size()) {
      throw BadInput("planner: an event from op " + std::to_string(event.after) + " to op " +
                     std::to_string(event.before) + ", of " + std::to_string(program.ops.size()) + " ops");
    }
    waits[event.before].push_back(event.after);
  }
  return waits;
}

std::vector<Index> sort_by_waits(const std::vector<std::vector<Index>>& waits) {
  std::vector<std::vector<Index>> followers(waits.size());
  std::vector<std::size_t> missing(waits.size());
  std::vector<Index> sorted;
  for (Index op = 0; op < waits.size(); ++op) {
    missing[op] = waits[op].size();
    if (missing[op] == 0) sorted.push_back(op);
    for (const Index before : waits[op]) followers[before].push_back(op);
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (const Index op : followers[sorted[i]]) {
      if (--missing[op] == 0) sorted.push_back(op);
    }
  }
  if (sorted.size() == waits.size()) return sorted;
  const auto stuck = std::find_if(missing.begin(), missing.end(), [](std::size_t count) { return count > 0; });
  throw BadInput("planner: op " + std::to_string(stuck - missing.begin()) +
                 " waits for itself, through events in a circle");
}

void check_ops(const StreamProgram& program, const OpOrder& order, const StreamTensor& tensor) {
  const auto refuse = [&](const char* is, Index op, const std::string& what) {
    throw BadInput("planner: tensor '" + tensor.name + "' is " + is + " by op " + std::to_string(op) + ", which " +
                   what);
  };
  const bool written = !tensor.lifelong;
  if (written && tensor.producer >= program.ops.size()) refuse("produced", tensor.producer, "is not there");
  for (const Index op : tensor.consumers) {
    if (op >= program.ops.size()) refuse("consumed", op, "is not there");
    if (written && op != tensor.producer && !order.before(tensor.producer, op)) {
      refuse("consumed", op, "does not wait for its producer, op " + std::to_string(tensor.producer));
    }
  }
}

}  // namespace

OpOrder::OpOrder(const StreamProgram& program)
    : streams_(program.streams), stream_of_(program.ops), counts_(program.streams, 0) {
  const std::vector<std::vector<Index>> waits = waits_of(program);
  sorted_ = sort_by_waits(waits);
  for (const std::size_t stream : program.ops) place_.push_back(counts_[stream]++);
  done_.assign(program.ops.size() * streams_, 0);
  for (const Index op : sorted_) {
    Time* const clock = done_.data() + op * streams_;
    for (const Index before : waits[op]) {
      const Time* const other = done_.data() + before * streams_;
      for (std::size_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], other[s]);
      clock[stream_of_[before]] = std::max(clock[stream_of_[before]], place_[before] + 1);
    }
  }
}

Problem lower(const StreamProgram& program) {
  const OpOrder order(program);
  Problem problem{program.streams, program.alignment, {}, {}, {}, program.groups};
  for (const StreamTensor& tensor : program.tensors) {
    check_ops(program, order, tensor);
    const Index index = problem.add({tensor.name, tensor.size}, 0, 0);
    Time *const begin = problem.begin.data() + index * program.streams, *const end = problem.end.data() +
                                                                                     index * program.streams;
    if (tensor.lifelong) {
      for (std::size_t s = 0; s < program.streams; ++s) end[s] = order.count(s) + 1;
      continue;
    }
    const std::span<const Time> done = order.done(tensor.producer);
    std::copy(done.begin(), done.end(), begin);
    std::copy(done.begin(), done.end(), end);
    const auto touch = [&](Index op) { end[program.ops[op]] = std::max(end[program.ops[op]], order.place(op) + 1); };
    touch(tensor.producer);
    std::for_each(tensor.consumers.begin(), tensor.consumers.end(), touch);
  }
  return problem;
}

}  // namespace l2l::compiler::memory
