/* model/packed.h - reads compressed external data, which `inlay quantize --pack` writes.
 *
 * The packed file replaces the original file, to which the model's offsets refer, and is decompressed when it is
 * opened:
 *
 *     8 bytes  "INLAYPK1"
 *     u64      size of the original file in bytes
 *     u32      bytes of a chunk of the original file: a multiple of 4096, at most 16 MiB; the last chunk may be shorter
 *     u32      number of chunks
 *     u64      hash (base/hash.h) of the index, seeded with the hash of the 24 bytes before
 *     index    16 bytes per chunk: u32 stored bytes, u8 method, u8 planes, u16 0, u64 hash of the original chunk
 *     chunks   consecutive, to the end of the file
 *
 * Numbers are little-endian. With 2, 4 or 8 planes, elements of that many bytes are split into a plane of first bytes,
 * a plane of second bytes and so on; bytes of an incomplete element belong to the last plane.
 *
 * Method 0: one plane, uncompressed. Method 1: the stored size of each plane as u32, then the planes; a plane whose
 * stored size is its original size is uncompressed, otherwise it is a zstd frame. 0 planes means two planes of half
 * bytes: of each two bytes the low halves, and the high halves; an odd last byte is stored as the low half of a byte in
 * each plane. Method 2: a table of 256 elements of 2 or 4 bytes (that size replaces the number of planes), then the
 * table index of each element of the chunk: one byte each, or a zstd frame with these bytes. */
#ifndef MODEL_PACKED_H
#define MODEL_PACKED_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKED_MAGIC "INLAYPK1"
enum { PACKED_HEADER = 32, PACKED_ENTRY = 16, PACKED_MAX_CHUNK = 16 << 20, PACKED_MAX_PLANES = 8 };
enum { PACKED_AS_IS, PACKED_ZSTD, PACKED_TABLE };
enum { PACKED_TABLE_SIZE = 256 }; /* elements of the table of method 2 */
/* A file may expand to at most PACKED_FREE_BYTES + PACKED_RATIO times its size, so that a small file cannot exhaust
 * memory. Writers respect this limit. */
#define PACKED_RATIO UINT64_C(128)
#define PACKED_FREE_BYTES (UINT64_C(64) << 20)

/* The functions of libzstd that are used. The library is loaded when it is first needed. */
typedef struct packed_zstd {
    size_t (*decompress)(void *decompressor, void *to, size_t capacity, const void *from, size_t bytes);
    void *(*create_decompressor)(void); /* NULL: out of memory */
    size_t (*destroy_decompressor)(void *decompressor);
    void *(*create)(void); /* creates a compressor; NULL: out of memory */
    size_t (*destroy)(void *compressor);
    size_t (*set)(void *compressor, int parameter, int value);
    size_t (*compress)(void *compressor, void *to, size_t capacity, const void *from, size_t bytes);
    size_t (*bound)(size_t bytes);
    unsigned (*is_error)(size_t code);
} packed_zstd;
/* NULL: libzstd.so.1 is not installed. */
const packed_zstd *packed_library(void);

bool is_packed_file(const uint8_t *file, size_t bytes);
/* Decompresses the file into memory from malloc, which the caller frees. Uses the threads of the pool. Messages contain
 * only the fault, not the file. */
INLAY_NODISCARD inlay_status packed_open(const uint8_t *file, size_t bytes, void **out_raw, size_t *out_bytes,
                                         inlay_diag *diag);
#endif
