/* session/error_table.h - the errors of a model's outputs when one node is computed in a cheaper arithmetic, measured
 * by `inlay explain --errors`, and the choice of nodes whose errors together stay below a limit (option max_error).
 *
 * To first order the effects of several nodes on an output add up, so the sum of their errors bounds the error of all
 * of them together, on the samples that they were measured on. Other inputs may be affected more. If the errors of
 * inputs have an exponential tail, the largest of n inputs is proportional to the logarithm of n, so the largest error
 * of the samples is multiplied by the ratio of the logarithms of ERROR_TABLE_INPUTS and of the number of samples. */
#ifndef SESSION_ERROR_TABLE_H
#define SESSION_ERROR_TABLE_H
#include "base/arena.h"
#include "inlay/inlay.h"
#include "passes/pass.h"

#define ERROR_TABLE_INPUTS 10000.0

typedef struct error_row {
    const char *node;
    uint32_t arithmetic; /* REDUCED_* */
    uint64_t weights;    /* reduced_product_hash() */
    double error;        /* largest change of an output, relative to its largest element; may be infinite */
    double saved_ns;     /* of a run; negative: it takes longer */
    bool chosen;
} error_row;

typedef struct error_table {
    error_row *rows; /* [count] */
    uint32_t count;
    uint32_t samples; /* that the errors were measured on */
    double run_ns;    /* time of a run with floats */
} error_table;

/* Writes JSON: {"inlay_errors": 1, "samples": n, "run_ns": t, "rows": [...]}. */
INLAY_NODISCARD inlay_status error_table_write(const char *path, const error_table *table, inlay_diag *diag);
/* The factor by which inputs that are not samples may have larger errors: at least 1. */
double error_table_margin(uint32_t samples);
/* Sets `chosen`: at most one row for each node, those that save the most time for their error first. Returns the bound
 * of their error together, margin included: at most `limit`. */
double error_table_choose(error_table *table, double limit);

/* Sets the reductions of the pass from the options reduce, max_error and error_table. */
INLAY_NODISCARD inlay_status session_read_reductions(const inlay_options *options, pass_ctx *passes);
/* Fails if an item of option reduce, or a chosen row, matched no node. `passes` is as session_read_reductions() left
 * it. */
INLAY_NODISCARD inlay_status session_check_reductions(const pass_reduction *list, uint32_t count, inlay_diag *diag);
#endif
