#include "plan/packs/pack_file.h"
#include "base/hash.h"
#include "base/cache_folder.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/pages.h"
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

bool pack_file_check(const pack_file *file, uint32_t i, bool unmaps)
{
    hash_job job = { .data = file->map + file->entries[i].offset, .bytes = file->entries[i].bytes, .mapped = unmaps };

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

static void complete_head(pack_head *head, const pack_entry *entries)
{
    memcpy(head->magic, magic, sizeof magic);
    head->format = FORMAT;
    head->index_hash = hash_bytes(entries, head->entry_count * sizeof *entries, 0);
    head->file_bytes = head->index_offset + head->entry_count * sizeof *entries;
    head->hash = hash_head(head);
}

bool pack_file_write(const char *path, pack_key key, pack_entry *entries, const void *const *data, uint32_t entry_count)
{
    /* only read; not const, so that the array is in .bss and takes no space in the binary */
    static char zeros[HEAD_BYTES];
    uint64_t index = place_entries(entries, entry_count), end = sizeof(pack_head);
    pack_head head = { .entry_count = entry_count, .key = key, .index_offset = index };
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
    complete_head(&head, entries);
    good = cache_folder_write(path, parts, part_count);
    free(parts);
    return good;
}

bool pack_writer_begin(pack_writer *writer, const char *path)
{
    const size_t bytes = strlen(path) + 1;

    *writer = (pack_writer){ .fd = -1, .end = HEAD_BYTES };
    if (bytes > sizeof writer->path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(writer->path, path, bytes);
    writer->fd = cache_folder_begin(path, writer->temporary, sizeof writer->temporary);
    return writer->fd >= 0;
}

void *pack_writer_map(pack_writer *writer, uint64_t bytes, uint64_t *out_offset)
{
    const uint64_t offset = (writer->end + LARGE_ALIGN - 1) & ~(uint64_t)(LARGE_ALIGN - 1);
    /* Blocks are reserved: writing to a mapped hole of a full disk would raise SIGBUS. */
    const int error = posix_fallocate(writer->fd, (off_t)offset, (off_t)bytes);
    void *data;

    if (error != 0) {
        errno = error;
        return NULL;
    }
    data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, writer->fd, (off_t)offset);
    if (data == MAP_FAILED)
        return NULL;
    writer->end = offset + bytes;
    *out_offset = offset;
    return data;
}

void pack_writer_unmap(void *data, uint64_t bytes)
{
    (void)munmap(data, (size_t)bytes);
}

/* Adds the entry of a pack at this offset. */
static bool add_entry(pack_writer *writer, pack_key key, const void *data, uint64_t bytes, uint64_t offset)
{
    if (!LIST_GROW(writer->entries, writer->entry_count))
        return false;
    writer->entries[writer->entry_count++] =
        (pack_entry){ .key = key, .offset = offset, .bytes = bytes, .hash = hash_blocks(data, (size_t)bytes, 0) };
    return true;
}

bool pack_writer_keep(pack_writer *writer, pack_key key, void *data, uint64_t bytes, uint64_t offset)
{
    const bool good = add_entry(writer, key, data, bytes, offset);

    (void)mprotect(data, (size_t)bytes, PROT_READ);
    if (msync(data, (size_t)bytes, MS_SYNC) != 0) /* pages that are not written cannot be given back */
        return false;
    pages_drop(data, bytes);
    return good;
}

bool pack_writer_add(pack_writer *writer, pack_key key, const void *data, uint64_t bytes)
{
    const uint64_t offset = (writer->end + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);

    if (lseek(writer->fd, (off_t)offset, SEEK_SET) < 0 || !output_write(writer->fd, data, bytes) ||
        !add_entry(writer, key, data, bytes, offset))
        return false;
    writer->end = offset + bytes;
    return true;
}

bool pack_writer_end(pack_writer *writer, pack_key key, bool stored)
{
    pack_head head = { .entry_count = writer->entry_count,
                       .key = key,
                       .index_offset = (writer->end + ALIGN - 1) & ~(uint64_t)(ALIGN - 1) };

    if (writer->fd < 0)
        return false;
    complete_head(&head, writer->entries);
    stored = stored && lseek(writer->fd, (off_t)head.index_offset, SEEK_SET) >= 0 &&
             output_write(writer->fd, writer->entries, head.entry_count * sizeof *writer->entries) &&
             lseek(writer->fd, 0, SEEK_SET) >= 0 && output_write(writer->fd, &head, sizeof head);
    stored = cache_folder_end(writer->path, writer->temporary, writer->fd, stored);
    free(writer->entries);
    *writer = (pack_writer){ .fd = -1 };
    return stored;
}
