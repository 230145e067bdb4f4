#include "text/listed_tokenizer.h"
#include "text/pre_tokenizer.h"

namespace l2l::text {
namespace {

// How texts are cut, one regular expression after the other, as published tokenizer.json files have it, and llama.cpp's
// name for it. Some of its names also mean that a piece which is a token is that token (ignore_merges).
struct Known {
  std::string expressions;  // with a line end between them
  std::string merging, ignoring;
};

std::vector<Known> known_ones() {
  const std::string gpt2 = kGpt2Regex, endings = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", letters = "[^\\r\\n\\p{L}\\p{N}]?";
  const std::string upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
  const std::string spaces = "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", marks = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" + spaces;
  const std::string marks_and_slashes = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" + spaces;
  const std::string small = letters + upper + "*" + lower + "+", capital = letters + upper + "+" + lower + "*";
  const std::string deepseek =
      "\\p{N}{1,3}\n[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+\n"
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
      "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
  return {{gpt2, "gpt-2", ""},
          {"\\p{N}\n" + gpt2, "smollm", ""},
          {endings + "|" + letters + "\\p{L}+|\\p{N}{1,3}" + marks, "dbrx", "llama-bpe"},
          {endings + "|" + letters + "\\p{L}+|\\p{N}" + marks, "qwen2", ""},
          {deepseek, "deepseek-v3", ""},
          {small + "|" + capital + "|\\p{N}" + marks_and_slashes, "", "tekken"},
          {small + endings + "?|" + capital + endings + "?|\\p{N}{1,3}" + marks_and_slashes, "gpt-4o", ""}};
}

std::string expression_of(const JsonReader& step) {
  const std::string type = step.type();
  if (type == "Digits" && step.boolean("individual_digits")) return "\\p{N}";
  if (type == "Split" && step.string("behavior") == "Isolated" && !step.boolean_or("invert", false)) {
    return step.object("pattern").string("Regex");
  }
  if (type == "ByteLevel") {
    if (step.boolean("add_prefix_space")) step.refuse(std::string("add_prefix_space is true") + kNotInLists);
    return step.boolean_or("use_regex", true) ? kGpt2Regex : "";
  }
  step.refuse("cuts a text in a way" + std::string(kNotInLists));
}

}  // namespace

void list_pre_tokenizer(const JsonReader& tokenizer, bool ignore_merges, ListedTokenizer& listed) {
  const JsonReader whole = tokenizer.object("pre_tokenizer");
  const std::vector<JsonReader> steps =
      whole.type() == "Sequence" ? whole.objects("pretokenizers") : std::vector<JsonReader>{whole};
  std::string expressions;
  for (const JsonReader& step : steps) {
    const std::string next = expression_of(step);
    if (next.empty()) continue;
    if (!expressions.empty()) expressions += '\n';
    expressions += next;
  }
  for (const Known& known : known_ones()) {
    const std::string& name = ignore_merges ? known.ignoring : known.merging;
    if (known.expressions != expressions || name.empty()) continue;
    listed.pre = name;
    if (name == "tekken" || name == "gpt-4o") {
      listed.remarks.push_back(
          "keeps combining marks with their letters, where llama.cpp cuts words (Devanagari, ...)");
    }
    return;
  }
  whole.refuse("cuts a text by " + (expressions.empty() ? "nothing" : expressions) +
               (ignore_merges ? ", with ignore_merges" : "") + kNotInLists);
}

}  // namespace l2l::text
