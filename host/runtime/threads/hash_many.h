/* threads/hash_many.h - hashes large data on the threads of the pool. */
#ifndef THREADS_HASH_MANY_H
#define THREADS_HASH_MANY_H
#include <stdbool.h>
#include <stdint.h>

typedef struct hash_job {
    const void *data; /* [bytes] borrowed */
    uint64_t bytes;
    uint64_t seed;
    bool mapped;   /* data is in a mapping of a file; its pages are given back once they were hashed */
    uint64_t hash; /* out: hash_blocks(data, bytes, seed), see base/hash.h */
} hash_job;

/* Computes all hashes on up to threads_limit(NULL) threads. False: out of memory. */
bool hash_many(hash_job *jobs, uint32_t count);
#endif
