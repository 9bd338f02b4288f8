/* model/packed.h - external data that is compressed: what `inlay quantize --pack` writes, and how it is read.
 *
 * The file stands in the place of the one that the model's offsets are meant for, and becomes it again when it is
 * opened:
 *
 *     8 bytes  "INLAYPK1"
 *     u64      bytes of the file that it stands for
 *     u32      bytes of a chunk of that file, the last one may be shorter: a multiple of 4096, at most 16 MiB
 *     u32      chunks
 *     u64      hash (base/hash.h) of the index, seeded with that of the 24 bytes before
 *     index    16 bytes a chunk: u32 stored bytes, u8 method, u8 planes, u16 0, u64 hash of the chunk's own bytes
 *     chunks   one after the other, to the end of the file
 *
 * Numbers are little-endian. With 2, 4 or 8 planes, elements of so many bytes were cut into their first bytes, their
 * second bytes and so on; what is no whole element belongs to the last plane. Method 0: one plane, the bytes as they
 * are. Method 1: the stored bytes of each plane as u32, then the planes: as they are where they have as many bytes as
 * before, frames of zstd otherwise. With 0 planes there are two: of each two bytes the low halves, and the high halves;
 * an odd last byte has halves of its own, each the low half of a byte. Method 2: 256 different elements of 2 or 4 bytes
 * (the number stands in the place of the planes), then which one each element of the chunk is: a byte each, or a frame
 * of zstd with these bytes. */
#ifndef MODEL_PACKED_H
#define MODEL_PACKED_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKED_MAGIC "INLAYPK1"
enum { PACKED_HEADER = 32, PACKED_ENTRY = 16, PACKED_MOST_CHUNK = 16 << 20, PACKED_MOST_PLANES = 8 };
enum { PACKED_AS_IS, PACKED_ZSTD, PACKED_TABLE };
enum { PACKED_KINDS = 256 };
/* A file that claims to be larger than that many times its own size, beyond a little, is refused: so that few bytes do
 * not ask for all memory. Writers keep to it. */
#define PACKED_RATIO UINT64_C(128)
#define PACKED_FREE (UINT64_C(64) << 20)

/* The functions of libzstd that are used; it is opened when it is first needed. */
typedef struct packed_zstd {
    size_t (*decompress)(void *decompressor, void *to, size_t capacity, const void *from, size_t bytes);
    void *(*create_decompressor)(void); /* NULL: no memory */
    size_t (*destroy_decompressor)(void *decompressor);
    void *(*create)(void); /* of a compressor; NULL: no memory */
    size_t (*destroy)(void *compressor);
    size_t (*set)(void *compressor, int parameter, int value);
    size_t (*compress)(void *compressor, void *to, size_t capacity, const void *from, size_t bytes);
    size_t (*bound)(size_t bytes);
    unsigned (*is_error)(size_t code);
} packed_zstd;
/* NULL: there is no libzstd.so.1. */
const packed_zstd *packed_library(void);

bool packed_is(const uint8_t *file, size_t bytes);
/* The file that it stands for, in memory from malloc, which the caller frees; chunks are decoded on the pool's threads.
 * Messages say what is wrong, not where. */
INLAY_NODISCARD inlay_status packed_open(const uint8_t *file, size_t bytes, void **out_raw, size_t *out_bytes,
                                         inlay_diag *diag);
#endif
