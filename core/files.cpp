#include "core/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/error_place.h"
#include "core/file_system.h"
#include "core/hash.h"
#include "l2l/errors.h"

namespace l2l {

namespace {

constexpr std::size_t kBuffer = 1 << 20;

// Of a path that is not there, or no longer.
struct Missing : Error {
  using Error::Error;
};

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, int error = errno) {
  const std::string message = path.string() + ": " + what + ": " + std::strerror(error);
  if (error == ENOENT) throw Missing(message);
  throw Error(message);
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw CorruptFile(path.string(), reason);
}

// A file may be sound that this process may not open, or not now; any other error is damage.
[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what, int error) {
  std::string reason = what + ": " + std::strerror(error);
  if (error == EMFILE) reason += "; raise the limit (ulimit -n)";
  for (const int of_process : {EACCES, EPERM, EMFILE, ENFILE, ENOMEM, EAGAIN, ETIMEDOUT}) {
    if (error == of_process) throw BadInput(path.string() + ": " + reason, of_file(path.string()));
  }
  refuse(path, reason);
}

// False when there is nothing of this name.
bool find(const std::filesystem::path& path, FileStatus& status) {
  if (file_system().status(path, status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail(path, "cannot be examined");
  return false;
}

// False with errno set when the folder may not be opened.
bool sync_if_readable(const std::filesystem::path& folder) {
  const int descriptor = file_system().open(folder);
  if (descriptor < 0 && errno == EACCES) return false;
  if (descriptor < 0) fail(folder, "cannot be opened");
  const int result = file_system().sync(descriptor);
  const int error = errno;
  file_system().close(descriptor);
  if (result != 0) fail(folder, "cannot be written to the disk", error);
  return true;
}

// False where it is there already: other processes may make the same one.
bool make_if_missing(const std::filesystem::path& folder) {
  if (is_folder(folder)) return false;
  if (file_system().make_folder(folder) == 0) return true;
  const int error = errno;
  FileStatus status;
  const bool gone = error == EEXIST && !find(folder, status);
  if (gone || error != EEXIST || status.kind != FileKind::folder) {
    fail(folder, "cannot be created", gone ? ENOENT : error);
  }
  return false;
}

// Also where it may not be listed.
bool holds_something(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (file_system().list(folder, names) == 0) return !names.empty();
  if (errno != EACCES) fail(folder, "cannot be listed");
  return true;
}

void make_with_parents(const std::filesystem::path& folder, std::vector<std::filesystem::path>* made) {
  const std::filesystem::path parent = folder.parent_path();
  if (folder.empty() || parent == folder) return;
  // What holds something was synced before: a process that is killed between mkdir and fsync leaves an empty folder.
  const bool there = is_folder(folder);
  if (there && holds_something(folder)) return;
  make_with_parents(parent, made);
  if (make_if_missing(folder) && made != nullptr) made->push_back(folder);
  const std::filesystem::path in = parent.empty() ? "." : parent;
  if (!sync_if_readable(in) && !there) fail(in, "cannot be opened");
}

}  // namespace

void refuse_special(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw BadInput(path.string() + ": is " +
                 (std::filesystem::is_directory(status) ? "a directory" : "a pipe or device") + ", not a file");
}

bool is_git_lfs_pointer(std::string_view text) { return text.starts_with("version https://git-lfs.github.com/spec/"); }

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  if (path.empty()) throw BadInput("a name of a file or folder is empty");
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) throw BadInput(path.string() + ": cannot be found from the working directory: " + error.message());
  return absolute;
}

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), descriptor_(file_system().create(path)) {
  if (descriptor_ < 0) fail(path_, "cannot be created");
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) file_system().close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write_at(end_, bytes);
  end_ += bytes.size();
}

void OutputFile::write_at(Bytes offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t written = file_system().write(descriptor_, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot be written");
    if (written == 0) fail(path_, "cannot be written", EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<Bytes>(written);
  }
}

void OutputFile::finish() {
  if (file_system().sync(descriptor_) != 0) fail(path_, "cannot be written to the disk");
  const int result = file_system().close(descriptor_);
  descriptor_ = -1;
  if (result != 0) fail(path_, "cannot be closed");
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path), descriptor_(file_system().open(path)) {
  if (descriptor_ < 0) refuse(path_, "cannot be opened", errno);
  FileStatus status;
  const int error = file_system().status(descriptor_, status) == 0 ? 0 : errno;
  bytes_ = status.bytes;
  if (error == 0 && status.kind == FileKind::file) return;
  file_system().close(descriptor_);
  if (error == 0) refuse(path_, "is not a regular file");
  refuse(path_, "cannot be examined", error);
}

InputFile::~InputFile() { file_system().close(descriptor_); }

void InputFile::read(Bytes offset, std::span<std::byte> destination) const {
  if (offset > bytes_ || destination.size() > bytes_ - offset) refuse(path_, "is shorter than what is read from it");
  while (!destination.empty()) {
    const std::int64_t count = file_system().read(descriptor_, destination, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(path_, "cannot be read", errno);
    if (count == 0) refuse(path_, "became shorter while it was read");
    destination = destination.subspan(static_cast<std::size_t>(count));
    offset += static_cast<Bytes>(count);
  }
}

std::string InputFile::text() const {
  std::string text(bytes_, '\0');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::uint64_t InputFile::hash(Bytes offset, Bytes length) const {
  Hash64 hash;
  std::vector<std::byte> buffer(std::min<Bytes>(length, kBuffer));
  while (length > 0) {
    const auto part = std::span(buffer).first(std::min<Bytes>(buffer.size(), length));
    read(offset, part);
    hash.update(part);
    offset += part.size();
    length -= part.size();
  }
  return hash.value();
}

bool is_there(const std::filesystem::path& path) {
  FileStatus status;
  return find(path, status);
}

bool is_folder(const std::filesystem::path& path) {
  FileStatus status;
  return find(path, status) && status.kind == FileKind::folder;
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (file_system().list(folder, names) != 0) fail(folder, "cannot be listed");
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) paths.push_back(folder / name);
  return paths;
}

void sync_folder(const std::filesystem::path& folder) {
  if (!sync_if_readable(folder)) fail(folder, "cannot be opened");
}

void make_folders(const std::filesystem::path& folder, std::vector<std::filesystem::path>* made) {
  constexpr int kMostAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    try {
      return make_with_parents(folder, made);
    } catch (const Missing&) {  // another process has removed a parent, which was empty until now
      if (attempt == kMostAttempts) throw;
    }
  }
}

void make_folder(const std::filesystem::path& folder) {
  if (file_system().make_folder(folder) != 0) fail(folder, "cannot be created");
}

void move_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (file_system().rename(from, to) != 0) fail(from, "cannot be renamed to " + to.string());
}

void remove_folder(const std::filesystem::path& folder) {
  if (file_system().remove(folder) == 0 || errno == ENOENT) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail(folder, "cannot be removed");
  for (const std::filesystem::path& entry : list_folder(folder)) remove_folder(entry);
  if (file_system().remove(folder) != 0 && errno != ENOENT) fail(folder, "cannot be removed");
}

void copy_bytes(const std::filesystem::path& from, const std::filesystem::path& to) {
  constexpr Bytes kPiece = 64 * kKiB;
  const InputFile input(from);
  OutputFile output(to);
  std::vector<std::byte> buffer(std::min(input.bytes(), kPiece));
  for (Bytes offset = 0; offset < input.bytes(); offset += buffer.size()) {
    const std::span part = std::span(buffer).first(std::min<Bytes>(buffer.size(), input.bytes() - offset));
    input.read(offset, part);
    output.write(part);
  }
  output.finish();
}

void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (file_system().link(from, to) != 0) copy_bytes(from, to);
}

}  // namespace l2l
