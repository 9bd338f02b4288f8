/* nbits_rows.h - rows of floats by packed n-bit weights (weights/nbits.h): the parts that lower_nbits.c and
 * lower_experts.c share. */
#ifndef CPU_NBITS_ROWS_H
#define CPU_NBITS_ROWS_H
#include "cpu/region/build.h"
#include "cpu/weights/nbits.h"

enum {
    WAKE_NS = 4000,      /* a GEMM that takes longer is worth sharing with other threads */
    NBITS_MANY_ROWS = 8, /* from this many rows on a panel is expanded to floats, if activations stay floats */
    NBITS_FINE_ROWS =
        48, /* from this many rows on, NBITS_FINE takes longer than floats if the CPU has no kernels for many rows */
    NBITS_GROUP = SGEMM_WIDTH / NBITS_COLUMNS /* panels that are computed together */
};
#define NBITS_BYTES_PER_NS 20.0 /* packed weights, for one row */
#define NBITS_INTEGERS_PER_NS 60.0
#define NBITS_FLOATS_PER_NS 30.0

/* How rows are multiplied. Offsets are bytes in the scratch memory. */
typedef struct nbits_plan {
    bool on;
    const nbits_kernel *kernel;
    nbits_mode mode;
    nbits_shape shape;
    bool has_zeros; /* zero points are an operand; otherwise all are `zero` */
    float zero;
    bool alone;               /* float sums of one row at a time: their order depends on the rows of a tile */
    bool spreads;             /* rows are copied with each block padded */
    bool unfolds;             /* many rows: one panel of weights at a time is expanded to floats */
    bool blocks;              /* many rows: several panels at a time are expanded to integers */
    const nbits_tiles *tiles; /* many rows: used instead of blocks; NULL: not */
    uint32_t scratch_arg;
    uint64_t limbs, factors, sums, starts, rows, panels; /* offsets of these data */
    uint64_t quantized;   /* offset of one byte for each row, which is 0 if the row cannot be quantized */
    uint64_t panel_bytes; /* size of an expanded panel */
} nbits_plan;

/* The operands of a run. */
typedef struct nbits_call {
    const nbits_plan *plan;
    const float *input; /* rows of shape.k floats, a_row apart */
    int64_t a_row;
    const uint8_t *weights;
    const float *scales, *zeros; /* zeros: NULL without has_zeros */
    char *scratch;
    bool blocks; /* rows are prepared for weight blocks */
    bool single; /* as rows are prepared, see nbits_row */
} nbits_call;

/* The precision of activations. level: accuracy_level of the node. */
nbits_mode nbits_mode_of(const cpu_build *build, int64_t level);

/* Sets the offsets of what `rows` rows and `workers` threads need behind the first *bytes bytes, and adds it. */
void nbits_reserve(nbits_plan *plan, uint64_t rows, uint64_t workers, uint64_t *bytes);

/* Needed before tiles and blocks: pads rows [begin, end), and converts them to integers. */
void nbits_prepare_rows(const nbits_call *call, int64_t begin, int64_t end);
bool nbits_is_quantized(const nbits_call *call, int64_t row);
/* The tile of rows [row, row + count) by `panels` panels from `panel` on, whose result begins at c. */
nbits_tile nbits_tile_of(const nbits_call *call, int64_t panel, int64_t panels, int64_t row, int64_t count, float *c,
                         int64_t c_row);
/* Multiplies rows [row, row + count), at most nbits_kernel.rows, by one panel. Rows that cannot be quantized are summed
 * as floats, without an effect on the other rows. */
void nbits_by_tile(const nbits_call *call, int64_t panel, int64_t row, int64_t count, float *c, int64_t c_row);
/* Multiplies rows [first, last) by `panels` panels, at most NBITS_BESIDE; buffer has plan->panel_bytes bytes. */
void nbits_by_blocks(const nbits_call *call, int64_t panel, int64_t panels, int64_t first, int64_t last, char *buffer,
                     float *c, int64_t c_row);
/* Expands up to NBITS_GROUP panels from `panel` on to floats: out[k * SGEMM_WIDTH + column]. */
void nbits_unfold(const nbits_call *call, int64_t panel, float *out);

/* Calls body for all units; shares them among threads if they take `ns` nanoseconds and that is worth waking any. */
inlay_status nbits_share(const cpu_state *state, inlay_run *run, int64_t units, double ns, uint32_t threads,
                         inlay_status (*body)(void *, int64_t, int64_t, uint32_t), void *user);
#endif
