#include "runtime/data/tokenized_files.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>

#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "l2l/errors.h"
#include "text/tokenizer.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMostCached = Bytes{64} << 30;

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return fs::path(value != nullptr ? value : "");
  };
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "l2l/tokens";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache/l2l/tokens";
  throw BadInput("data.tokenizer: there is no place to keep tokens in: set XDG_CACHE_HOME or HOME");
}

std::string read_whole(const DataFile& file) {
  const InputFile input(file.path);
  if (input.bytes() != file.bytes) throw BadInput(file.path.string() + ": changed while it was read");
  return input.text();
}

template <typename Id>
void write_ids(OutputFile& file, std::span<const std::int32_t> ids) {
  constexpr std::size_t kAtOnce = 1 << 16;
  std::vector<Id> piece;
  for (std::size_t begin = 0; begin < ids.size(); begin += kAtOnce) {
    const auto part = ids.subspan(begin, std::min(kAtOnce, ids.size() - begin));
    piece.assign(part.begin(), part.end());
    file.write(std::as_bytes(std::span(piece)));
  }
}

// Removes those that were not used for longest, but none of `used`, while all take more than kMostCached.
void trim(const fs::path& folder, const std::set<fs::path>& used) {
  struct Entry {
    fs::file_time_type time;
    Bytes bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  Bytes sum = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    entries.push_back({entry.last_write_time(ignored), entry.file_size(ignored), entry.path()});
    sum += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (sum <= kMostCached) return;
    if (used.count(entry.path) > 0 || !fs::remove(entry.path, ignored)) continue;
    sum -= entry.bytes;
  }
}

class Cache {
 public:
  Cache(const fs::path& tokenizer, const text::Tokenizer& opened)
      : tokenizer_(tokenizer),
        opened_(opened),
        hash_(to_hex(text::hash_of(tokenizer))),
        encoder_(opened.make_encoder()),
        wide_(opened.vocabulary() > 65536) {
    make_folders(folder_);
  }

  DataFile find_or_make(const DataFile& file) {
    const std::string text = read_whole(file);
    Hash64 hash;
    hash.update(std::as_bytes(std::span(text)));
    const fs::path path = folder_ / (hash_ + "-" + to_hex(hash.value()) + (wide_ ? ".u32" : ".u16"));
    if (is_there(path)) {
      std::error_code ignored;
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
    } else {
      make(file, text, path);
    }
    used_.insert(path);
    return {path, InputFile(path).bytes(), file.path};
  }

  void trim() const { runtime::trim(folder_, used_); }

 private:
  void make(const DataFile& file, const std::string& text, const fs::path& path) {
    log(LogLevel::info, "tokenizing " + file.path.string() + " (" + format_bytes(file.bytes) + ")");
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::int32_t> ids;
    try {
      encoder_->encode(text, /*special=*/true, ids);
    } catch (const BadInput& error) {
      throw BadInput(file.path.string() + ": " + error.what());
    }
    const fs::path unfinished = path.string() + ".tmp-" + std::to_string(getpid());
    OutputFile output(unfinished);
    wide_ ? write_ids<std::uint32_t>(output, ids) : write_ids<std::uint16_t>(output, ids);
    output.finish();
    fs::rename(unfinished, path);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    char speed[64];
    std::snprintf(speed, sizeof speed, "%.1f MB/s", 1e-6 * static_cast<double>(file.bytes) / seconds.count());
    log(LogLevel::info, std::to_string(ids.size()) + " tokens of " + tokenizer_.string() + ", " + speed + ", kept in " +
                            folder_.string());
  }

  const fs::path folder_ = cache_folder(), tokenizer_;
  const text::Tokenizer& opened_;
  const std::string hash_;
  const std::unique_ptr<text::Encoder> encoder_;
  const bool wide_;
  std::set<fs::path> used_;
};

std::unique_ptr<text::Tokenizer> open(const fs::path& tokenizer) {
  try {
    return text::open_tokenizer(tokenizer);
  } catch (const BadInput& error) {
    throw BadInput(std::string("data.tokenizer: ") + error.what());
  }
}

}  // namespace

DataFiles tokenized(const DataFiles& texts, const fs::path& tokenizer) {
  const std::unique_ptr<text::Tokenizer> opened = open(tokenizer);
  Cache cache(tokenizer, *opened);
  DataFiles files{texts.key, opened->vocabulary() > 65536 ? TokenFormat::tokens32 : TokenFormat::tokens, {}};
  for (const DataFile& file : texts.files) files.files.push_back(cache.find_or_make(file));
  cache.trim();
  return files;
}

}  // namespace l2l::runtime
