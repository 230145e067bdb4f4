// Documents of text: files as a whole or in parts, JSON Lines, tables.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/text_stream.h"
#include "models/shape.h"
#include "runtime/data/chat_templates.h"
#include "runtime/data/data_files.h"

namespace l2l::runtime {

enum class TextKind : std::uint8_t { text, jsonl, csv, tsv };

// By the file's name, without an ending of compression: .jsonl or .ndjson, .csv, .tsv; any other is text.
TextKind text_kind_of(std::filesystem::path file);

// What is predicted of a document: all of it; the completion to a prompt; what the assistant says.
enum class Learn : std::uint8_t { all, completion, assistant };

struct TextSettings {
  TextKind kind = TextKind::text;
  std::string separator = {};  // between documents of a text; empty: a file is one document
  std::vector<std::string> columns =
      {};  // of JSON Lines and tables: that of the text, or those of prompt and completion
  Learn learn = Learn::all;
  std::string chat_template = "auto";  // as in ChatTemplate
  std::filesystem::path tokenizer = {};
  // Of models that tell the two texts of a pair by token types: how many there are. 0: two texts are prompt and
  // completion.
  std::int64_t token_types = 0;
  // What the head learns of JSON Lines and tables: the column of the label, classes (0 to labels - 1), and their names,
  // by which files may call them.
  models::HeadKind head = models::HeadKind::language;
  std::string label = {};
  std::int64_t labels = 0;
  std::vector<std::string> label_names = {};
  std::string task = {};  // of GLUE, whose tables have ways of their own (glue.h)
};

struct TextDocument {
  std::string text;
  std::size_t first = 0;  // bytes of the text that are the first of a pair, or the prompt of a completion
  bool is_pair = false;
  std::int32_t label = kNoLabel;  // as in DataFiles::labels
  // Of text that is told apart word by word; of each its class.
  std::vector<std::string> words = {};
  std::vector<std::int32_t> tags = {};
  bool is_chat = false;                // the text has its special tokens
  std::vector<TextRange> learnt = {};  // of a chat: what the assistant says
};

// Thread-bound. Errors are BadInput naming file, line (from 1) and field.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // The next document that has a text or a label; false at the end.
  virtual bool next(TextDocument& document) = 0;
  // Where the last one began, for messages: "FILE: line 12".
  virtual std::string where() const = 0;
  virtual Bytes consumed() const = 0;  // of the file
};

// `settings` must outlive the reader.
std::unique_ptr<DocumentReader> read_documents(const std::filesystem::path& file, const TextSettings& settings);

}  // namespace l2l::runtime
