// Files whose failures all throw, and folders whose changes survive a crash. Built on file_system().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace l2l {

// A new file. Thread-bound. Every function throws Error naming the file and the reason.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);  // truncates what is there
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  // Writes at `offset`, which may lie beyond the end; does not move the position of write().
  void write_at(Bytes offset, std::span<const std::byte> bytes);
  // Waits until the data are on the disk (fsync) and closes. Without it the data may be lost.
  void finish();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  Bytes end_ = 0;  // position of write()
};

// A regular file, read at offsets. Immutable. Every function throws CorruptFile naming the file and the reason;
// BadInput where the file may be sound, but this process may not open it, or not now.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  Bytes bytes() const { return bytes_; }
  // [offset, offset + destination.size()) must lie within the file.
  void read(Bytes offset, std::span<std::byte> destination) const;
  // All of it.
  std::string text() const;
  // XXH64 of [offset, offset + length), which must lie within the file; reads it in pieces.
  std::uint64_t hash(Bytes offset, Bytes length) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  Bytes bytes_ = 0;
};

// Throws BadInput where something else than a regular file stands at `path`: a pipe would be waited for, and a device
// has no end.
void refuse_special(const std::filesystem::path& path);

// Whether a file with this text is a pointer, which stands for a large file in a repository that was cloned without Git
// LFS (github.com/git-lfs/git-lfs). The beginning of the text is enough.
bool is_git_lfs_pointer(std::string_view text);
// Why a pointer is refused.
inline constexpr const char* kGitLfsPointer =
    "is a pointer of Git LFS, not the file itself: run git lfs pull where it was cloned";

// The name from the root. Throws BadInput where it is empty, or the working directory has been removed.
std::filesystem::path absolute_path(const std::filesystem::path& path);

// The functions below throw Error naming the paths and the reason.
bool is_there(const std::filesystem::path& path);                                     // throws when it cannot be known
bool is_folder(const std::filesystem::path& path);                                    // likewise
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);  // in no order
void sync_folder(const std::filesystem::path& folder);  // waits until its entries are on the disk
// Creates it with its parents; they are on the disk when it returns, even those that a killed process had created.
// Other processes may make and remove the same ones at the same time. Appends those that this call made to `made`, each
// behind its parents, also when it throws.
void make_folders(const std::filesystem::path& folder, std::vector<std::filesystem::path>* made = nullptr);
void make_folder(const std::filesystem::path& folder);  // one; on the disk after sync_folder(its parent)
void move_path(const std::filesystem::path& from, const std::filesystem::path& to);  // a file or a folder; likewise
void remove_folder(const std::filesystem::path& folder);                             // and its contents; need not exist
// A new file with the bytes of another, on the disk when this returns. Throws as InputFile and OutputFile do.
void copy_bytes(const std::filesystem::path& from, const std::filesystem::path& to);
// A further name of a file; where the file system has none, a copy whose data are on the disk. The name is there after
// sync_folder().
void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace l2l
