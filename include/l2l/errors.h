// Errors that the library throws. Every message says what went wrong, where (file, key, tensor), and what to do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "l2l/export.h"

namespace l2l {

// The class of an error, for what cannot catch by class. Values do not change; new ones may follow.
enum class ErrorCode : std::uint8_t {
  failure = 0,        // Error itself
  bad_input = 1,      // BadInput
  out_of_memory = 2,  // OutOfMemory
  corrupt_file = 3,   // CorruptFile
  device = 4,         // DeviceError
  not_finite = 5,     // NumericError
  corrupt_state = 6,  // CorruptState
  aborted = 7,        // Aborted
};

// Base of all errors of the library: a failure while running unless a subclass says otherwise.
class L2L_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual ErrorCode code() const noexcept { return ErrorCode::failure; }
};

// What bad input is about, as far as that is known; each may be empty. The message says it as well.
struct ErrorPlace {
  std::string file;   // or directory: its path
  std::string field;  // what of the file: "tensor \"h.0.attn.c_attn.weight\"", "header"
  std::string key;    // of the options: "optimizer.learning_rate"
};

// A config, argument or data file asks for something impossible. Nothing was written.
class L2L_API BadInput : public Error {
 public:
  explicit BadInput(const std::string& message, ErrorPlace place = {})
      : Error(message), place_(std::make_shared<const ErrorPlace>(std::move(place))) {}
  ErrorCode code() const noexcept override { return ErrorCode::bad_input; }
  const ErrorPlace& place() const { return *place_; }

 private:
  std::shared_ptr<const ErrorPlace> place_;
};

// Memory that was asked for does not fit. The message names what is needed, what there is, and the shortfall.
class L2L_API OutOfMemory : public BadInput {
 public:
  using BadInput::BadInput;
  ErrorCode code() const noexcept override { return ErrorCode::out_of_memory; }
};

// A file is damaged or not what it claims to be; the message names file, field and reason.
class L2L_API CorruptFile : public BadInput {
 public:
  CorruptFile(const std::string& file, const std::string& reason)
      : BadInput(file + ": " + reason, {.file = file, .field = {}, .key = {}}) {}
  CorruptFile(const std::string& file, const std::string& field, const std::string& reason)
      : BadInput(file + ": " + field + ": " + reason, {.file = file, .field = field, .key = {}}) {}
  ErrorCode code() const noexcept override { return ErrorCode::corrupt_file; }
};

// A device operation failed. It is thrown at the next call that waits for the device.
class L2L_API DeviceError : public Error {
 public:
  using Error::Error;
  ErrorCode code() const noexcept override { return ErrorCode::device; }
};

// A NaN or infinity reached the optimizer. The message names the step and the layer; that layer's state is unchanged.
class L2L_API NumericError : public Error {
 public:
  explicit NumericError(const std::string& message, bool nothing_changed = false)
      : Error(message), nothing_changed_(nothing_changed) {}
  ErrorCode code() const noexcept override { return ErrorCode::not_finite; }

  // Whether every other layer's state is unchanged, too, so that the steps before can still be saved. That is so where
  // updates wait for the whole backward pass: optimizer.clip = "global", optimizer.update = "after_backward" and fp16.
  bool nothing_changed() const { return nothing_changed_; }

 private:
  bool nothing_changed_;
};

// Weights or moments in host memory are not what the last update left there: a bit has flipped, or another part of the
// program wrote there. The message names step, group and place. Nothing of that state was saved.
class L2L_API CorruptState : public Error {
 public:
  using Error::Error;
  ErrorCode code() const noexcept override { return ErrorCode::corrupt_state; }
};

// Trainer::abort() was called.
class L2L_API Aborted : public Error {
 public:
  using Error::Error;
  ErrorCode code() const noexcept override { return ErrorCode::aborted; }
};

// Gets the message of a hang: which thread of the library has done nothing for how long, and what all of them are in.
using HangHandler = std::function<void(const std::string& message)>;

// What happens when a thread of the library hangs, so that a step can never end: calls `handler`, once, from a thread
// of its own. By default, and after an empty function, the message goes to stderr and the process ends with status 1;
// checkpoints on disk are whole at any time. What `handler` throws is logged as an error with the message. Thread-safe.
L2L_API void set_hang_handler(HangHandler handler);

}  // namespace l2l
