// Errors that the library throws. Every message says what went wrong, where (file, key, tensor), and what to do.
#pragma once

#include <stdexcept>
#include <string>

#include "l2l/export.h"

namespace l2l {

// Base of all errors of the library: a failure while running unless a subclass says otherwise.
class L2L_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A config, argument or data file asks for something that cannot be done. Nothing was written.
class L2L_API BadInput : public Error {
 public:
  using Error::Error;
};

// Memory that was asked for does not fit. The message names what is needed, what there is, and the shortfall.
class L2L_API OutOfMemory : public BadInput {
 public:
  using BadInput::BadInput;
};

// A file is damaged or not what it claims to be; the message names file, field and reason.
class L2L_API CorruptFile : public BadInput {
 public:
  using BadInput::BadInput;
};

// A device operation failed. It is thrown at the next call that waits for the device.
class L2L_API DeviceError : public Error {
 public:
  using Error::Error;
};

// A NaN or infinity reached the optimizer; the message names step and layer, whose state is unchanged.
class L2L_API NumericError : public Error {
 public:
  using Error::Error;
};

}  // namespace l2l
