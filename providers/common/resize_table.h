/* resize_table.h - source elements of a resized axis: ONNX's coordinate transformations and coefficients as one
 * table of indexes and weights per axis. */
#ifndef RESIZE_TABLE_H
#define RESIZE_TABLE_H
#include "inlay/kit_table.h"

enum { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };
enum {
    RESIZE_HALF_PIXEL,
    RESIZE_HALF_PIXEL_SYMMETRIC,
    RESIZE_PYTORCH_HALF_PIXEL,
    RESIZE_ALIGN_CORNERS,
    RESIZE_ASYMMETRIC,
    RESIZE_TF_HALF_PIXEL_FOR_NN,
    RESIZE_TF_CROP_AND_RESIZE
};
enum {
    RESIZE_ROUND_PREFER_FLOOR,
    RESIZE_ROUND_PREFER_CEIL,
    RESIZE_FLOOR,
    RESIZE_CEIL,
    RESIZE_SIMPLE /* Resize-10: up if the axis shrinks, down if it grows */
};

enum { RESIZE_STRETCH, RESIZE_NOT_LARGER, RESIZE_NOT_SMALLER };

/* The attributes that determine a table. */
typedef struct resize_rule {
    uint32_t mode, coordinates, rounding;
    uint32_t policy; /* how the aspect ratio is kept if sizes are given */
    bool antialias, exclude_outside;
    double cubic_a;
} resize_rule;

/* One axis. scale is output over input; exact: it equals out / in and is computed without rounding. */
typedef struct resize_axis {
    int64_t in, out;
    double scale;
    double roi_begin, roi_end; /* relative, for tf_crop_and_resize */
    bool exact;
} resize_axis;

/* The taps of an axis. Tap k of output element o is at [k * out + o]: the index of an input element in [0, in), and its
 * weight. If tf_crop_and_resize places the output element outside of the input, its first tap has index -1. Without
 * weights (nearest) there is one tap. */
typedef struct resize_table {
    int64_t taps;
    int32_t *index;
    double *weight;
} resize_table;

/* Reads the attributes of Resize and Upsample of any version; false: an unknown value. strings: elements can only be
 * copied (nearest). */
bool resize_rule_read(const struct inlay_node_info *node, bool strings, resize_rule *out, kit_refusal *why);

/* Taps per element of this axis. */
int64_t resize_taps(const resize_rule *rule, const resize_axis *axis);
/* Fills table->index [taps * out] and, if not NULL, table->weight [taps * out]. */
void resize_table_fill(const resize_rule *rule, const resize_axis *axis, const resize_table *table);
#endif
