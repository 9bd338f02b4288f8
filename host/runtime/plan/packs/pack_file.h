/* plan/packs/pack_file.h - a file of packed weights: a header, the packs, an index. Private to this folder.
 *
 * Valid only on the machine that wrote it: native byte order. Opening validates header and index, and a pack is
 * validated before it is used. A truncated, changed or foreign file is treated as missing. */
#ifndef PLAN_PACK_FILE_H
#define PLAN_PACK_FILE_H
#include <limits.h>
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
/* Validates pack i by its hash. Reads all of it, on several threads if it is large. unmaps: gives its pages back. */
bool pack_file_check(const pack_file *file, uint32_t i, bool unmaps);

/* A file that is written pack by pack, each of which is mapped while it is filled and afterwards. */
typedef struct pack_writer {
    int fd; /* -1: no file was begun */
    char path[PATH_MAX], temporary[PATH_MAX];
    uint64_t end;
    pack_entry *entries; /* [entry_count] of packs that are filled */
    uint32_t entry_count;
} pack_writer;

/* Begins a file that will be renamed to path. False, with errno: not possible. */
bool pack_writer_begin(pack_writer *writer, const char *path);
/* Adds room for a pack: writable memory, which the caller unmaps with pack_writer_unmap(). NULL, with errno: the disk
 * is full, or the file cannot be written. */
void *pack_writer_map(pack_writer *writer, uint64_t bytes, uint64_t *out_offset);
void pack_writer_unmap(void *data, uint64_t bytes);
/* The pack at data and at this offset is filled: it is written and stays mapped, read-only, without pages in memory. */
bool pack_writer_keep(pack_writer *writer, pack_key key, void *data, uint64_t bytes, uint64_t offset);
/* Adds a pack that is not mapped from the file. */
bool pack_writer_add(pack_writer *writer, pack_key key, const void *data, uint64_t bytes);
/* Ends the file: stores it under its path if `stored` and possible, otherwise deletes it. Returns whether it was
 * stored. Packs remain mapped in either case. */
bool pack_writer_end(pack_writer *writer, pack_key key, bool stored);

/* Writes a file of packs atomically. entries: the caller sets key and bytes, offset and hash are filled in; data[i]:
 * the pack of entries[i]. False, with errno: the file was not written. */
bool pack_file_write(const char *path, pack_key key, pack_entry *entries, const void *const *data,
                     uint32_t entry_count);
#endif
