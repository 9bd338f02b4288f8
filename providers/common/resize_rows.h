/* resize_rows.h - the loops of Resize: output rows from input rows, by copying or by weighted sums. */
#ifndef RESIZE_ROWS_H
#define RESIZE_ROWS_H
#include "resize_table.h"

enum {
    RESIZE_SLOTS = 8,      /* resampled rows that a worker keeps, see resize_plan.grows */
    RESIZE_DIRECT_TAPS = 4 /* along the last axis, where rows are not resampled but read where they are needed */
};

/* Resizing at concrete shapes. The axes from the first to the last one that is resized; what lies before them is
 * their first axis if need be, what lies behind is `inner`. The tables are allocated behind the struct, or filled in
 * the workspace of each run when roi is not known before. */
typedef struct resize_plan {
    resize_axis axes[INLAY_MAX_RANK];
    resize_table tables[INLAY_MAX_RANK]; /* taps 0: the axis is copied */
    int64_t strides[INLAY_MAX_RANK];     /* of the input, in elements */
    uint32_t rank;                       /* 0: nothing changes */
    int64_t inner;
    int64_t rows; /* of the output: product of out of all axes but the last */
    double extrapolation;
    void *weights;  /* those of the last axis, as the type that sums are made in */
    bool wide;      /* which is double */
    bool few;       /* output rows are made of at most RESIZE_SLOTS input rows */
    bool grows;     /* no fewer output rows than input rows: each of these is resampled once and kept */
    bool can_leave; /* elements may come from outside */
    bool tables_at_run;
    uint64_t table_bytes;
    uint64_t scratch_bytes; /* of a worker */
} resize_plan;

/* The plan's axes from those of a dense tensor [axes.., inner], whose `inner` elements at the end go together; what is
 * not resized at either end is merged. Without weights (nearest) `inner` elements may be counted as one. An axis whose
 * roi_begin is NaN is taken for one that does not stay as it is. */
void resize_plan_axes(resize_plan *plan, const resize_rule *rule, const resize_axis *axes, uint32_t rank,
                      int64_t inner);
/* Sets table_bytes and scratch_bytes; false: the filter is too large to be counted. */
bool resize_plan_count(resize_plan *plan, const resize_rule *rule);
/* Lays the tables of all axes into memory (table_bytes, aligned to 8), and fills them. */
void resize_plan_fill(resize_plan *plan, const resize_rule *rule, void *memory);

/* Output rows [begin, end) by the weights of the plan's tables. scratch: of this worker, plan->scratch_bytes. */
typedef void (*resize_rows_fn)(const resize_plan *plan, const void *input, void *output, int64_t begin, int64_t end,
                               void *scratch);
/* The loops for an element type; NULL for strings, which have no sums. */
resize_rows_fn resize_rows_of(inlay_dtype dtype);
/* Are sums of this type made in double? */
bool resize_wide(inlay_dtype dtype);
/* Output rows [begin, end) of nearest neighbours: elements of `elem` bytes are copied, `fill` is what lies outside. */
void resize_copy_rows(const resize_plan *plan, uint32_t elem, const void *input, void *output, const void *fill,
                      int64_t begin, int64_t end);
#endif
