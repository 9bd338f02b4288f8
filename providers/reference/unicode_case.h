/* unicode_case.h - upper and lower case of letters, independent of the system's locale.
 *
 * Contains the one-to-one mappings of Latin, Greek, Cyrillic and Armenian letters whose UTF-8 form has the same length
 * in both cases. Other characters do not change. */
#ifndef UNICODE_CASE_H
#define UNICODE_CASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of letters. step 1: for the upper-case letters first to last, the lower-case letter is upper case + delta.
 * step 2: upper and lower case alternate, upper case first. */
typedef struct case_block {
    uint16_t first, last;
    uint16_t delta;
    uint16_t step;
} case_block;

static inline uint32_t case_map(uint32_t code, bool upper)
{
    static const case_block blocks[] = {
        { 'A', 'Z', 32, 1 },     { 0xc0, 0xd6, 32, 1 },    { 0xd8, 0xde, 32, 1 },    { 0x100, 0x12e, 1, 2 },
        { 0x132, 0x136, 1, 2 },  { 0x139, 0x147, 1, 2 },   { 0x14a, 0x176, 1, 2 },   { 0x179, 0x17d, 1, 2 },
        { 0x1cd, 0x1db, 1, 2 },  { 0x1de, 0x1ee, 1, 2 },   { 0x1f8, 0x21e, 1, 2 },   { 0x222, 0x232, 1, 2 },
        { 0x388, 0x38a, 37, 1 }, { 0x386, 0x386, 38, 1 },  { 0x38c, 0x38c, 64, 1 },  { 0x38e, 0x38f, 63, 1 },
        { 0x391, 0x3a1, 32, 1 }, { 0x3a3, 0x3ab, 32, 1 },  { 0x400, 0x40f, 80, 1 },  { 0x410, 0x42f, 32, 1 },
        { 0x460, 0x480, 1, 2 },  { 0x48a, 0x4be, 1, 2 },   { 0x4c1, 0x4cd, 1, 2 },   { 0x4d0, 0x52e, 1, 2 },
        { 0x531, 0x556, 48, 1 }, { 0x1e00, 0x1e94, 1, 2 }, { 0x1ea0, 0x1efe, 1, 2 },
    };

    if (upper && code == 0xff)
        return 0x178;
    if (!upper && code == 0x178)
        return 0xff;
    if (upper && code == 0x3c2) /* final sigma */
        return 0x3a3;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const case_block *block = &blocks[i];
        const uint32_t low = upper ? block->first + (uint32_t)block->delta : block->first;
        const uint32_t high = upper ? block->last + (uint32_t)block->delta : block->last;

        if (code >= low && code <= high && (block->step == 1 || (code - low) % 2 == 0))
            return upper ? code - block->delta : code + block->delta;
    }
    return code;
}

/* Converts UTF-8 text of `bytes` bytes to upper or lower case. The result in out has the same length. */
static inline void case_convert(const char *text, size_t bytes, bool upper, char *out)
{
    for (size_t i = 0; i < bytes;) {
        const unsigned char *character = (const unsigned char *)text + i;
        const size_t remaining = bytes - i;
        uint32_t code;

        if (character[0] < 0x80) {
            out[i++] = (char)case_map(character[0], upper);
        } else if (character[0] >= 0xc2 && character[0] < 0xe0 && remaining >= 2 && (character[1] & 0xc0) == 0x80) {
            code = case_map((character[0] & 0x1fu) << 6 | (character[1] & 0x3fu), upper);
            out[i++] = (char)(0xc0 | code >> 6);
            out[i++] = (char)(0x80 | (code & 0x3f));
        } else if (character[0] >= 0xe0 && character[0] < 0xf0 && remaining >= 3 && (character[1] & 0xc0) == 0x80 &&
                   (character[2] & 0xc0) == 0x80) {
            code = case_map((character[0] & 0xfu) << 12 | (character[1] & 0x3fu) << 6 | (character[2] & 0x3fu), upper);
            out[i++] = (char)(0xe0 | code >> 12);
            out[i++] = (char)(0x80 | (code >> 6 & 0x3f));
            out[i++] = (char)(0x80 | (code & 0x3f));
        } else {
            out[i] = text[i];
            i++;
        }
    }
}
#endif
