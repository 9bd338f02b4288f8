#include "data/zip.h"
#include "base/output.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum {
    END_BYTES = 22, /* the end record; a comment may follow */
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_COMMENT = 0xffff,
    MAX_ENTRIES = 1 << 20,
    CHUNK = 1 << 16,
};

static uint64_t number(const unsigned char *data, int bytes)
{
    uint64_t value = 0;

    for (int i = bytes; i-- > 0;)
        value = value << 8 | data[i];
    return value;
}

static bool read_at(FILE *file, uint64_t offset, void *data, size_t bytes)
{
    return offset <= INT64_MAX && fseeko(file, (off_t)offset, SEEK_SET) == 0 && fread(data, 1, bytes, file) == bytes;
}

static inlay_status broken(const char *path, const char *what, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_IO_ERROR, "%s is not a valid .npz archive: %s", path, what);
}

/* Position of the directory, and number of its entries. */
struct directory {
    uint64_t offset, bytes, count;
};

static inlay_status read_end64(FILE *file, const char *path, uint64_t locator_at, struct directory *directory,
                               inlay_diag *diag)
{
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];

    if (!read_at(file, locator_at, locator, sizeof locator) || number(locator, 4) != 0x07064b50 ||
        !read_at(file, number(locator + 8, 8), end, sizeof end) || number(end, 4) != 0x06064b50)
        return broken(path, "the zip64 record is missing", diag);
    directory->count = number(end + 32, 8);
    directory->bytes = number(end + 40, 8);
    directory->offset = number(end + 48, 8);
    return INLAY_OK;
}

static inlay_status find_directory(FILE *file, const char *path, uint64_t size, struct arena *arena,
                                   struct directory *directory, inlay_diag *diag)
{
    const size_t tail_bytes = size < END_BYTES + MAX_COMMENT ? (size_t)size : END_BYTES + MAX_COMMENT;
    unsigned char *tail = arena_alloc(arena, tail_bytes + 1);
    size_t at;

    if (tail == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for the directory", path);
    if (size < END_BYTES || !read_at(file, size - tail_bytes, tail, tail_bytes))
        return broken(path, "it is too short", diag);
    for (at = tail_bytes - END_BYTES; number(tail + at, 4) != 0x06054b50; at--)
        if (at == 0)
            return broken(path, "it has no directory", diag);
    if (number(tail + at + 4, 2) != number(tail + at + 6, 2))
        return broken(path, "it is one of several parts", diag);
    directory->count = number(tail + at + 10, 2);
    directory->bytes = number(tail + at + 12, 4);
    directory->offset = number(tail + at + 16, 4);
    if (directory->count == 0xffff || directory->bytes == 0xffffffff || directory->offset == 0xffffffff) {
        const uint64_t end_at = size - tail_bytes + at;

        return end_at < LOCATOR_BYTES ? broken(path, "the zip64 record is missing", diag)
                                      : read_end64(file, path, end_at - LOCATOR_BYTES, directory, diag);
    }
    return INLAY_OK;
}

/* Reads the zip64 extra field: it has a 64-bit value, in this order, for each 32-bit field whose bits are all set. */
static void read_extra(const unsigned char *extra, size_t bytes, zip_entry *entry)
{
    while (bytes >= 4) {
        const size_t field = (size_t)number(extra + 2, 2), kind = (size_t)number(extra, 2);
        const unsigned char *data = extra + 4, *end;

        if (field > bytes - 4)
            return;
        end = data + field;
        INLAY_CHECK(end <= extra + bytes);
        if (kind == 1) {
            uint64_t *const wide[] = { &entry->bytes, &entry->packed, &entry->offset };

            for (int i = 0; i < 3 && end - data >= 8; i++)
                if (*wide[i] == 0xffffffff) {
                    *wide[i] = number(data, 8);
                    data += 8;
                }
        }
        extra = end;
        bytes -= 4 + field;
    }
}

inlay_status zip_read(FILE *file, const char *path, struct arena *arena, zip_list *out, inlay_diag *diag)
{
    struct directory directory = { 0 };
    unsigned char *all;
    size_t at = 0;
    struct stat st;
    off_t size;
    inlay_status status;

    *out = (zip_list){ 0 };
    output_note_read(fileno(file));
    if (fstat(fileno(file), &st) == 0 && S_ISDIR(st.st_mode))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s is a folder: name a file", path);
    if (fseeko(file, 0, SEEK_END) != 0 || (size = ftello(file)) < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    INLAY_TRY(find_directory(file, path, (uint64_t)size, arena, &directory, diag));
    if (directory.offset > (uint64_t)size || directory.bytes > (uint64_t)size - directory.offset ||
        directory.count > MAX_ENTRIES || directory.count > directory.bytes / CENTRAL_BYTES)
        return broken(path, "the directory is outside of the file", diag);
    all = arena_alloc(arena, (size_t)directory.bytes + 1);
    out->entries = arena_array(arena, (size_t)directory.count + 1, sizeof *out->entries);
    if (all == NULL || out->entries == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for the directory", path);
    if (!read_at(file, directory.offset, all, (size_t)directory.bytes))
        return broken(path, "the directory cannot be read", diag);
    while (out->count < directory.count) {
        const unsigned char *record = all + at;
        const size_t left = (size_t)directory.bytes - at;
        zip_entry *entry = &out->entries[out->count];
        size_t name_bytes, extra_bytes, comment_bytes;

        if (left < CENTRAL_BYTES || number(record, 4) != 0x02014b50)
            return broken(path, "the directory is damaged", diag);
        name_bytes = (size_t)number(record + 28, 2);
        extra_bytes = (size_t)number(record + 30, 2);
        comment_bytes = (size_t)number(record + 32, 2);
        if (left - CENTRAL_BYTES < name_bytes + extra_bytes + comment_bytes)
            return broken(path, "the directory is damaged", diag);
        *entry = (zip_entry){ .name = arena_string_n(arena, (const char *)record + CENTRAL_BYTES, name_bytes),
                              .offset = number(record + 42, 4),
                              .packed = number(record + 20, 4),
                              .bytes = number(record + 24, 4),
                              .method = (uint32_t)number(record + 10, 2),
                              .crc = (uint32_t)number(record + 16, 4) };
        if (entry->name == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for the directory", path);
        read_extra(record + CENTRAL_BYTES + name_bytes, extra_bytes, entry);
        if ((number(record + 8, 2) & 1) != 0)
            return broken(path, "it is encrypted", diag);
        at += CENTRAL_BYTES + name_bytes + extra_bytes + comment_bytes;
        out->count++;
    }
done:
    return status;
}

/* The state of unpacking an entry. */
struct unpacking {
    FILE *from, *to;
    const char *path;
    const zip_entry *entry;
    uint64_t written;
    uLong crc;
};

static inlay_status put(struct unpacking *unpacking, const unsigned char *data, size_t bytes, inlay_diag *diag)
{
    INLAY_CHECK(unpacking->written <= unpacking->entry->bytes);
    if (bytes > unpacking->entry->bytes - unpacking->written)
        return broken(unpacking->path, "an entry is longer than the directory says", diag);
    if (fwrite(data, 1, bytes, unpacking->to) != bytes)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: cannot unpack entry '%.100s': %s", unpacking->path,
                          unpacking->entry->name, strerror(errno));
    unpacking->crc = crc32(unpacking->crc, data, (uInt)bytes);
    unpacking->written += bytes;
    return INLAY_OK;
}

static inlay_status copy_stored(struct unpacking *unpacking, inlay_diag *diag)
{
    unsigned char chunk[CHUNK];
    inlay_status status = INLAY_OK;

    for (uint64_t left = unpacking->entry->packed; left > 0 && status == INLAY_OK;) {
        const size_t bytes = left < sizeof chunk ? (size_t)left : sizeof chunk;

        if (fread(chunk, 1, bytes, unpacking->from) != bytes)
            return broken(unpacking->path, "an entry is truncated", diag);
        status = put(unpacking, chunk, bytes, diag);
        left -= bytes;
    }
    return status;
}

static inlay_status inflate_entry(struct unpacking *unpacking, inlay_diag *diag)
{
    unsigned char in[CHUNK], out[CHUNK];
    uint64_t left = unpacking->entry->packed;
    z_stream stream = { .next_in = in };
    inlay_status status = INLAY_OK;
    int code = Z_OK;

    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory", unpacking->path);
    while (status == INLAY_OK && code != Z_STREAM_END) {
        if (stream.avail_in == 0) {
            const size_t bytes = left < sizeof in ? (size_t)left : sizeof in;

            if (bytes == 0 || fread(in, 1, bytes, unpacking->from) != bytes) {
                status = broken(unpacking->path, "an entry is truncated", diag);
                break;
            }
            left -= bytes;
            stream.next_in = in;
            stream.avail_in = (uInt)bytes;
        }
        stream.next_out = out;
        stream.avail_out = sizeof out;
        code = inflate(&stream, Z_NO_FLUSH);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            status = broken(unpacking->path, "an entry is damaged", diag);
        else
            status = put(unpacking, out, sizeof out - stream.avail_out, diag);
    }
    (void)inflateEnd(&stream);
    return status;
}

const zip_entry *zip_array(const zip_list *list, const char *name)
{
    const size_t bytes = strlen(name);

    for (uint32_t i = 0; i < list->count; i++) {
        const char *key = list->entries[i].name;
        size_t same = 0;

        while (same < bytes &&
               (key[same] == name[same] || (key[same] == '_' && (name[same] == '/' || name[same] == ':'))))
            same++;
        if (same == bytes && strcmp(key + bytes, ".npy") == 0)
            return &list->entries[i];
    }
    return NULL;
}

inlay_status zip_extract(FILE *file, const char *path, const zip_entry *entry, FILE **out_file, inlay_diag *diag)
{
    struct unpacking unpacking = { .from = file, .path = path, .entry = entry, .crc = crc32(0, NULL, 0) };
    unsigned char local[LOCAL_BYTES];
    inlay_status status = INLAY_OK;

    *out_file = NULL;
    if (entry->method != 0 && entry->method != 8)
        return inlay_fail(diag, INLAY_IO_ERROR,
                          "%s: entry '%.100s' uses compression method %u; only stored and deflated entries are "
                          "supported (numpy.savez, savez_compressed)",
                          path, entry->name, entry->method);
    if (!read_at(file, entry->offset, local, sizeof local) || number(local, 4) != 0x04034b50 ||
        fseeko(file, (off_t)(number(local + 26, 2) + number(local + 28, 2)), SEEK_CUR) != 0)
        return broken(path, "an entry is not at the position in the directory", diag);
    unpacking.to = tmpfile();
    if (unpacking.to == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: cannot create a temporary file: %s", path, strerror(errno));
    INLAY_TRY(entry->method == 0 ? copy_stored(&unpacking, diag) : inflate_entry(&unpacking, diag));
    if (unpacking.written != entry->bytes || unpacking.crc != entry->crc) {
        status = broken(path, "an entry does not have the checksum of the directory", diag);
        goto done;
    }
    if (fflush(unpacking.to) != 0) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: cannot unpack entry '%.100s': %s", path, entry->name,
                            strerror(errno));
        goto done;
    }
    rewind(unpacking.to);
    *out_file = unpacking.to;
    unpacking.to = NULL;
done:
    if (unpacking.to != NULL)
        (void)fclose(unpacking.to);
    return status;
}
