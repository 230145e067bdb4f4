// What the rows of a file of JSON Lines are made for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace l2l::runtime {

enum class RowKind : std::uint8_t { text, classified, scored, words, choices, completion, chat };

struct RowSurvey {
  RowKind kind = RowKind::text;
  std::uint64_t rows = 0;
  std::int64_t classes = 0;
  std::vector<std::string> class_names = {};  // in their order; empty where rows have the numbers 0 to classes - 1
  double largest_class = 0;                   // its share of the rows
  std::vector<std::string> unread = {};       // further members of the first row
  // Rows with nothing to learn: an empty text, completion or list of words; messages without the role "assistant".
  std::uint64_t empty = 0;
  std::vector<std::string> roles = {};  // other than "assistant": the first few of the messages of these rows
};

// Reads all rows. Throws BadInput naming file, line and field: UTF-16; a row that is no JSON object, of another kind
// than the first, or without what its kind needs; a label that is no name of a class and no number; labels of one class
// alone.
RowSurvey survey_rows(const std::filesystem::path& file);

// Whether row `index` (from 0) of `rows` is held out for validation: about one of twenty, by its place alone, and at
// least one.
bool is_held_out(std::uint64_t index, std::uint64_t rows);

struct RowParts {
  std::filesystem::path train, validation;
};

// Whether split_rows() has made the parts of this file. Throws BadInput.
bool holds_rows(const RowParts& parts, const std::filesystem::path& file);

// Copies the rows of `file`, in their order.
void split_rows(const std::filesystem::path& file, std::uint64_t rows, const RowParts& parts);

}  // namespace l2l::runtime
