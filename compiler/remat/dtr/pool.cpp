#include "compiler/remat/dtr/pool.h"

namespace l2l::compiler::remat::dtr {

void Pool::append(Index storage) {
  if (places_.size() > 2 * count_ + 64) compact();
  if (storage >= place_of_.size()) place_of_.resize(storage + 1);
  place_of_[storage] = places_.size();
  places_.push_back(storage);
  ++count_;
}

void Pool::remove(Index storage) {
  places_[place_of_[storage]] = kNone;
  --count_;
}

void Pool::compact() {
  std::size_t end = 0;
  for (const Index storage : places_) {
    if (storage == kNone) continue;
    place_of_[storage] = end;
    places_[end++] = storage;
  }
  places_.resize(end);
}

}  // namespace l2l::compiler::remat::dtr
