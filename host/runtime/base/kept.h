/* base/kept.h - files in a cache folder: written whole or not at all, and bounded in number and size.
 *
 * Folders are the user's own, see config/dirs.h; files are 0600. Nothing here fails a session: callers go without. */
#ifndef BASE_KEPT_H
#define BASE_KEPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes path in one go from the parts, under another name first, so that nobody ever sees half a file. false, with
 * errno set: nothing has changed. Any thread. */
typedef struct kept_part {
    const void *data;
    uint64_t bytes;
} kept_part;
bool kept_write(const char *path, const kept_part *parts, uint32_t part_count);

/* Files of the folder that end in suffix: the longest unused go until the others fit max_bytes and max_files. Left
 * behind by writers that died: those go after an hour. What is open elsewhere stays valid there. */
void kept_trim(const char *path, const char *suffix, uint64_t max_bytes, uint32_t max_files);

/* Says that the open file has been used, for kept_trim. */
void kept_touch(int fd);
#endif
