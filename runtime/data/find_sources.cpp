#include "runtime/data/find_sources.h"

#include <algorithm>
#include <span>

#include "base/json.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "formats/text_stream.h"
#include "formats/token_shards.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "runtime/data/tokenized_files.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;
using formats::ShardKind;

std::optional<ShardKind> shard_kind(const std::string& format, const fs::path& file) {
  if (format == "llm.c") return ShardKind::llm_c;
  if (format == "megatron") return ShardKind::megatron;
  if (format == "npy") return ShardKind::npy;
  return format == "auto" ? formats::shard_kind(file) : std::nullopt;
}

TextKind text_kind(const std::string& format, const fs::path& file) {
  if (format == "jsonl") return TextKind::jsonl;
  if (format == "csv") return TextKind::csv;
  if (format == "tsv") return TextKind::tsv;
  return format == "auto" ? text_kind_of(file) : TextKind::text;
}

Learn learn_of(const std::string& name) {
  return name == "all" ? Learn::all : name == "completion" ? Learn::completion : Learn::assistant;
}

[[noreturn]] void refuse_mixture(const std::string& key, const fs::path& first, const fs::path& other) {
  throw BadInput(key + ": " + other.string() + " is of another kind than " + first.string() +
                 ": name files of one kind in one list");
}

// What l2l-tokenize wrote beside raw ids (docs/formats.md). Null: nothing. `is_ids`: the file is known to be one of
// ids, else what is beside it may be anything.
nlohmann::json about_shard(const fs::path& file, bool is_ids) {
  constexpr Bytes kMostBytes = Bytes{4} << 30;  // ends of documents take up to 20 bytes each
  const fs::path about = file.string() + ".json";
  if (!is_there(about)) return nullptr;
  const InputFile input(about);
  if (input.bytes() > kMostBytes) throw BadInput(about.string() + ": is too long for a description of token ids");
  nlohmann::json json = parse_json(input.text());
  if (json.is_discarded() && is_ids) {
    throw CorruptFile(about.string(), "all of it", "is no JSON in UTF-8; tokenize again, or remove this file");
  }
  return json.is_object() ? json : nlohmann::json(nullptr);
}

std::string text_of(const nlohmann::json& object, const char* field) {
  const auto value = object.find(field);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

// Of raw ids: as data.format says, or else what was written beside them.
std::optional<TokenFormat> raw_format(const std::string& format, const fs::path& file) {
  if (format == "tokens") return TokenFormat::tokens;
  if (format == "tokens32") return TokenFormat::tokens32;
  if (format != "auto") return std::nullopt;
  const nlohmann::json about = about_shard(file, file.extension() == ".bin");
  if (text_of(about, "tokenizer_hash").empty()) return std::nullopt;
  if (text_of(about, "dtype") == "uint16") return TokenFormat::tokens;
  return text_of(about, "dtype") == "uint32" ? std::optional(TokenFormat::tokens32) : std::nullopt;
}

void check_width(const fs::path& file, const std::string& dtype, TokenFormat format) {
  const bool wide = format == TokenFormat::tokens32;
  if (dtype.empty() || dtype == (wide ? "uint32" : "uint16")) return;
  throw BadInput(file.string() + ": its ids are " + dtype + ", as " + file.string() +
                     ".json says, but data.format = \"" + (wide ? "tokens32" : "tokens") + "\"; set \"auto\"",
                 of_file(file.string(), "data.format"));
}

// As l2l-tokenize writes it. Empty: a run on ids alone need not have their tokenizer.
std::string hash_of_tokenizer(const std::string& tokenizer) {
  return tokenizer == "bytes" || !is_there(tokenizer) ? "" : to_hex(text::hash_of(tokenizer));
}

// `ours`: of data.tokenizer.
void warn_of_other_tokenizer(const fs::path& file, const std::string& hash, const std::string& ours,
                             const std::string& tokenizer) {
  if (hash.empty() || ours.empty() || ours == hash) return;
  log(LogLevel::warning, file.string() + ": its ids are of another tokenizer than data.tokenizer = \"" + tokenizer +
                             "\", as tokenizer_hash in " + file.string() + ".json says");
}

// Appends, to `ends`, those of the documents of a file whose tokens begin at `begin` of the stream.
void add_ends(const DataFile& file, const nlohmann::json& list, std::uint64_t begin, std::uint64_t tokens,
              std::vector<std::uint64_t>& ends) {
  std::uint64_t before = 0;
  for (const nlohmann::json& end : list) {
    if (!end.is_number_unsigned() || end.get<std::uint64_t>() < before || end.get<std::uint64_t>() > tokens) {
      throw CorruptFile(
          file.path.string() + ".json", "document_ends",
          "are no ascending numbers up to the " + std::to_string(tokens) + " tokens of " + file.path.string());
    }
    before = end.get<std::uint64_t>();
    ends.push_back(begin + before);
  }
}

// Of a file that was cut off, or written again without what is beside it.
void check_count(const fs::path& file, const nlohmann::json& about, std::uint64_t tokens) {
  const auto count = about.find("tokens");
  if (text_of(about, "tokenizer_hash").empty() || count == about.end() || *count == tokens) return;
  throw CorruptFile(file.string() + ".json", "tokens",
                    "is " + json_text(*count) + ", but " + file.string() + " has " + std::to_string(tokens) +
                        " tokens; tokenize again, or remove " + file.string() + ".json");
}

// Checks what l2l-tokenize wrote beside raw ids, and takes the ends of documents where all files have them.
void read_about(DataFiles& data, const std::string& tokenizer) {
  std::string ours;  // found for the first file that says which tokenizer is its own
  std::uint64_t begin = 0;
  bool all = true;
  for (const DataFile& file : data.files) {
    const nlohmann::json about = about_shard(file.path, /*is_ids=*/true);
    check_width(file.path, text_of(about, "dtype"), data.format);
    const std::string hash = text_of(about, "tokenizer_hash");
    if (!hash.empty() && ours.empty()) ours = hash_of_tokenizer(tokenizer);
    warn_of_other_tokenizer(file.path, hash, ours, tokenizer);
    const auto list = about.find("document_ends");
    const std::uint64_t tokens = file.bytes / token_bytes(data.format);
    check_count(file.path, about, tokens);
    all = all && list != about.end() && list->is_array();
    if (all) add_ends(file, *list, begin, tokens, data.document_ends);
    begin += tokens;
  }
  if (!all) data.document_ends.clear();
}

DataFiles read_shards(const std::vector<DataFile>& files, ShardKind kind, const std::string& key) {
  DataFiles data{key, TokenFormat::tokens, {}};
  std::uint64_t begin = 0;
  for (const DataFile& file : files) {
    const formats::TokenShard shard = formats::read_shard(kind, file.path);
    const TokenFormat format = shard.width == 2 ? TokenFormat::tokens : TokenFormat::tokens32;
    if (!data.files.empty() && format != data.format) refuse_mixture(key, data.files[0].path, file.path);
    data.format = format;
    data.files.push_back({file.path, shard.tokens * static_cast<Bytes>(shard.width), {}, shard.begin});
    for (const std::uint64_t end : shard.document_ends) data.document_ends.push_back(begin + end);
    begin += shard.tokens;
  }
  return data;
}

bool is_text(const DataOptions& data, const fs::path& file) { return !shard_kind(data.format, file); }

// A file that was meant to be named by data.format.
void refuse_raw_ids(const DataOptions& data, const fs::path& file, const std::string& key) {
  if (data.format != "auto" || file.extension() != ".bin") return;
  throw BadInput(
      key + ": " + file.string() +
      ": has no header of llm.c, and no index of Megatron is beside it: set data.format = \"tokens\" for raw "
      "uint16, \"tokens32\" for raw uint32, or \"text\"");
}

constexpr std::size_t kBegin = 64 << 10;

// Of its text, compressed or not.
std::string beginning_of(const fs::path& file) {
  std::string begin(kBegin, ' ');
  begin.resize(formats::TextStream(file).read(begin));
  return begin;
}

// Text has no such bytes.
bool has_zeros(std::string_view begin) { return begin.find('\0') != begin.npos; }

std::string line_at(std::string_view begin, std::size_t place) {
  return "line " +
         std::to_string(1 + std::count(begin.begin(), begin.begin() + static_cast<std::ptrdiff_t>(place), '\n'));
}

// What is told of files whose text is taken as it is: of the first with bytes of 0, if `zeros`, and of the first in
// another encoding, if `encodings`, with the number of others. Those with bytes of 0 are no text in another encoding.
void warn_of_beginnings(const std::vector<DataFile>& files, const std::string& key, bool zeros, bool encodings) {
  if (!zeros && !encodings) return;
  std::string zero, other;
  std::uint64_t further = 0;
  for (const DataFile& file : files) {
    if (!encodings && !zero.empty()) break;
    const std::string begin = beginning_of(file.path);
    if (has_zeros(begin)) {
      if (zero.empty()) zero = file.path.string();
      continue;
    }
    const std::size_t valid = text::valid_prefix(begin);
    // A character may go on behind what was read.
    if (valid == begin.size() || (begin.size() == kBegin && valid == text::finished_prefix(begin))) continue;
    if (other.empty()) {
      other = file.path.string() + ": " + line_at(begin, valid);
    } else {
      ++further;
    }
  }
  if (zeros && !zero.empty()) {
    log(LogLevel::warning, zero +
                               ": is read as text, but has bytes of 0 in its first 64 KiB; if it holds token ids, set "
                               "data.format = \"tokens\" for uint16 or \"tokens32\" for uint32; convert UTF-16 to "
                               "UTF-8; if it is no text, leave it out of " +
                               key + "; data.format = \"text\" takes it as it is");
  }
  if (encodings && !other.empty()) {
    log(LogLevel::warning,
        other +
            ": is not UTF-8; bytes that are not count as U+FFFD: convert the file (iconv -f LATIN1 -t UTF-8) if it "
            "is in another encoding" +
            (further > 0 ? "; more such files: " + std::to_string(further) : ""));
  }
}

}  // namespace

void refuse_utf16(const fs::path& file) {
  const std::string name = file.string();
  std::string begin;
  try {
    begin = beginning_of(file);
  } catch (const BadInput&) {
    return;  // damaged: who reads its rows says in which
  }
  const char* const way_out = "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)";
  if (begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff")) {
    throw BadInput(name + ": is UTF-16 (it begins with a byte order mark): " + way_out, of_file(name));
  }
  if (!has_zeros(begin)) return;
  throw BadInput(name + ": " + line_at(begin, begin.find('\0')) + ": holds zero bytes, as UTF-16 does: " + way_out +
                     "; if it is no UTF-16, remove them (tr -d '\\0')",
                 of_file(name));
}

TextModel text_model(const ModelOptions& model) {
  const bool encoder = models::architecture_of(model.architecture).encoder;
  return {encoder ? model.token_types : 0, models::head_kind_of(model.head), model.labels, model.label_names};
}

TextSettings text_settings(const DataOptions& data, TextKind kind, const TextModel& model) {
  // Of raw tokens and of texts in one column none has a type.
  const bool chooses = model.head == models::HeadKind::choice;
  const bool pairs = kind != TextKind::text && (data.columns.size() == 2 || (chooses && data.tokenizer != "bytes"));
  return {kind,
          data.separator,
          data.columns,
          learn_of(data.learn),
          data.chat_template,
          data.tokenizer,
          pairs ? model.token_types : 0,
          model.head,
          model.head == models::HeadKind::language ? "" : data.label,
          model.labels,
          model.label_names,
          data.task};
}

DataFiles find_sources(const std::vector<std::string>& patterns, const DataOptions& data, const std::string& key,
                       const TextModel& model) {
  const std::vector<DataFile> files = find_files(patterns, key);
  const fs::path& first = files[0].path;
  if (const std::optional<TokenFormat> format = raw_format(data.format, first)) {
    for (const DataFile& file : files) {
      if (raw_format(data.format, file.path) != format) refuse_mixture(key, first, file.path);
    }
    DataFiles found = find_data(patterns, *format, key);
    read_about(found, data.tokenizer);
    return found;
  }
  if (const std::optional<ShardKind> kind = shard_kind(data.format, first)) {
    for (const DataFile& file : files) {
      if (shard_kind(data.format, file.path) != kind) refuse_mixture(key, first, file.path);
    }
    return read_shards(files, *kind, key);
  }
  const TextKind kind = text_kind(data.format, first);
  if (data.format == "auto" && first.extension() == ".json") {
    log(LogLevel::warning, first.string() +
                               ": is read as plain text; if each line is a JSON object, set data.format = "
                               "\"jsonl\", else \"text\"");
  }
  for (const DataFile& file : files) {
    refuse_raw_ids(data, file.path, key);
    if (!is_text(data, file.path) || text_kind(data.format, file.path) != kind) refuse_mixture(key, first, file.path);
  }
  const bool compressed = std::any_of(files.begin(), files.end(), [](const DataFile& file) {
    return formats::compression_of(file.path) != formats::Compression::none;
  });
  if (kind != TextKind::text) {
    for (const DataFile& file : files) refuse_utf16(file.path);
  }
  warn_of_beginnings(files, key, kind == TextKind::text && data.format == "auto",
                     kind != TextKind::jsonl && data.tokenizer != "bytes");
  if (kind == TextKind::text && data.learn != "all") {
    throw BadInput(key + ": " + first.string() + ": text files are learnt as a whole, but data.learn = \"" +
                       data.learn + "\"; it takes JSON Lines or tables",
                   of_file(first.string(), key));
  }
  if (kind != TextKind::jsonl && data.chat_template != "auto") {
    log(LogLevel::warning, key + ": " + first.string() + ": has no conversations, for which data.template = \"" +
                               data.chat_template + "\" would be; they are in JSON Lines");
  }
  const bool as_stored = kind == TextKind::text && data.tokenizer == "bytes" && data.separator.empty() && !compressed &&
                         data.samples != "packed" && data.samples != "padded";
  if (as_stored) return {key, TokenFormat::text, files};
  const TextSettings settings = text_settings(data, kind, model);
  if (settings.token_types > 0 && data.samples == "stream") {
    throw BadInput(
        "data.columns names two columns, whose texts are pairs, with data.samples = \"stream\", which has no "
        "documents; set \"packed\" or \"padded\"");
  }
  return tokenized(key, files, settings);
}

SampleKind sample_kind(const DataOptions& data, const DataFiles* files) {
  if (data.samples == "packed") return SampleKind::packed;
  if (data.samples == "padded") return SampleKind::padded;
  if (data.samples == "stream" || files == nullptr || files->document_ends.empty()) return SampleKind::stream;
  const fs::path& source = files->files[0].text;
  const bool rows = !source.empty() && text_kind(data.format, source) != TextKind::text;
  return rows || files->flagged || !data.separator.empty() ? SampleKind::packed : SampleKind::stream;
}

}  // namespace l2l::runtime
