#include <sentencepiece_processor.h>

#include <exception>

#include "l2l/errors.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

using sentencepiece::SentencePieceProcessor;

// Of a call that returns a status; parts of the library throw exceptions of their own.
template <typename Call>
void check(const std::string& what, const Call& call) {
  std::string failure;
  try {
    const sentencepiece::util::Status status = call();
    if (status.ok()) return;
    failure = status.ToString();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  throw BadInput(what + ": " + failure);
}

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceProcessor& processor) : processor_(processor) {}
  void encode(std::string_view text, bool, std::vector<std::int32_t>& ids) override {
    std::string valid;
    if (valid_prefix(text) != text.size()) text = valid = replace_invalid(text);
    check("SentencePiece", [&] { return processor_.Encode({text.data(), text.size()}, &found_); });
    ids.insert(ids.end(), found_.begin(), found_.end());
  }

 private:
  const SentencePieceProcessor& processor_;
  std::vector<int> found_;
};

// By SentencePiece's own library. Nothing is added around a text: such files do not say what would be.
class SentencePiece final : public Tokenizer {
 public:
  explicit SentencePiece(const std::filesystem::path& file) {
    const std::string model = read_tokenizer_file(file);
    check(file.string() + ": not a SentencePiece model", [&] {
      return processor_.LoadFromSerializedProto({model.data(), model.size()});
    });
  }
  std::int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::unique_ptr<Encoder> make_encoder() const override { return std::make_unique<SentencePieceEncoder>(processor_); }
  std::string decode(std::span<const std::int32_t> ids, bool special) const override {
    std::vector<int> shown;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= processor_.GetPieceSize()) {
        throw BadInput("token id " + std::to_string(id) + " stands for nothing in this tokenizer");
      }
      if (special || !processor_.IsControl(id)) shown.push_back(id);
    }
    std::string text;
    check("SentencePiece", [&] { return processor_.Decode(shown, &text); });
    return text;
  }

 private:
  SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file) {
  return std::make_unique<SentencePiece>(file);
}

}  // namespace l2l::text
