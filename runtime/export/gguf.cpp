#include <algorithm>

#include "core/files.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint_locks.h"
#include "eps/checkpoint/manifest.h"
#include "formats/gguf.h"
#include "l2l/errors.h"
#include "l2l/model_files.h"
#include "l2l/trainer.h"
#include "models/hub/gguf.h"
#include "models/hub/weights.h"
#include "models/make_model.h"
#include "runtime/export/gguf_tokenizer.h"
#include "runtime/export/source.h"
#include "text/tokenizer.h"

namespace l2l {
namespace {

constexpr std::int64_t kRowsPiece = 1 << 18;  // elements read and written at a time, at least a row

// As data.tokenizer names it; empty: there is none.
std::string tokenizer_of(const std::filesystem::path& folder) {
  if (text::has_tokenizer(folder)) return folder.string();
  return eps::has_manifest(folder) ? checkpoint_options(folder).data.tokenizer : std::string();
}

class GgufExport {
 public:
  GgufExport(const std::filesystem::path& folder, formats::GgufType type)
      : options_(runtime::exported_options(folder)),
        model_(models::make_model(options_.model, {.train = options_.optimizer.train})),
        gguf_(models::gguf_model(options_.model, model_.layout, type)),
        weights_(runtime::exported_weights(folder, options_, model_.layout)) {
    runtime::add_gguf_tokenizer(tokenizer_of(folder), folder, model_.vocabulary, gguf_.metadata, gguf_.remarks);
    for (const formats::GgufTensor& tensor : gguf_.tensors) {
      all_ += formats::gguf_bytes(tensor.type, tensor.shape.elements());
    }
  }

  const std::vector<std::string>& remarks() const { return gguf_.remarks; }
  Bytes bytes() const { return formats::gguf_file_bytes(gguf_.metadata, gguf_.tensors); }

  void write(const std::filesystem::path& file, const std::function<void(Bytes, Bytes)>& progress) {
    formats::GgufWriter writer(file, gguf_.metadata, gguf_.tensors);
    const auto put = [&](std::size_t tensor, std::int64_t first, std::span<const float> values) {
      done_ += writer.write(tensor, first, values);
      if (progress) progress(done_, all_);
    };
    for (std::size_t i = 0; i < gguf_.sources.size(); ++i) {
      gguf_.sources[i].transposed ? write_transposed(i, put) : write_rows(i, put);
    }
    if (!gguf_.frequency_divisors.empty()) put(gguf_.sources.size(), 0, gguf_.frequency_divisors);
    writer.finish();
  }

 private:
  // Rows in the tensor's order, and columns; a vector has rows of one element.
  struct Rows {
    std::int64_t count, columns;
  };
  Rows rows_of(std::size_t tensor) const {
    const Shape& shape = gguf_.tensors[tensor].shape;
    return {shape[0], shape.rank() > 1 ? shape[1] : 1};
  }

  void read(const models::GgufSource& source, std::int64_t first, std::span<float> values) const {
    weights_->read(*source.parameter, first, values);
    for (float& value : values) value += source.added;
  }

  template <typename Put>
  void write_rows(std::size_t tensor, const Put& put) {
    const auto [count, columns] = rows_of(tensor);
    const models::GgufSource& source = gguf_.sources[tensor];
    // Vectors at once, which keeps whole pieces of them in order.
    const std::int64_t step = columns == 1 ? count : std::max<std::int64_t>(1, kRowsPiece / columns);
    for (std::int64_t row = 0; row < count; row += step) {
      const std::int64_t rows = std::min(step, count - row);
      values_.resize(static_cast<std::size_t>(rows * columns));
      if (source.heads == 0) {
        read(source, row * columns, values_);
      } else {
        for (std::int64_t i = 0; i < rows; ++i) {
          read(source, source.row_of(row + i, count) * columns,
               std::span(values_).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns)));
        }
      }
      put(tensor, row * columns, values_);
    }
  }

  // The parameter is read as a whole.
  template <typename Put>
  void write_transposed(std::size_t tensor, const Put& put) {
    const auto [count, columns] = rows_of(tensor);
    whole_.resize(static_cast<std::size_t>(count * columns));
    read(gguf_.sources[tensor], 0, whole_);
    values_.resize(static_cast<std::size_t>(columns));
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) {
        values_[static_cast<std::size_t>(i)] = whole_[static_cast<std::size_t>(i * count + row)];
      }
      put(tensor, row * columns, values_);
    }
  }

  const Options options_;
  const models::Model model_;
  models::GgufModel gguf_;
  const std::unique_ptr<WeightSource> weights_;
  std::vector<float> values_, whole_;
  Bytes done_ = 0, all_ = 0;
};

}  // namespace

void export_gguf(const std::filesystem::path& source, const std::filesystem::path& target, const GgufSettings& settings,
                 const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const formats::GgufType type = formats::parse_gguf_type(settings.type);
  const std::filesystem::path place = runtime::export_place(target, "file");
  const std::filesystem::path folder = runtime::sound_export_folder(source);
  const eps::ReadLock lock(folder);
  GgufExport model(folder, type);
  for (const std::string& remark : model.remarks()) log(LogLevel::warning, remark);
  make_folders(place.parent_path());
  runtime::make_export(place, [&](const std::filesystem::path& temporary) {
    runtime::require_room(place.parent_path(), model.bytes());
    model.write(temporary, progress);
  });
}

}  // namespace l2l
