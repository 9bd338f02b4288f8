/* plan/packs/pack_file.h - a file of packed weights: a header, the packs, an index. Private to this folder.
 *
 * Valid only on the machine that wrote it: native byte order. Opening validates header and index, and a pack is
 * validated before it is used. A truncated, changed or foreign file is treated as missing. */
#ifndef PLAN_PACK_FILE_H
#define PLAN_PACK_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pack_key {
    uint64_t word[2];
} pack_key;

/* An entry of the index. */
typedef struct pack_entry {
    pack_key key;
    uint64_t offset; /* in the file, a multiple of 64 */
    uint64_t bytes;
    uint64_t hash; /* hash_blocks of the pack, seed 0 */
} pack_entry;

/* An open file. */
typedef struct pack_file {
    char *map; /* read-only */
    size_t map_bytes;
    const pack_entry *entries; /* [entry_count] in map */
    uint32_t entry_count;
} pack_file;

/* Maps the file at path if its header and index are valid and were written for this key. 0: the caller owns *out.
 * ENOENT: no such file. Otherwise the reason: EBADMSG = damaged or foreign, or an errno. */
int pack_file_open(const char *path, pack_key key, pack_file *out);
void pack_file_close(pack_file *file);
/* Validates pack i by its hash. Reads all of it, on several threads if it is large. */
bool pack_file_check(const pack_file *file, uint32_t i);

/* Writes a file of packs atomically. entries: the caller sets key and bytes, offset and hash are filled in; data[i]:
 * the pack of entries[i]. False, with errno: the file was not written. */
bool pack_file_write(const char *path, pack_key key, pack_entry *entries, const void *const *data,
                     uint32_t entry_count);
#endif
