// Files that a tool writes: never over what is not its own, and whole.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace l2l::tools {

// Whether a file that begins so (with at most kBeginning bytes) is one that the tool wrote.
using IsOurs = bool (*)(std::string_view beginning);
inline constexpr std::size_t kBeginning = 4096;

bool is_metrics(std::string_view beginning);  // of l2l-train --metrics
bool is_trace(std::string_view beginning);    // of --trace
bool is_npy(std::string_view beginning);      // of l2l-eval --logits, --hidden, --pooled

// Throws BadInput, naming `option`, where a file stands at `path` that is neither empty nor ours, or none can be
// written. Pipes and devices pass. Changes nothing.
void check_ours(const std::filesystem::path& path, const std::string& option, IsOurs ours);
// The same of what is not written from its beginning to its end: pipes and devices do not pass.
void check_ours_alone(const std::filesystem::path& path, const std::string& option, IsOurs ours);
struct NamedFile {
  std::string option;
  std::filesystem::path path;
};
// Throws BadInput, naming both options, where two of the files are one. An empty path, pipes and devices pass.
void check_apart(const std::vector<NamedFile>& files);
// Throws BadInput, naming `option`, where no folder is at `path` and none can be made, or where no file can be made in
// it. An empty path passes. Changes nothing.
void check_folder(const std::filesystem::path& path, const std::string& option);
// check_ours(), then renames a file that stands there to `path`.earlier-N, with the first N that is free. Throws
// BadInput.
void make_room(const std::filesystem::path& path, const std::string& option, IsOurs ours);

// Writes `text` beside `path` and renames it, so that a reader sees the old file or the new one. Throws Error.
void replace_file(const std::filesystem::path& path, const std::string& text);

}  // namespace l2l::tools
