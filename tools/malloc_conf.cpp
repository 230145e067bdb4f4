// jemalloc's settings in the tools; those of the environment (MALLOC_CONF) come before them.
extern "C" {

// A run allocates nothing between its steps, so no call of malloc() would ever give pages back that it freed before: a
// thread does. Addresses are given back, too, because limits on them (ulimit -v) are checked by what is in use. Threads
// of no role share few arenas, each of which takes memory of its own: only tokenizing keeps many of them busy.
__attribute__((visibility("default"))) extern const char* const malloc_conf;
const char* const malloc_conf =
    "background_thread:true,max_background_threads:1,dirty_decay_ms:1000,muzzy_decay_ms:0,retain:false,narenas:4";
}
