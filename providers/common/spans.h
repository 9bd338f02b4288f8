/* spans.h - places buffers in a workspace. Buffers that are never live at the same time may share bytes. */
#ifndef PROVIDER_SPANS_H
#define PROVIDER_SPANS_H
#include <stdint.h>

struct span {
    uint64_t bytes;
    uint32_t first, last; /* first and last step that uses the buffer */
    uint32_t id;          /* for the caller */
    uint64_t offset;      /* out */
};

/* Sets the offset of each span, a multiple of alignment (a power of two), and returns the total size. Larger spans
 * are placed first, each at the lowest offset that is free during its lifetime; spans of equal size are placed by
 * id. Afterwards the list is sorted by offset. */
uint64_t spans_place(struct span *list, uint32_t count, uint64_t alignment);
#endif
