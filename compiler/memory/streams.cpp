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

Lowered lower(const StreamProgram& program) {
  const OpOrder order(program);
  Storages storages = storages_of(program, order);
  Lowered lowered{{program.streams, program.alignment, {}, {}, {}, {}}, std::move(storages.of_tensor)};
  Problem& problem = lowered.problem;
  for (const Storage& storage : storages.all) {
    const StreamTensor& root = program.tensors[storage.root];
    problem.tensors.push_back({root.name, storage.size, storage.offset});
    std::vector<Time> begin(program.streams, 0), end(program.streams, 0);
    if (!storage.lifelong) begin.assign(order.done(root.producer).begin(), order.done(root.producer).end());
    for (std::size_t s = 0; s < program.streams; ++s) end[s] = storage.lifelong ? order.count(s) + 1 : begin[s];
    for (const Index op : storage.last) {
      Time& time = end[program.ops[op]];
      time = std::max(time, order.place(op) + 1);
    }
    problem.begin.insert(problem.begin.end(), begin.begin(), begin.end());
    problem.end.insert(problem.end.end(), end.begin(), end.end());
  }
  for (const std::vector<Index>& group : program.groups) {
    std::vector<Index>& members = problem.groups.emplace_back();
    for (const Index t : group) {
      if (t >= program.tensors.size()) throw BadInput("planner: a group names tensor " + std::to_string(t));
      if (program.tensors[t].in_place_of) {
        throw BadInput("planner: tensor '" + program.tensors[t].name + "' is in a group, and in place of another");
      }
      members.push_back(lowered.of_tensor[t]);
    }
  }
  return lowered;
}

}  // namespace l2l::compiler::memory
