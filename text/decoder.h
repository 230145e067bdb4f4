// Decoders of tokenizer.json: tokens back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/json_reader.h"

namespace l2l::text {

// Immutable; decode() is thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // The parts of the text, from its tokens or from what another decoder made of them.
  virtual std::vector<std::string> decode(std::vector<std::string> parts) const = 0;
};

// Throws BadInput naming file and field for what is not built.
std::unique_ptr<Decoder> make_decoder(const JsonReader& json);
// Those of files that have none of their own.
std::unique_ptr<Decoder> make_byte_level_decoder();
std::unique_ptr<Decoder> make_word_piece_decoder(const std::string& prefix, bool cleanup);

}  // namespace l2l::text
