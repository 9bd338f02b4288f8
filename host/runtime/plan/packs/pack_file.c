#include "plan/packs/pack_file.h"
#include "base/hash.h"
#include "base/cache_folder.h"
#include "threads/hash_many.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1, HEAD_BYTES = 4096, ALIGN = 64, LARGE = 65536, LARGE_ALIGN = 4096, MAX_ENTRIES = 1 << 20 };

typedef struct pack_head {
    char magic[8];
    uint32_t format;
    uint32_t entry_count;
    pack_key key;
    uint64_t index_offset;
    uint64_t index_hash;
    uint64_t file_bytes;
    uint64_t hash; /* of all before it */
} pack_head;

static const char magic[8] = { 'i', 'n', 'l', 'a', 'y', 'p', 'c', 'k' };

static uint64_t hash_head(const pack_head *head)
{
    return hash_bytes(head, offsetof(pack_head, hash), 0);
}

/* ------------------------------------------------------------------ reading */

static bool head_fits(const pack_head *head, pack_key key, uint64_t file_bytes)
{
    return memcmp(head->magic, magic, sizeof magic) == 0 && head->format == FORMAT && head->hash == hash_head(head) &&
           memcmp(&head->key, &key, sizeof key) == 0 && head->file_bytes == file_bytes &&
           head->entry_count <= MAX_ENTRIES && head->index_offset >= HEAD_BYTES && head->index_offset % ALIGN == 0 &&
           head->index_offset <= file_bytes &&
           head->entry_count * sizeof(pack_entry) == file_bytes - head->index_offset;
}

static bool entries_fit(const pack_file *file, uint64_t index_offset)
{
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const pack_entry *entry = &file->entries[i];

        if (entry->offset < HEAD_BYTES || entry->offset % ALIGN != 0 || entry->offset > index_offset ||
            entry->bytes > index_offset - entry->offset)
            return false;
    }
    return true;
}

bool pack_file_check(const pack_file *file, uint32_t i)
{
    hash_job job = { .data = file->map + file->entries[i].offset, .bytes = file->entries[i].bytes };

    return hash_many(&job, 1) && job.hash == file->entries[i].hash;
}

static int read_file(int fd, pack_key key, pack_file *out)
{
    const pack_head *head;
    struct stat state;

    if (fstat(fd, &state) != 0)
        return errno;
    if (!S_ISREG(state.st_mode) || state.st_size < HEAD_BYTES)
        return EBADMSG;
    out->map_bytes = (size_t)state.st_size;
    out->map = mmap(NULL, out->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (out->map == MAP_FAILED) {
        out->map = NULL;
        return errno;
    }
    head = (const pack_head *)(const void *)out->map;
    if (!head_fits(head, key, out->map_bytes))
        return EBADMSG;
    out->entries = (const pack_entry *)(const void *)(out->map + head->index_offset);
    out->entry_count = head->entry_count;
    if (hash_bytes(out->entries, out->entry_count * sizeof *out->entries, 0) != head->index_hash ||
        !entries_fit(out, head->index_offset))
        return EBADMSG;
    cache_folder_touch(fd);
    return 0;
}

int pack_file_open(const char *path, pack_key key, pack_file *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error;

    *out = (pack_file){ .map = NULL };
    if (fd < 0)
        return errno;
    error = read_file(fd, key, out);
    if (error != 0)
        pack_file_close(out);
    (void)close(fd);
    return error;
}

void pack_file_close(pack_file *file)
{
    if (file->map != NULL)
        (void)munmap(file->map, file->map_bytes);
    *file = (pack_file){ .map = NULL };
}

/* ------------------------------------------------------------------ writing */

/* Assigns offsets: large packs start at page boundaries, so that no page of a mapping holds two of them. Returns the
 * end. */
static uint64_t place_entries(pack_entry *entries, uint32_t count)
{
    uint64_t end = HEAD_BYTES;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t align = entries[i].bytes >= LARGE ? LARGE_ALIGN : ALIGN;

        entries[i].offset = (end + align - 1) & ~(align - 1);
        end = entries[i].offset + entries[i].bytes;
    }
    return (end + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

bool pack_file_write(const char *path, pack_key key, pack_entry *entries, const void *const *data, uint32_t entry_count)
{
    static char zeros[HEAD_BYTES]; /* only read; not const, so that it is in .bss and not in the binary */
    uint64_t index = place_entries(entries, entry_count), end = sizeof(pack_head);
    pack_head head = { .format = FORMAT, .entry_count = entry_count, .key = key, .index_offset = index };
    cache_folder_part *parts = malloc((2 * (size_t)entry_count + 3) * sizeof *parts);
    uint32_t part_count = 0;
    bool good;

    if (parts == NULL)
        return false;
    parts[part_count++] = (cache_folder_part){ &head, sizeof head };
    for (uint32_t i = 0; i < entry_count; i++) {
        entries[i].hash = hash_blocks(data[i], (size_t)entries[i].bytes, 0);
        parts[part_count++] = (cache_folder_part){ zeros, entries[i].offset - end };
        parts[part_count++] = (cache_folder_part){ data[i], entries[i].bytes };
        end = entries[i].offset + entries[i].bytes;
    }
    parts[part_count++] = (cache_folder_part){ zeros, index - end };
    parts[part_count++] = (cache_folder_part){ entries, entry_count * sizeof *entries };
    memcpy(head.magic, magic, sizeof magic);
    head.index_hash = hash_bytes(entries, entry_count * sizeof *entries, 0);
    head.file_bytes = index + entry_count * sizeof *entries;
    head.hash = hash_head(&head);
    good = cache_folder_write(path, parts, part_count);
    free(parts);
    return good;
}
