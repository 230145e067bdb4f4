// cuDNN, opened at run time: cudnn_library.cpp defines the functions of its interface that cudnn-frontend calls and
// passes them on to libcudnn.so.9, so that the CUDA module opens on machines without it.
#pragma once

#include <cudnn.h>

#include <mutex>

namespace l2l::device::cuda {

// Whether libcudnn.so.9 could be opened. Thread-safe.
bool has_cudnn();

// A handle of `device`, made at the first call; nullptr when cuDNN refuses. Never destroyed: the driver may be unloaded
// first. Thread-safe; callers hold cudnn_mutex() from setting its stream until their work is enqueued.
cudnnHandle_t cudnn_handle(int device);
std::mutex& cudnn_mutex();

}  // namespace l2l::device::cuda
