// Attention by cuDNN's fused kernels, where they exist and are fast: bf16 and f16 heads of a multiple of 8 up to 256
// elements, sequences of a multiple of 128, no dropout, and the deterministic backward within
// Context::attention_workspace.
// Defined in cudnn_attention.cpp and cudnn_library.cpp; a build without cuDNN's headers links no_cudnn.cpp.
#pragma once

#include "device/kernels/attention_problem.h"
#include "device/kernels/common/cuda_kernel.h"

namespace l2l::device::cuda {

// Operands as those of the op: qkv, y, logsumexp (natural, [rows, heads], so that our own backward can read it).
// Returns nullptr where cuDNN is missing or does not support the problem: use our own kernel.
std::unique_ptr<Kernel> make_cudnn_attention(const Context& context, const AttentionProblem& problem, DType dtype);

// Operands of attention_backward: dy, qkv, y, logsumexp, dqkv.
std::unique_ptr<Kernel> make_cudnn_attention_backward(const Context& context, const AttentionProblem& problem,
                                                      DType dtype);

// Enqueues the copy of logsumexp [rows, heads] to [sequences, heads, sequence]: cuDNN before 9.26 reads no other order.
void transpose_logsumexp(const AttentionProblem& problem, const float* logsumexp, float* transposed,
                         cudaStream_t stream);

}  // namespace l2l::device::cuda
