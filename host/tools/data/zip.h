/* data/zip.h - reads zip archives, the format of numpy's .npz files: stored or deflated entries, also zip64.
 *
 * All data of an archive are checked against the file's size before use; names are never used as paths. */
#ifndef DATA_ZIP_H
#define DATA_ZIP_H
#include "base/arena.h"
#include "inlay/status.h"
#include <stdio.h>

typedef struct zip_entry {
    const char *name; /* NUL-terminated */
    uint64_t offset;  /* of its local header */
    uint64_t packed, bytes;
    uint32_t method; /* 0 stored, 8 deflated */
    uint32_t crc;
} zip_entry;

typedef struct zip_list {
    zip_entry *entries;
    uint32_t count;
} zip_list;

/* Reads the directory of the archive into the arena. INLAY_IO_ERROR: not an archive, truncated, encrypted, or in
 * several parts. path is for messages. */
INLAY_NODISCARD inlay_status zip_read(FILE *file, const char *path, struct arena *arena, zip_list *out,
                                      inlay_diag *diag);

/* The entry "name.npy", in which '_' may replace each '/' and ':' of the name; NULL: missing. */
const zip_entry *zip_array(const zip_list *list, const char *name);

/* Unpacks an entry into a new unnamed temporary file, which the caller closes. INLAY_IO_ERROR also if the contents do
 * not have the size and the checksum of the directory. */
INLAY_NODISCARD inlay_status zip_extract(FILE *file, const char *path, const zip_entry *entry, FILE **out_file,
                                         inlay_diag *diag);
#endif
