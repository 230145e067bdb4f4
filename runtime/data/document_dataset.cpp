#include "runtime/data/document_dataset.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "core/choice_target.h"
#include "core/error_place.h"
#include "core/hash.h"
#include "core/log.h"
#include "l2l/errors.h"
#include "runtime/data/permutation.h"

namespace l2l::runtime {

DocumentDataset::DocumentDataset(const DataFiles& files, const DatasetSettings& settings)
    : settings_(settings),
      predicts_next_(settings.masking.share == 0 && settings.head == models::HeadKind::language),
      flagged_(files.flagged),
      description_(files.description()),
      store_(files) {
  if (store_.tokens() == 0) throw BadInput(description_ + ": 0 tokens; at least 2 are needed");
  if (files.document_ends.empty()) {
    throw BadInput(description_ +
                       ": has no documents, so data.samples = \"packed\" and \"padded\" have nothing to pack: "
                       "set data.separator, or data.samples = \"stream\"",
                   of_key("data.samples"));
  }
  const bool of_tokens = settings.head == models::HeadKind::tokens;
  if (has_labels() && files.labels.size() != (of_tokens ? files.document_ends.back() : files.document_ends.size())) {
    throw BadInput(description_ + ": its documents have no labels: name their column by data.label",
                   of_key("data.label"));
  }
  if (of_tokens) tags_ = files.labels;
  if (settings.head == models::HeadKind::classification) warn_of_one_class(files);
  settings.head == models::HeadKind::choice ? cut_questions(files) : cut(files);
  if (pieces_.empty()) throw BadInput(description_ + ": there is no document with a token to predict");
  if (truncated_ > 0) {
    log(LogLevel::warning, description_ + ": " + std::to_string(truncated_) + " of " +
                               std::to_string(files.document_ends.size()) +
                               " documents are longer than model.sequence = " + std::to_string(settings.sequence) +
                               "; what is behind it is left out");
  }
  pack();
  Hash64 hash;
  const std::uint64_t tokens = store_.check(settings.vocabulary);
  hash.update(std::as_bytes(std::span(&tokens, 1)));
  hash.update(std::as_bytes(std::span(files.document_ends)));
  hash.update(std::as_bytes(std::span(files.labels)));
  const auto kind = static_cast<std::byte>(settings.kind);
  hash.update(std::span(&kind, 1));
  hash_ = hash.value();
}

void DocumentDataset::warn_of_one_class(const DataFiles& files) const {
  const std::vector<std::int32_t>& labels = files.labels;
  if (labels.size() < 2 || std::ranges::adjacent_find(labels, std::ranges::not_equal_to()) != labels.end()) return;
  log(LogLevel::warning, description_ + ": all " + std::to_string(labels.size()) + " documents are of class " +
                             std::to_string(labels[0]) + ", by which classes cannot be told apart");
}

void DocumentDataset::cut(const DataFiles& files) {
  const auto most = static_cast<std::uint64_t>(settings_.sequence);
  const bool whole = settings_.kind == SampleKind::padded || has_labels();
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < files.document_ends.size(); ++i) {
    const std::uint64_t end = files.document_ends[i], rows = rows_of_document(end - begin, predicts_next_);
    if (whole && rows > most) ++truncated_;
    for (std::uint64_t row = 0; row < rows; row += most) {
      Piece piece{begin + row, static_cast<std::uint32_t>(std::min(most, rows - row))};
      if (has_labels()) piece.last = end - 1;
      if (has_labels() && tags_.empty()) piece.label = files.labels[i];
      if (learns(piece)) pieces_.push_back(piece);
      if (whole) break;
    }
    begin = end;
  }
}

void DocumentDataset::cut_questions(const DataFiles& files) {
  const auto most = static_cast<std::uint64_t>(settings_.sequence);
  const auto begin_of = [&](std::size_t i) { return i == 0 ? 0 : files.document_ends[i - 1]; };
  for (std::size_t first = 0; first < files.document_ends.size();) {
    const auto choices = static_cast<std::size_t>(choices_of(files.labels[first]));
    if (choices < 2 || choices > files.document_ends.size() - first) {
      throw BadInput(description_ + ": the labels are not those of whole questions");
    }
    std::uint64_t rows = 0;
    for (std::size_t i = first; i < first + choices; ++i) rows += files.document_ends[i] - begin_of(i);
    const std::uint64_t most_of_each = rows > most ? most / choices : most;
    if (most_of_each == 0) {
      throw BadInput(description_ + ": a question has " + std::to_string(choices) +
                     " choices, more than model.sequence = " + std::to_string(most) + " has rows");
    }
    if (rows > most) ++truncated_;
    for (std::size_t i = first; i < first + choices; ++i) {
      const std::uint64_t begin = begin_of(i), end = files.document_ends[i];
      pieces_.push_back({begin, static_cast<std::uint32_t>(std::min(end - begin, most_of_each)), files.labels[i],
                         end - 1, /*follows=*/i > first});
    }
    first += choices;
  }
}

// Of tokens with flags: whether the piece predicts any.
bool DocumentDataset::learns(const Piece& piece) const {
  if (!flagged_ || has_labels()) return true;
  std::vector<std::int32_t> tokens(piece.rows);
  store_.read(piece.begin + (predicts_next_ ? 1 : 0), tokens);
  return std::any_of(tokens.begin(), tokens.end(), [](std::int32_t token) { return token >= 0; });
}

// Best-fit decreasing: within 11/9 of the fewest sequences, and in practice next to none is wasted (Johnson, 1973).
void DocumentDataset::pack() {
  // What stays together is placed by its first piece.
  std::vector<std::uint64_t> sequence_of(pieces_.size()), first_of(pieces_.size());
  std::vector<std::uint32_t> rows_of(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    first_of[i] = pieces_[i].follows ? first_of[i - 1] : i;
    sequence_of[i] = first_of[i];
    rows_of[first_of[i]] += pieces_[i].rows;
  }
  if (settings_.kind == SampleKind::packed) {
    std::vector<std::uint64_t> order;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (!pieces_[i].follows) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint64_t a, std::uint64_t b) { return rows_of[a] > rows_of[b]; });
    const auto most = static_cast<std::uint32_t>(settings_.sequence);
    std::vector<std::vector<std::uint64_t>> with_room(most + 1);  // sequences, by free rows
    std::set<std::uint32_t> rooms;                                // which of these lists are not empty
    std::uint64_t sequences = 0;
    for (const std::uint64_t piece : order) {
      const std::uint32_t rows = rows_of[piece];
      const auto found = rooms.lower_bound(rows);
      const std::uint32_t room = found == rooms.end() ? most : *found;
      std::uint64_t sequence = sequences;
      if (found == rooms.end()) {
        ++sequences;
      } else {
        sequence = with_room[room].back();
        with_room[room].pop_back();
        if (with_room[room].empty()) rooms.erase(found);
      }
      sequence_of[piece] = sequence;
      if (room == rows) continue;
      with_room[room - rows].push_back(sequence);
      rooms.insert(room - rows);
    }
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) sequence_of[i] = sequence_of[first_of[i]];
  // Sequences in the order of their first pieces, and pieces in the order of the data.
  std::vector<std::uint64_t> rank(pieces_.size(), ~std::uint64_t{0});
  std::uint64_t sequences = 0;
  for (std::uint64_t& sequence : sequence_of) {
    if (rank[sequence] == ~std::uint64_t{0}) rank[sequence] = sequences++;
    sequence = rank[sequence];
  }
  first_piece_.assign(sequences + 1, 0);
  for (const std::uint64_t sequence : sequence_of) ++first_piece_[sequence + 1];
  std::partial_sum(first_piece_.begin(), first_piece_.end(), first_piece_.begin());
  std::vector<std::uint64_t> next(first_piece_.begin(), first_piece_.end() - 1);
  std::vector<Piece> sorted(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) sorted[next[sequence_of[i]]++] = pieces_[i];
  pieces_ = std::move(sorted);
}

std::span<const Piece> DocumentDataset::pieces(std::uint64_t sample) const {
  return std::span(pieces_).subspan(first_piece_[sample], first_piece_[sample + 1] - first_piece_[sample]);
}

std::size_t DocumentDataset::fill(std::uint64_t sample, const SequenceView& sequence) const {
  const auto token_of = [this](std::int32_t stored) {
    return flagged_ ? static_cast<std::int32_t>(static_cast<std::uint32_t>(stored) & kTokenOfFlagged) : stored;
  };
  const bool has_rows = !sequence.positions.empty();
  const auto describe = [&](std::size_t row, std::size_t begin, std::size_t end, std::int32_t type) {
    if (!has_rows) return;
    sequence.positions[row] = static_cast<std::int32_t>(row - begin);
    sequence.begins[row] = static_cast<std::int32_t>(begin);
    sequence.ends[row] = static_cast<std::int32_t>(end);
    sequence.token_types[row] = type;
  };
  std::size_t begin = 0;
  for (const Piece& piece : pieces(sample)) {
    const auto tokens = sequence.tokens.subspan(begin, piece.rows),
               targets = sequence.targets.subspan(begin, piece.rows);
    store_.read(piece.begin, tokens);
    if (predicts_next_) store_.read(piece.begin + 1, targets);
    for (std::size_t i = 0; i < piece.rows; ++i) {
      const bool second = flagged_ && (static_cast<std::uint32_t>(tokens[i]) & kSecondType) != 0;
      tokens[i] = token_of(tokens[i]);
      targets[i] = predicts_next_ && targets[i] >= 0 ? token_of(targets[i]) : -1;
      describe(begin + i, begin, begin + piece.rows, second ? 1 : 0);
    }
    if (has_labels()) {
      const bool whole = piece.begin + piece.rows == piece.last + 1;
      store_.read(piece.last, tokens.last(1));
      tokens.back() = token_of(tokens.back());
      if (tags_.empty()) {
        (settings_.causal ? targets.back() : targets.front()) = piece.label;
      } else {
        std::copy_n(tags_.begin() + static_cast<std::ptrdiff_t>(piece.begin), piece.rows, targets.begin());
        if (!whole) targets.back() = tags_[piece.last];
      }
    }
    begin += piece.rows;
  }
  for (std::size_t row = begin; row < sequence.tokens.size(); ++row) {
    sequence.tokens[row] = 0;
    sequence.targets[row] = -1;
    describe(row, row, row + 1, 0);
  }
  return begin;
}

void DocumentDataset::mask(const SequenceView& sequence, std::size_t rows, std::uint64_t number, bool training) const {
  if (settings_.masking.share == 0) return;
  const RngKey key = data_key(settings_.seed, number, training ? DataDraw::mask : DataDraw::validation_mask);
  mask_tokens(settings_.masking, key, sequence.tokens.first(rows), sequence.targets.first(rows));
}

std::uint64_t DocumentDataset::chosen(std::uint64_t position) const {
  const std::uint64_t count = samples_per_epoch(), index = position % count;
  return settings_.in_order ? index : permute(index, count, settings_.seed, position / count);
}

void DocumentDataset::sample(std::uint64_t position, const SequenceView& sequence) const {
  mask(sequence, fill(chosen(position), sequence), position, /*training=*/true);
}

std::int64_t DocumentDataset::rows_of(std::uint64_t sample) const {
  std::int64_t rows = 0;
  for (const Piece& piece : pieces(sample)) rows += piece.rows;
  return rows;
}

std::int64_t DocumentDataset::rows(std::uint64_t position) const { return rows_of(chosen(position)); }

std::int64_t DocumentDataset::validation_rows(std::uint64_t window) const {
  return window < windows() ? rows_of(window) : 0;
}

void DocumentDataset::validation_window(std::uint64_t window, const SequenceView& sequence) const {
  if (window < windows()) return mask(sequence, fill(window, sequence), window, /*training=*/false);
  std::fill(sequence.tokens.begin(), sequence.tokens.end(), 0);
  std::fill(sequence.targets.begin(), sequence.targets.end(), -1);
  for (std::size_t row = 0; row < sequence.positions.size(); ++row) {
    sequence.positions[row] = sequence.token_types[row] = 0;
    sequence.begins[row] = static_cast<std::int32_t>(row);
    sequence.ends[row] = static_cast<std::int32_t>(row + 1);
  }
}

Bytes DocumentDataset::bytes(const DataFiles& files, std::int64_t sequence) {
  const Bytes pieces = files.document_ends.size() + files.tokens() / static_cast<std::uint64_t>(sequence);
  // With what packing takes beside them.
  return pieces * (2 * sizeof(Piece) + 7 * sizeof(std::uint64_t)) +
         // Labels, with what a validation pass keeps of each (TaskMetrics::bytes()).
         files.labels.size() * (4 * sizeof(std::int32_t) + sizeof(std::uint64_t));
}

}  // namespace l2l::runtime
