/* resize_rows.h - computes output rows of Resize from input rows, by copying or by weighted sums. */
#ifndef RESIZE_ROWS_H
#define RESIZE_ROWS_H
#include "common/resize_table.h"

enum {
    RESIZE_SLOTS = 8,      /* resampled rows that a worker caches, see resize_plan.caches_rows */
    RESIZE_DIRECT_TAPS = 4 /* maximum taps of the last axis at which rows are read directly instead of resampled */
};

/* A Resize at concrete shapes. `axes` are those from the first to the last resized one; earlier axes are merged into
 * their first axis, later ones into `inner`. The tables follow the struct, or are filled in the workspace of each
 * run if roi is not known before. */
typedef struct resize_plan {
    resize_axis axes[INLAY_MAX_RANK];
    resize_table tables[INLAY_MAX_RANK]; /* taps 0: the axis is copied */
    int64_t strides[INLAY_MAX_RANK];     /* of the input, in elements */
    uint32_t rank;                       /* 0: all axes are copied */
    int64_t inner;
    int64_t rows; /* output rows: product of out of all axes but the last */
    double extrapolation;
    void *weights;       /* weights of the last axis, in the type of the sums */
    bool wide;           /* the type of sums is double */
    bool pairs;          /* the last axis is halved: element o is a sum of elements 2 o and 2 o + 1 */
    bool few_input_rows; /* an output row depends on at most RESIZE_SLOTS input rows */
    bool caches_rows;    /* at least as many output rows as input rows: each input row is resampled once and cached */
    bool has_outside_elements; /* some elements are outside of the input */
    bool tables_at_run;
    uint64_t table_bytes;
    uint64_t scratch_bytes; /* per worker */
} resize_plan;

/* Sets the plan's axes for a dense tensor [axes.., inner], whose last `inner` elements are handled together. Axes at
 * either end that are not resized are merged. Without weights (nearest) `inner` elements may be counted as one. An
 * axis whose roi_begin is NaN counts as resized. */
void resize_plan_axes(resize_plan *plan, const resize_rule *rule, const resize_axis *axes, uint32_t rank,
                      int64_t inner);
/* Sets table_bytes and scratch_bytes; false: the filter is too large. */
bool resize_plan_count(resize_plan *plan, const resize_rule *rule);
/* Places the tables of all axes in memory (table_bytes, aligned to 8) and fills them. */
void resize_plan_fill(resize_plan *plan, const resize_rule *rule, void *memory);

/* Computes output rows [begin, end) with the plan's tables. scratch: plan->scratch_bytes of this worker. */
typedef void (*resize_rows_fn)(const resize_plan *plan, const void *input, void *output, int64_t begin, int64_t end,
                               void *scratch);
/* The function for an element type; NULL for strings, which have no sums. */
resize_rows_fn resize_rows_of(inlay_dtype dtype);
/* Whether sums of this type are computed in double. */
bool resize_wide(inlay_dtype dtype);
/* Copies output rows [begin, end) of nearest neighbours: elements of `elem` bytes; `fill` is used outside of the
 * input. */
void resize_copy_rows(const resize_plan *plan, uint32_t elem, const void *input, void *output, const void *fill,
                      int64_t begin, int64_t end);
#endif
