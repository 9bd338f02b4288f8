/* data/npy_format.h - shared by reading and writing .npy files; see npy.h. */
#ifndef DATA_NPY_FORMAT_H
#define DATA_NPY_FORMAT_H
#include "base/arena.h"
#include "inlay/status.h"
#include "inlay/types.h"
#include <stdbool.h>
#include <stdio.h>

/* The magic bytes of a file; two bytes of version and the header's length follow. */
extern const char npy_magic[6];

/* numpy's kind letter and size of a type; for other types, those of the integer type that stores them. */
typedef struct npy_stored {
    char kind;
    uint8_t bytes;
    bool exact; /* false: numpy has no such type */
} npy_stored;
extern const npy_stored npy_stored_as[INLAY_DTYPE_COUNT];

/* The header of a file. */
typedef struct npy_header {
    char kind; /* 'f' ... 'V' */
    bool swap; /* big-endian */
    bool fortran;
    uint64_t item_bytes; /* of one element */
    int64_t dims[INLAY_MAX_RANK];
    uint32_t rank;
} npy_header;

/* Reads up to the data. *out_left is the number of bytes after the header. INLAY_IO_ERROR: not a regular file,
 * truncated, not .npy, or not supported. */
INLAY_NODISCARD inlay_status npy_read_header(FILE *file, const char *path, struct arena *arena, npy_header *header,
                                             uint64_t *out_left, inlay_diag *diag);

/* Reads exactly `bytes` bytes or fails with INLAY_IO_ERROR. */
INLAY_NODISCARD inlay_status npy_read_exactly(FILE *file, const char *path, void *data, size_t bytes, inlay_diag *diag);
#endif
