/* base/hash.h - a fast 64-bit hash of bytes, for tables and for content hashes in cache files.
 *
 * Multiplies 64 x 64 to 128 bits and folds the halves; four independent lanes for long inputs, so that hashing weights
 * is limited by memory bandwidth. Not cryptographic: it detects different contents, but does not authenticate them. */
#ifndef BASE_HASH_H
#define BASE_HASH_H
#include <stddef.h>
#include <stdint.h>

/* The hash of the bytes; the same on every machine of the same byte order. seed chains several hashes into one. */
uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed);

/* A hash for large data, which combines the hashes of blocks, so that several threads can compute it concurrently (see
 * threads/hash_many.h). Data of at most one block has the hash of hash_bytes(). */
#define HASH_BLOCK ((size_t)1 << 20)
uint64_t hash_blocks(const void *data, size_t bytes, uint64_t seed);

/* Mixes one number into a running hash. */
static inline uint64_t hash_u64(uint64_t hash, uint64_t value)
{
    uint64_t x = (hash ^ UINT64_C(0x9e3779b97f4a7c15)) + value * UINT64_C(0xbf58476d1ce4e5b9);

    x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 32);
}
#endif
