#pragma once

namespace l2l::device {

// Which layer and microbatch a span of a trace belongs to; below 0: none.
struct SpanLabel {
  int layer = -1, microbatch = -1;
};

}  // namespace l2l::device
