/* resize_table.h - where the elements of a resized axis come from: ONNX's coordinate transformations and coefficients
 * as tables of indexes and weights, one table an axis. */
#ifndef RESIZE_TABLE_H
#define RESIZE_TABLE_H
#include "inlay/kit.h"

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
    RESIZE_SIMPLE /* Resize-10: up where the axis shrinks, down where it grows */
};

enum { RESIZE_STRETCH, RESIZE_NOT_LARGER, RESIZE_NOT_SMALLER };

/* The attributes that shape a table. */
typedef struct resize_rule {
    uint32_t mode, coordinates, rounding;
    uint32_t policy; /* what keeps the aspect ratio, where sizes are given */
    bool antialias, exclude_outside;
    double cubic_a;
} resize_rule;

/* One axis. scale is output over input; exact says that it is out / in itself, which is then computed without
 * rounding. */
typedef struct resize_axis {
    int64_t in, out;
    double scale;
    double roi_begin, roi_end; /* relative, for tf_crop_and_resize */
    bool exact;
} resize_axis;

/* Taps of each output element o, tap k at [k * out + o]: index in [0, in) and weight. An element that
 * tf_crop_and_resize takes from outside of the input has index -1 at its first tap. Without weights (nearest) there is
 * one tap. */
typedef struct resize_table {
    int64_t taps;
    int32_t *index;
    double *weight;
} resize_table;

/* Reads mode, coordinate_transformation_mode, nearest_mode and what weights them, of Resize and Upsample of any
 * version; false: a value that is not known. strings: elements that only nearest can copy. */
bool resize_rule_read(const inlay_node_info *node, bool strings, resize_rule *out, kit_refusal *why);

/* How many taps an element of this axis has. */
int64_t resize_taps(const resize_rule *rule, const resize_axis *axis);
/* Fills table->index [taps * out] and, unless it is NULL, table->weight [taps * out]. */
void resize_table_fill(const resize_rule *rule, const resize_axis *axis, const resize_table *table);
#endif
