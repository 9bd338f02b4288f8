/* dense.h - products with loops of our own: what dense.c and nbits.c have in common. */
#ifndef CPU_DENSE_H
#define CPU_DENSE_H
#include "region/build.h"
#include "weights/nbits.h"
#include "matrix/sgemm.h"

enum { WAKE_NS = 10000 }; /* a product that takes longer is worth waking other threads for */

/* Of a product by weights of a few bits (nbits.c). Offsets are bytes of the scratch. */
typedef struct nbits_plan {
    bool on;
    const nbits_kernel *kernel;
    nbits_mode mode;
    nbits_shape shape;
    bool has_zeros; /* an operand of its own; otherwise all are `zero` */
    float zero;
    bool spreads; /* rows are copied with each block padded */
    bool unfolds; /* many rows: a panel of weights becomes floats at a time, */
    bool blocks;  /* or panels side by side are spread for their integers */
    uint32_t scratch_arg;
    uint64_t limbs, factors, sums, starts, fit, rows, panels, panel_bytes;
} nbits_plan;

/* One function or operand behind the product. */
struct behind {
    sgemm_post post;
    uint32_t arg; /* of the step: the operand's; INLAY_NONE */
};

struct dense {
    cpu_native native;
    sgemm_job job; /* of one product, without addresses */
    int64_t batch; /* products */
    uint32_t axes; /* that they are counted by */
    int64_t dims[CPU_MAX_RANK], a_steps[CPU_MAX_RANK], b_steps[CPU_MAX_RANK];
    int64_t lines;   /* elements from one column of B to the next: they are put into panels, unless */
    bool few;        /* rows are few; 0: rows of B are read as they lie */
    int64_t b_count; /* matrices that are: one for all products, or as many */
    bool biased;
    bool sparse; /* the constant matrix has no blocks of zeros; scratchpads as below */
    bool narrow; /* it has few bits (narrow.h): workers make floats of a panel at a time; likewise */
    bool paired; /* the constant matrix is packed for products in pairs; scratchpads of workers stand behind y */
    uint32_t workers;
    uint32_t arg_count;
    uint32_t bias_arg;
    nbits_plan bits;
    struct behind posts[CPU_MAX_POSTS + 1];
};

/* Operands of the step that becomes of it. */
typedef struct dense_args {
    const cpu_place *list[CPU_MAX_POSTS + 8];
    uint32_t count;
} dense_args;

/* Adds bias, operands of functions behind it and the output to the operands, and emits a copy of dense with what it
 * takes of the group; the rest of the group runs behind it. bias_value: INLAY_NONE for none. */
inlay_status dense_emit(cpu_build *build, const cpu_group *group, struct dense *dense, dense_args *args,
                        uint32_t bias_value);
#endif
