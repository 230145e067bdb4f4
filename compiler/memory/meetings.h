// Which tensors of a list are alive at once.
#pragma once

#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Places in the list: those that meet place i are others[starts[i]] up to others[starts[i + 1]], in ascending order.
struct Meetings {
  std::vector<std::size_t> starts = {0};
  std::vector<Index> others = {};
};

// Sorts by begin, of equals the earlier tensor first: what meetings_of() wants of one stream.
void sort_by_begin(const Problem& problem, std::vector<Index>& tensors);

// `tensors` are alive. One stream: a sweep, in time of the sort and the answer. Several: a clock test for each pair.
Meetings meetings_of(const Problem& problem, const std::vector<Index>& tensors);

// How many pairs of them meet, without the list; of one stream in the time of a sort.
std::uint64_t count_meetings(const Problem& problem, const std::vector<Index>& tensors);

// All tensors that are alive, sorted by begin.
std::vector<Index> living(const Problem& problem);

}  // namespace l2l::compiler::memory
