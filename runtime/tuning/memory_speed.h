// What memory carries when state is changed in place, as an update does.
#pragma once

namespace l2l::runtime {

// Bytes per second, read and written together, of `threads` threads that add to three arrays far larger than a cache;
// the best of some passes. Takes 192 MiB for some tenths of a second.
double measure_memory(int threads);

}  // namespace l2l::runtime
