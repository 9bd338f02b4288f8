/* plan/packs/pack_file.h - a file of packs: a head, the packs, an index. Private to this folder.
 *
 * For the machine that wrote it: native byte order. Opening checks head and index, and a pack is checked before it is
 * used: what was cut, changed, or comes from elsewhere counts as none. */
#ifndef PLAN_PACK_FILE_H
#define PLAN_PACK_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pack_key {
    uint64_t word[2];
} pack_key;

/* As it stands in the index. */
typedef struct pack_entry {
    pack_key key;
    uint64_t offset; /* in the file, a multiple of 64 */
    uint64_t bytes;
    uint64_t hash; /* hash_blocks of the pack, seed 0 */
} pack_entry;

/* A file that has been read. */
typedef struct pack_file {
    char *map; /* read-only */
    size_t map_bytes;
    const pack_entry *entries; /* [entry_count] in map */
    uint32_t entry_count;
} pack_file;

/* Maps the file at path if its head and index are whole and were written for this key. 0: *out is the caller's. ENOENT:
 * there is none. Otherwise why not: EBADMSG = damaged or foreign, or an errno. */
int pack_file_open(const char *path, pack_key key, pack_file *out);
void pack_file_close(pack_file *file);
/* Is pack i what was written? Reads all of it, on several threads if it is large. */
bool pack_file_check(const pack_file *file, uint32_t i);

/* Writes a file of packs and gives it its name when it is whole. entries: key and bytes are the caller's, offset and
 * hash are filled in; data[i]: the pack of entries[i]. false, with errno: there is no such file. */
bool pack_file_write(const char *path, pack_key key, pack_entry *entries, const void *const *data,
                     uint32_t entry_count);
#endif
