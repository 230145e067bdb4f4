// l2l-tokenize: text to token ids, and back. One line on stdout for each text; or a shard of ids for training.
#include <charconv>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <thread>

#include "base/json.h"
#include "core/files.h"
#include "core/hash.h"
#include "formats/text_stream.h"
#include "l2l/errors.h"
#include "runtime/data/cache.h"
#include "runtime/data/text_documents.h"
#include "text/tokenizer.h"
#include "tools/command.h"
#include "tools/output_file.h"
#include "tools/token_ids.h"

namespace l2l::tools {
namespace {

using text::Tokenizer;

struct Arguments {
  std::string tokenizer, output;
  std::vector<std::string> files;
  bool decode = false, special = false, null = false;
  int threads = 0;
};

std::string read(const std::string& name) {
  if (name == "-") return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  return formats::TextStream(name).rest(std::numeric_limits<Bytes>::max());
}

// data.train reads such files row by row.
void warn_of_rows(const std::string& name) {
  if (name == "-" || runtime::text_kind_of(name) == runtime::TextKind::text) return;
  std::cerr << "warning: " << name
            << ": is tokenized as plain text, names of columns and quotes included; to train on the texts of its rows, "
               "name the file itself by data.train\n";
}

// The parts of `text` between `separator`s; one at its end belongs to the last part.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

void append_line(std::string& output, const std::vector<std::int32_t>& ids) {
  char digits[16];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) output += ' ';
    output.append(digits, std::to_chars(digits, digits + sizeof digits, ids[i]).ptr);
  }
  output += '\n';
}

// `place`: of the line, for messages.
std::string decode_line(const Tokenizer& tokenizer, std::string_view line, bool special, const std::string& place) {
  const std::vector<std::int32_t> ids = token_ids(line, place);
  try {
    return tokenizer.decode(ids, special);
  } catch (const BadInput& error) {
    throw BadInput(place + ": " + error.what());
  }
}

void decode(const Tokenizer& tokenizer, const Arguments& arguments) {
  for (const std::string& name : arguments.files) {
    const std::string lines = read(name);
    std::string output;
    std::size_t number = 0;
    for (const std::string_view line : parts_of(lines, '\n')) {
      output += decode_line(tokenizer, line, arguments.special, name + ": line " + std::to_string(++number));
      output += arguments.null ? '\0' : '\n';
    }
    std::cout << output;
  }
}

// A file of raw ids and, beside it, what they are (docs/formats.md). Neither is there before finish().
class Shard {
 public:
  Shard(const std::string& name, std::int64_t vocabulary, std::uint64_t tokenizer_hash)
      : name_(name), file_(runtime::unfinished(name_)), wide_(vocabulary > 65536) {
    about_["dtype"] = wide_ ? "uint32" : "uint16";
    about_["tokenizer_hash"] = to_hex(tokenizer_hash);
  }
  ~Shard() {
    std::error_code ignored;
    std::filesystem::remove(runtime::unfinished(name_), ignored);
  }

  void add(std::string_view text, const std::vector<std::int32_t>& ids) {
    text_hash_.update(std::as_bytes(std::span(text)));
    std::vector<std::byte> bytes(ids.size() * (wide_ ? 4 : 2));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<std::uint32_t>(ids[i]);
      for (std::size_t byte = 0; byte < (wide_ ? 4u : 2u); ++byte) {
        bytes[i * (wide_ ? 4 : 2) + byte] = static_cast<std::byte>(id >> 8 * byte & 0xff);
      }
    }
    file_.write(bytes);
    tokens_ += ids.size();
    documents_.push_back(tokens_);
  }

  void finish() {
    file_.finish();
    about_["tokens"] = tokens_;
    about_["text_hash"] = to_hex(text_hash_.value());
    about_["document_ends"] = documents_;
    replace_file(name_ + ".json", json_text(about_) + "\n");  // first: a shard without it is nobody's
    std::filesystem::rename(runtime::unfinished(name_), name_);
  }

 private:
  const std::string name_;
  OutputFile file_;
  const bool wide_;
  std::uint64_t tokens_ = 0;
  std::vector<std::uint64_t> documents_;
  Hash64 text_hash_;
  nlohmann::ordered_json about_;
};

// A shard is known by the file beside it.
void check_shard(const std::string& name) {
  const auto is_about = [](std::string_view beginning) {
    return beginning.find("\"tokenizer_hash\"") != std::string_view::npos;
  };
  check_ours(name + ".json", "--output", is_about);
  if (!std::filesystem::exists(name + ".json")) check_ours(name, "--output", [](std::string_view) { return false; });
}

void encode(const Tokenizer& tokenizer, const Arguments& arguments) {
  std::optional<Shard> shard;
  if (!arguments.output.empty()) {
    check_shard(arguments.output);
    refuse_special(arguments.output);  // renaming would replace it
    shard.emplace(arguments.output, tokenizer.vocabulary(), text::hash_of(arguments.tokenizer));
  }
  const int threads = arguments.threads > 0 ? arguments.threads : static_cast<int>(std::thread::hardware_concurrency());
  for (const std::string& name : arguments.files) {
    warn_of_rows(name);
    const std::string text = read(name);
    const std::vector<std::string_view> texts =
        arguments.null ? parts_of(text, '\0') : std::vector<std::string_view>{text};
    const std::vector<std::vector<std::int32_t>> ids = text::encode_all(tokenizer, texts, arguments.special, threads);
    std::string output;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      shard ? shard->add(texts[i], ids[i]) : append_line(output, ids[i]);
    }
    std::cout << output;
  }
  if (shard) shard->finish();
}

int tokenize(const Arguments& arguments) {
  if (arguments.decode && !arguments.output.empty()) throw BadInput("--decode writes no shard: leave --output away");
  if (arguments.decode && arguments.threads > 0) throw BadInput("--decode takes one thread: leave --threads away");
  const std::unique_ptr<Tokenizer> tokenizer = text::open_tokenizer(arguments.tokenizer);
  arguments.decode ? decode(*tokenizer, arguments) : encode(*tokenizer, arguments);
  std::cout.flush();
  return kSuccess;
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  Arguments arguments;
  Command command("l2l-tokenize", "Text to token ids, and back.", [&] { return tokenize(arguments); });
  command.add("TOKENIZER", &arguments.tokenizer,
              "a tokenizer.json, a SentencePiece .model, a vocab.txt, tiktoken's ranks, or a model directory",
              {.required = true});
  command.add("FILE", &arguments.files, "texts, also compressed by gzip or zstd; - is standard input",
              {.required = true});
  command.add("--output", &arguments.output, "write the ids to this shard, and what they are to SHARD.json");
  command.add("--decode", &arguments.decode, "the files hold lines of ids: print their text");
  command.add("--special", &arguments.special, "with the tokens that belong around a text, such as [CLS]");
  command.add("--null", &arguments.null, "texts in files, and decoded ones, end with a zero byte");
  command.add("--threads", &arguments.threads, "default: as many as there are processors", {.least = 1});
  command.add_example("l2l-tokenize models/Llama-3.2-1B books/one.txt", "prints the token ids of a text");
  command.add_example("l2l-tokenize tokenizer.json books/*.txt --output books.bin",
                      "writes the token ids of many texts to a shard, once for all");
  return command.run(argc, argv);
}
