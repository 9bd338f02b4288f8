/* data/zip.h - the entries of a zip archive, which numpy's .npz files are: stored or deflated, zip64 too.
 *
 * Everything in an archive is checked against the file's size before it is used; names are never paths to write to. */
#ifndef DATA_ZIP_H
#define DATA_ZIP_H
#include "base/arena.h"
#include "inlay/status.h"
#include <stdio.h>

typedef struct zip_entry {
    const char *name; /* ends with NUL */
    uint64_t offset;  /* of its local header */
    uint64_t packed, bytes;
    uint32_t method; /* 0 stored, 8 deflated */
    uint32_t crc;
} zip_entry;

typedef struct zip_list {
    zip_entry *entries;
    uint32_t count;
} zip_list;

/* Reads the directory of the archive; all memory is the arena's. INLAY_IO_ERROR: no archive, cut short, encrypted, or
 * in several parts. path is for messages. */
INLAY_NODISCARD inlay_status zip_read(FILE *file, const char *path, struct arena *arena, zip_list *out,
                                      inlay_diag *diag);

/* The entry "name.npy", where '_' may stand for each '/' and ':' of the name; NULL: the archive has none. */
const zip_entry *zip_array(const zip_list *list, const char *name);

/* Unpacks an entry into a new temporary file without a name, which the caller closes. INLAY_IO_ERROR also when the
 * contents do not have the size and the checksum that the directory states. */
INLAY_NODISCARD inlay_status zip_extract(FILE *file, const char *path, const zip_entry *entry, FILE **out_file,
                                         inlay_diag *diag);
#endif
