// Images of one size that lie one behind the other in few files: CIFAR's, and NumPy's arrays.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/data_files.h"
#include "runtime/data/images.h"

namespace l2l::runtime {

enum class Cifar : std::uint8_t { ten, hundred };

// Both throw BadInput naming key and file where the files are not such ones; nothing is kept of the files but the
// labels, which are read, and where their images lie.
std::shared_ptr<const ImageSet> open_cifar(const std::vector<DataFile>& files, Cifar kind, const std::string& key);
std::shared_ptr<const ImageSet> open_npy_images(const std::vector<DataFile>& files, const std::string& key);

// Whose records the files are whole numbers of; nothing: neither's.
std::optional<Cifar> cifar_kind(const std::vector<DataFile>& files);

}  // namespace l2l::runtime
