// What l2l-sample continues, and how its answers are written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "l2l/tokenizer.h"

namespace l2l::tools {

struct Prompt {
  std::string text, place;  // "prompts.jsonl: line 3"
};

// A file of prompts: with a name that ends in .jsonl or .ndjson, JSON objects with a text "prompt", one on each line,
// else a prompt on each line. Empty lines are left out. Throws BadInput naming file and line.
std::vector<Prompt> read_prompts(const std::filesystem::path& file);

// The text of --prompt: `argument`, or where that is "-", standard input without the end of its last line.
std::string prompt_of(const std::string& argument);

// The id of a text that is one token; else nothing.
std::vector<std::int32_t> token_of(const Tokenizer& tokenizer, const std::string& text);

// What has been added to a text since the last call, as its tokens come.
class TextStream {
 public:
  // `ids`: those before the first token that is added.
  TextStream(const Tokenizer& tokenizer, std::vector<std::int32_t> ids);
  // Empty where the text ends within a character, which the next tokens complete.
  std::string add(std::int32_t id);
  // What was still held back.
  std::string finish();

 private:
  std::string behind_shown(const std::string& text);

  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;
  std::size_t shown_;
};

// The tokens behind which the model of `path` ends a text, as its directory says: generation_config.json, config.json,
// the tokenizer's eos_token. `tokenizer`: null where there is none. Throws BadInput.
std::vector<std::int32_t> stop_tokens(const std::filesystem::path& path, const Tokenizer* tokenizer);

}  // namespace l2l::tools
