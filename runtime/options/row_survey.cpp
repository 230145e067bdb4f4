#include "runtime/options/row_survey.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/json.h"
#include "core/files.h"
#include "core/philox.h"
#include "formats/text_stream.h"
#include "l2l/errors.h"
#include "runtime/data/find_sources.h"

namespace l2l::runtime {
namespace {

using nlohmann::json;

constexpr Bytes kMostLine = Bytes{256} << 20;
constexpr std::size_t kMostClasses = 1000;  // that are told apart by name
constexpr std::size_t kMostNumbers = 50;    // different whole numbers that are taken for classes
constexpr std::size_t kMostRoles = 8;       // that are told of
constexpr std::uint64_t kOneOf = 20;        // rows is held out

struct Kind {
  RowKind kind;
  std::vector<std::string> members;
  std::string learnt;  // the member of which nothing is learnt where it is empty; may be none
};

// The first whose members a row has.
const Kind kKinds[] = {{RowKind::chat, {"messages"}, ""},
                       {RowKind::completion, {"prompt", "completion"}, "completion"},
                       {RowKind::words, {"tokens", "tags"}, "tokens"},
                       {RowKind::choices, {"context", "choices", "label"}, ""},
                       {RowKind::classified, {"text", "label"}, "text"},
                       {RowKind::text, {"text"}, "text"}};

bool has(const json& row, const Kind& kind) {
  return std::all_of(kind.members.begin(), kind.members.end(),
                     [&](const std::string& name) { return row.contains(name); });
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : json_text(value); }

// Of a text, or of a list of words.
bool is_empty(const json& value) {
  if (value.is_array()) return std::all_of(value.begin(), value.end(), is_empty);
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

class Survey {
 public:
  explicit Survey(const std::filesystem::path& file) : stream_(file) {}

  RowSurvey run() {
    refuse_utf16(stream_.file());
    for (std::string line; stream_.read_line(line, kMostLine);) {
      ++line_;
      if (line.find_first_not_of(" \t\r") != std::string::npos) add(line);
    }
    if (found_.rows == 0) throw BadInput(stream_.file().string() + ": has no rows");
    if (found_.kind == RowKind::classified || found_.kind == RowKind::words) name_classes();
    return std::move(found_);
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw BadInput(stream_.file().string() + ": line " + std::to_string(line_) + ": " + reason);
  }

  // Of a line that is no object.
  std::string way_out(const std::string& line) const {
    const std::string trimmed = line.substr(line.find_first_not_of(" \t\r"));
    if (trimmed[0] == '[' || trimmed == "{" || trimmed == "{\r") {
      return "; each row is a line: of a list, jq -c '.[]' FILE makes that; of other JSON, jq -c . FILE";
    }
    if (trimmed[0] == '{') {
      const bool names_number = line.find("NaN") != line.npos || line.find("Infinity") != line.npos;
      return names_number ? " (NaN and Infinity are not JSON)" : "";
    }
    return found_.rows == 0 ? "; tables and plain text are for a config: data.train, data.label" : "";
  }

  void add(const std::string& line) {
    const json row = parse_json(line);
    if (row.is_discarded() || !row.is_object()) {
      refuse("is not a JSON object in UTF-8" + way_out(line));
    }
    if (kind_ == nullptr) choose_kind(row);
    for (const std::string& name : kind_->members) {
      if (!row.contains(name)) refuse("has no \"" + name + "\", as the first row has");
    }
    if (found_.kind == RowKind::classified) count(row.at("label"), "label");
    if (found_.kind == RowKind::words) count_tags(row.at("tags"));
    if (found_.kind == RowKind::chat ? lacks_assistant(row.at("messages")) : lacks_text(row)) ++found_.empty;
    ++found_.rows;
  }

  bool lacks_text(const json& row) const { return !kind_->learnt.empty() && is_empty(row.at(kind_->learnt)); }

  // False of what is no list of messages, which is refused when documents are made of it.
  bool lacks_assistant(const json& messages) {
    std::vector<std::string> roles;
    for (const json& message : messages) {
      const auto role = message.is_object() ? message.find("role") : message.end();
      if (role == message.end() || !role->is_string()) return false;
      roles.push_back(role->get<std::string>().substr(0, 40));
    }
    if (roles.empty() || std::find(roles.begin(), roles.end(), "assistant") != roles.end()) return false;
    for (const std::string& role : roles) {
      const bool known = std::ranges::find(found_.roles, role) != found_.roles.end();
      if (!known && found_.roles.size() < kMostRoles) found_.roles.push_back(role);
    }
    return true;
  }

  void choose_kind(const json& row) {
    for (const Kind& kind : kKinds) {
      if (kind_ == nullptr && has(row, kind)) kind_ = &kind;
    }
    if (kind_ != nullptr) {
      found_.kind = kind_->kind;
      for (const auto& [name, value] : row.items()) {
        if (std::ranges::find(kind_->members, name) == kind_->members.end()) found_.unread.push_back(name);
      }
      if (found_.kind == RowKind::text && row.contains("labels")) {
        refuse("has \"labels\" beside \"text\"; what is learned of a text is its \"label\"");
      }
      return;
    }
    std::string names;
    for (const auto& [name, value] : row.items()) {
      if (names.size() < 200) names += (names.empty() ? "\"" : ", \"") + name + "\"";
    }
    refuse(
        "has " + (names.empty() ? "nothing" : names) +
        "; rows have \"text\", also with \"label\"; \"tokens\" and \"tags\"; \"context\", \"choices\" and \"label\"; "
        "\"prompt\" and \"completion\"; or \"messages\". Other names are for a config: data.columns, data.label");
  }

  // What would be a class by mistake.
  void check_label(const json& value, const std::string& field) const {
    const auto refuse_it = [&](const std::string& reason) { refuse("\"" + field + "\" " + reason); };
    if (value.is_null()) refuse_it("is null; leave out rows without a label");
    if (value.is_structured()) refuse_it("is a list or an object, not the name of a class or a number");
    if (!value.is_string()) return;
    const std::string label = value.get<std::string>();
    if (label.empty()) refuse_it("is empty; leave out rows without a label");
    const auto is_space = [](char letter) { return letter == ' ' || (letter >= '\t' && letter <= '\r'); };
    const auto is_control = [](unsigned char letter) { return letter < ' ' || letter == 0x7f; };
    const std::string shown = "is " + json_text(json(label.substr(0, 80))) + ", which ";
    if (is_space(label.front()) || is_space(label.back())) refuse_it(shown + "begins or ends with white space");
    if (std::any_of(label.begin(), label.end(), is_control)) refuse_it(shown + "has a line break or the like in it");
  }

  void count(const json& value, const std::string& field) {
    check_label(value, field);
    const std::string label = text_of(value);
    if (labels_.size() <= kMostClasses || labels_.count(label) > 0) ++labels_[label];
    all_numbers_ = all_numbers_ && number_of(label).has_value();
    if (labels_.size() > kMostClasses && !all_numbers_) {
      refuse("\"" + field + "\": more than " + std::to_string(kMostClasses) + " different ones, which are no classes");
    }
  }

  void count_tags(const json& tags) {
    if (!tags.is_array()) refuse("\"tags\" is not a list");
    for (const json& tag : tags) count(tag, "tags");
  }

  void name_classes() {
    if (labels_.empty()) throw BadInput(stream_.file().string() + ": no row has a tag");
    if (labels_.size() < 2) {
      throw BadInput(stream_.file().string() + ": all rows have the label \"" + labels_.begin()->first +
                     "\": there is nothing to tell apart");
    }
    bool whole = all_numbers_;
    std::map<double, std::string> numbers;
    std::uint64_t largest = 0, all = 0;
    for (const auto& [label, count] : labels_) {
      const double number = whole ? *number_of(label) : 0;
      whole = whole && number == std::floor(number) && label.find_first_of(".eE") == std::string::npos;
      numbers[number] = label;
      largest = std::max(largest, count);
      all += count;
    }
    if (found_.kind == RowKind::classified && all_numbers_ && (!whole || labels_.size() > kMostNumbers)) {
      found_.kind = RowKind::scored;
      return;
    }
    found_.classes = static_cast<std::int64_t>(labels_.size());
    found_.largest_class = static_cast<double>(largest) / static_cast<double>(all);
    if (whole && numbers.begin()->first == 0 && numbers.rbegin()->first == static_cast<double>(labels_.size()) - 1) {
      return;  // they are their own numbers
    }
    if (whole) {
      for (const auto& [number, label] : numbers) found_.class_names.push_back(label);
    } else {
      for (const auto& [label, count] : labels_) found_.class_names.push_back(label);
    }
  }

  formats::TextStream stream_;
  RowSurvey found_;
  const Kind* kind_ = nullptr;
  std::map<std::string, std::uint64_t> labels_;  // how often each occurs
  bool all_numbers_ = true;
  std::uint64_t line_ = 0;
};

}  // namespace

RowSurvey survey_rows(const std::filesystem::path& file) { return Survey(file).run(); }

bool is_held_out(std::uint64_t index, std::uint64_t rows) {
  if (rows < 2 * kOneOf) return index + 1 == rows;
  // One in each twenty neighbours, so that there is one of each part of the file.
  const RngKey key{/*seed=*/0, static_cast<std::uint32_t>(index / kOneOf), 0, 0, 0};
  const std::uint64_t chosen = philox(key, static_cast<std::uint32_t>(index / kOneOf >> 32))[0] % kOneOf;
  return index % kOneOf == chosen;
}

namespace {

class Rows {
 public:
  explicit Rows(const std::filesystem::path& file) : stream_(file) {}

  // The next line that is not blank; false at the end.
  bool read(std::string& row) {
    while (stream_.read_line(row, kMostLine)) {
      if (row.find_first_not_of(" \t\r") != std::string::npos) return true;
    }
    return false;
  }

 private:
  formats::TextStream stream_;
};

std::uint64_t count_rows(const std::filesystem::path& file) {
  Rows rows(file);
  std::uint64_t count = 0;
  for (std::string row; rows.read(row);) ++count;
  return count;
}

}  // namespace

void split_rows(const std::filesystem::path& file, std::uint64_t rows, const RowParts& parts) {
  Rows all(file);
  OutputFile kept(parts.train), held(parts.validation);
  std::uint64_t index = 0;
  for (std::string row; all.read(row);) {
    row += '\n';
    (is_held_out(index++, rows) ? held : kept).write(row);
  }
  kept.finish();
  held.finish();
}

bool holds_rows(const RowParts& parts, const std::filesystem::path& file) {
  const std::uint64_t count = count_rows(parts.train) + count_rows(parts.validation);
  Rows all(file), kept(parts.train), held(parts.validation);
  std::uint64_t index = 0;
  for (std::string row, its; all.read(row); ++index) {
    if (index == count || !(is_held_out(index, count) ? held : kept).read(its) || its != row) return false;
  }
  return index == count;
}

}  // namespace l2l::runtime
