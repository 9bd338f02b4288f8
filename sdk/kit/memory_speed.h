/* kit/memory_speed.h - an extension of the host for inlay's own providers: how fast this machine reads memory. */
#ifndef KIT_MEMORY_SPEED_H
#define KIT_MEMORY_SPEED_H
#include <stdint.h>

#define EXT_MEMORY_SPEED "inlay.memory_speed/1"
/* Rates are in bytes per nanosecond, sizes in bytes. Those of one thread are in inlay_speed of inlay/extensions.h. */
typedef struct memory_speed {
    uint64_t struct_size;
    double all_bytes;   /* read from main memory by all threads together */
    double paged_bytes; /* read from main memory by one thread, in pages of 4 KB, such as those of a model's file */
    double near_size;   /* of the cache next to a core */
    double shared_size; /* of the cache that cores share */
    /* Read and written by one thread that copies data in the shared cache; 0, or beyond struct_size: not known. */
    double copied_bytes;
} memory_speed;
typedef struct ext_memory_speed {
    uint64_t struct_size;
    /* Returns the speed of this machine's kind of CPU, which does not change while the process lives. Any thread. */
    const memory_speed *(*get)(void *ctx);
} ext_memory_speed;
#endif
