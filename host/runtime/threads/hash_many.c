#include "threads/hash_many.h"
#include "base/hash.h"
#include "base/pages.h"
#include "threads/threads.h"
#include "inlay/check.h"
#include <stdlib.h>

enum { MIN_PARALLEL_BYTES = 4 << 20 }; /* hashing them takes half a millisecond, about as long as waking threads */

/* One block of one job. */
struct block {
    const char *data;
    size_t bytes;
    uint64_t seed;
    bool mapped;
    uint64_t hash;
};

static inlay_status hash_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct block *blocks = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        blocks[i].hash = hash_bytes(blocks[i].data, blocks[i].bytes, blocks[i].seed);
        if (blocks[i].mapped)
            pages_unmap(blocks[i].data, blocks[i].bytes);
    }
    return INLAY_OK;
}

static size_t block_count_of(const hash_job *job)
{
    return job->bytes == 0 ? 1 : (size_t)((job->bytes + HASH_BLOCK - 1) / HASH_BLOCK);
}

bool hash_many(hash_job *jobs, uint32_t count)
{
    size_t total = 0, at = 0;
    uint64_t bytes = 0;
    struct block *blocks;

    for (uint32_t i = 0; i < count; i++) {
        total += block_count_of(&jobs[i]);
        bytes += jobs[i].bytes;
    }
    blocks = malloc((total + 1) * sizeof *blocks);
    if (blocks == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        size_t parts = block_count_of(&jobs[i]);

        for (size_t k = 0; k < parts; k++) {
            uint64_t left = jobs[i].bytes - k * HASH_BLOCK;

            blocks[at++] = (struct block){ .data = (const char *)jobs[i].data + k * HASH_BLOCK,
                                           .bytes = left < HASH_BLOCK ? (size_t)left : HASH_BLOCK,
                                           .seed = parts == 1 ? jobs[i].seed : 0,
                                           .mapped = jobs[i].mapped };
        }
    }
    INLAY_CHECK(at == total);
    if (bytes < MIN_PARALLEL_BYTES)
        (void)hash_range(blocks, 0, (int64_t)total, 0);
    else
        (void)threads_parallel_for(NULL, (int64_t)total, 4, hash_range, blocks);
    at = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t parts = block_count_of(&jobs[i]);

        jobs[i].hash = parts == 1 ? blocks[at++].hash : jobs[i].seed;
        for (size_t k = 0; parts > 1 && k < parts; k++)
            jobs[i].hash = hash_u64(jobs[i].hash, blocks[at++].hash);
    }
    INLAY_CHECK(at == total);
    free(blocks);
    return true;
}
