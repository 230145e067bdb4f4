#include "compiler/memory/ancestors.h"

#include <algorithm>

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

bool AncestorRows::done_before(const StreamProgram& program, const Storage& p, const Storage& q) const {
  if (p.lifelong || q.lifelong) return false;
  const Index producer = program.tensors[q.root].producer;
  return std::all_of(p.last.begin(), p.last.end(), [&](Index op) { return before(op, producer); });
}

}  // namespace l2l::compiler::memory
