/* model/packed.c - decompresses packed external data. */
#include "model/packed.h"
#include "base/hash.h"
#include "base/pages.h"
#include "threads/threads.h"
#include "inlay/check.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { HUGE = 2 << 20 };

struct unpack_job {
    const uint8_t *file;
    uint8_t *raw, *planes;  /* planes: a buffer of chunk_bytes for each worker */
    void **decompressors;   /* [worker] NULL before the first use: creation takes as long as decoding a small plane */
    const uint64_t *begins; /* [count] offsets of the chunks in the file */
    uint64_t raw_bytes;
    uint32_t chunk_bytes, count;
    inlay_diag *diag;
};

static packed_zstd library;
static bool found;

static void find_library(void)
{
    void *handle = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL)
        return;
    *(void **)&library.decompress = dlsym(handle, "ZSTD_decompressDCtx");
    *(void **)&library.create_decompressor = dlsym(handle, "ZSTD_createDCtx");
    *(void **)&library.destroy_decompressor = dlsym(handle, "ZSTD_freeDCtx");
    *(void **)&library.create = dlsym(handle, "ZSTD_createCCtx");
    *(void **)&library.destroy = dlsym(handle, "ZSTD_freeCCtx");
    *(void **)&library.set = dlsym(handle, "ZSTD_CCtx_setParameter");
    *(void **)&library.compress = dlsym(handle, "ZSTD_compress2");
    *(void **)&library.bound = dlsym(handle, "ZSTD_compressBound");
    *(void **)&library.is_error = dlsym(handle, "ZSTD_isError");
    found = library.decompress != NULL && library.create_decompressor != NULL && library.destroy_decompressor != NULL &&
            library.create != NULL && library.destroy != NULL && library.set != NULL && library.compress != NULL &&
            library.bound != NULL && library.is_error != NULL;
}

const packed_zstd *packed_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, find_library);
    return found ? &library : NULL;
}

bool is_packed_file(const uint8_t *file, size_t bytes)
{
    return bytes >= PACKED_HEADER && memcmp(file, PACKED_MAGIC, 8) == 0;
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t read_u64(const uint8_t *at)
{
    return read_u32(at) | (uint64_t)read_u32(at + 4) << 32;
}

static void join_two(const uint8_t *const *from, size_t n, uint8_t *restrict to)
{
    const uint8_t *low = from[0], *high = from[1];

    for (size_t i = 0; i < n; i++) {
        to[2 * i] = low[i];
        to[2 * i + 1] = high[i];
    }
}

static void join_four(const uint8_t *const *from, size_t n, uint8_t *restrict to)
{
    const uint8_t *a = from[0], *b = from[1], *c = from[2], *d = from[3];

    for (size_t i = 0; i < n; i++) {
        to[4 * i] = a[i];
        to[4 * i + 1] = b[i];
        to[4 * i + 2] = c[i];
        to[4 * i + 3] = d[i];
    }
}

static void join_halves(const uint8_t *low, const uint8_t *high, size_t bytes, uint8_t *restrict to)
{
    const size_t n = bytes / 2;

    for (size_t i = 0; i < n; i++) {
        to[2 * i] = (uint8_t)((low[i] & 15) | high[i] << 4);
        to[2 * i + 1] = (uint8_t)(low[i] >> 4 | (high[i] & 240));
    }
    if (bytes % 2 != 0)
        to[bytes - 1] = (uint8_t)((low[n] & 15) | high[n] << 4);
}

static void join(const uint8_t *const *from, size_t bytes, size_t planes, uint8_t *to)
{
    const size_t n = bytes / planes;

    INLAY_CHECK(planes > 1 && planes <= PACKED_MAX_PLANES);
    if (planes == 2)
        join_two(from, n, to);
    else if (planes == 4)
        join_four(from, n, to);
    else
        for (size_t i = 0; i < n; i++)
            for (size_t p = 0; p < planes; p++)
                to[planes * i + p] = from[p][i];
    memcpy(to + n * planes, from[planes - 1] + n, bytes - n * planes);
}

/* Decompresses a zstd frame with the worker's decompressor. */
static bool unpack_frame(const struct unpack_job *job, uint32_t worker, const uint8_t *stored, size_t stored_bytes,
                         uint8_t *to, size_t bytes)
{
    void **decompressor = &job->decompressors[worker];

    if (*decompressor == NULL)
        *decompressor = packed_library()->create_decompressor();
    return *decompressor != NULL &&
           packed_library()->decompress(*decompressor, to, bytes, stored, stored_bytes) == bytes;
}

/* Decodes a chunk of method 1. Uncompressed planes are read directly from the file. */
static bool unpack_planes(const struct unpack_job *job, uint32_t worker, const uint8_t *stored, size_t stored_bytes,
                          size_t bytes, size_t planes, uint8_t *raw)
{
    const uint8_t *from[PACKED_MAX_PLANES];
    const bool halves = planes == 0;
    const size_t n = halves ? (bytes + 1) / 2 : bytes / planes;
    size_t at;

    planes = halves ? 2 : planes;
    at = 4 * planes;
    for (size_t p = 0; p < planes; p++) {
        const size_t own = p + 1 < planes || halves ? n : bytes - n * p,
                     has = at <= stored_bytes ? read_u32(stored + 4 * p) : 0;
        uint8_t *to = planes == 1 ? raw : job->planes + (size_t)worker * job->chunk_bytes + n * p;

        if (at > stored_bytes || has > stored_bytes - at)
            return false;
        from[p] = has == own ? stored + at : to;
        if (has != own && !unpack_frame(job, worker, stored + at, has, to, own))
            return false;
        if (has == own && planes == 1)
            memcpy(raw, stored + at, own);
        at += has;
    }
    if (halves)
        join_halves(from[0], from[1], bytes, raw);
    else if (planes > 1)
        join(from, bytes, planes, raw);
    return at == stored_bytes;
}

/* Decodes a chunk of method 2, a table of elements of `size` bytes. */
static bool unpack_table(const struct unpack_job *job, uint32_t worker, const uint8_t *stored, size_t stored_bytes,
                         size_t bytes, size_t size, uint8_t *restrict raw)
{
    const size_t n = size == 4 ? bytes / 4 : bytes / 2;
    uint8_t *room = job->planes + (size_t)worker * job->chunk_bytes;
    const uint8_t *codes = room;

    if ((size != 2 && size != 4) || n * size != bytes || stored_bytes < PACKED_TABLE_SIZE * size)
        return false;
    stored_bytes -= PACKED_TABLE_SIZE * size;
    if (stored_bytes == n)
        codes = stored + PACKED_TABLE_SIZE * size;
    else if (!unpack_frame(job, worker, stored + PACKED_TABLE_SIZE * size, stored_bytes, room, n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (size == 4)
            memcpy(raw + 4 * i, stored + 4 * (size_t)codes[i], 4);
        else
            memcpy(raw + 2 * i, stored + 2 * (size_t)codes[i], 2);
    return true;
}

static inlay_status unpack_one(const struct unpack_job *job, uint32_t i, uint32_t worker)
{
    const uint64_t from = (uint64_t)i * job->chunk_bytes;
    const uint8_t *entry, *stored;
    uint8_t *raw = job->raw + from;
    size_t left, bytes;

    INLAY_CHECK(i < job->count && from < job->raw_bytes);
    entry = job->file + PACKED_HEADER + (size_t)i * PACKED_ENTRY;
    stored = job->file + job->begins[i];
    left = (size_t)(job->raw_bytes - from);
    bytes = left < job->chunk_bytes ? left : job->chunk_bytes;
    if (entry[4] == PACKED_AS_IS)
        memcpy(raw, stored, bytes);
    else if (!(entry[4] == PACKED_TABLE ? unpack_table : unpack_planes)(job, worker, stored, read_u32(entry), bytes,
                                                                        entry[5], raw))
        return INLAY_INVALID_MODEL;
    return hash_bytes(raw, bytes, 0) == read_u64(entry + 8) ? INLAY_OK : INLAY_INVALID_MODEL;
}

static inlay_status unpack_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct unpack_job *job = user;
    inlay_status status = INLAY_OK;

    for (int64_t i = begin; i < end && status == INLAY_OK; i++)
        status = unpack_one(job, (uint32_t)i, worker);
    return status;
}

/* Validates the index entry of each chunk and computes the offsets of the chunks. */
static inlay_status read_index(struct unpack_job *job, size_t file_bytes, uint64_t *begins)
{
    uint64_t at = PACKED_HEADER + (uint64_t)job->count * PACKED_ENTRY;

    for (uint32_t i = 0; i < job->count; i++) {
        const uint8_t *entry = job->file + PACKED_HEADER + (size_t)i * PACKED_ENTRY;
        const uint64_t left = job->raw_bytes - (uint64_t)i * job->chunk_bytes,
                       bytes = left < job->chunk_bytes ? left : job->chunk_bytes;
        const uint32_t stored = read_u32(entry), planes = entry[5];

        begins[i] = at;
        at += stored;
        if (at > file_bytes || entry[4] > PACKED_TABLE || entry[6] != 0 || entry[7] != 0 ||
            (planes > 2 && planes != 4 && planes != 8) ||
            (entry[4] == PACKED_AS_IS && (stored != bytes || planes != 1)))
            return inlay_fail(job->diag, INLAY_INVALID_MODEL, "the index entry of chunk %" PRIu32 " is invalid", i);
        if (entry[4] != PACKED_AS_IS && packed_library() == NULL)
            return inlay_fail(job->diag, INLAY_NOT_FOUND,
                              "it is compressed, which needs libzstd.so.1: install it (Debian: libzstd1)");
    }
    if (at != file_bytes)
        return inlay_fail(job->diag, INLAY_INVALID_MODEL, "it has data after the last chunk");
    return INLAY_OK;
}

static inlay_status read_header(struct unpack_job *job, const uint8_t *file, size_t bytes)
{
    const size_t after = bytes - PACKED_HEADER;

    job->file = file;
    job->raw_bytes = read_u64(file + 8);
    job->chunk_bytes = read_u32(file + 16);
    job->count = read_u32(file + 20);
    if (job->chunk_bytes == 0 || job->chunk_bytes > PACKED_MAX_CHUNK || job->chunk_bytes % 4096 != 0 ||
        job->count > after / PACKED_ENTRY || job->raw_bytes > (uint64_t)job->count * job->chunk_bytes ||
        (job->count > 0 && job->raw_bytes <= (uint64_t)(job->count - 1) * job->chunk_bytes) ||
        read_u64(file + 24) !=
            hash_bytes(file + PACKED_HEADER, (size_t)job->count * PACKED_ENTRY, hash_bytes(file, PACKED_HEADER - 8, 0)))
        return inlay_fail(job->diag, INLAY_INVALID_MODEL, "its header is damaged; copy the file again");
    if (job->raw_bytes > PACKED_FREE_BYTES && (job->raw_bytes - PACKED_FREE_BYTES) / PACKED_RATIO > bytes)
        return inlay_fail(job->diag, INLAY_LIMIT_EXCEEDED,
                          "its %zu bytes would expand to %" PRIu64 ", more than %" PRIu64 " times as many", bytes,
                          job->raw_bytes, PACKED_RATIO);
    return INLAY_OK;
}

inlay_status packed_open(const uint8_t *file, size_t bytes, void **out_raw, size_t *out_bytes, inlay_diag *diag)
{
    struct unpack_job job = { .diag = diag };
    uint64_t *begins = NULL;
    inlay_status status;

    *out_raw = NULL;
    *out_bytes = 0;
    INLAY_TRY(read_header(&job, file, bytes));
    begins = malloc(((size_t)job.count + 1) * sizeof *begins);
    if (begins == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
        goto done;
    }
    job.begins = begins;
    INLAY_TRY(read_index(&job, bytes, begins));
    if (posix_memalign((void **)&job.raw, job.raw_bytes > HUGE ? HUGE : 4096, (size_t)job.raw_bytes + 1) != 0)
        job.raw = NULL;
    else /* page faults of small pages take as long as decoding */
        pages_large(job.raw, job.raw_bytes);
    job.planes = malloc((size_t)job.chunk_bytes * threads_limit(NULL));
    job.decompressors = calloc(threads_limit(NULL), sizeof *job.decompressors);
    if (job.raw == NULL || job.planes == NULL || job.decompressors == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for %" PRIu64 " bytes", job.raw_bytes);
    else if (threads_parallel_for(NULL, job.count, 1, unpack_range, &job) != INLAY_OK)
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "the hash of a chunk does not match; copy the file again");
    if (status == INLAY_OK) {
        *out_raw = job.raw;
        *out_bytes = (size_t)job.raw_bytes;
        job.raw = NULL;
    }
done:
    for (uint32_t i = 0; job.decompressors != NULL && i < threads_limit(NULL); i++)
        if (job.decompressors[i] != NULL)
            (void)packed_library()->destroy_decompressor(job.decompressors[i]);
    free(job.decompressors);
    free(job.raw);
    free(job.planes);
    free(begins);
    return status;
}
