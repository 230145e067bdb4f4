#include "models/hub/weights.h"

#include <map>
#include <set>

#include "core/error_place.h"
#include "core/hash.h"
#include "core/log.h"
#include "formats/safetensors_header.h"
#include "l2l/errors.h"
#include "models/hub/adapter.h"
#include "models/hub/names.h"
#include "models/own_layers.h"

namespace l2l::models {
namespace {

using formats::ShardedTensor;

std::string describe(const ShardedTensor& tensor) {
  return formats::show_name(tensor.entry->name) + " is " + tensor.entry->dtype + " " + tensor.entry->shape.to_string();
}

// Tensors that are wrong in one way, of which the first are shown.
class Mismatches {
 public:
  // `line()` is called while it is shown.
  void add(const auto& line) {
    if (count_++ < kMostShown) lines_ += "\n    " + line();
  }
  bool none() const { return count_ == 0; }
  std::string show(const char* what) const {
    if (none()) return {};
    return "\n  " + std::to_string(count_) + what + ":" + lines_ + (count_ > kMostShown ? "\n    ..." : "");
  }

 private:
  static constexpr std::size_t kMostShown = 1000;

  std::string lines_;
  std::size_t count_ = 0;
};

// Which blocks of a file are used, where the model lists its blocks.
class ListedBlocks {
 public:
  explicit ListedBlocks(const std::vector<Layer>& blocks) {
    for (const Layer& layer : blocks) {
      if (!layer.shares) (layer.build ? own_ : of_file_).insert(std::to_string(layer.id));
    }
  }
  // Whether a parameter's layer is a program's own.
  bool is_own(const std::string& parameter) const { return own_.contains(number_in(parameter)); }
  // Whether a tensor belongs to a block that is left out.
  bool is_left_out(const std::string& tensor) const {
    const std::string number = number_in(tensor);
    return !(own_.empty() && of_file_.empty()) && !number.empty() && !of_file_.contains(number);
  }

 private:
  // "transformer.h.3.attn.bias" -> "3".
  static std::string number_in(const std::string& name) {
    for (std::size_t begin = name.find('.'); begin != std::string::npos; begin = name.find('.', begin + 1)) {
      const std::size_t end = std::min(name.find_first_not_of("0123456789", begin + 1), name.size());
      if (end > begin + 1 && end < name.size() && name[end] == '.') return name.substr(begin + 1, end - begin - 1);
    }
    return {};
  }

  std::set<std::string> own_, of_file_;  // numbers
};

}  // namespace

HubWeights::HubWeights(const std::filesystem::path& directory, const ModelOptions& model, const ModelLayout& layout,
                       bool new_head, const std::filesystem::path& adapter, bool saves)
    : shards_(directory) {
  if (!adapter.empty()) adapter_.emplace(adapter / kAdapterModel);
  const Architecture& architecture = architecture_of(model.architecture);
  // Classes are nobody's but this model's: what tells them apart may be drawn afresh, and the head for tokens is not
  // used.
  const bool classifies = model.head != "language", replaces_head = new_head;
  new_head |= classifies;
  const ListedBlocks listed(all_layers(model));
  Mismatches missing, unexpected, wrong, frozen;
  std::set<std::string_view> used;
  bool head_is_missing = false, classes_differ = false;
  for (const GroupSpec& group : layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      const std::string name_there = name_in_adapter(architecture, parameter.name);
      if (const formats::TensorEntry* const entry = adapter_ ? adapter_->find(name_there) : nullptr) {
        const ShardedTensor tensor{&*adapter_, entry};
        used.insert(entry->name);
        for (const std::string& name : names_in_files(architecture, parameter.name, model.tie_embeddings)) {
          if (const ShardedTensor replaced = shards_.find(name); replaced.entry) used.insert(replaced.entry->name);
        }
        tensors_.emplace(parameter.name, tensor);
        bytes_ += entry->end - entry->begin;
        if (saves && !parameter.trained) frozen.add([&] { return parameter.name; });
        if (entry->shape == parameter.shape && formats::is_float(*entry)) continue;
        wrong.add([&] { return describe(tensor) + "; expected is F32, BF16 or F16 " + parameter.shape.to_string(); });
        continue;
      }
      if (is_adapter(parameter.name)) {
        if (adapter_) missing.add([&] { return name_there + " in " + adapter_->path().string(); });
        continue;
      }
      if (listed.is_own(parameter.name)) continue;
      // Beside the bias of an untied encoder's head may stand one that transformers does not use.
      const bool first_counts = !model.tie_embeddings && parameter.name.ends_with(".decoder.bias");
      std::vector<ShardedTensor> copies;
      for (const std::string& name : names_in_files(architecture, parameter.name, model.tie_embeddings)) {
        const ShardedTensor tensor = shards_.find(name);
        if (tensor.entry == nullptr || !used.insert(tensor.entry->name).second) continue;
        if (first_counts && !copies.empty()) continue;
        const bool other_classes = tensor.entry->shape != parameter.shape && tells_classes(parameter.name);
        if (other_classes && replaces_head) continue;
        classes_differ |= other_classes;
        copies.push_back(tensor);
        if (tensor.entry->shape == parameter.shape && formats::is_float(*tensor.entry)) continue;
        wrong.add([&] { return describe(tensor) + "; expected is F32, BF16 or F16 " + parameter.shape.to_string(); });
      }
      if (copies.empty()) {
        const bool of_head = belongs_to_head(parameter.name);
        head_is_missing |= of_head;
        if (!of_head || !new_head) missing.add([&] { return hub_name(architecture, parameter.name); });
        continue;
      }
      check_copies(copies);
      bytes_ += copies[0].entry->end - copies[0].entry->begin;
      tensors_.emplace(parameter.name, copies[0]);
    }
  }
  std::size_t unused = 0;
  for (const formats::SafetensorsFile& file : shards_.files()) {
    for (const formats::TensorEntry& tensor : file.tensors()) {
      if (used.count(tensor.name) > 0) continue;
      const bool replaced = replaces_head && (belongs_to_head(tensor.name) || is_of_other_head(tensor.name));
      const bool other_head = replaced || (classifies && predicts_tokens(tensor.name));
      if (other_head || is_unused(tensor.name) || listed.is_left_out(tensor.name)) {
        ++unused;
      } else {
        unexpected.add([&] { return describe({&file, &tensor}); });
      }
    }
  }
  for (const formats::TensorEntry& tensor : adapter_ ? adapter_->tensors() : std::vector<formats::TensorEntry>()) {
    if (used.count(tensor.name) == 0) unexpected.add([&] { return describe({&*adapter_, &tensor}); });
  }
  if (!missing.none() || !unexpected.none() || !wrong.none()) {
    throw BadInput(
        directory.string() + ": the weights are not those of its config.json" + missing.show(" missing tensors") +
        unexpected.show(" unexpected tensors") + wrong.show(" tensors of a wrong shape or type") +
        (head_is_missing && !new_head ? "\nwith model.new_head = true, a head that is missing is drawn afresh"
         : classes_differ             ? "\nwith model.new_head = true, a head of other classes is drawn afresh"
                                      : ""));
  }
  if (!frozen.none()) {
    throw BadInput(adapter_->path().string() +
                       ": is an adapter with parameters that were trained whole (modules_to_save)" +
                       frozen.show(" that are frozen here") + "\nname them in optimizer.train",
                   of_key("lora.adapter"));
  }
  if (unused > 0) {
    log(LogLevel::info, directory.string() + ": " + std::to_string(unused) +
                            (unused == 1 ? " tensor is" : " tensors are") +
                            " not used (buffers, pooler, next-sentence head, blocks that are not listed)");
  }
}

void HubWeights::leave_out_classes() {
  std::erase_if(tensors_, [&](const auto& named) {
    const bool of_adapter = adapter_ && named.second.file == &*adapter_;
    if (of_adapter || !tells_classes(named.first)) return false;
    bytes_ -= named.second.entry->end - named.second.entry->begin;
    return true;
  });
}

std::uint64_t HubWeights::hash() const {
  Hash64 hash;
  for (const formats::SafetensorsFile& file : shards_.files()) {
    for (const formats::TensorEntry& tensor : file.tensors()) {
      const std::uint64_t of_tensor = file.hash(tensor);
      hash.update(std::as_bytes(std::span(tensor.name)));
      hash.update(std::as_bytes(std::span(&of_tensor, 1)));
    }
  }
  return hash.value();
}

std::uint64_t HubWeights::fingerprint() const {
  Hash64 hash;
  for (const auto& [name, tensor] : std::map<std::string, ShardedTensor>(tensors_.begin(), tensors_.end())) {
    const std::uint64_t elements = tensor.file->hash_of_samples(*tensor.entry);
    hash.update(std::as_bytes(std::span(name)));
    hash.update(std::as_bytes(std::span(tensor.entry->dtype)));
    hash.update(std::as_bytes(std::span(&elements, 1)));
  }
  return hash.value();
}

bool HubWeights::has_other_type(const ParameterSpec& parameter, DType type) const {
  const auto place = tensors_.find(parameter.name);
  const char* const name = type == DType::f32 ? "F32" : type == DType::bf16 ? "BF16" : "F16";
  return place != tensors_.end() && place->second.entry->dtype != name;
}

// A table that is tied may stand there twice.
void HubWeights::check_copies(const std::vector<ShardedTensor>& copies) const {
  for (std::size_t i = 1; i < copies.size(); ++i) {
    const ShardedTensor &first = copies[0], &other = copies[i];
    const bool same = first.entry->dtype == other.entry->dtype && first.entry->shape == other.entry->shape &&
                      first.file->hash(*first.entry) == other.file->hash(*other.entry);
    if (same) continue;
    throw CorruptFile(
        other.file->path().string(), "tensor " + formats::show_name(other.entry->name),
        "is not the same as " + formats::show_name(first.entry->name) + ", though both stand for one parameter");
  }
}

bool HubWeights::read(const ParameterSpec& parameter, std::int64_t first, std::span<float> destination) const {
  const auto place = tensors_.find(parameter.name);
  if (place == tensors_.end()) return false;
  formats::read_floats(place->second, first, destination, allow_nonfinite_);
  const Bytes read = destination.size_bytes() / (place->second.entry->dtype == "F32" ? 1 : 2);
  const Bytes done = done_.fetch_add(read) + read;
  if (progress_ && !reporting_.test_and_set()) {
    progress_(done);
    reporting_.clear();
  }
  return true;
}

}  // namespace l2l::models
