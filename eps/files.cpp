#include "eps/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/hash.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

constexpr std::size_t kHashBuffer = 1 << 20;
constexpr std::size_t kMostAtOnce = 1 << 30;  // the kernel moves at most 2 GiB a call

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int error) {
  throw Error(path.string() + ": " + what + ": " + std::strerror(error));
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw CorruptFile(path.string() + ": " + reason);
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail(path_, "cannot be created", errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write_at(end_, bytes);
  end_ += bytes.size();
}

void OutputFile::write_at(Bytes offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot be written", errno);
    if (written == 0) fail(path_, "cannot be written", EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<Bytes>(written);
  }
}

void OutputFile::finish() {
  if (fsync(descriptor_) != 0) fail(path_, "cannot be written to the disk", errno);
  const int result = close(descriptor_);
  descriptor_ = -1;
  if (result != 0) fail(path_, "cannot be closed", errno);
}

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) refuse(path_, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  const bool regular = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    close(descriptor_);
    refuse(path_, "is not a regular file");
  }
  bytes_ = static_cast<Bytes>(status.st_size);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(Bytes offset, std::span<std::byte> destination) const {
  if (offset > bytes_ || destination.size() > bytes_ - offset) refuse(path_, "is shorter than what is read from it");
  while (!destination.empty()) {
    const ssize_t count =
        pread(descriptor_, destination.data(), std::min(destination.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0) refuse(path_, "became shorter while it was read");
    destination = destination.subspan(static_cast<std::size_t>(count));
    offset += static_cast<Bytes>(count);
  }
}

std::uint64_t InputFile::hash(Bytes offset, Bytes length) const {
  Hash64 hash;
  std::vector<std::byte> buffer(std::min<Bytes>(length, kHashBuffer));
  while (length > 0) {
    const auto part = std::span(buffer).first(std::min<Bytes>(buffer.size(), length));
    read(offset, part);
    hash.update(part);
    offset += part.size();
    length -= part.size();
  }
  return hash.value();
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(folder, "cannot be opened", errno);
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  if (result != 0) fail(folder, "cannot be written to the disk", error);
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return;
  const std::filesystem::path parent = folder.parent_path();
  if (parent != folder) make_folders(parent);
  std::filesystem::create_directory(folder, error);
  if (error) throw Error(folder.string() + ": cannot be created: " + error.message());
  sync_folder(parent.empty() ? "." : parent);
}

void move_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) throw Error(from.string() + ": cannot be renamed to " + to.string() + ": " + error.message());
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) throw Error(folder.string() + ": cannot be removed: " + error.message());
}

}  // namespace l2l::eps
