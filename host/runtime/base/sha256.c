#include "base/sha256.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#endif

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void hash_block(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64], v[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t one = v[7] + (rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25)) +
                       ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t two = (rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22)) +
                       ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_blocks_plain(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash_block(state, blocks + 64 * i);
}

#if defined(__x86_64__)
/* Four rounds an iteration. The instructions take the state as ABEF and CDGH, from the highest word to the lowest. */
__attribute__((target("sha,sse4.1"))) static void hash_blocks_by_cpu(uint32_t state[8], const uint8_t *blocks,
                                                                     size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0), feba, dchg;

    for (size_t block = 0; block < count; block++) {
        const __m128i *in = (const __m128i *)(const void *)(blocks + 64 * block);
        const __m128i old_abef = abef, old_cdgh = cdgh;
        __m128i w[4]; /* the last 16 words of the message */

        for (int i = 0; i < 16; i++) {
            __m128i *next = &w[i % 4], sum;

            if (i < 4)
                *next = _mm_shuffle_epi8(_mm_loadu_si128(in + i), swap);
            else
                *next = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*next, w[(i + 1) % 4]),
                                                           _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4)),
                                             w[(i + 3) % 4]);
            sum = _mm_add_epi32(*next, _mm_loadu_si128((const __m128i *)(const void *)(k + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, old_abef);
        cdgh = _mm_add_epi32(cdgh, old_cdgh);
    }
    feba = _mm_shuffle_epi32(abef, 0x1b);
    dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static bool has_instructions(void)
{
    static atomic_int known; /* 1: it has none; 2: it has them */
    int is = atomic_load_explicit(&known, memory_order_relaxed);

    if (is == 0) {
        uint32_t a, b = 0, c = 0, d;
        const bool has_sse = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) != 0;

        is = has_sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0 ? 2 : 1;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is == 2;
}
#endif

void sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t count)
{
#if defined(__x86_64__)
    if (has_instructions()) {
        hash_blocks_by_cpu(state, blocks, count);
        return;
    }
#endif
    sha256_blocks_plain(state, blocks, count);
}

void sha256_init(struct sha256 *sha256)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

    memset(sha256, 0, sizeof *sha256);
    memcpy(sha256->state, start, sizeof start);
}

void sha256_update(struct sha256 *sha256, const void *data, size_t bytes)
{
    const uint8_t *in = data;

    while (bytes > 0) {
        size_t used = sha256->bytes % 64, taken = bytes < 64 - used ? bytes : 64 - used;

        if (used == 0 && bytes >= 64) {
            taken = bytes - bytes % 64;
            sha256_blocks(sha256->state, in, taken / 64);
        } else {
            memcpy(sha256->block + used, in, taken);
            if (used + taken == 64)
                sha256_blocks(sha256->state, sha256->block, 1);
        }
        sha256->bytes += taken;
        in += taken;
        bytes -= taken;
    }
}

void sha256_hex(struct sha256 *sha256, char text[65])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t bits = sha256->bytes * 8;
    uint8_t length[8];

    sha256_update(sha256, "\x80", 1);
    while (sha256->bytes % 64 != 56)
        sha256_update(sha256, "", 1);
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_update(sha256, length, 8);
    INLAY_CHECK(sha256->bytes % 64 == 0);
    for (int i = 0; i < 64; i++)
        text[i] = digits[sha256->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    text[64] = '\0';
}
