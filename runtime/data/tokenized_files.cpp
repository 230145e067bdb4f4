#include "runtime/data/tokenized_files.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "core/allocator_roles.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/host_memory.h"
#include "core/log.h"
#include "l2l/errors.h"
#include "runtime/data/cache.h"
#include "runtime/data/chat_templates.h"
#include "runtime/data/document_encoder.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr Bytes kMostCached = Bytes{64} << 30;
// Of text that is encoded at a time, and documents, which take memory of their own.
constexpr Bytes kBatch = 4 << 20;
constexpr std::size_t kDocumentsOfBatch = 1 << 14;
constexpr std::chrono::seconds kBetweenReports{5};

std::string rate_of(Bytes bytes, Clock::time_point begin) {
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB/s", 1e-6 * static_cast<double>(bytes) / seconds.count());
  return text;
}

// What the ids depend on besides texts and the tokenizer's own file.
std::string describe(const TextSettings& settings) {
  std::string text = "9 " + std::to_string(static_cast<int>(settings.kind)) + " " +
                     std::to_string(static_cast<int>(settings.learn)) + " " + settings.chat_template + " " +
                     std::to_string(settings.token_types) + " " + std::to_string(static_cast<int>(settings.head)) +
                     " " + std::to_string(settings.labels) + " " + settings.task + " " +
                     std::to_string(settings.label.size()) + settings.label + " " +
                     std::to_string(settings.separator.size()) + settings.separator;
  for (const std::string& name : settings.label_names) text += " " + std::to_string(name.size()) + name;
  for (const std::string& column : settings.columns) text += " " + std::to_string(column.size()) + column;
  const std::string beside = settings_beside(settings.tokenizer);
  if (!beside.empty()) text += " " + beside;
  return text;
}

std::uint64_t hash_of(std::string_view text) {
  Hash64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.value();
}

// A file of ids, one of the ends of documents (uint64), one of labels (DataFiles::labels, empty without) and one of the
// hashes of these, whose names follow from the first one's. None is there before finish().
class Output {
 public:
  Output(const fs::path& ids, bool wide, bool flagged)
      : path_(ids),
        ids_(unfinished(ids)),
        ends_(unfinished(ends_of(ids))),
        labels_(unfinished(labels_of(ids))),
        wide_(wide),
        flagged_(flagged) {}

  ~Output() {
    std::error_code ignored;
    for (const fs::path& path : all_of(path_)) fs::remove(unfinished(path), ignored);
  }

  static fs::path ends_of(const fs::path& ids) { return ids.string() + ".documents"; }
  static fs::path labels_of(const fs::path& ids) { return ids.string() + ".labels"; }
  static fs::path hashes_of(const fs::path& ids) { return ids.string() + ".hashes"; }
  static std::vector<fs::path> all_of(const fs::path& ids) {
    return {ids, ends_of(ids), labels_of(ids), hashes_of(ids)};
  }
  // Whether all are there as finish() left them.
  static bool is_whole(const fs::path& ids) {
    for (const fs::path& path : all_of(ids)) {
      if (!is_there(path)) return false;
    }
    return InputFile(hashes_of(ids)).text() == hashes(ids);
  }

  void add(const EncodedDocument& document) {
    if (document.ids.empty()) {
      left_out_ += document.label != kNoLabel ? 1 : 0;
      return;
    }
    wide_ ? write<std::uint32_t>(document) : write<std::uint16_t>(document);
    tokens_ += document.ids.size();
    ends_.write(std::as_bytes(std::span(&tokens_, 1)));
    labels_.write(std::as_bytes(std::span(document.tags)));
    if (document.label != kNoLabel) labels_.write(std::as_bytes(std::span(&document.label, 1)));
  }

  std::uint64_t left_out() const { return left_out_; }  // labelled documents without tokens

  std::uint64_t finish() {
    ids_.finish();
    ends_.finish();
    labels_.finish();
    move_path(unfinished(labels_of(path_)), labels_of(path_));
    move_path(unfinished(ends_of(path_)), ends_of(path_));
    move_path(unfinished(path_), path_);
    OutputFile hashes(unfinished(hashes_of(path_)));
    hashes.write(Output::hashes(path_));
    hashes.finish();
    move_path(unfinished(hashes_of(path_)), hashes_of(path_));
    return tokens_;
  }

 private:
  static std::string hashes(const fs::path& ids) {
    std::string text;
    for (const fs::path& path : {ids, ends_of(ids), labels_of(ids)}) {
      const InputFile file(path);
      text += to_hex(file.hash(0, file.bytes())) + "\n";
    }
    return text;
  }
  template <typename Id>
  void write(const EncodedDocument& document) {
    std::vector<Id> stored(document.ids.begin(), document.ids.end());
    for (std::size_t i = 0; flagged_ && i < stored.size(); ++i) {
      if (!document.learnt.empty() && !document.learnt[i]) stored[i] |= static_cast<Id>(kNotLearnt);
      if (!document.types.empty() && document.types[i] > 0) stored[i] |= static_cast<Id>(kSecondType);
    }
    ids_.write(std::as_bytes(std::span(stored)));
  }

  const fs::path path_;
  OutputFile ids_, ends_, labels_;
  const bool wide_, flagged_;
  std::uint64_t tokens_ = 0, left_out_ = 0;
};

class Cache {
 public:
  explicit Cache(const TextSettings& settings)
      : settings_(settings),
        encoder_(settings, static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))),
        flagged_(settings.learn != Learn::all || settings.token_types > 0),
        wide_(flagged_ || encoder_.vocabulary() > 65536),
        prefix_((settings.tokenizer == "bytes" ? "bytes" : to_hex(text::hash_of(settings.tokenizer))) + "-" +
                to_hex(runtime::hash_of(describe(settings)))) {
    if (cache_folder().empty()) {
      throw BadInput("data.tokenizer: there is no place to keep tokens in: set XDG_CACHE_HOME or HOME",
                     of_key("data.tokenizer"));
    }
    try {
      make_folders(folder_);
    } catch (const Error& error) {
      throw BadInput(std::string("data.tokenizer: there is no place to keep tokens in: ") + error.what() +
                         "; set XDG_CACHE_HOME to a directory that can be written",
                     of_key("data.tokenizer"));
    }
    remove_unfinished(folder_);
  }

  bool wide() const { return wide_; }
  bool flagged() const { return flagged_; }

  // The file's ids; appends what is known of its documents, the first of which begins at `begin`.
  DataFile find_or_make(const DataFile& file, std::uint64_t begin, DataFiles& all) {
    const std::uint64_t hash = remembered_hash("text\n" + file_facts(file.path), [&] {
      const InputFile input(file.path);
      return input.hash(0, input.bytes());
    });
    const fs::path path = folder_ / (prefix_ + "-" + to_hex(hash) + (wide_ ? ".u32" : ".u16"));
    const std::vector<fs::path> used = Output::all_of(path);
    if (Output::is_whole(path)) {
      std::error_code ignored;
      for (const fs::path& one : used) fs::last_write_time(one, fs::file_time_type::clock::now(), ignored);
    } else {
      if (is_there(path)) log(LogLevel::info, path.string() + ": is not as it was written: its tokens are made again");
      try {
        make(file, path);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::failure) throw;  // of the text
        throw Error(std::string(error.what()) +
                    "; tokens are kept there: make room, or set XDG_CACHE_HOME to a directory that has some");
      }
    }
    used_.insert(used.begin(), used.end());
    const InputFile ids(path), ends(Output::ends_of(path)), labels(Output::labels_of(path));
    std::vector<std::uint64_t> own(ends.bytes() / sizeof(std::uint64_t));
    ends.read(0, std::as_writable_bytes(std::span(own)));
    for (const std::uint64_t end : own) all.document_ends.push_back(begin + end);
    const std::size_t before = all.labels.size();
    all.labels.resize(before + labels.bytes() / sizeof(std::int32_t));
    labels.read(0, std::as_writable_bytes(std::span(all.labels).subspan(before)));
    return {path, ids.bytes(), file.path};
  }

  void trim() const { trim_cache(folder_, used_, kMostCached); }

 private:
  void make(const DataFile& file, const fs::path& path) {
    const std::string name = file.path.string(), size = format_bytes(file.bytes);
    log(LogLevel::info, "tokenizing " + name + " (" + size + ")");
    const Clock::time_point begin = Clock::now();
    Clock::time_point reported = begin;
    const std::unique_ptr<DocumentReader> reader = read_documents(file.path, settings_);
    Output output(path, wide_, flagged_);
    std::vector<TextDocument> documents;
    std::vector<std::string> places;
    Bytes bytes = 0, all = 0;
    const auto encode = [&] {
      std::size_t failed = 0;
      try {
        for (const EncodedDocument& document : encoder_.encode(documents, failed)) output.add(document);
      } catch (const BadInput& error) {
        const std::string place = failed < places.size() ? places[failed] : name;
        const std::string within = place.size() > name.size() + 2 ? place.substr(name.size() + 2) : "";  // "line 12"
        throw BadInput(place + ": " + error.what(), {.file = name, .field = within, .key = error.place().key});
      }
      documents.clear();
      places.clear();
      all += std::exchange(bytes, 0);
      if (Clock::now() - reported < kBetweenReports) return;
      reported = Clock::now();
      const double share =
          static_cast<double>(reader->consumed()) / static_cast<double>(std::max<Bytes>(1, file.bytes));
      const std::chrono::duration<double> spent = reported - begin;
      log(LogLevel::info, "tokenizing " + name + ": " + std::to_string(static_cast<int>(100 * share)) + "% of " + size +
                              ", " + rate_of(all, begin) + ", " +
                              std::to_string(static_cast<int>(spent.count() * (1 - share) / std::max(share, 1e-9))) +
                              " s left");
    };
    for (TextDocument document; reader->next(document);) {
      bytes += document.text.size();
      places.push_back(reader->where());
      documents.push_back(std::move(document));
      if (bytes >= kBatch || documents.size() >= kDocumentsOfBatch) encode();
    }
    encode();
    const std::uint64_t tokens = output.finish();
    if (output.left_out() > 0) {
      log(LogLevel::warning, name + ": " + std::to_string(output.left_out()) +
                                 " rows have a label, but no token of a text, and are left out");
    }
    log(LogLevel::info, std::to_string(tokens) + " tokens of " + settings_.tokenizer.string() + ", " +
                            rate_of(all, begin) + ", kept in " + folder_.string());
  }

  const TextSettings& settings_;
  DocumentEncoder encoder_;
  const bool flagged_, wide_;
  const fs::path folder_ = cache_folder() / "tokens";
  const std::string prefix_;
  std::set<fs::path> used_;
};

}  // namespace

DataFiles tokenized(const std::string& key, const std::vector<DataFile>& texts, const TextSettings& settings) {
  const RoleScope text(MemoryRole::text);
  Cache cache(settings);
  DataFiles files{key, cache.wide() ? TokenFormat::tokens32 : TokenFormat::tokens, {}};
  files.flagged = cache.flagged();
  std::uint64_t tokens = 0;
  for (const DataFile& file : texts) {
    naming_file(file.path.string(), [&] { files.files.push_back(cache.find_or_make(file, tokens, files)); });
    tokens += files.files.back().bytes / token_bytes(files.format);
  }
  cache.trim();
  release_free_memory();  // what tokenizing took is no part of the run
  return files;
}

}  // namespace l2l::runtime
