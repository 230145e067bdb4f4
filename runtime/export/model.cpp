#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/json.h"
#include "core/bytes.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/checkpoint_locks.h"
#include "formats/safetensors_shards.h"
#include "formats/safetensors_writer.h"
#include "l2l/errors.h"
#include "l2l/model_files.h"
#include "models/hub/names.h"
#include "models/hub/weights.h"
#include "models/make_model.h"
#include "runtime/export/adapter.h"
#include "runtime/export/source.h"
#include "runtime/hub_companions.h"

namespace l2l {
namespace {

using formats::SafetensorsWriter;
using formats::TensorToWrite;

constexpr std::int64_t kPiece = 1 << 18;  // elements read and written at a time
constexpr const char* kStem = "model";    // of the names of files

DType dtype_of(const std::string& name) {
  if (name == "fp32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  if (name == "fp16") return DType::f16;
  throw BadInput("dtype \"" + name + "\" is not supported; accepted: \"fp32\", \"bf16\", \"fp16\"");
}

// One file of the export, and which parameters it has.
struct Shard {
  std::vector<const ParameterSpec*> parameters;
  Bytes bytes = 0;
};

std::vector<Shard> cut(const ModelLayout& layout, DType dtype, Bytes most) {
  std::vector<Shard> shards(1);
  for (const GroupSpec& group : layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      const Bytes bytes = static_cast<Bytes>(parameter.shape.elements()) * size_of(dtype);
      if (most > 0 && shards.back().bytes > 0 && shards.back().bytes + bytes > most) shards.emplace_back();
      shards.back().parameters.push_back(&parameter);
      shards.back().bytes += bytes;
    }
  }
  return shards;
}

class Export {
 public:
  Export(const std::filesystem::path& folder, DType dtype)
      : dtype_(dtype),
        options_(runtime::exported_options(folder)),
        model_(models::make_model(options_.model, {.train = options_.optimizer.train})),
        weights_(runtime::exported_weights(folder, options_, model_.layout)),
        architecture_(models::architecture_of(options_.model.architecture)),
        companions_(runtime::hub_companions(options_.model, options_.lora.rank > 0 ? options_.model.base : folder)) {}

  void write(const std::filesystem::path& target, Bytes most, const std::function<void(Bytes, Bytes)>& progress) {
    const std::vector<Shard> shards = cut(model_.layout, dtype_, most);
    for (const Shard& shard : shards) all_ += shard.bytes;
    runtime::require_room(target.parent_path(), all_);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      write_shard(target / formats::shard_name(kStem, i, shards.size()), shards[i], progress);
    }
    if (shards.size() > 1) write_index(target, shards);
    write_companions(target);
    sync_folder(target);
  }

 private:
  void write_shard(const std::filesystem::path& path, const Shard& shard,
                   const std::function<void(Bytes, Bytes)>& progress) {
    std::vector<TensorToWrite> tensors;
    for (const ParameterSpec* parameter : shard.parameters) {
      tensors.push_back(
          {models::hub_name(architecture_, parameter->name), parameter->shape, runtime::name_in_file(dtype_)});
    }
    SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
    std::vector<float> values(kPiece);
    std::vector<std::byte> bytes(kPiece * size_of(dtype_));
    for (std::size_t i = 0; i < shard.parameters.size(); ++i) {
      const ParameterSpec& parameter = *shard.parameters[i];
      const std::int64_t elements = parameter.shape.elements();
      for (std::int64_t first = 0; first < elements; first += kPiece) {
        const std::span<float> piece =
            std::span(values).first(static_cast<std::size_t>(std::min(kPiece, elements - first)));
        weights_->read(parameter, first, piece);
        const std::span<const std::byte> narrowed = narrow(parameter, piece, bytes);
        writer.write(i, first, narrowed);
        done_ += narrowed.size();
        if (progress) progress(done_, all_);
      }
    }
    writer.finish();
  }

  std::span<const std::byte> narrow(const ParameterSpec& parameter, std::span<const float> values,
                                    std::span<std::byte> bytes) const {
    return runtime::narrow(parameter, dtype_, values, bytes);
  }

  void write_index(const std::filesystem::path& target, const std::vector<Shard>& shards) const {
    std::map<std::string, std::string> files;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const ParameterSpec* parameter : shards[i].parameters) {
        files[models::hub_name(architecture_, parameter->name)] = formats::shard_name(kStem, i, shards.size());
      }
    }
    write_text(target / formats::kIndexName, formats::index_text(files, all_));
  }

  void write_companions(const std::filesystem::path& target) {
    nlohmann::json config = parse_json(companions_.texts.at("config.json"));
    config["torch_dtype"] = dtype_ == DType::f32 ? "float32" : dtype_ == DType::bf16 ? "bfloat16" : "float16";
    companions_.texts["config.json"] = json_text(config, 2) + "\n";
    eps::write_companions(target, companions_);
  }

  static void write_text(const std::filesystem::path& path, const std::string& text) {
    OutputFile file(path);
    file.write(text);
    file.finish();
  }

  const DType dtype_;
  const Options options_;
  const models::Model model_;
  const std::unique_ptr<WeightSource> weights_;
  const models::Architecture& architecture_;
  eps::Companions companions_;
  Bytes done_ = 0, all_ = 0;
};

}  // namespace

void export_model(const std::filesystem::path& source, const std::filesystem::path& target,
                  const ExportSettings& settings, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const DType dtype = dtype_of(settings.dtype);
  const Bytes most = parse_bytes(settings.max_shard_size);
  const std::filesystem::path place = runtime::export_place(target, "directory");
  const std::filesystem::path folder = runtime::sound_export_folder(source);
  const eps::ReadLock lock(folder);
  const Options options = runtime::exported_options(folder);
  if (options.model.reversible != "none") {
    log(LogLevel::warning, folder.string() + ": model.reversible = \"" + options.model.reversible +
                               "\": other programs have these parameters in plain blocks, which compute something "
                               "else; evaluate, sample and go on from the checkpoint");
  }
  if (settings.merge && options.lora.rank == 0) throw BadInput(source.string() + ": has no adapters to merge");
  std::optional<Export> model;
  if (options.lora.rank == 0 || settings.merge) model.emplace(folder, dtype);
  make_folders(place.parent_path());
  runtime::make_export(place, [&](const std::filesystem::path& temporary) {
    make_folder(temporary);
    if (model) {
      model->write(temporary, most, progress);
    } else {
      runtime::write_adapter(folder, options, dtype, temporary);
    }
  });
}

}  // namespace l2l
