// A transport that alters what is sent: for negative controls.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/transport.h"

namespace l2l::collectives::testing {

// Called with the pieces of each exchange; may be called by a thread of each rank.
using Alter = std::function<void(int& channel, std::vector<Send>& sent)>;

class Altered final : public Transport {
 public:
  Altered(std::unique_ptr<Transport> inner, Alter alter) : inner_(std::move(inner)), alter_(std::move(alter)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Exchange> start(std::span<const Send> sent, std::span<const Receive> received, int channel) override {
    std::vector<Send> pieces(sent.begin(), sent.end());
    alter_(channel, pieces);
    return inner_->start(pieces, received, channel);
  }
  int channels() const override { return inner_->channels(); }
  int neighbours() const override { return inner_->neighbours(); }
  Bytes buffer_bytes() const override { return inner_->buffer_bytes(); }
  std::unique_ptr<Transport> split(int color) override { return inner_->split(color); }
  void end_is_agreed() override { inner_->end_is_agreed(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  const std::unique_ptr<Transport> inner_;
  const Alter alter_;
};

}  // namespace l2l::collectives::testing
