#include "base/hash.h"
#include <string.h>

static const uint64_t K0 = UINT64_C(0x9e3779b97f4a7c15), K1 = UINT64_C(0xc2b2ae3d27d4eb4f),
                      K2 = UINT64_C(0xd6e8feb86659fd93), K3 = UINT64_C(0xa0761d6478bd642f);

/* The halves of the product of 128 bits, combined. */
#ifdef __wasm__ /* has no such multiplication: compilers call a function that stores the halves in memory */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    const uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    const uint64_t first = a_high * b_low + (a_low * b_low >> 32), second = a_low * b_high + (uint32_t)first;

    return (a * b) ^ (a_high * b_high + (first >> 32) + (second >> 32));
}
#else
__extension__ typedef unsigned __int128 hash_u128;

static inline uint64_t fold(uint64_t a, uint64_t b)
{
    hash_u128 product = (hash_u128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}
#endif

static inline uint64_t load64(const unsigned char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof word);
    return word;
}

/* The last 0 to 15 bytes as two words; the length goes into the hash separately, so padding by zero is unambiguous. */
static void load_tail(const unsigned char *from, size_t bytes, uint64_t *a, uint64_t *b)
{
    unsigned char tail[16] = { 0 };

    if (bytes > 0)
        memcpy(tail, from, bytes);
    *a = load64(tail);
    *b = load64(tail + 8);
}

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *at = data;
    uint64_t hash = seed ^ K0, a, b;
    size_t left = bytes;

    if (left >= 64) {
        uint64_t lane[4] = { hash, hash ^ K1, hash ^ K2, hash ^ K3 };

        for (; left >= 64; at += 64, left -= 64)
            for (int i = 0; i < 4; i++)
                lane[i] = fold(load64(at + 16 * i) ^ K1, load64(at + 16 * i + 8) ^ lane[i]);
        hash = fold(lane[0] ^ K0, lane[1] ^ K2) ^ fold(lane[2] ^ K1, lane[3] ^ K3);
    }
    for (; left >= 16; at += 16, left -= 16)
        hash = fold(load64(at) ^ K1, load64(at + 8) ^ hash);
    load_tail(at, left, &a, &b);
    hash = fold(a ^ K2, b ^ hash);
    return fold(hash ^ K3, (uint64_t)bytes ^ K1);
}

uint64_t hash_blocks(const void *data, size_t bytes, uint64_t seed)
{
    uint64_t hash = seed;

    if (bytes <= HASH_BLOCK)
        return hash_bytes(data, bytes, seed);
    for (size_t at = 0; at < bytes; at += HASH_BLOCK)
        hash =
            hash_u64(hash, hash_bytes((const char *)data + at, bytes - at < HASH_BLOCK ? bytes - at : HASH_BLOCK, 0));
    return hash;
}
