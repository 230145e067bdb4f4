#include "compiler/memory/search/search_graph.h"

#include <numeric>

#include "compiler/memory/search/cliques.h"
#include "compiler/memory/search/timeline.h"

namespace l2l::compiler::memory {
namespace {

Rows rows_of(const Timeline& line) {
  Rows rows;
  for (std::size_t block = 0; block < line.begin.size(); ++block) {
    for (Index section = line.begin[block]; section < line.end[block]; ++section) rows.values.push_back(section);
    rows.close_row();
  }
  return rows;
}

// The same relation by columns.
Rows transposed(const Rows& rows, std::size_t columns) {
  Rows result{std::vector<std::uint32_t>(columns + 1, 0), std::vector<Index>(rows.values.size())};
  for (const Index value : rows.values) ++result.begin[value + 1];
  std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
  std::vector<std::uint32_t> next(result.begin);
  for (std::size_t row = 0; row < rows.count(); ++row) {
    for (const Index value : rows[row]) result.values[next[value]++] = static_cast<Index>(row);
  }
  return result;
}

}  // namespace

Bytes SearchGraph::load(Index section) const {
  Bytes sum = 0;
  for (const Index block : sections[section]) sum += size[block];
  return sum;
}

SearchGraph make_search_graph(const Blocks& blocks, const std::function<bool()>& stop) {
  SearchGraph graph{blocks};
  for (Index block = 0; block < blocks.count(); ++block) graph.size.push_back(blocks.size(block));
  graph.in_line = blocks.problem().streams == 1;
  if (graph.in_line) {
    const Timeline line = make_timeline(blocks);
    graph.sections_of = rows_of(line);
    graph.sections = transposed(graph.sections_of, line.sections);
  } else {
    graph.sections = heavy_cliques(blocks, stop);
    graph.sections_of = transposed(graph.sections, graph.count());
  }
  return graph;
}

}  // namespace l2l::compiler::memory
