// A run of which only the model and the data are named.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "l2l/options.h"

namespace l2l {

// A key that was chosen, and why.
struct ChosenKey {
  std::string key;    // "optimizer.learning_rate"
  std::string value;  // in TOML
  std::string reason;
};

struct L2L_API ChosenRun {
  std::string data;  // what the rows are: "9025 rows with a label of 2 (the most frequent: 54.8%); 452 are held
                     // out for validation"
  std::vector<ChosenKey> keys;  // in the order of sections
  Options options() const;      // of these keys
  // Replaces the key's value, or adds the key.
  void set(const std::string& key, const std::string& value, const std::string& reason);
  // A config file of these keys, with the reasons as comments. `folder`: where it will lie (with_paths_beside());
  // empty: nowhere.
  std::string config(const std::filesystem::path& folder = {}) const;
};

// Chooses what trains the Hugging Face model in `pretrained` on the JSON Lines in `data`, whose rows all have the same
// members: "text", also with "label" (a class or a number); "tokens" and "tags"; "context", "choices" and "label";
// "prompt" and "completion"; "messages". `assignments` ("section.key=value") stand over what is chosen.
//
// 5% of the rows, of which there must be at least 20, are held out for validation; which ones depends on their places
// alone. The directory must have its tokenizer. Writes `output`/data/train.jsonl and validation.jsonl. Throws BadInput
// naming file, line and reason, also where `output`/data is there already; nothing is written then. Throws Error where
// they cannot be written; parts of them may be there then.
L2L_API ChosenRun choose_run(const std::filesystem::path& pretrained, const std::filesystem::path& data,
                             const std::filesystem::path& output, std::span<const std::string> assignments);

// Whether choose_run() has made `output`/data of the rows in `data`. Throws BadInput where a file cannot be read.
L2L_API bool are_rows_of(const std::filesystem::path& output, const std::filesystem::path& data);

}  // namespace l2l
