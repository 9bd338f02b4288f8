/* The types of blocks of quantized weights, and their unpacking. Only zero points are rounded, to single precision. */
#include "blocks.h"
#include "grids.h"
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include <string.h>

/* Each block has one or two: element_convert() took a sixth of the time of a translation. */
float kit_half_at(const uint8_t *at)
{
    const uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8, rest = (bits & 0x7fff) << 13;
    const bool special = (bits & 0x7c00) == 0x7c00;                          /* infinity or NaN */
    const uint32_t word = special ? rest | 0x7f800000 : rest + (112u << 23); /* the difference of the biases */
    float value;

    memcpy(&value, &word, sizeof value);
    if ((bits & 0x7c00) == 0)
        value = (float)(bits & 0x3ff) * 0x1p-24f;
    return (bits & 0x8000) != 0 ? -value : value;
}

/* value = scale * code - minimum. Without a scale all values of the group are the same. */
static void set_minimum(float scale, float minimum, uint8_t *codes, size_t count, float *out_scale, float *out_zero)
{
    if (scale == 0) {
        if (codes != NULL)
            memset(codes, 0, count);
        *out_scale = minimum;
        *out_zero = 1;
    } else {
        *out_scale = scale;
        *out_zero = minimum / scale;
    }
}

/* Eight bytes at a time: this takes most of the time of loading a model. */
static void split_nibbles(const uint8_t *packed, size_t count, uint8_t *codes)
{
    const uint64_t low = UINT64_C(0x0f0f0f0f0f0f0f0f);

    for (size_t i = 0; i < count; i += 8) {
        uint64_t x, y;

        memcpy(&x, packed + i, sizeof x);
        y = x >> 4 & low;
        x &= low;
        memcpy(codes + i, &x, sizeof x);
        memcpy(codes + count + i, &y, sizeof y);
    }
}

/* Joins pairs of codes; the first code of a pair is in the low bits. */
static void join_nibbles(const uint8_t *codes, size_t count, uint8_t *packed)
{
    for (size_t i = 0; i < count; i += 8) {
        uint64_t x;
        uint32_t word;

        memcpy(&x, codes + i, sizeof x);
        x = (x | x >> 4) & UINT64_C(0x00ff00ff00ff00ff);
        x = (x | x >> 8) & UINT64_C(0x0000ffff0000ffff);
        word = (uint32_t)(x | x >> 16);
        memcpy(packed + i / 2, &word, sizeof word);
    }
}

/* Adds to each of 32 codes `width` bits of a byte, as bits `up` and up; to the next 32 codes the next bits. */
static void add_bits(const uint8_t bytes[32], uint32_t width, uint32_t up, size_t count, uint8_t *codes)
{
    const uint64_t mask = UINT64_C(0x0101010101010101) * ((1u << width) - 1);

    for (size_t at = 0; at < count; at += 8) {
        uint64_t x, y;

        memcpy(&x, bytes + at % 32, sizeof x);
        memcpy(&y, codes + at, sizeof y);
        y |= (x >> at / 32 * width & mask) << up;
        memcpy(codes + at, &y, sizeof y);
    }
}

/* Adds bit i of the word to code i, as bit 4. */
static void add_fifth_bits(const uint8_t *word, uint8_t *codes)
{
    for (size_t i = 0; i < 32; i++)
        codes[i] = (uint8_t)(codes[i] | ((word[i / 8] >> i % 8 & 1) << 4));
}

static void unpack_q4_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = kit_half_at(block);
    if (codes != NULL)
        split_nibbles(block + 2, 16, codes);
}

static void unpack_q4_1(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    if (codes != NULL)
        split_nibbles(block + 4, 16, codes);
    set_minimum(kit_half_at(block), -kit_half_at(block + 2), codes, 32, scales, zeros);
}

static void unpack_q5_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = kit_half_at(block);
    if (codes == NULL)
        return;
    split_nibbles(block + 6, 16, codes);
    add_fifth_bits(block + 2, codes);
    for (size_t i = 0; i < 32; i++)
        codes[i] = (uint8_t)(codes[i] + 128 - 16);
}

static void unpack_q5_1(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    if (codes != NULL) {
        split_nibbles(block + 8, 16, codes);
        add_fifth_bits(block + 4, codes);
    }
    set_minimum(kit_half_at(block), -kit_half_at(block + 2), codes, 32, scales, zeros);
}

static void unpack_q8_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = kit_half_at(block);
    for (size_t i = 0; codes != NULL && i < 32; i++)
        codes[i] = block[2 + i] ^ 0x80; /* -128 becomes 0 */
}

/* The scale, and with zeros the zero point, of each group. */
static void set_scales(const kit_block_scales *from, size_t groups, uint8_t *codes, float *scales, float *zeros)
{
    const size_t group = KIT_MAX_BLOCK / groups;

    for (size_t i = 0; i < groups; i++) {
        scales[i] = from->factor * (float)from->scales[i];
        if (zeros != NULL)
            set_minimum(scales[i], from->minimum_factor * (float)from->minimums[i],
                        codes != NULL ? codes + group * i : NULL, group, &scales[i], &zeros[i]);
    }
}

/* Scales and minimums of 6 bits. */
static void read_six_bits(const uint8_t *block, kit_block_scales *out)
{
    const uint8_t *packed = block + 4;

    out->factor = kit_half_at(block);
    out->minimum_factor = kit_half_at(block + 2);
    for (size_t i = 0; i < 4; i++) {
        out->scales[i] = (int8_t)(packed[i] & 63);
        out->minimums[i] = (int8_t)(packed[i + 4] & 63);
        out->scales[i + 4] = (int8_t)((packed[i + 8] & 15) | packed[i] >> 6 << 4);
        out->minimums[i + 4] = (int8_t)(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
    }
}

static void set_minimums(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    kit_block_scales own;

    read_six_bits(block, &own);
    set_scales(&own, 8, codes, scales, zeros);
}

static void unpack_q4_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    for (size_t i = 0; codes != NULL && i < 4; i++)
        split_nibbles(block + 16 + 32 * i, 32, codes + 64 * i);
    set_minimums(block, codes, scales, zeros);
}

static void unpack_q5_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    for (size_t i = 0; codes != NULL && i < 4; i++)
        split_nibbles(block + 48 + 32 * i, 32, codes + 64 * i);
    if (codes != NULL)
        add_bits(block + 16, 1, 4, 256, codes);
    set_minimums(block, codes, scales, zeros);
}

static void read_scales_q6_k(const uint8_t *block, kit_block_scales *out)
{
    out->factor = kit_half_at(block + 208);
    memcpy(out->scales, block + 192, sizeof out->scales);
}

static void unpack_q6_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    const uint8_t *high = block + 128;
    kit_block_scales own;

    (void)zeros;
    read_scales_q6_k(block, &own);
    set_scales(&own, 16, codes, scales, NULL);
    for (size_t half = 0; codes != NULL && half < 2;
         half++) { /* of 64 bytes with the low bits, 32 with the high ones */
        uint8_t *to = codes + 128 * half;

        split_nibbles(block + 64 * half, 64, to);
        add_bits(high + 32 * half, 2, 4, 128, to);
        for (size_t at = 0; at < 128; at++)
            to[at] = (uint8_t)(to[at] + 128 - 32);
    }
}

/* float4e2m1 with a power of two: codes are 128 plus twice the value. */
static const uint8_t e2m1_table[16] = {
    128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116
};

static void unpack_mxfp4(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    const uint32_t word = block[0] < 2 ? 0x00200000u << block[0] : (uint32_t)(block[0] - 1) << 23; /* 2^(e - 128) */

    (void)zeros;
    memcpy(scales, &word, sizeof word);
    if (codes != NULL)
        split_nibbles(block + 1, 16, codes);
}

/* float8e4m3 without a sign, times 2^-1, for each 16 elements; 127 is 0. */
static void unpack_nvfp4(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    for (size_t i = 0; i < 4; i++) {
        const uint32_t exponent = block[i] >> 3 & 15, fraction = block[i] & 7,
                       word = (exponent + 119) << 23 | fraction << 20;

        memcpy(&scales[i], &word, sizeof word); /* 2^(exponent - 8) * (1 + fraction / 8) */
        if (exponent == 0 || block[i] == 127)
            scales[i] = exponent == 0 ? (float)fraction * 0x1p-10f : 0;
        if (codes != NULL)
            split_nibbles(block + 4 + 8 * i, 8, codes + 16 * i);
    }
}

static const uint8_t iq4_table[16] = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241 };

static void unpack_iq4_nl(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = kit_half_at(block);
    if (codes != NULL)
        split_nibbles(block + 2, 16, codes);
}

/* Scales of 6 bits: the low ones in bytes 4 to 7, the high ones in bytes 2 and 3. */
static void read_scales_iq4_xs(const uint8_t *block, kit_block_scales *out)
{
    out->factor = kit_half_at(block);
    for (size_t i = 0; i < 8; i++) {
        const int low = block[4 + i / 2] >> 4 * (i % 2) & 15, high = block[2 + i / 4] >> 2 * (i % 4) & 3;

        out->scales[i] = (int8_t)((low | high << 4) - 32);
    }
}

static void unpack_iq4_xs(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    kit_block_scales own;

    (void)zeros;
    read_scales_iq4_xs(block, &own);
    set_scales(&own, 8, codes, scales, NULL);
    for (size_t i = 0; codes != NULL && i < 8; i++)
        split_nibbles(block + 8 + 16 * i, 16, codes + 32 * i);
}

/* Two bits of each of 256 codes: bits 2 s and 2 s + 1 of 32 bytes are 32 codes, for s from 0 to 3. */
static void split_pairs(const uint8_t *packed, uint8_t *codes)
{
    memset(codes, 0, 256);
    add_bits(packed, 2, 0, 128, codes);
    add_bits(packed + 32, 2, 0, 128, codes + 128);
}

static void read_scales_q2_k(const uint8_t *block, kit_block_scales *out)
{
    out->factor = kit_half_at(block + 80);
    out->minimum_factor = kit_half_at(block + 82);
    for (size_t i = 0; i < 16; i++) {
        out->scales[i] = (int8_t)(block[i] & 15);
        out->minimums[i] = (int8_t)(block[i] >> 4);
    }
}

static void unpack_q2_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    kit_block_scales own;

    if (codes != NULL)
        split_pairs(block + 16, codes);
    read_scales_q2_k(block, &own);
    set_scales(&own, 16, codes, scales, zeros);
}

/* Scales of 6 bits: the low ones in 8 bytes, the high ones in 4. */
static void read_scales_q3_k(const uint8_t *block, kit_block_scales *out)
{
    const uint8_t *packed = block + 96;

    out->factor = kit_half_at(block + 108);
    for (size_t i = 0; i < 16; i++) {
        const int low = packed[i % 8] >> i / 8 * 4 & 15, high = packed[8 + i % 4] >> i / 4 * 2 & 3;

        out->scales[i] = (int8_t)((low | high << 4) - 32);
    }
}

/* Codes minus 4; the third bit of code i is bit i / 32 of byte i % 32. */
static void unpack_q3_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    kit_block_scales own;

    (void)zeros;
    read_scales_q3_k(block, &own);
    set_scales(&own, 16, codes, scales, NULL);
    if (codes == NULL)
        return;
    split_pairs(block + 32, codes);
    add_bits(block, 1, 2, 256, codes);
    for (size_t i = 0; i < 256; i++)
        codes[i] = (uint8_t)(codes[i] + 8 - 4);
}

/* Codes 0 to 2 minus 1. */
static void unpack_tq2_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = kit_half_at(block + 64);
    if (codes != NULL)
        split_pairs(block, codes);
    for (size_t i = 0; codes != NULL && i < 256; i++)
        codes[i] = codes[i] < 3 ? codes[i] + 1 : 3;
}

/* `count` bytes of `digits` codes each, as fractions to base 3: 3^n times a byte, modulo 256, begins with code n. */
static uint8_t *unpack_digits(const uint8_t *packed, size_t count, size_t digits, uint8_t *codes)
{
    uint8_t power = 1;

    for (size_t n = 0; n < digits; n++, power = (uint8_t)(3 * power))
        for (size_t i = 0; i < count; i++)
            *codes++ = (uint8_t)(((uint8_t)(packed[i] * power) * 3 >> 8) + 1);
    return codes;
}

static void unpack_tq1_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = kit_half_at(block + 52);
    if (codes != NULL)
        unpack_digits(block + 48, 4, 4, unpack_digits(block + 32, 16, 5, unpack_digits(block, 32, 5, codes)));
}

static const kit_block_type types[] = {
    { 2, "Q4_0", 32, 18, 4, 32, 4, NULL, false, unpack_q4_0, NULL },
    { 3, "Q4_1", 32, 20, 4, 32, 4, NULL, true, unpack_q4_1, NULL },
    { 6, "Q5_0", 32, 22, 8, 32, 5, NULL, false, unpack_q5_0, NULL },
    { 7, "Q5_1", 32, 24, 8, 32, 5, NULL, true, unpack_q5_1, NULL },
    { 8, "Q8_0", 32, 34, 8, 32, 8, NULL, false, unpack_q8_0, NULL },
    { 12, "Q4_K", 256, 144, 4, 32, 4, NULL, true, unpack_q4_k, read_six_bits },
    { 13, "Q5_K", 256, 176, 8, 32, 5, NULL, true, unpack_q5_k, read_six_bits },
    { 14, "Q6_K", 256, 210, 8, 16, 6, NULL, false, unpack_q6_k, read_scales_q6_k },
    { 10, "Q2_K", 256, 84, 2, 16, 2, NULL, true, unpack_q2_k, read_scales_q2_k },
    { 11, "Q3_K", 256, 110, 4, 16, 4, NULL, false, unpack_q3_k, read_scales_q3_k },
    { 20, "IQ4_NL", 32, 18, 8, 32, 8, iq4_table, false, unpack_iq4_nl, NULL },
    { 23, "IQ4_XS", 256, 136, 8, 32, 8, iq4_table, false, unpack_iq4_xs, read_scales_iq4_xs },
    { 34, "TQ1_0", 256, 54, 2, 256, 2, NULL, false, unpack_tq1_0, NULL },
    { 35, "TQ2_0", 256, 66, 2, 256, 2, NULL, false, unpack_tq2_0, NULL },
    { 39, "MXFP4", 32, 17, 8, 32, 8, e2m1_table, false, unpack_mxfp4, NULL },
    { 40, "NVFP4", 64, 36, 8, 16, 8, e2m1_table, false, unpack_nvfp4, NULL },
};

const kit_block_type *kit_block_type_of(int64_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id)
            return &types[i];
    for (size_t i = 0; i < KIT_GRID_TYPES; i++)
        if (kit_grid_types[i].id == id)
            return &kit_grid_types[i];
    return NULL;
}

bool kit_blocks_init(kit_blocks *blocks, int64_t type, int64_t bits, int64_t group)
{
    *blocks = (kit_blocks){ kit_block_type_of(type), bits, group };
    return blocks->type != NULL && (bits == 2 || bits == 4 || bits == 8) && bits >= blocks->type->bits && group > 0 &&
           blocks->type->group % group == 0;
}

bool kit_blocks_of(const inlay_node_info *node, kit_blocks *blocks)
{
    return kit_blocks_init(blocks, kit_attr_int(node, "type", -1), kit_attr_int(node, "bits", 4),
                           kit_attr_int(node, "block_size", 0)) &&
           (!blocks->type->zeros || (node->output_count > 2 && node->outputs[2] != INLAY_NONE));
}

bool kit_blocks_fit(const kit_blocks *blocks, uint64_t bytes, uint64_t code_bytes, uint64_t groups)
{
    const uint64_t count = bytes / (uint64_t)blocks->type->bytes;

    return count > 0 && bytes % (uint64_t)blocks->type->bytes == 0 &&
           code_bytes == count * (uint64_t)(blocks->type->elements * blocks->bits / 8) &&
           groups == count * (uint64_t)(blocks->type->elements / blocks->group);
}

uint64_t kit_blocks_unpacked_bytes(const inlay_node_info *node, uint64_t bytes)
{
    kit_blocks blocks;

    if (strcmp(node->op_type.data, "UnpackBlocks") != 0 || !kit_blocks_of(node, &blocks))
        return 0;
    return bytes / (uint64_t)blocks.type->bytes *
           (uint64_t)(blocks.type->elements * blocks.bits / 8 +
                      blocks.type->elements / blocks.group * (int64_t)sizeof(float) * (node->output_count - 1));
}

void kit_blocks_read(const kit_blocks *blocks, const void *from, int64_t count, void *codes, float *scales,
                     float *zeros)
{
    const kit_block_type *type = blocks->type;
    const int64_t each = type->group / blocks->group, groups = type->elements / blocks->group;
    const uint8_t *block = from;
    uint8_t *packed = codes;
    const bool whole = codes != NULL && blocks->bits == 8; /* a byte for each code */

    for (int64_t at = 0; at < count; at++, block += type->bytes) {
        uint8_t unpacked[KIT_MAX_BLOCK], *own = whole ? packed : packed != NULL ? unpacked : NULL;
        float own_scales[KIT_MAX_BLOCK], own_zeros[KIT_MAX_BLOCK];

        type->unpack(block, own, own_scales, own_zeros);
        for (int64_t i = 0; scales != NULL && i < groups; i++)
            *scales++ = own_scales[i / each];
        for (int64_t i = 0; zeros != NULL && i < groups; i++)
            *zeros++ = type->zeros ? own_zeros[i / each] : kit_blocks_zero(blocks);
        if (whole) {
            for (int64_t i = 0; type->table != NULL && i < type->elements; i++)
                own[i] = type->table[own[i]];
            packed += type->elements;
        } else if (packed != NULL) {
            const int64_t nibbles = type->elements * blocks->bits / 4;

            for (int64_t i = 0; blocks->bits == 2 && i < nibbles; i++)
                own[i] = (uint8_t)(own[2 * i] | own[2 * i + 1] << 2);
            join_nibbles(own, (size_t)nibbles, packed);
            packed += type->elements * blocks->bits / 8;
        }
    }
}
