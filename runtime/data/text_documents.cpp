#include "runtime/data/text_documents.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <deque>

#include "base/json.h"
#include "core/choice_target.h"
#include "core/log.h"
#include "l2l/errors.h"
#include "runtime/data/glue.h"
#include "text/utf8.h"

namespace l2l::runtime {
namespace {

constexpr Bytes kMostText = Bytes{4} << 30;    // of a document that is a file, or a part of one
constexpr Bytes kMostLine = Bytes{256} << 20;  // of JSON Lines and tables
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// A row with a label is one, also without a text.
bool is_nothing(const TextDocument& document) { return document.text.empty() && document.label == kNoLabel; }

// What a file calls something, for a message: not long, in UTF-8, without control characters.
std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 80;
  std::string_view rest = name.substr(0, kMost);
  if (rest.size() < name.size()) rest = rest.substr(0, text::finished_prefix(rest));
  std::string result;
  while (true) {
    const std::size_t valid = text::valid_prefix(rest);
    result += rest.substr(0, valid);
    if (valid == rest.size()) break;
    result += '?';
    rest.remove_prefix(valid + 1);
  }
  const auto is_control = [](unsigned char letter) { return letter < ' ' || letter == 0x7f; };
  std::replace_if(result.begin(), result.end(), is_control, '?');
  return name.size() > kMost ? result + "..." : result;
}

std::string list_of_names(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    if (list.size() < 200) list += (list.empty() ? "\"" : ", \"") + shown(name) + "\"";
  }
  return list;
}

class TextFile final : public DocumentReader {
 public:
  TextFile(const std::filesystem::path& file, const TextSettings& settings) : stream_(file), settings_(settings) {}

  bool next(TextDocument& document) override {
    document = {};
    while (document.text.empty()) {
      if (at_end_) return false;
      ++number_;
      if (settings_.separator.empty()) {
        document.text = stream_.rest(kMostText);
        at_end_ = true;
      } else {
        document.text = part();
      }
    }
    return true;
  }
  std::string where() const override {
    const std::string file = stream_.file().string();
    return settings_.separator.empty() ? file : file + ": document " + std::to_string(number_);
  }
  Bytes consumed() const override { return stream_.consumed(); }

 private:
  // Up to the next separator.
  std::string part() {
    while (true) {
      const std::size_t overlap = std::min(settings_.separator.size(), searched_ - begin_);
      const std::size_t found = ahead_.find(settings_.separator, searched_ - overlap);
      if (found != std::string::npos) {
        std::string text = ahead_.substr(begin_, found - begin_);
        begin_ = searched_ = found + settings_.separator.size();
        return text;
      }
      ahead_.erase(0, begin_);
      begin_ = 0;
      searched_ = ahead_.size();
      if (ahead_.size() > kMostText) throw BadInput(where() + ": is longer than " + format_bytes(kMostText));
      const std::size_t before = ahead_.size();
      ahead_.resize(before + stream_.window());
      const std::size_t count = stream_.read(std::span(ahead_).subspan(before));
      ahead_.resize(before + count);
      if (count > 0) continue;
      at_end_ = true;
      return std::move(ahead_);
    }
  }

  formats::TextStream stream_;
  const TextSettings& settings_;
  std::string ahead_;         // read ahead
  std::size_t begin_ = 0;     // of what is not yet handed out
  std::size_t searched_ = 0;  // from `begin_` up to here there is no separator
  bool at_end_ = false;
  std::uint64_t number_ = 0;
};

// Rows of one line each.
class Lines : public DocumentReader {
 public:
  Lines(const std::filesystem::path& file, const TextSettings& settings) : stream_(file), settings_(settings) {}

  std::string where() const override { return stream_.file().string() + ": line " + std::to_string(line_); }
  Bytes consumed() const override { return stream_.consumed(); }

 protected:
  // The next line; false at the end.
  bool read_line(std::string& line) {
    if (!stream_.read_line(line, kMostLine)) return false;
    if (lines_ == 0 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    line_ = ++lines_;
    return true;
  }
  // One more line of the same row.
  bool read_further_line(std::string& line) { return stream_.read_line(line, kMostLine) && ++lines_ > 0; }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw BadInput(where() + ": " + reason,
                   {.file = stream_.file().string(), .field = "line " + std::to_string(line_), .key = {}});
  }

  void set_completion(const std::string& prompt, const std::string& completion, TextDocument& document) const {
    if (settings_.learn == Learn::assistant) {
      refuse("is prompt and completion, but data.learn = \"assistant\" learns from \"messages\"");
    }
    document.text = prompt + completion;
    document.first = prompt.size();
    document.is_pair = settings_.token_types > 0;
  }
  // `value`: as the file has it, in `field`.
  std::int32_t label_of(std::string_view value, const std::string& field) const {
    return settings_.head == models::HeadKind::regression ? number_of(value, field) : class_of(value, field);
  }
  void require_text_is_learnt() const {
    if (settings_.learn == Learn::all) return;
    refuse(std::string("is a text, of which data.learn = \"") +
           (settings_.learn == Learn::completion ? "completion" : "assistant") + "\" would learn nothing");
  }

  [[noreturn]] void refuse_label(std::string_view value, const std::string& field, const std::string& wanted) const {
    refuse("\"" + field + "\" is \"" + shown(value) + "\", not " + wanted);
  }

  formats::TextStream stream_;
  const TextSettings& settings_;

 private:
  template <typename Number>
  static std::optional<Number> parsed(std::string_view value) {
    Number number{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
    return number;
  }

  std::int32_t class_of(std::string_view value, const std::string& field) const {
    const std::vector<std::string>& names = settings_.label_names;
    const auto named = std::find(names.begin(), names.end(), value);
    if (named != names.end()) return static_cast<std::int32_t>(named - names.begin());
    const std::optional<std::int32_t> number = parsed<std::int32_t>(value);
    if (number && *number >= 0 && *number < settings_.labels) return *number;
    std::string known;
    for (const std::string& name : names) {
      if (known.size() < 200) known += (known.empty() ? ", \"" : "\", \"") + name;
    }
    refuse_label(value, field,
                 "a class from 0 to " + std::to_string(settings_.labels - 1) + (known.empty() ? "" : known + "\"") +
                     " (model.labels = " + std::to_string(settings_.labels) + ")" +
                     (known.empty() && !number ? "; name the classes in model.label_names" : ""));
  }

  // Its bits in fp32.
  std::int32_t number_of(std::string_view value, const std::string& field) const {
    const std::optional<float> number = parsed<float>(value);
    if (!number || !std::isfinite(*number)) refuse_label(value, field, "a number");
    return std::bit_cast<std::int32_t>(*number);
  }

  std::uint64_t lines_ = 0, line_ = 0;  // read; the one at which the row began
};

class JsonLines final : public Lines {
 public:
  using Lines::Lines;

  bool next(TextDocument& document) override {
    if (!choices_.empty()) {
      document = std::move(choices_.front());
      choices_.pop_front();
      return true;
    }
    std::string line;
    do {
      do {
        if (!read_line(line)) return false;
      } while (line.find_first_not_of(" \t\r") == std::string::npos);
      document = {};
      take(line, document);
    } while (is_nothing(document));
    return true;
  }

 private:
  void take(const std::string& line, TextDocument& document) {
    const nlohmann::json row = parse_json(line);
    if (row.is_discarded()) refuse(why_discarded(line, "is not JSON in UTF-8"));
    if (!row.is_object()) refuse("is not a JSON object");
    if (settings_.head == models::HeadKind::tokens) return take_words(row, document);
    if (settings_.head == models::HeadKind::choice) return take_choices(row, document);
    if (!settings_.label.empty()) document.label = take_label(row);
    const std::vector<std::string>& columns = settings_.columns;
    if (columns.size() == 2) return take_completion(row, columns[0], columns[1], document);
    if (columns.size() == 1) return take_text(row, columns[0], document);
    if (row.contains("messages")) return take_chat(row, document);
    if (row.contains("prompt")) return take_completion(row, "prompt", "completion", document);
    if (row.contains("text")) return take_text(row, "text", document);
    std::vector<std::string> names;
    for (const auto& [name, value] : row.items()) names.push_back(name);
    refuse("has none of \"text\", \"prompt\" with \"completion\", \"messages\"; it has " +
           (names.empty() ? "nothing" : list_of_names(names)) + "; name the column of the text by data.columns");
  }

  std::int32_t take_label(const nlohmann::json& row) const {
    const auto value = row.find(settings_.label);
    if (value == row.end()) {
      std::vector<std::string> names;
      for (const auto& [name, ignored] : row.items()) names.push_back(name);
      refuse("has no \"" + settings_.label + "\" among " + list_of_names(names) + "; set data.label");
    }
    return label_of(text_of(*value), settings_.label);
  }

  static std::string text_of(const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : json_text(value);
  }

  const nlohmann::json& list_of(const nlohmann::json& row, const std::string& field) const {
    const auto value = row.find(field);
    if (value == row.end()) refuse("has no \"" + field + "\"");
    if (!value->is_array()) refuse("\"" + field + "\" is not a list");
    return *value;
  }

  // Words and their classes.
  void take_words(const nlohmann::json& row, TextDocument& document) const {
    const std::string words = settings_.columns.empty() ? "tokens" : settings_.columns[0];
    const std::string& tags = settings_.label;
    const nlohmann::json &all = list_of(row, words), &classes = list_of(row, tags);
    if (all.size() != classes.size()) {
      refuse("\"" + words + "\" has " + std::to_string(all.size()) + " words, \"" + tags + "\" has " +
             std::to_string(classes.size()));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].is_string()) refuse("\"" + words + "\": word " + std::to_string(i + 1) + " is not a string");
      document.words.push_back(all[i].get<std::string>());
      document.text += document.words.back();
      document.tags.push_back(label_of(text_of(classes[i]), tags));
    }
  }

  // A document for each choice, of which the first is taken.
  void take_choices(const nlohmann::json& row, TextDocument& document) {
    const bool named = settings_.columns.size() == 2;
    const std::string context = named ? settings_.columns[0] : "context",
                      field = named ? settings_.columns[1] : "choices";
    const std::string& label = settings_.label;
    const nlohmann::json& list = list_of(row, field);
    if (list.size() < 2 || list.size() > kMostChoices) {
      refuse("\"" + field + "\" has " + std::to_string(list.size()) + " choices, not 2 to " +
             std::to_string(kMostChoices));
    }
    const auto right = row.find(label);
    if (right == row.end()) refuse("has no \"" + label + "\"");
    if (!right->is_number_unsigned() || right->get<std::uint64_t>() >= list.size()) {
      refuse_label(text_of(*right), label, "a choice from 0 to " + std::to_string(list.size() - 1));
    }
    const auto choices = static_cast<std::int32_t>(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].is_string() || list[i].get<std::string>().empty()) {
        refuse("\"" + field + "\": choice " + std::to_string(i) + " is no text");
      }
      TextDocument choice;
      set_completion(string_of(row, context), list[i].get<std::string>(), choice);
      choice.label = i == 0 ? choice_target(choices, right->get<std::int32_t>()) : kFurtherChoice;
      choices_.push_back(std::move(choice));
    }
    document = std::move(choices_.front());
    choices_.pop_front();
  }

  std::string string_of(const nlohmann::json& row, const std::string& field) const {
    const auto value = row.find(field);
    if (value == row.end()) refuse("has no \"" + field + "\"");
    if (!value->is_string()) refuse("\"" + field + "\" is not a string");
    return value->get<std::string>();
  }

  void take_text(const nlohmann::json& row, const std::string& field, TextDocument& document) const {
    require_text_is_learnt();
    document.text = string_of(row, field);
  }

  void take_completion(const nlohmann::json& row, const std::string& prompt, const std::string& completion,
                       TextDocument& document) const {
    set_completion(string_of(row, prompt), string_of(row, completion), document);
  }

  void take_chat(const nlohmann::json& row, TextDocument& document) {
    if (settings_.learn == Learn::completion) {
      refuse("is a conversation, of which data.learn = \"completion\" would learn nothing: use \"assistant\"");
    }
    const nlohmann::json& list = row.at("messages");
    if (!list.is_array() || list.empty()) refuse("\"messages\" is not a list of messages");
    std::vector<Message> messages;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string name = "message " + std::to_string(i + 1);
      if (!list[i].is_object()) refuse(name + " is not an object");
      for (const char* const field : {"role", "content"}) {
        const auto value = list[i].find(field);
        if (value == list[i].end() || !value->is_string()) refuse(name + " has no string \"" + field + "\"");
      }
      messages.push_back({list[i].at("role").get<std::string>(), list[i].at("content").get<std::string>()});
    }
    if (!template_) template_.emplace(settings_.chat_template, settings_.tokenizer);
    RenderedChat chat;
    try {
      chat = template_->render(messages);
    } catch (const BadInput& error) {
      refuse(error.what());
    }
    document.text = std::move(chat.text);
    document.learnt = std::move(chat.of_assistant);
    document.is_chat = true;
  }

  std::optional<ChatTemplate> template_;
  std::deque<TextDocument> choices_;  // of the question that was read last, not handed out yet
};

// CSV as in RFC 4180; TSV without quotes, as GLUE's files are. The first row names the columns, but for
// GlueTask::header.
class Table final : public Lines {
 public:
  Table(const std::filesystem::path& file, const TextSettings& settings)
      : Lines(file, settings), task_(glue_task(settings.task)) {}

  ~Table() override {
    if (skipped_ == 0) return;
    log(LogLevel::warning, stream_.file().string() + ": " + std::to_string(skipped_) +
                               " rows lack columns, as this task's files do, and are left out");
  }

  bool next(TextDocument& document) override {
    if (fields_ == 0 && !read_header()) return false;
    std::vector<std::string> row;
    do {
      do {
        if (!read_row(row)) return false;
      } while ((row.size() == 1 && row[0].empty()) || skips(row));
      if (row.size() != fields_) {
        refuse("has " + std::to_string(row.size()) + " columns; the header names " + std::to_string(fields_));
      }
      document = {};
      if (places_.size() == 2) {
        set_completion(row[places_[0]], row[places_[1]], document);
      } else {
        require_text_is_learnt();
        document.text = row[places_[0]];
      }
      if (label_place_) document.label = label_of(row[*label_place_], settings_.label);
    } while (is_nothing(document));
    return true;
  }

 private:
  bool skips(const std::vector<std::string>& row) {
    if (task_ == nullptr || !task_->skips_short_rows || row.size() >= fields_) return false;
    ++skipped_;
    return true;
  }

  bool read_header() {
    std::vector<std::string> names;
    if (task_ != nullptr && !task_->header.empty()) {
      names.assign(task_->header.begin(), task_->header.end());
    } else if (!read_row(names)) {
      return false;
    }
    fields_ = names.size();
    std::vector<std::string> wanted = settings_.columns;
    if (wanted.empty()) wanted = {fields_ == 1 ? names[0] : "text"};
    for (const std::string& name : wanted) places_.push_back(place_of(name, names, "data.columns"));
    if (!settings_.label.empty()) label_place_ = place_of(settings_.label, names, "data.label");
    return true;
  }

  std::size_t place_of(const std::string& name, const std::vector<std::string>& names, const char* key) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      refuse("there is no column \"" + name + "\" among " + list_of_names(names) + "; set " + key);
    }
    if (std::find(found + 1, names.end(), name) != names.end()) {
      refuse("two columns are named \"" + name + "\"; rename one of them");
    }
    return static_cast<std::size_t>(found - names.begin());
  }

  bool read_row(std::vector<std::string>& row) {
    row.clear();
    std::string line;
    if (!read_line(line)) return false;
    if (settings_.kind == TextKind::tsv) {
      for (std::size_t begin = 0; begin <= line.size();) {
        const std::size_t end = std::min(line.find('\t', begin), line.size());
        row.push_back(line.substr(begin, end - begin));
        begin = end + 1;
      }
      return true;
    }
    for (std::size_t at = 0; at <= line.size();) at = read_field(line, at, row.emplace_back());
    return true;
  }

  // From `at` on; returns the place behind the comma that ends it, or behind the end of the line.
  std::size_t read_field(std::string& line, std::size_t at, std::string& field) {
    if (at == line.size() || line[at] != '"') {
      const std::size_t end = std::min(line.find(',', at), line.size());
      field = line.substr(at, end - at);
      return end + 1;
    }
    while (true) {
      const std::size_t quote = line.find('"', ++at);
      if (quote == std::string::npos) {
        field += line.substr(at);
        field += stream_.line_end();
        if (field.size() > kMostLine || !read_further_line(line)) refuse("a field in quotes does not end");
        at = static_cast<std::size_t>(-1);  // incremented at the beginning of the loop
        continue;
      }
      field += line.substr(at, quote - at);
      at = quote + 1;
      if (at == line.size() || line[at] == ',') return at + 1;
      if (line[at] != '"') refuse("there is text behind the quotes of a field");
      field += '"';
    }
  }

  const GlueTask* const task_;
  std::size_t fields_ = 0;
  std::uint64_t skipped_ = 0;
  std::vector<std::size_t> places_;         // of the columns that are read
  std::optional<std::size_t> label_place_;  // and of the class
};

}  // namespace

TextKind text_kind_of(std::filesystem::path file) {
  if (file.extension() == ".gz" || file.extension() == ".zst") file.replace_extension();
  const std::string ending = file.extension().string();
  if (ending == ".jsonl" || ending == ".ndjson") return TextKind::jsonl;
  if (ending == ".csv") return TextKind::csv;
  return ending == ".tsv" ? TextKind::tsv : TextKind::text;
}

std::unique_ptr<DocumentReader> read_documents(const std::filesystem::path& file, const TextSettings& settings) {
  if (settings.kind == TextKind::text) return std::make_unique<TextFile>(file, settings);
  if (settings.kind == TextKind::jsonl) return std::make_unique<JsonLines>(file, settings);
  return std::make_unique<Table>(file, settings);
}

}  // namespace l2l::runtime
