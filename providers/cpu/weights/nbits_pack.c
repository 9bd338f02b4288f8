/* Packs n-bit weights into the layout of nbits.h. */
#include "cpu/weights/nbits.h"
#include "inlay/check.h"
#include "simd/optional.h"
#include <string.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(nbits_kernel_best, "cpu_nbits_product cpu_experts cpu_weights+cpu_product");

bool nbits_shape_init(nbits_shape *shape, uint32_t bits, int64_t k, int64_t n, int64_t block)
{
    int64_t bytes;

    *shape = (nbits_shape){ .k = k, .n = n, .block = block <= 0 || block > k ? k : block, .bits = bits };
    if ((bits != 2 && bits != 4 && bits != 8 && !nbits_has_planes(bits)) || k < 1 || n < 1 || k > INT32_MAX ||
        n > INT32_MAX)
        return false;
    shape->blocks = (k + shape->block - 1) / shape->block;
    shape->padded = (shape->block + 15) / 16 * 16;
    shape->part = shape->padded % 32 == 0 ? 32 : 16;
    shape->panels = (n + NBITS_COLUMNS - 1) / NBITS_COLUMNS;
    return shape->padded % nbits_unit((int)bits) == 0 &&
           !__builtin_mul_overflow(shape->panels * NBITS_COLUMNS, nbits_depth(shape), &bytes) && bytes < INT64_MAX / 64;
}

bool nbits_join_scales(nbits_shape *shape)
{
    _Static_assert(NBITS_JOINED == 16 << 4 && NBITS_JOINED == 32 << 3, "");
    shape->joint = shape->k % NBITS_JOINED != 0 ? 0 : shape->block == 16 ? 4 : shape->block == 32 ? 3 : 0;
    return shape->joint != 0;
}

int64_t nbits_depth(const nbits_shape *shape)
{
    return shape->blocks * shape->padded;
}

int64_t nbits_weight_bytes(const nbits_shape *shape)
{
    return shape->panels * NBITS_COLUMNS * nbits_depth(shape) / 8 * shape->bits;
}

int64_t nbits_scale_count(const nbits_shape *shape)
{
    const int64_t columns = shape->panels * NBITS_COLUMNS;

    if (shape->joint == 0)
        return columns * shape->blocks;
    return columns * shape->k / NBITS_JOINED + columns * shape->blocks / (int64_t)sizeof(float);
}

int64_t nbits_parts(const nbits_shape *shape)
{
    return nbits_depth(shape) / shape->part;
}

const nbits_kernel *nbits_kernel_best(void)
{
#if defined(SIMD_ONLY) /* CMake's INLAY_QUICK has this instance alone */
    return &nbits_c;
#else
#if defined(__x86_64__)
    if (cpu_uniform() == CPU_UNIFORM_NO && cpu_has_vnni())
        return &nbits_avx512_vnni;
#elif defined(__aarch64__)
    if (&nbits_neon_dot != NULL && cpu_uniform() == CPU_UNIFORM_NO && cpu_has_dot())
        return &nbits_neon_dot;
#endif
    return KERNEL_BEST(nbits);
#endif
}

const nbits_tiles *nbits_tiles_of_cpu(void)
{
#if defined(__x86_64__) && !defined(SIMD_ONLY)
    if (&nbits_tiles_amx != NULL && nbits_kernel_best() == &nbits_avx512_vnni && tile_problem() == NULL)
        return &nbits_tiles_amx;
#endif
    return NULL;
}

int32_t nbits_element(const void *data, int64_t i, uint32_t bits, bool is_signed)
{
    const int64_t at = i * bits;
    const int32_t x = ((const uint8_t *)data)[at / 8] >> (at % 8) & ((1 << bits) - 1);

    return is_signed && x >> (bits - 1) != 0 ? x - (1 << bits) : x;
}

const uint8_t nbits_e2m1[16] = { 128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116 };

static bool flips(const nbits_source *from)
{
    return from->is_signed && !from->e2m1;
}

/* Unpacks `count` weights of one k, from element `first` on, to one byte each. */
static void read_row(const nbits_shape *shape, const nbits_source *from, int64_t first, int64_t count, uint8_t *out)
{
    const uint32_t bits = from->e2m1 ? 4 : shape->bits, flip = flips(from) ? 1u << (bits - 1) : 0;
    const uint8_t *data = from->data;

    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (first + i * from->n_step) * bits;
        const uint32_t code = data[at / 8] >> at % 8 & ((1u << bits) - 1);

        out[i] = from->e2m1 && shape->bits == 8 ? nbits_e2m1[code] : (uint8_t)(code ^ flip);
    }
    memset(out + count, 0, (size_t)(NBITS_COLUMNS - count));
}

/* Packs 32 / bits values of k from `first` on into one word per column; weights from `last` on are 0. */
static void pack_words(const nbits_shape *shape, const nbits_source *from, int64_t column, int64_t first, int64_t last,
                       uint8_t *out)
{
    const uint32_t bits = shape->bits;
    const int64_t columns = shape->n - column < NBITS_COLUMNS ? shape->n - column : NBITS_COLUMNS;
    uint32_t words[NBITS_COLUMNS] = { 0 };

    for (uint32_t e = 0; e < 32 / bits && first + e < last; e++) {
        const uint32_t shift = e % 4 * 8 + e / 4 * bits;
        uint8_t row[NBITS_COLUMNS];

        read_row(shape, from, (first + e) * from->k_step + column * from->n_step, columns, row);
        for (int c = 0; c < NBITS_COLUMNS; c++)
            words[c] |= (uint32_t)row[c] << shift;
    }
    memcpy(out, words, sizeof words);
}

typedef uint8_t line __attribute__((vector_size(NBITS_COLUMNS)));
typedef uint64_t pair __attribute__((vector_size(NBITS_COLUMNS)));
typedef uint32_t words __attribute__((vector_size(NBITS_COLUMNS)));

/* Interleaves the bytes, or pairs of bytes, of the low or the high halves of x and y. */
#define LOW_BYTES(x, y) __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_BYTES(x, y) __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_PAIRS(x, y) __builtin_shufflevector(x, y, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
#define HIGH_PAIRS(x, y) __builtin_shufflevector(x, y, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)

/* pack_words for 4 or 8 bits, if each row of NBITS_COLUMNS weights begins at a byte and no weight is missing. */
static void pack_rows(uint32_t bits, const uint8_t *rows, int64_t step, bool flip, uint8_t *out)
{
    const uint64_t low = UINT64_C(0x0f0f0f0f0f0f0f0f);
    line r[4], made[4];

    for (int i = 0; i < 4; i++) {
        uint64_t x, y; /* rows k + i and k + 4 + i; low nibbles are the even columns */

        if (bits == 8) {
            memcpy(&r[i], rows + i * step, sizeof r[i]);
        } else {
            memcpy(&x, rows + i * step, sizeof x);
            memcpy(&y, rows + (i + 4) * step, sizeof y);
            r[i] = LOW_BYTES((line)(pair){ (x & low) | (y & low) << 4 }, (line)(pair){ (x >> 4 & low) | (y & ~low) });
        }
        r[i] ^= (uint8_t)(flip ? (bits == 8 ? 0x80 : 0x88) : 0);
    }
    made[0] = LOW_PAIRS(LOW_BYTES(r[0], r[1]), LOW_BYTES(r[2], r[3]));
    made[1] = HIGH_PAIRS(LOW_BYTES(r[0], r[1]), LOW_BYTES(r[2], r[3]));
    made[2] = LOW_PAIRS(HIGH_BYTES(r[0], r[1]), HIGH_BYTES(r[2], r[3]));
    made[3] = HIGH_PAIRS(HIGH_BYTES(r[0], r[1]), HIGH_BYTES(r[2], r[3]));
    memcpy(out, made, sizeof made);
}

/* Permutes words of consecutive weights into the order of a panel's words. */
static words to_panel_order(words x, uint32_t bits)
{
    words made = { 0 };

    if (bits == 8)
        return x;
    if (bits == 4) { /* y: the first four weights of a word, one per byte; z: the others */
        const words y = ((x & 0xffff) | (x & 0xffff) << 8) & 0x00ff00ff, z = (x >> 16 | x >> 16 << 8) & 0x00ff00ff;

        return ((y | y << 4) & 0x0f0f0f0f) | ((z | z << 4) & 0x0f0f0f0f) << 4;
    }
    for (uint32_t e = 0; e < 16; e++)
        made |= (x >> e * 2 & 3) << (e % 4 * 8 + e / 4 * 2);
    return made;
}

/* Transposes four vectors of four words. */
static void transpose(words x[4])
{
    const words a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5),
                b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7),
                c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5),
                d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);

    x[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/* Packs `count` words per column from k = `first` on, if the weights of a column are contiguous from a byte on. Four
 * words of four columns are read at once. */
static void pack_lines(const nbits_shape *shape, const nbits_source *from, int64_t column, int64_t first, int64_t count,
                       uint8_t *out)
{
    enum { FEW = sizeof(words) / sizeof(uint32_t) };
    const uint32_t flip = !flips(from)       ? 0
                          : shape->bits == 8 ? 0x80808080u
                          : shape->bits == 4 ? 0x88888888u
                                             : 0xaaaaaaaau;
    const int64_t column_bytes = from->n_step * shape->bits / 8;
    const uint8_t *data = (const uint8_t *)from->data + (column * from->n_step + first) * shape->bits / 8;

    for (int64_t c = 0; c < NBITS_COLUMNS; c += FEW, data += FEW * column_bytes)
        for (int64_t i = 0; i < count; i += FEW) {
            const int64_t n = count - i < FEW ? count - i : FEW;
            words x[FEW] = { 0 };

            for (int64_t l = 0; l < FEW && column + c + l < shape->n; l++) {
                if (n == FEW)
                    memcpy(&x[l], data + l * column_bytes + 4 * i, sizeof x[l]);
                else
                    memcpy(&x[l], data + l * column_bytes + 4 * i, (size_t)n * 4);
                x[l] = to_panel_order(x[l] ^ flip, shape->bits);
            }
            transpose(x);
            for (int64_t w = 0; w < n; w++)
                memcpy(out + ((i + w) * NBITS_COLUMNS + c) * 4, &x[w], sizeof x[w]);
        }
}

/* Reads 16 weights from k = `first` on, one per byte, of up to four columns; those from `last` on are 0. */
static void read_bytes(const nbits_source *from, int64_t column, int64_t columns, int64_t first, int64_t last,
                       words x[4])
{
    memset(x, 0, 4 * sizeof *x);
    for (int64_t l = 0; l < columns && l < 4; l++) {
        const uint8_t *data = (const uint8_t *)from->data + (column + l) * from->n_step + first * from->k_step;
        uint8_t bytes[sizeof *x] = { 0 };

        if (from->k_step == 1 && first + (int64_t)sizeof *x <= last)
            memcpy(bytes, data, sizeof bytes);
        else
            for (int64_t i = 0; i < (int64_t)sizeof *x && first + i < last; i++)
                bytes[i] = data[i * from->k_step];
        memcpy(&x[l], bytes, sizeof bytes);
    }
}

/* Packs a block of k, elements [first, last), of a panel in two planes. */
static void pack_planes(const nbits_shape *shape, const nbits_source *from, int64_t column, int64_t first, int64_t last,
                        uint8_t *out)
{
    const uint32_t high_bits = shape->bits - 4, flip = flips(from) ? (1u << (shape->bits - 1)) * 0x01010101u : 0;
    const uint32_t high_mask = ((1u << high_bits) - 1) * 0x01010101u;
    const int64_t unit = nbits_unit((int)shape->bits), unit_words = unit * shape->bits / 32;

    for (int64_t k = 0; k < shape->padded; k += unit, out += unit_words * NBITS_COLUMNS * 4)
        for (int64_t c = 0; c < NBITS_COLUMNS; c += 4) {
            words quads[8], high = { 0 }; /* of four weights each, in four columns */

            for (int64_t i = 0; i < unit; i += sizeof *quads) {
                read_bytes(from, column + c, shape->n - column - c, first + k + i, last, quads + i / 4);
                transpose(quads + i / 4);
            }
            for (uint32_t g = 0; g < unit / 4; g += 2) {
                const words x = quads[g] ^ flip, y = quads[g + 1] ^ flip;
                const words low = (x & 0x0f0f0f0f) | (y & 0x0f0f0f0f) << 4;

                high |= (x >> 4 & high_mask) << g * high_bits | (y >> 4 & high_mask) << (g + 1) * high_bits;
                memcpy(out + (g / 2 * NBITS_COLUMNS + c) * 4, &low, sizeof low);
            }
            memcpy(out + ((unit_words - 1) * NBITS_COLUMNS + c) * 4, &high, sizeof high);
        }
}

/* If the columns of a row are contiguous in the file, neighbouring panels share cache lines. Rows that are far apart
 * would evict these lines before the next panel is packed; so this number of panels is packed together. */
enum { JOINT_PANELS = 8 };

void nbits_pack_weights(const nbits_shape *shape, const nbits_source *from, int64_t first, int64_t count, uint8_t *out)
{
    const int64_t per = nbits_unit((int)shape->bits), panel = nbits_weight_bytes(shape) / shape->panels,
                  joint = from->n_step == 1 ? JOINT_PANELS : 1;
    const bool planes = nbits_has_planes(shape->bits);
    const bool differs = from->e2m1 && shape->bits == 8; /* from the weights of the file */
    const bool lines = !differs && from->k_step == 1 && from->n_step * shape->bits % 8 == 0 && shape->block % per == 0;
    const uint8_t *data = from->data;
    const bool rows = !differs && from->n_step == 1 && from->k_step * shape->bits % 8 == 0 && shape->bits != 2;

    INLAY_CHECK(first >= 0 && count >= 0 && first + count <= shape->panels);
    INLAY_CHECK(shape->padded % 16 == 0 && shape->padded >= shape->block);
    for (int64_t p0 = 0; p0 < count; p0 += joint) {
        const int64_t p1 = p0 + joint < count ? p0 + joint : count;
        int64_t at = 0;

        for (int64_t b = 0; b < shape->blocks; b++) {
            const int64_t begin = b * shape->block,
                          last = begin + shape->block < shape->k ? begin + shape->block : shape->k;

            for (int64_t p = p0; planes && p < p1; p++)
                pack_planes(shape, from, (first + p) * NBITS_COLUMNS, begin, last, out + p * panel + at);
            if (planes) {
                at += shape->padded * NBITS_COLUMNS * shape->bits / 8;
                continue;
            }

            const int64_t whole = lines ? (last - begin) / per : 0; /* words of each column */

            for (int64_t p = p0; whole > 0 && p < p1; p++)
                pack_lines(shape, from, (first + p) * NBITS_COLUMNS, begin, whole, out + p * panel + at);
            at += whole * 4 * NBITS_COLUMNS;
            for (int64_t k = whole * per; k < shape->padded; k += per, at += 4 * NBITS_COLUMNS)
                for (int64_t p = p0; p < p1; p++) {
                    const int64_t column = (first + p) * NBITS_COLUMNS;
                    uint8_t *to = out + p * panel + at;

                    if (rows && begin + k + per <= last && column + NBITS_COLUMNS <= shape->n)
                        pack_rows(shape->bits, data + ((begin + k) * from->k_step + column) * shape->bits / 8,
                                  from->k_step * shape->bits / 8, flips(from), to);
                    else
                        pack_words(shape, from, column, begin + k, last, to);
                }
        }
    }
}

void nbits_pack_floats(const nbits_shape *shape, const nbits_source *from, float *out)
{
    for (int64_t p = 0; p < shape->panels; p++)
        for (int64_t b = 0; b < shape->blocks; b++, out += NBITS_COLUMNS)
            for (int64_t c = 0; c < NBITS_COLUMNS; c++) {
                const int64_t n = p * NBITS_COLUMNS + c;

                out[c] = 0;
                if (n < shape->n)
                    memcpy(&out[c], (const float *)from->data + n * from->n_step + b * from->k_step, sizeof *out);
                if (from->e2m1)
                    out[c] /= 2;
            }
}

void nbits_pack_zeros(const nbits_shape *shape, const nbits_source *from, uint32_t bits, int64_t row_bytes, float *out)
{
    const int32_t shift = from->is_signed ? 1 << (bits - 1) : 0;

    INLAY_CHECK(bits == 2 || bits == 4 || bits == 8);
    for (int64_t p = 0; p < shape->panels; p++)
        for (int64_t b = 0; b < shape->blocks; b++, out += NBITS_COLUMNS)
            for (int64_t c = 0; c < NBITS_COLUMNS; c++) {
                const int64_t n = p * NBITS_COLUMNS + c;
                const uint8_t *row = (const uint8_t *)from->data + (n < shape->n ? n * row_bytes : 0);
                const int64_t at = (row_bytes != 0 ? 0 : n * from->n_step) + b * from->k_step;

                out[c] = n < shape->n ? (float)(nbits_element(row, at, bits, from->is_signed) + shift) : 0;
            }
}
