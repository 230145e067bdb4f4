#include "tools/bench/safe_pairs.h"

#include <algorithm>

#include "compiler/memory/clock_table.h"

namespace l2l::compiler::memory {

AncestorRows::AncestorRows(const StreamProgram& program)
    : words_(program.ops.size() / 64 + 1), rows_(program.ops.size() * words_, 0) {
  std::vector<std::vector<Index>> waits(program.ops.size());
  for (const Event& event : program.events) waits[event.before].push_back(event.after);
  std::vector<Index> latest(program.streams, ~Index{0});
  for (Index op = 0; op < program.ops.size(); ++op) {
    Index& before = latest[program.ops[op]];
    if (before != ~Index{0}) waits[op].push_back(before);
    before = op;
  }
  const OpOrder order(program);  // for a sequence in which ancestors come first
  for (const Index op : order.sorted()) {
    std::uint64_t* const row = rows_.data() + op * words_;
    for (const Index before : waits[op]) {
      const std::uint64_t* const other = rows_.data() + before * words_;
      for (std::size_t w = 0; w < words_; ++w) row[w] |= other[w];
      row[before / 64] |= std::uint64_t{1} << before % 64;
    }
  }
}

bool AncestorRows::done_before(const StreamTensor& p, const StreamTensor& q) const {
  if (p.lifelong || q.lifelong || !before(p.producer, q.producer)) return false;
  return std::all_of(p.consumers.begin(), p.consumers.end(), [&](Index op) { return before(op, q.producer); });
}

std::uint64_t count_safe_pairs(const Problem& problem) {
  std::vector<Index> tensors(problem.tensors.size());
  for (Index t = 0; t < tensors.size(); ++t) tensors[t] = t;
  const ClockTable table(problem, tensors);
  ClockTable::Mask mask;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < table.count(); ++i) {
    for (std::size_t chunk = 0; chunk * ClockTable::kWidth < table.count(); ++chunk) {
      table.after(i, chunk, mask);
      const std::size_t width = std::min(ClockTable::kWidth, table.count() - chunk * ClockTable::kWidth);
      std::int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::size_t k = 0; k < width; ++k) sum += mask[k];
      count += static_cast<std::uint64_t>(-sum);
    }
  }
  return count;
}

}  // namespace l2l::compiler::memory
