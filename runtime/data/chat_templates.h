// Conversations as one text, in the way of the common model families ("chat templates" of Hugging Face's transformers).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace l2l::runtime {

struct Message {
  std::string role, content;
};

// A part of a text, in bytes.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

struct RenderedChat {
  std::string text;                     // its special tokens included
  std::vector<TextRange> of_assistant;  // what the assistant says, to the end of each of its turns
};

// Immutable.
class ChatTemplate {
 public:
  // "chatml", "llama3", "mistral", "gemma" or "zephyr"; or "auto": the one of these that tokenizer_config.json or
  // chat_template.jinja beside `tokenizer` holds, which is a file or a directory. The texts of the tokens that begin
  // and end a text come from there, too. Throws BadInput for any other, naming what to do.
  ChatTemplate(std::string_view name, const std::filesystem::path& tokenizer);

  const std::string& name() const { return name_; }
  // Throws BadInput for a role, or an order of roles, that the template does not take.
  RenderedChat render(const std::vector<Message>& messages) const;
  // A conversation that the assistant is to continue: the messages, then what its turn begins with. Throws as render().
  std::string prompt(const std::vector<Message>& messages) const;
  // The text of the token with which the assistant's turn ends.
  const std::string& end_of_turn() const;

 private:
  std::string name_, begin_, end_;  // of a text
};

// The text of a token of tokenizer_config.json beside `tokenizer`, such as "eos_token"; empty: it names none.
std::string special_token(const std::filesystem::path& tokenizer, const char* key);

// The files beside `tokenizer` that the above read, as one text; empty: there are none.
std::string settings_beside(const std::filesystem::path& tokenizer);

}  // namespace l2l::runtime
