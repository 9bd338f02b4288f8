/* base/cache_folder.h - files in a cache folder: written atomically, and limited in number and size.
 *
 * Only the user can access the folders (see config/dirs.h); files have mode 0600. If a function fails, its callers
 * continue without the cache; the session does not fail. */
#ifndef BASE_CACHE_FOLDER_H
#define BASE_CACHE_FOLDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the contents of a file. */
typedef struct cache_folder_part {
    const void *data;
    uint64_t bytes;
} cache_folder_part;

/* Writes the parts, in order, to a temporary file and renames it to path, so that no reader sees a partial file. On
 * failure returns false, sets errno, and leaves path unchanged. Any thread. */
bool cache_folder_write(const char *path, const cache_folder_part *parts, uint32_t part_count);

/* Write a file in pieces, with the same guarantees. cache_folder_begin creates the temporary file and returns its
 * descriptor, or -1 with errno set; its name is written to temporary[temporary_bytes], PATH_MAX suffices.
 * cache_folder_end closes the file and, if good, renames it; otherwise it is deleted, errno stays and the result is
 * false. */
int cache_folder_begin(const char *path, char *temporary, size_t temporary_bytes);
bool cache_folder_end(const char *path, const char *temporary, int fd, bool good);

/* Deletes the least recently used files of the folder that end in suffix until the others fit max_bytes and max_files.
 * Also deletes temporary files that are older than an hour: their writers have died. Processes that have a deleted file
 * open can still use it. */
void cache_folder_trim(const char *path, const char *suffix, uint64_t max_bytes, uint32_t max_files);

/* Marks the open file as used now, for cache_folder_trim(). */
void cache_folder_touch(int fd);
#endif
