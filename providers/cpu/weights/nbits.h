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
    NB_COLUMNS = 16, /* of a panel */
    NB_ROWS = 4,     /* most rows of a tile */
    NB_BESIDE = 3,   /* panels of a block, */
    NB_PARTS = 32    /* and its most parts */
};

typedef enum nb_mode { NB_EXACT = 0, NB_BYTE = 1, NB_FINE = 2 } nb_mode; /* number of limbs */

/* Sizes, all that follow from k, n, bits and block. */
typedef struct nb_shape {
    int64_t k, n;
    int64_t block, blocks; /* of k: elements that share a scale, as they are in the file */
    int64_t padded;        /* elements of a packed block */
    int64_t panels;
    uint32_t bits;
    uint32_t part; /* 16 or 32: elements of activations that share a factor */
} nb_shape;

/* block: 0 = all of k. false: sizes that cannot be. */
bool nb_shape_init(nb_shape *shape, uint32_t bits, int64_t k, int64_t n, int64_t block);
/* Elements of a packed column, and of a row of activations as kernels read them. */
int64_t nb_depth(const nb_shape *shape);
int64_t nb_weight_bytes(const nb_shape *shape);
int64_t nb_scale_count(const nb_shape *shape); /* floats, of scales and of zero points */
int64_t nb_parts(const nb_shape *shape);       /* of a row */

/* Where elements lie in a file: number from * n_step of a column, + k_step for each row. */
typedef struct nb_source {
    const void *data;
    int64_t k_step, n_step; /* elements; of scales and zero points: from a block to the next */
    bool is_signed;
} nb_source;

/* Panels [first, first + count) into out, which is where the first of them goes. */
void nb_pack_weights(const nb_shape *shape, const nb_source *from, int64_t first, int64_t count, uint8_t *out);
void nb_pack_floats(const nb_shape *shape, const nb_source *from, float *out);
/* Zero points of `bits` bits each, packed; rows of n_step elements begin with a byte of their own where row_bytes is
 * not 0: the distance of columns then. */
void nb_pack_zeros(const nb_shape *shape, const nb_source *from, uint32_t bits, int64_t row_bytes, float *out);
/* One element of packed ones. */
int32_t nb_element(const void *data, int64_t i, uint32_t bits, bool is_signed);

/* Rows by one panel. */
typedef struct nb_tile {
    const nb_shape *shape;
    const uint8_t *weights; /* of the panel */
    const float *scales;
    const float *zeros; /* NULL: all are zero */
    float zero;
    int64_t rows;   /* 1 to NB_ROWS */
    const float *a; /* exact: [rows][nb_depth], a_row floats apart */
    int64_t a_row;
    const int8_t *limbs; /* [rows][parts][2 * part] bytes, rows limbs_row and parts limbs_part apart */
    int64_t limbs_row, limbs_part;
    const float *factors; /* [rows][nb_parts] */
    const int32_t *sums;  /* [rows][nb_parts]: as nb_kernel.prepare makes them */
    float *c;             /* [rows][columns] */
    int64_t c_row;
    int64_t columns; /* 1 to NB_COLUMNS */
} nb_tile;

/* Rows by a block: NB_BESIDE panels by a few parts, whose weights have been spread. */
typedef struct nb_block {
    nb_tile
        tile; /* of the first panel, whole rows: all but w, a, zero and limbs_part; columns are those of all panels */
    const int32_t *starts;   /* [rows][nb_parts], as nb_kernel.prepare makes them */
    const void *weights;     /* as nb_kernel.spread makes them, */
    const int32_t *w_starts; /* with these */
    int64_t first, parts;    /* at most NB_PARTS, none of them across a multiple of it */
} nb_block;

static inline int64_t nb_block_bytes(nb_mode mode)
{
    return (int64_t)mode * 32 * NB_PARTS * NB_BESIDE * NB_COLUMNS;
}

/* What a row of activations becomes. */
typedef struct nb_row {
    int8_t *limbs;
    int64_t limbs_part; /* bytes from a part to the next */
    float *factors;     /* [nb_parts], likewise */
    int32_t *sums;   /* of a part's integers; where all zero points are one and the row is no block's, times that less
                        than 0 */
    int32_t *starts; /* of a row of a block: what its products with weights begin with; otherwise NULL */
} nb_row;

typedef struct nb_kernel {
    const char *isa;
    bool has_limbs; /* otherwise tile[NB_EXACT] serves all */
    int64_t many;   /* from so many rows on blocks are faster than tiles; 0: there are none */
    /* a [nb_depth] -> what a tile reads, or a block; zero: NULL where each block of weights has its own zero points.
     * false: the row must be computed from its floats; what *row holds is of no use. */
    bool (*prepare)(const nb_shape *shape, nb_mode mode, const float *zero, const float *a, const nb_row *row);
    void (*tile[3])(const nb_tile *t); /* by nb_mode */
    /* Weights of the panel as floats: out[k * out_row + column] for k in [0, shape->k). */
    void (*unfold)(const nb_tile *tile, float *out, int64_t out_row);
    /* Parts [first, first + parts) of panel tile->w as number `at` of a block: out has room for nb_block_bytes(mode),
     * starts for NB_PARTS * NB_BESIDE * NB_COLUMNS. */
    void (*spread)(const nb_tile *tile, nb_mode mode, int64_t first, int64_t parts, int at, void *out, int32_t *starts);
    /* Rows by a block: added to what is in c, but for its first parts. The same bits as those of a tile. */
    void (*block)(const nb_block *b, nb_mode mode);
} nb_kernel;

KERNEL_INSTANCES(nb_kernel, nbits)
extern const nb_kernel nbits_avx512_vnni; /* x86-64 only: AVX-512 with VNNI */
const nb_kernel *nb_kernel_best(void);
#endif
