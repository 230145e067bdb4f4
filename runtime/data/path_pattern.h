// Names of files by patterns, as shells have them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace l2l::runtime {

// Whether `name` has characters that stand for others: * ? [
bool is_pattern(const std::string& name);

// What is there by these names, sorted by bytes; none: nothing is. A name that is there is taken as it is. Else * ? and
// [..] are as in glob(7), and ** stands for any number of folders, this one included: "books/**/*.txt". At the end of a
// pattern, ** stands for all files below. Hidden folders and links to folders are not searched by **, which finds no
// folders either. Throws OutOfMemory.
std::vector<std::string> expand_pattern(const std::string& pattern);

// The folder in which what `pattern` names is searched: its longest beginning without a pattern.
std::filesystem::path searched_folder(const std::string& pattern);

// `folder` / `name`, in which no character of `folder` stands for another.
std::string in_folder(const std::filesystem::path& folder, const std::string& name);

}  // namespace l2l::runtime
