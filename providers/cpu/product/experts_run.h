/* experts_run.h - the step of a mixture of experts. */
#ifndef CPU_EXPERTS_RUN_H
#define CPU_EXPERTS_RUN_H
#include "cpu/product/nbits_rows.h"
#include "cpu/weights/experts.h"

enum {
    EXPERTS_CHUNK = 512, /* rows of the input that are computed together; bounds the scratch memory */
    EXPERTS_WIDTH = SGEMM_WIDTH,
    EXPERTS_LAYERS = EXPERTS_GATE + 1,
    EXPERTS_MOST_DATA = 3 * EXPERTS_LAYERS /* of each layer: weights, scales, zero points */
};

/* A layer of all experts. The members `*_arg` are arguments of the step, INLAY_NONE: the layer has no such operand. */
struct experts_part {
    bool on;
    const sgemm_halves *halves; /* weights of 16 bits; NULL: others */
    int64_t rows, columns, chain;
    nbits_plan bits; /* n-bit weights */
    uint32_t weights_arg, scales_arg, zeros_arg, bias_arg;
};

/* Offsets are bytes in the scratch memory. */
struct experts {
    cpu_native native;
    const sgemm_kernel *kernel;
    struct experts_part parts[EXPERTS_LAYERS];
    int64_t rows, hidden, inner; /* inner: elements of a row between the layers */
    int64_t count, k, fusion;
    int64_t span;      /* columns of a unit, at most EXPERTS_WIDTH */
    bool coded, gated; /* coded: n-bit weights */
    bool shares_rows;  /* the gate reads the rows that were prepared for the first layer */
    bool same_kernels; /* option reproducible: the number of rows does not select a kernel */
    bool normalizes;
    bool selects; /* the host may have to read the weights of the experts that a row selects */
    uint32_t given_arg, scratch_arg, output_arg, workers;
    struct {
        uint32_t count, gate_count;
        sgemm_post list[4], gate[2];
    } posts;
    struct {                                             /* offsets in the scratch buffer */
        uint64_t scores, factors, taken, chosen, begins; /* routing */
        uint64_t places;                                 /* of the experts' weights, see inlay_pack_parts */
        uint64_t input, between; /* a row for each pair: of the first and of the second layer's input */
        uint64_t output;         /* the second layer's results, in the place of `input` */
        uint64_t work;           /* of each thread: two blocks of results, and expanded weights */
    } at;
    uint64_t work_bytes; /* of a thread */
};

typedef struct expert_pair {
    int64_t expert, pair;
    float share;
} expert_pair;

/* Elements between the rows of scores. */
static inline int64_t experts_score_row(const struct experts *experts)
{
    return (experts->count + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;
}

/* The most rows that are computed together. */
static inline int64_t experts_most_rows(const struct experts *experts)
{
    return experts->rows < EXPERTS_CHUNK ? experts->rows : EXPERTS_CHUNK;
}

/* cpu_native.run. args: input, probabilities, router weights if there are any, the operands of the layers, scratch
 * memory, output. */
inlay_status experts_run(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                         uint32_t threads);
#endif
