/* spans.h - buffers of a workspace: those that are never needed at the same time share bytes. */
#ifndef PROVIDER_SPANS_H
#define PROVIDER_SPANS_H
#include <stdint.h>

struct span {
    uint64_t bytes;
    uint32_t first, last; /* steps that use it */
    uint32_t id;          /* the caller's */
    uint64_t offset;      /* out */
};

/* Gives each of list[count] an offset, a multiple of alignment (a power of two), and returns how many bytes all take.
 * The largest are placed first, each at the lowest offset where none of its time is in the way. Spans are in the order
 * of their offsets afterwards; two of one size are placed in the order of their ids. */
uint64_t spans_place(struct span *list, uint32_t count, uint64_t alignment);
#endif
