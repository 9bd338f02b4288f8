/* cli/cache_part.h - the file format of `inlay cache export`: one part per kind of machine, one after another.
 *
 *     inlay-cache 1 <SHA-256 of the rest of the part> <bytes of the head>\n      (128 bytes, padded with spaces)
 *     the head: {"inlay": "0.1.0", "cpu": "...", "threads": 8, "order": "little",
 *                "files": [{"name": "costs/machine.json", "bytes": 1234}]}\n
 *     the contents of the files, concatenated
 *
 * export writes one part; merge copies the parts of several files. A part holds nothing about a user or a folder:
 * verdicts on plugins and hashes of files on disk are not exported. */
#ifndef CLI_CACHE_PART_H
#define CLI_CACHE_PART_H
#include "inlay/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CACHE_PART_MAGIC "inlay-cache"
enum { CACHE_PART_VERSION = 1, CACHE_PART_LINE = 128, CACHE_PART_MOST_FILES = 65536 };
extern const char cache_part_measured[]; /* the name of the file with measurements */

typedef struct cache_part {
    json_t *head; /* owned; NULL: there are no more parts */
    char line[CACHE_PART_LINE + 1], sum[65];
    uint64_t begin, contents, end; /* offsets of the part, of its first file and of the next part, in bytes */
    uint32_t compiled, packed;     /* compiled regions and packed weights among the files */
    uint64_t bytes;                /* of all files */
} cache_part;

/* Reads the line and the head of the part at part->end (0 for the first part), and checks that the names and sizes of
 * its files are possible and that `from` is long enough. Leaves `from` at the first file. Reads no contents. */
INLAY_NODISCARD inlay_status cache_part_next(FILE *from, const char *path, cache_part *part, inlay_diag *diag);
void cache_part_deinit(cache_part *part);
/* Compares the part with its checksum; copies it to `to`, unless that is NULL. Leaves `from` at the first file. */
INLAY_NODISCARD inlay_status cache_part_copy(FILE *from, const char *path, const cache_part *part, FILE *to,
                                             inlay_diag *diag);
/* Checks that this machine can use the part. INLAY_UNSUPPORTED: it was made on another kind of machine, or its packed
 * weights or compiled regions by another version of inlay. elsewhere: only the measurements count, on any machine. */
INLAY_NODISCARD inlay_status cache_part_check(const cache_part *part, const char *path, bool elsewhere,
                                              inlay_diag *diag);
/* The costs folder also has files that are not exported, such as locks and leftovers of interrupted writes. */
bool cache_part_has_costs(const char *name);
const char *cache_part_byte_order(void);
#endif
