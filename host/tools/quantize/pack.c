#include "quantize/pack.h"
#include "inlay/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/output.h"
#include "model/packed.h"
#include "threads/threads.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Weights have a skewed distribution of bytes, but hardly any repetitions: chance matches are short and take longer to
 * decode than literals. So the level is 1 and the minimum match length 7. A chunk and its planes fit in the
 * second-level cache of a core while they are joined. */
enum { ZSTD_LEVEL = 100, ZSTD_LEAST_MATCH = 105, LEVEL = 1, LEAST_MATCH = 7 }; /* parameter numbers of zstd.h */
enum { CHUNK = 1 << 18, TRIED = 1 << 16, GAIN = 64 /* a gain below 1/64 does not pay for its time */ };

/* One stored chunk. */
struct chunk {
    uint8_t *bytes; /* from malloc; NULL: stored uncompressed */
    uint32_t stored;
    uint8_t method, planes;
    uint64_t hash;
};

struct packing {
    const uint8_t *raw;
    size_t bytes;
    uint32_t chunk_bytes, count;
    struct chunk *chunks; /* [count] */
    const packed_zstd *zstd;
};

static uint8_t *put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static void split_half_bytes(const uint8_t *from, size_t bytes, uint8_t *to)
{
    const size_t half = (bytes + 1) / 2;

    for (size_t i = 0; i < half; i++) {
        const uint8_t low = from[2 * i], high = 2 * i + 1 < bytes ? from[2 * i + 1] : 0;

        to[i] = (uint8_t)((low & 15) | high << 4);
        to[half + i] = (uint8_t)(low >> 4 | (high & 240));
    }
}

static void split_planes(const uint8_t *from, size_t bytes, size_t planes, uint8_t *to)
{
    const size_t plane_bytes = planes == 0 ? 0 : bytes / planes;

    if (planes == 0) {
        split_half_bytes(from, bytes, to);
        return;
    }
    for (size_t plane = 0; plane < planes; plane++)
        for (size_t i = 0; i < plane_bytes; i++)
            to[plane * plane_bytes + i] = from[planes * i + plane];
    memcpy(to + plane_bytes * planes, from + plane_bytes * planes, bytes - plane_bytes * planes);
}

/* Scratch size for a chunk split into planes, and for its compressed form. */
static size_t scratch_bytes(const struct packing *packing)
{
    return packing->chunk_bytes +
           PACKED_MAX_PLANES *
               (4 + packing->zstd->bound(packing->chunk_bytes / PACKED_MAX_PLANES + PACKED_MAX_PLANES)) +
           2;
}

/* Compresses each plane as a frame with its own Huffman code, because the bytes of one plane have similar statistics;
 * planes of noise stay uncompressed. SIZE_MAX: zstd failed. */
static size_t compress_planes(const struct packing *packing, void *compressor, const uint8_t *raw, size_t bytes,
                              size_t planes, uint8_t *scratch)
{
    const size_t count = planes == 0 ? 2 : planes, plane_bytes = planes == 0 ? (bytes + 1) / 2 : bytes / planes;
    const size_t capacity = scratch_bytes(packing) - packing->chunk_bytes;
    uint8_t *out = scratch + packing->chunk_bytes;
    size_t used = 4 * count;

    split_planes(raw, bytes, planes, scratch);
    for (size_t plane = 0; plane < count; plane++) {
        const size_t own = plane + 1 < count || planes == 0 ? plane_bytes : bytes - plane_bytes * plane;
        size_t got =
            packing->zstd->compress(compressor, out + used, capacity - used, scratch + plane_bytes * plane, own);

        if (packing->zstd->is_error(got))
            return SIZE_MAX;
        if (got + own / GAIN >= own) {
            memcpy(out + used, scratch + plane_bytes * plane, own);
            got = own;
        }
        (void)put(out + 4 * plane, got, 4);
        used += got;
    }
    return used;
}

/* The number of planes that compresses the beginning of a chunk best. Information in a byte may be confined to its high
 * half, and half as many symbols are decoded twice as fast: half-byte planes (0) win if they are nearly as small as
 * whole bytes. */
static uint8_t best_planes(const struct packing *packing, void *compressor, const uint8_t *raw, size_t bytes,
                           uint8_t *scratch)
{
    static const uint8_t choices[] = { 1, 0, 2, 4, 8 };
    const size_t tried = bytes < TRIED ? bytes : TRIED;
    size_t least = SIZE_MAX;
    uint8_t best = 1;

    for (size_t i = 0; i < sizeof choices; i++) {
        const uint8_t planes = choices[i];
        const size_t got = compress_planes(packing, compressor, raw, tried, planes, scratch);
        const size_t room_left = planes == 0 ? tried / GAIN : 0, handicap = planes > 1 ? tried / GAIN : 0;

        if (got != SIZE_MAX && least != SIZE_MAX ? got + handicap < least + room_left : got < least) {
            least = got;
            best = planes;
        }
    }
    return best;
}

/* Maps each element of `size` bytes to one of at most 256 distinct values; false: there are more. */
static bool index_values(const uint8_t *raw, size_t count, size_t size, uint8_t *table, uint8_t *codes)
{
    enum { SLOTS = 1024, NONE = 0xffff };
    uint32_t keys[SLOTS];
    uint16_t codes_of[SLOTS];
    size_t kinds = 0;

    memset(codes_of, 0xff, sizeof codes_of);
    memset(table, 0, PACKED_TABLE_SIZE * size);
    for (size_t i = 0; i < count; i++) {
        uint32_t key = 0, slot;

        memcpy(&key, raw + i * size, size);
        for (slot = key * 2654435761u >> 22; codes_of[slot] != NONE && keys[slot] != key;)
            slot = (slot + 1) % SLOTS;
        if (codes_of[slot] == NONE) {
            if (kinds == PACKED_TABLE_SIZE)
                return false;
            memcpy(table + kinds * size, &key, size);
            keys[slot] = key;
            codes_of[slot] = (uint16_t)kinds++;
        }
        codes[i] = (uint8_t)codes_of[slot];
    }
    return true;
}

/* Packs the chunk as a table and codes if its elements have few distinct values, as weights that were int8 before they
 * were floats. SIZE_MAX: they have more. */
static size_t pack_table(const struct packing *packing, void *compressor, const uint8_t *raw, size_t bytes,
                         uint8_t *scratch, uint8_t *out_size)
{
    uint8_t *out = scratch + packing->chunk_bytes;

    for (size_t size = 4; size >= 2; size -= 2) {
        const size_t count = bytes / size, table = PACKED_TABLE_SIZE * size;
        size_t got;

        if (count * size != bytes || table + count > scratch_bytes(packing) - packing->chunk_bytes ||
            !index_values(raw, count, size, out, scratch))
            continue;
        got = packing->zstd->compress(compressor, out + table, scratch_bytes(packing) - packing->chunk_bytes - table,
                                      scratch, count);
        if (packing->zstd->is_error(got) || got + count / GAIN >= count) {
            memcpy(out + table, scratch, count);
            got = count;
        }
        *out_size = (uint8_t)size;
        return table + got;
    }
    return SIZE_MAX;
}

static bool store_chunk(const struct packing *packing, struct chunk *chunk, const uint8_t *scratch, size_t bytes,
                        int method, uint8_t planes)
{
    uint8_t *own = malloc(bytes);

    INLAY_CHECK(bytes <= scratch_bytes(packing) - packing->chunk_bytes);
    if (own == NULL)
        return false;
    memcpy(own, scratch + packing->chunk_bytes, bytes);
    free(chunk->bytes);
    chunk->bytes = own;
    chunk->stored = (uint32_t)bytes;
    chunk->method = (uint8_t)method;
    chunk->planes = planes;
    return true;
}

static bool pack_chunk(const struct packing *packing, void *compressor, uint32_t i, uint8_t *scratch)
{
    const uint8_t *raw = packing->raw + (size_t)i * packing->chunk_bytes;
    const size_t left = packing->bytes - (size_t)i * packing->chunk_bytes,
                 bytes = left < packing->chunk_bytes ? left : packing->chunk_bytes;
    struct chunk *chunk = &packing->chunks[i];
    uint8_t planes;
    size_t got;

    *chunk = (struct chunk){
        .stored = (uint32_t)bytes, .method = PACKED_AS_IS, .planes = 1, .hash = hash_bytes(raw, bytes, 0)
    };
    got = pack_table(packing, compressor, raw, bytes, scratch, &planes);
    if (got < bytes && !store_chunk(packing, chunk, scratch, got, PACKED_TABLE, planes))
        return false;
    planes = best_planes(packing, compressor, raw, bytes, scratch);
    got = compress_planes(packing, compressor, raw, bytes, planes, scratch);
    return got == SIZE_MAX || got >= chunk->stored || got + bytes / GAIN >= bytes ||
           store_chunk(packing, chunk, scratch, got, PACKED_ZSTD, planes);
}

static inlay_status pack_chunks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct packing *packing = user;
    uint8_t *scratch = malloc(scratch_bytes(packing));
    void *compressor = packing->zstd->create();
    bool good = scratch != NULL && compressor != NULL &&
                !packing->zstd->is_error(packing->zstd->set(compressor, ZSTD_LEVEL, LEVEL)) &&
                !packing->zstd->is_error(packing->zstd->set(compressor, ZSTD_LEAST_MATCH, LEAST_MATCH));

    (void)worker;
    for (int64_t i = begin; good && i < end; i++)
        good = pack_chunk(packing, compressor, (uint32_t)i, scratch);
    (void)packing->zstd->destroy(compressor); /* NULL is a no-op */
    free(scratch);
    return good ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

static size_t packed_bytes(const struct packing *packing)
{
    size_t bytes = PACKED_HEADER + (size_t)packing->count * PACKED_ENTRY;

    for (uint32_t i = 0; i < packing->count; i++)
        bytes += packing->chunks[i].stored;
    return bytes;
}

/* Stores chunks uncompressed until the compression ratio is within the limit that readers accept. */
static size_t limit_ratio(const struct packing *packing)
{
    size_t bytes = packed_bytes(packing);

    for (uint32_t i = 0; i < packing->count && packing->bytes > PACKED_FREE_BYTES &&
                         (packing->bytes - PACKED_FREE_BYTES) / PACKED_RATIO > bytes;
         i++) {
        const size_t left = packing->bytes - (size_t)i * packing->chunk_bytes,
                     own = left < packing->chunk_bytes ? left : packing->chunk_bytes;

        bytes += own - packing->chunks[i].stored;
        free(packing->chunks[i].bytes);
        packing->chunks[i].bytes = NULL;
        packing->chunks[i].stored = (uint32_t)own;
        packing->chunks[i].method = PACKED_AS_IS;
        packing->chunks[i].planes = 1;
    }
    return bytes;
}

static void write_packed(const struct packing *packing, uint8_t *out)
{
    uint8_t *at = out + PACKED_HEADER;

    memcpy(out, PACKED_MAGIC, 8);
    (void)put(out + 8, packing->bytes, 8);
    (void)put(out + 16, packing->chunk_bytes, 4);
    (void)put(out + 20, packing->count, 4);
    for (uint32_t i = 0; i < packing->count; i++) {
        const struct chunk *chunk = &packing->chunks[i];

        at = put(at, chunk->stored, 4);
        at = put(at, chunk->method, 1);
        at = put(at, chunk->planes, 1);
        at = put(at, 0, 2);
        at = put(at, chunk->hash, 8);
    }
    (void)put(
        out + 24,
        hash_bytes(out + PACKED_HEADER, (size_t)packing->count * PACKED_ENTRY, hash_bytes(out, PACKED_HEADER - 8, 0)),
        8);
    for (uint32_t i = 0; i < packing->count; i++) {
        const struct chunk *chunk = &packing->chunks[i];

        memcpy(at, chunk->bytes != NULL ? chunk->bytes : packing->raw + (size_t)i * packing->chunk_bytes,
               chunk->stored);
        at += chunk->stored;
    }
}

inlay_status pack_bytes(const uint8_t *raw, size_t bytes, uint32_t chunk_bytes, uint8_t **out, size_t *out_bytes,
                        bool *out_smaller, inlay_diag *diag)
{
    struct packing packing = { .raw = raw, .bytes = bytes, .chunk_bytes = chunk_bytes, .zstd = packed_library() };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(chunk_bytes > 0);
    *out = NULL;
    *out_bytes = 0;
    *out_smaller = false;
    if (packing.zstd == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "packing needs libzstd.so.1: install it (Debian: libzstd1)");
    if (bytes > (size_t)UINT32_MAX * chunk_bytes)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%zu bytes are more than a packed file can hold", bytes);
    packing.count = (uint32_t)((bytes + chunk_bytes - 1) / chunk_bytes);
    packing.chunks = calloc((size_t)packing.count + 1, sizeof *packing.chunks);
    if (packing.chunks == NULL || threads_parallel_for(NULL, packing.count, 1, pack_chunks, &packing) != INLAY_OK) {
        status = no_memory(diag, "to pack %zu bytes", bytes);
    } else {
        *out_bytes = limit_ratio(&packing);
        *out_smaller = *out_bytes < bytes;
        *out = *out_smaller ? malloc(*out_bytes) : NULL;
        if (*out != NULL)
            write_packed(&packing, *out);
        else if (*out_smaller)
            status = no_memory(diag, "to pack %zu bytes", bytes);
    }
    for (uint32_t i = 0; packing.chunks != NULL && i < packing.count; i++)
        free(packing.chunks[i].bytes);
    free(packing.chunks);
    return status;
}

/* The file is in the scratch folder, so nothing reads it in the meantime. */
inlay_status pack_file(const char *path, inlay_diag *diag)
{
    struct stat info;
    uint8_t *raw = MAP_FAILED, *packed = NULL;
    size_t bytes = 0;
    bool smaller;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    inlay_status status = INLAY_OK;

    if (fd < 0 && errno == ENOENT)
        return INLAY_OK; /* no tensor is large enough for the external file */
    if (fd < 0 || fstat(fd, &info) != 0 ||
        (info.st_size > 0 && (raw = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED))
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.200s: cannot be packed: %s", path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    if (status != INLAY_OK || raw == MAP_FAILED)
        return status;
    INLAY_TRY(pack_bytes(raw, (size_t)info.st_size, CHUNK, &packed, &bytes, &smaller, diag));
    if (!smaller)
        goto done;
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    (void)munmap(raw, (size_t)info.st_size);
    raw = MAP_FAILED;
    if (fd < 0 || !output_write(fd, packed, bytes))
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.200s: cannot be written: %s", path, strerror(errno));
    if (fd >= 0 && close(fd) != 0 && status == INLAY_OK)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%.200s: cannot be written: %s", path, strerror(errno));
done:
    if (raw != MAP_FAILED)
        (void)munmap(raw, (size_t)info.st_size);
    free(packed);
    return status;
}
