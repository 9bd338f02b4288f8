/* base/sha256.h - SHA-256 (FIPS 180-4), for naming files by their content. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H
#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t bytes; /* hashed so far, including those in block */
    uint8_t block[64];
};

void sha256_init(struct sha256 *sha256);
void sha256_update(struct sha256 *sha256, const void *data, size_t bytes);
/* The digest as 64 lower-case hex digits and a NUL. sha256 cannot be used afterwards. */
void sha256_hex(struct sha256 *sha256, char text[65]);

/* The compression function over `count` blocks of 64 bytes: in C, and by the instructions that the CPU has for it
 * (x86-64: SHA-NI), otherwise in C. */
void sha256_blocks_plain(uint32_t state[8], const uint8_t *blocks, size_t count);
void sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t count);
#endif
