// The thread-local memory of this library is the static shared memory of its kernels (static_shared.h).
extern "C" __attribute__((visibility("default"))) const int l2l_emulated_kernels_only;
const int l2l_emulated_kernels_only = 1;
