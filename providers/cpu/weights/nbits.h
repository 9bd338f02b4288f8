/* nbits.h - products by weights of 2, 4 or 8 bits that stay packed:
 *
 *     C[m, n] = A[m, k] * W[k, n],   W[k, n] = (Q[k, n] - zero[block of k, n]) * scale[block of k, n]
 *
 * Packed weights are unsigned and lie in panels of 16 columns, a word of 32 bits a column: bits [8 i + bits g, + bits)
 * of a word are the weight of k = 4 g + i, words of the next k follow. Each block of k is padded to a multiple of 16,
 * with whatever weights, since activations are 0 there. Scales and zero points of a panel are 16 floats a block.
 *
 * Activations are floats as they are (exact), or integers with a factor for each part of 16 or 32 of a row: of 16 bits
 * in two limbs (fine) or of 8 bits (byte). Products of integers are exact. What is lost is in the rounding of
 * activations: at most 2^-16 (fine), 2^-8 (byte) of the largest of its part for each, so an outlier spoils its part
 * alone. Rows that are not finite, or have a part that is too small for a factor, are computed from the floats. */
#ifndef CPU_NBITS_H
#define CPU_NBITS_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    NBITS_COLUMNS = 16, /* of a panel */
    NBITS_ROWS = 4,     /* most rows of a tile */
    NBITS_BESIDE = 3,   /* panels of a block, */
    NBITS_PARTS = 32    /* and its most parts */
};

typedef enum nbits_mode { NBITS_EXACT = 0, NBITS_BYTE = 1, NBITS_FINE = 2 } nbits_mode; /* number of limbs */

/* Sizes, all that follow from k, n, bits and block. */
typedef struct nbits_shape {
    int64_t k, n;
    int64_t block, blocks; /* of k: elements that share a scale, as they are in the file */
    int64_t padded;        /* elements of a packed block */
    int64_t panels;
    uint32_t bits;
    uint32_t part; /* 16 or 32: elements of activations that share a factor */
} nbits_shape;

/* block: 0 = all of k. false: sizes that cannot be. */
bool nbits_shape_init(nbits_shape *shape, uint32_t bits, int64_t k, int64_t n, int64_t block);
/* Elements of a packed column, and of a row of activations as kernels read them. */
int64_t nbits_depth(const nbits_shape *shape);
int64_t nbits_weight_bytes(const nbits_shape *shape);
int64_t nbits_scale_count(const nbits_shape *shape); /* floats, of scales and of zero points */
int64_t nbits_parts(const nbits_shape *shape);       /* of a row */

/* Where elements lie in a file: number from * n_step of a column, + k_step for each row. */
typedef struct nbits_source {
    const void *data;
    int64_t k_step, n_step; /* elements; of scales and zero points: from a block to the next */
    bool is_signed;
} nbits_source;

/* Panels [first, first + count) into out, which is where the first of them goes. */
void nbits_pack_weights(const nbits_shape *shape, const nbits_source *from, int64_t first, int64_t count, uint8_t *out);
void nbits_pack_floats(const nbits_shape *shape, const nbits_source *from, float *out);
/* Zero points of `bits` bits each, packed; rows of n_step elements begin with a byte of their own where row_bytes is
 * not 0: the distance of columns then. */
void nbits_pack_zeros(const nbits_shape *shape, const nbits_source *from, uint32_t bits, int64_t row_bytes, float *out);
/* One element of packed ones. */
int32_t nbits_element(const void *data, int64_t i, uint32_t bits, bool is_signed);

/* Rows by one panel. */
typedef struct nbits_tile {
    const nbits_shape *shape;
    const uint8_t *weights; /* of the panel */
    const float *scales;
    const float *zeros; /* NULL: all are zero */
    float zero;
    int64_t rows;   /* 1 to NBITS_ROWS */
    const float *a; /* exact: [rows][nbits_depth], a_row floats apart */
    int64_t a_row;
    const int8_t *limbs; /* [rows][parts][2 * part] bytes, rows limbs_row and parts limbs_part apart */
    int64_t limbs_row, limbs_part;
    const float *factors; /* [rows][nbits_parts] */
    const int32_t *sums;  /* [rows][nbits_parts]: as nbits_kernel.prepare makes them */
    float *c;             /* [rows][columns] */
    int64_t c_row;
    int64_t columns; /* 1 to NBITS_COLUMNS */
} nbits_tile;

/* Rows by a block: NBITS_BESIDE panels by a few parts, whose weights have been spread. */
typedef struct nbits_weight_block {
    nbits_tile
        tile; /* of the first panel, whole rows: all but w, a, zero and limbs_part; columns are those of all panels */
    const int32_t *starts;   /* [rows][nbits_parts], as nbits_kernel.prepare makes them */
    const void *weights;     /* as nbits_kernel.spread makes them, */
    const int32_t *w_starts; /* with these */
    int64_t first, parts;    /* at most NBITS_PARTS, none of them across a multiple of it */
} nbits_weight_block;

static inline int64_t nbits_block_bytes(nbits_mode mode)
{
    return (int64_t)mode * 32 * NBITS_PARTS * NBITS_BESIDE * NBITS_COLUMNS;
}

/* What a row of activations becomes. */
typedef struct nbits_row {
    int8_t *limbs;
    int64_t limbs_part; /* bytes from a part to the next */
    float *factors;     /* [nbits_parts], likewise */
    int32_t *sums;   /* of a part's integers; where all zero points are one and the row is no block's, times that less
                        than 0 */
    int32_t *starts; /* of a row of a block: what its products with weights begin with; otherwise NULL */
} nbits_row;

typedef struct nbits_kernel {
    const char *isa;
    bool has_limbs; /* otherwise tile[NBITS_EXACT] serves all */
    int64_t many;   /* from so many rows on blocks are faster than tiles; 0: there are none */
    /* a [nbits_depth] -> what a tile reads, or a block; zero: NULL where each block of weights has its own zero points.
     * false: the row must be computed from its floats; what *row holds is of no use. */
    bool (*prepare)(const nbits_shape *shape, nbits_mode mode, const float *zero, const float *a, const nbits_row *row);
    void (*tile[3])(const nbits_tile *t); /* by nbits_mode */
    /* Weights of the panel as floats: out[k * out_row + column] for k in [0, shape->k). */
    void (*unfold)(const nbits_tile *tile, float *out, int64_t out_row);
    /* Parts [first, first + parts) of panel tile->w as number `at` of a block: out has room for
     * nbits_block_bytes(mode), starts for NBITS_PARTS * NBITS_BESIDE * NBITS_COLUMNS. */
    void (*spread)(const nbits_tile *tile, nbits_mode mode, int64_t first, int64_t parts, int at, void *out,
                   int32_t *starts);
    /* Rows by a block: added to what is in c, but for its first parts. The same bits as those of a tile. */
    void (*block)(const nbits_weight_block *b, nbits_mode mode);
} nbits_kernel;

KERNEL_INSTANCES(nbits_kernel, nbits)
extern const nbits_kernel nbits_avx512_vnni; /* x86-64 only: AVX-512 with VNNI */
const nbits_kernel *nbits_kernel_best(void);
#endif
