/* nbits.h - GEMM with weights of 2, 4, 5, 6 or 8 bits that stay packed:
 *
 *     C[m, n] = A[m, k] * W[k, n],   W[k, n] = (Q[k, n] - zero[block of k, n]) * scale[block of k, n]
 *
 * Packed weights are unsigned, in panels of 16 columns. A panel has one 32-bit word per column for each 32 / bits rows
 * of W: bits [8 i + bits g, + bits) of a word are the weight of k = 4 g + i. Each block of k is padded to a multiple of
 * 16; padding weights are arbitrary, since activations are 0 there. Scales and zero points of a panel are 16 floats per
 * block.
 *
 * Weights of 5 or 6 bits are in two planes: for each 32 / (bits - 4) rows of W there are the words of the low 4 bits of
 * each weight, and then one word of the other bits. Each plane has the layout above.
 *
 * Or scales are bytes times a factor for each NBITS_JOINED elements of a column (nbits_shape.joint). W is then
 * Q[k, n] * scale - minimum, where minima have the form of scales, and the place of zero points.
 *
 * Weights of 4 bits may be indexes of a table of 16 weights of 8 bits (nbits_shape.table). Results are those of these
 * weights of 8 bits, to the last bit.
 *
 * Activations are floats (exact), or integers with one scale factor per part, a part being 16 or 32 elements of a row:
 * integers of 16 bits in two limbs of 8 (fine), or of 8 bits (byte). Integer products and sums are exact. The rounding
 * error of an activation is at most 2^-16 (fine) or 2^-8 (byte) of the largest activation of its part, so an outlier
 * affects its own part only. Rows with NaN or infinity, and rows with a part too small for a factor, are computed with
 * floats. */
#ifndef CPU_NBITS_H
#define CPU_NBITS_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    NBITS_COLUMNS = 16, /* columns of a panel */
    NBITS_ROWS = 8,     /* most rows of a tile */
    NBITS_FEW_ROWS = 4, /* most rows of a tile of floats, and of a weight block */
    NBITS_BESIDE = 3,   /* panels of a weight block */
    NBITS_TABLE_ZERO = 128,
    NBITS_JOINED = 256, /* elements of a column that share a factor */
    NBITS_PARTS = 32,   /* most parts of a weight block */
    NBITS_BLOCK_BYTES = 2 * 32 * NBITS_PARTS * NBITS_BESIDE * NBITS_COLUMNS /* of its expanded weights */
};

typedef enum nbits_mode { NBITS_EXACT = 0, NBITS_BYTE = 1, NBITS_FINE = 2 } nbits_mode; /* the number of limbs */

/* The sizes of packed weights. */
typedef struct nbits_shape {
    int64_t k, n;
    int64_t block, blocks; /* elements of k that share a scale, and the number of such blocks */
    int64_t padded;        /* elements of a packed block: a multiple of 16 */
    int64_t panels;
    uint32_t bits;
    uint32_t part; /* 16 or 32: activations that share a factor; divides padded */
    /* 0: scales are floats, which nbits_shape_init sets. Otherwise they have joint factors: 2^joint blocks of k are
     * NBITS_JOINED elements, which divide k. */
    uint32_t joint;
    /* Packed weights of 4 bits are indexes of these 16 weights of 8 bits, whose zero points are all NBITS_TABLE_ZERO;
     * NULL: they are not. nbits_shape_init sets NULL. Set only if nbits_kernel.tables. */
    const uint8_t *table;
} nbits_shape;

/* block: 0 = all of k. false: a size is out of range. 5 and 6 bits: only if nbits_kernel.planes; 5: only
 * if a block is padded to a multiple of 32. */
bool nbits_shape_init(nbits_shape *shape, uint32_t bits, int64_t k, int64_t n, int64_t block);
/* Are weights of these bits in two planes? */
static inline bool nbits_has_planes(int64_t bits)
{
    return bits == 5 || bits == 6;
}
/* Elements of a column in the smallest number of whole words. */
static inline int nbits_unit(int bits)
{
    return 32 / (nbits_has_planes(bits) ? bits - 4 : bits);
}
/* Elements of a packed column, padding included; also those of a row of activations for kernels. */
int64_t nbits_depth(const nbits_shape *shape);
int64_t nbits_weight_bytes(const nbits_shape *shape);
/* Floats of the packed scales, and of the packed zero points. With joint factors, a panel has for each NBITS_JOINED
 * elements 16 factors, and then 16 signed bytes for each of their blocks of k. */
int64_t nbits_scale_count(const nbits_shape *shape);
/* Sets shape->joint. false: these sizes do not have joint factors. */
bool nbits_join_scales(nbits_shape *shape);
int64_t nbits_parts(const nbits_shape *shape); /* parts of a row of activations */

/* Elements in a file: element (k, n) is at index k * k_step + n * n_step. Weights that are packed in 5 or 6 bits have 8
 * bits there; the other bits are not read. */
typedef struct nbits_source {
    const void *data;
    int64_t k_step, n_step; /* in elements; k counts blocks for scales and zero points */
    bool is_signed;
    bool e2m1; /* weights are float4e2m1: indexes of nbits_e2m1 in 4 bits, its weights in 8 bits; scales are halved */
} nbits_source;

extern const uint8_t nbits_e2m1[16]; /* 128 plus twice the value of each float4e2m1 */

/* Packs panels [first, first + count) into out, which begins with panel `first`. */
void nbits_pack_weights(const nbits_shape *shape, const nbits_source *from, int64_t first, int64_t count, uint8_t *out);
void nbits_pack_floats(const nbits_shape *shape, const nbits_source *from, float *out);
/* Converts zero points of `bits` bits to floats. row_bytes > 0: each column begins with a new byte, row_bytes after the
 * begin of the column before. */
void nbits_pack_zeros(const nbits_shape *shape, const nbits_source *from, uint32_t bits, int64_t row_bytes, float *out);
/* Element i of an array of elements of `bits` bits. */
int32_t nbits_element(const void *data, int64_t i, uint32_t bits, bool is_signed);

/* A few rows of A by one panel. */
typedef struct nbits_tile {
    const nbits_shape *shape;
    const uint8_t *weights; /* of the panel */
    const float *scales;    /* of the panel */
    const float *zeros;     /* of the panel, or minima; NULL: all zero points are `zero` */
    float zero;
    int64_t rows;   /* 1 to nbits_kernel.rows; if more than NBITS_FEW_ROWS, integers of NBITS_ROWS rows are read */
    bool single;    /* as the rows were prepared */
    const float *a; /* exact: [rows][nbits_depth], rows a_row floats apart */
    int64_t a_row;
    const int8_t *limbs; /* [rows][parts][2 * part] bytes; rows are limbs_row bytes apart, parts limbs_part */
    int64_t limbs_row, limbs_part;
    const float *factors, *sums; /* [rows][nbits_parts], see nbits_row */
    const int32_t *starts;       /* likewise */
    float *c;                    /* [rows][columns] */
    int64_t c_row;
    int64_t columns; /* 1 to NBITS_COLUMNS */
} nbits_tile;

/* The weights of a weight block, expanded by nbits_kernel.spread; the other members are [parts][NBITS_BESIDE]
 * [NBITS_COLUMNS]. */
typedef struct nbits_spread {
    void *weights; /* NBITS_BLOCK_BYTES */
    int32_t *starts;
    float *scales, *zeros; /* zeros, or minima: unused if the tile has none */
} nbits_spread;

/* A few rows of A by a weight block: NBITS_BESIDE panels by a range of parts, expanded by nbits_kernel.spread. */
typedef struct nbits_weight_block {
    /* of the first panel and whole rows; columns counts those of all panels; weights, scales, a and zero are
     * unused, limbs_part with block_rows, too; zeros only says whether there are any */
    nbits_tile tile;
    nbits_spread spread;
    int64_t first, parts; /* parts [first, first + parts), at most NBITS_PARTS; they do not cross a multiple of it */
} nbits_weight_block;

/* A row of activations as integers: the output of nbits_kernel.prepare. */
typedef struct nbits_row {
    int8_t *limbs;
    int64_t limbs_part; /* bytes from a part to the next */
    float *factors;     /* [nbits_parts] */
    float *sums;        /* [nbits_parts] the sum of a part's integers, which is exact */
    /* [nbits_parts] the initial value of a dot product. It undoes two offsets: sums[part] times the number that the
     * kernel subtracts from each weight (less the zero point, if all weights have the same one), and minus the number
     * that the kernel adds for each pair of activations */
    int32_t *starts;
    bool blocks; /* for weight blocks; false: for tiles */
    bool single; /* for tiles of one row, or for nbits_tiles: some kernels have a layout for these */
} nbits_row;

typedef struct nbits_kernel {
    const char *isa;
    bool has_limbs;  /* false: tile[NBITS_EXACT] computes all modes */
    bool tables;     /* takes nbits_shape.table */
    bool planes;     /* takes weights of 5 and 6 bits */
    int64_t rows;    /* most rows of a tile of integers; one of floats has at most NBITS_FEW_ROWS */
    int64_t many;    /* from this number of rows on, weight blocks are faster than tiles; 0: no weight blocks */
    bool block_rows; /* rows have a layout for weight blocks, nbits_row.blocks; false: that for tiles of several rows */
    /* Converts row a [nbits_depth]. zero: the zero point of all weights; NULL: each block of k has its own. false: the
     * row must be computed with floats, and *row is undefined. */
    bool (*prepare)(const nbits_shape *shape, nbits_mode mode, const float *zero, const float *a, const nbits_row *row);
    void (*tile[3])(const nbits_tile *tile); /* indexed by nbits_mode */
    /* Dequantizes the panel: out[k * out_row + column] for k in [0, shape->k). */
    void (*unfold)(const nbits_tile *tile, float *out, int64_t out_row);
    /* Expands parts [first, first + parts) of the tile's panel, which becomes panel `at` of a weight block. */
    void (*spread)(const nbits_tile *tile, nbits_mode mode, int64_t first, int64_t parts, int at,
                   const nbits_spread *out);
    /* Multiplies rows by a weight block, and adds the result to c, except for part 0, which overwrites c. The result
     * has the same bits as that of a tile. */
    void (*block)(const nbits_weight_block *block, nbits_mode mode);
} nbits_kernel;

/* Many rows by one panel, by AMX, or by plain C with the same results. */
typedef struct nbits_tiles {
    int64_t many; /* from this number of rows on, it is faster than weight blocks */
    /* As nbits_kernel.tile of nbits_avx512_vnni, with the same bits, for any number of rows; mode: not NBITS_EXACT.
     * Reads factors, sums and starts of rows up to a multiple of NBITS_TILE_ROWS. */
    void (*panel)(const nbits_tile *tile, nbits_mode mode);
} nbits_tiles;
enum { NBITS_TILE_ROWS = 16 };
extern __attribute__((weak)) const nbits_tiles nbits_tiles_amx; /* only in the plugin cpu */
extern const nbits_tiles nbits_tiles_avx512_vnni;               /* of plain C, for tests */
const nbits_tiles *nbits_tiles_of_cpu(void);                    /* NULL: none */

KERNEL_INSTANCES(nbits_kernel, nbits)
extern const nbits_kernel nbits_avx512_vnni;                    /* x86-64 only: AVX-512 with VNNI */
extern __attribute__((weak)) const nbits_kernel nbits_neon_dot; /* only in the plugin cpu */
const nbits_kernel *nbits_kernel_best(void);
#endif
