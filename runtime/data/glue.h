// The tasks of GLUE (Wang et al., 2019), as their files are distributed: tables with tabs between columns, and quotes
// that mean nothing.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "l2l/options.h"

namespace l2l::runtime {

struct GlueTask {
  std::string_view name;                      // data.task
  std::string_view head;                      // model.head
  std::vector<const char*> label_names = {};  // of classes, in the order of their numbers; a file may have either
  std::vector<const char*> columns;           // of the text, or of the two of a pair
  const char* label;                          // the column of the label
  std::vector<const char*> header = {};       // names of the columns, where files have no first line with them
  bool skips_short_rows = false;              // files as distributed have rows that lack columns
};

std::span<const GlueTask> glue_tasks();
// Null for "".
const GlueTask* glue_task(std::string_view name);

// `options` with as many model.labels as model.label_names, and what data.task stands for: data.format, columns and
// label; model.head, labels and label_names. Throws BadInput naming the key where one of them is set to something else.
Options with_task(Options options);

}  // namespace l2l::runtime
