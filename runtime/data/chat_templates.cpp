#include "runtime/data/chat_templates.h"

#include <array>
#include <span>

#include "base/json.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "l2l/errors.h"
#include "models/hub/config_reader.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kNames = {"chatml", "llama3", "mistral", "gemma", "zephyr"};

// Templates as the model families publish them, and as TRL's training variants of them mark what is learnt: their
// fingerprints, by tools/compare/chat_template_hash.py.
struct Known {
  std::uint64_t hash;
  std::string_view name;
};
constexpr Known kKnown[] = {
    {0x39aefe694abca367, "chatml"}, {0x2b6d00dd86d5232c, "llama3"}, {0xb3d2b1dfeb89488c, "llama3"},
    {0x0ef94e08fb502917, "gemma"},  {0x3b525e36595d4f8b, "gemma"},  {0x924be9f5d1db81df, "mistral"},
    {0xe49d83bba46a579a, "zephyr"},
};

constexpr Bytes kMostBytes = 256 << 20;  // of settings
constexpr const char *kSettings = "tokenizer_config.json", *kTemplate = "chat_template.jinja";

fs::path folder_of(const fs::path& tokenizer) { return is_folder(tokenizer) ? tokenizer : tokenizer.parent_path(); }

nlohmann::json read_config(const fs::path& tokenizer) {
  const fs::path file = folder_of(tokenizer) / kSettings;
  if (!is_there(file)) return nlohmann::json::object();
  return models::read_json_object(file, kMostBytes, "a tokenizer's settings");
}

// XXH64 of the text without comments, white space, line ends written as \\n, and trim markers.
std::uint64_t fingerprint(std::string_view text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("{#")) {
      const std::size_t end = rest.find("#}");
      i += end == std::string_view::npos ? rest.size() : end + 1;
    } else if (rest.starts_with("\\n")) {
      ++i;
    } else if (rest[0] != ' ' && rest[0] != '\n' && rest[0] != '\r' && rest[0] != '\t') {
      const bool trims = rest[0] == '-' && ((i > 0 && (text[i - 1] == '%' || text[i - 1] == '{')) ||
                                            (rest.size() > 1 && (rest[1] == '%' || rest[1] == '}')));
      if (!trims) kept += rest[0];
    }
  }
  Hash64 hash;
  hash.update(std::as_bytes(std::span(kept)));
  return hash.value();
}

std::string published_template(const fs::path& tokenizer, const nlohmann::json& config) {
  const fs::path file = folder_of(tokenizer) / kTemplate;
  if (is_there(file)) return InputFile(file).text();
  const auto found = config.find("chat_template");
  return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

[[noreturn]] void refuse(const std::string& what) {
  std::string names;
  for (const std::string_view name : kNames) names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  throw BadInput("data.template: " + what + "; name the one to use (l2l-sample: by --template): " + names +
                     "; or write each conversation as one \"text\" with the template of your own",
                 of_key("data.template"));
}

std::string find_name(const fs::path& tokenizer, const nlohmann::json& config) {
  const std::string text = published_template(tokenizer, config);
  if (text.empty()) refuse((is_there(tokenizer) ? folder_of(tokenizer) : tokenizer).string() + " has no chat template");
  const std::uint64_t hash = fingerprint(text);
  for (const Known& known : kKnown) {
    if (known.hash == hash) return std::string(known.name);
  }
  refuse("the chat template of " + folder_of(tokenizer).string() + " is not one of those that are built");
}

std::string token_text(const nlohmann::json& config, const char* key) {
  const auto token = config.find(key);
  if (token == config.end()) return {};
  if (token->is_string()) return token->get<std::string>();
  const auto content = token->is_object() ? token->find("content") : token->end();
  return token->is_object() && content != token->end() && content->is_string() ? content->get<std::string>()
                                                                               : std::string();
}

std::string or_else(std::string text, std::string_view other) { return text.empty() ? std::string(other) : text; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

void require_turns(const std::vector<Message>& messages, std::string_view name) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string_view expected = i % 2 == 0 ? "user" : "assistant";
    if (messages[i].role == expected) continue;
    throw BadInput("message " + std::to_string(i + 1) + " is of role \"" + messages[i].role +
                   "\", but in the template " + std::string(name) +
                   " user and assistant take turns, the user first, and no other role has a place");
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view name, const fs::path& tokenizer) : name_(name) {
  const nlohmann::json config = read_config(tokenizer);
  if (name == "auto") name_ = find_name(tokenizer, config);
  const bool llama = name_ == "llama3", gemma = name_ == "gemma";
  begin_ = or_else(token_text(config, "bos_token"), llama ? "<|begin_of_text|>" : gemma ? "<bos>" : "<s>");
  end_ = or_else(token_text(config, "eos_token"), "</s>");
}

RenderedChat ChatTemplate::render(const std::vector<Message>& messages) const {
  RenderedChat chat;
  if (name_ == "mistral" || name_ == "gemma") require_turns(messages, name_);
  if (name_ == "llama3" || name_ == "mistral" || name_ == "gemma") chat.text = begin_;
  for (const Message& message : messages) {
    const bool assistant = message.role == "assistant";
    const auto turn = [&](const std::string& head, std::string_view content, const std::string& tail) {
      chat.text += head;
      const std::size_t begin = chat.text.size();
      chat.text += content;
      chat.text += tail;
      if (assistant) chat.of_assistant.push_back({begin, chat.text.size()});
    };
    if (name_ == "chatml") {
      turn("<|im_start|>" + message.role + "\n", message.content, "<|im_end|>\n");
    } else if (name_ == "llama3") {
      turn("<|start_header_id|>" + message.role + "<|end_header_id|>\n\n", trimmed(message.content), "<|eot_id|>");
    } else if (name_ == "gemma") {
      turn(std::string("<start_of_turn>") + (assistant ? "model" : "user") + "\n", trimmed(message.content),
           "<end_of_turn>\n");
    } else if (name_ == "mistral") {
      assistant ? turn("", message.content, end_) : turn("[INST] ", message.content, " [/INST]");
    } else {
      if (!assistant && message.role != "user" && message.role != "system") {
        throw BadInput("role \"" + message.role + "\" has no place in the template zephyr");
      }
      turn("<|" + message.role + "|>\n", message.content, end_ + "\n");
    }
  }
  return chat;
}

std::string ChatTemplate::prompt(const std::vector<Message>& messages) const {
  const std::string text = render(messages).text;
  if (name_ == "chatml") return text + "<|im_start|>assistant\n";
  if (name_ == "llama3") return text + "<|start_header_id|>assistant<|end_header_id|>\n\n";
  if (name_ == "gemma") return text + "<start_of_turn>model\n";
  return name_ == "zephyr" ? text + "<|assistant|>\n" : text;
}

const std::string& ChatTemplate::end_of_turn() const {
  static const std::string chatml = "<|im_end|>", llama3 = "<|eot_id|>", gemma = "<end_of_turn>";
  if (name_ == "chatml") return chatml;
  if (name_ == "llama3") return llama3;
  return name_ == "gemma" ? gemma : end_;
}

std::string special_token(const fs::path& tokenizer, const char* key) {
  return token_text(read_config(tokenizer), key);
}

std::string settings_beside(const fs::path& tokenizer) {
  std::string text;
  for (const char* const name : {kSettings, kTemplate}) {
    const fs::path file = folder_of(tokenizer) / name;
    if (is_there(file)) text += std::string(name) + "\n" + InputFile(file).text();
  }
  return text;
}

}  // namespace l2l::runtime
