/* ml/ml.h - rules of shape inference shared by the operators of ai.onnx.ml. */
#ifndef ML_H
#define ML_H
#include "schema.h"

/* Length of a list attribute; 0 if it is absent. */
static inline uint32_t ml_length(const op_infer *infer, const char *name)
{
    const inlay_attr_info *attr = infer_attr(infer, name);

    return attr != NULL ? attr->count : 0;
}

/* The number of samples of input 0: [N, C], or [C] for a single sample. */
static inline inlay_dim ml_samples(const op_infer *infer)
{
    return infer_rank(infer, 0) == 1   ? dim_fixed(1)
           : infer_rank(infer, 0) == 2 ? infer_dim(infer, 0, 0)
                                       : dim_unknown();
}

/* Output o is [N, columns]. */
static inline inlay_status ml_infer_columns(op_infer *infer, uint32_t o, inlay_dim columns)
{
    inlay_dim dims[] = { ml_samples(infer), columns };

    return infer_set_shape(infer, o, 2, dims);
}

/* The outputs of a classifier: labels [N], strings or integers as in the attributes, and scores [N, columns].
 * scores_per_class: the scores have a column for each class; otherwise the number of columns is unknown. */
static inline inlay_status ml_infer_classifier(op_infer *infer, const char *integer_labels, bool scores_per_class)
{
    uint32_t strings = ml_length(infer, "classlabels_strings"), integers = ml_length(infer, integer_labels);
    uint32_t classes = strings > 0 ? strings : integers;
    inlay_dim samples = ml_samples(infer);
    inlay_status status = infer_set_shape(infer, 0, 1, &samples);

    if (strings > 0 && integers > 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "%s has %u labels and classlabels_strings %u; omit one of them",
                          integer_labels, integers, strings);
    infer_set_dtype(infer, 0, strings > 0 ? INLAY_STRING : INLAY_INT64);
    if (status != INLAY_OK)
        return status;
    return ml_infer_columns(infer, 1, scores_per_class && classes > 0 ? dim_fixed(classes) : dim_unknown());
}
#endif
