/* ml_attrs.h - attributes of the operators of ai.onnx.ml, read when a kernel is prepared. */
#ifndef ML_ATTRS_H
#define ML_ATTRS_H
#include "inlay/graph_view.h"
#include "operators/ml.h"

/* Copies the numbers of attribute `name`, or of the tensor attribute `tensor_name` (may be NULL), as doubles. Returns
 * NULL and sets *out_count to 0 if the node has neither. */
static inline double *ml_doubles(ml_pool *pool, const kit_node *node, const char *name, const char *tensor_name,
                                 uint32_t *out_count)
{
    const inlay_attr_info *attribute = kit_attr(node->info, name);
    const inlay_attr_info *tensor_attribute = tensor_name != NULL ? kit_attr(node->info, tensor_name) : NULL;
    double *out = NULL;
    int64_t count = 1;

    *out_count = 0;
    if (tensor_attribute != NULL && tensor_attribute->kind == INLAY_ATTR_TENSOR && tensor_attribute->tensor != NULL) {
        for (uint32_t d = 0; d < tensor_attribute->tensor->rank; d++)
            count *= tensor_attribute->tensor->dims[d];
        void *elements =
            ml_alloc(pool, tensor_attribute->tensor->bytes, 1); /* aligned copy: data in the file may be unaligned */
        out = ml_alloc(pool, (uint64_t)count, sizeof *out);
        if (out != NULL && elements != NULL && count > 0) {
            memcpy(elements, tensor_attribute->tensor->data, (size_t)tensor_attribute->tensor->bytes);
            convert_to_f64(out, tensor_attribute->tensor->dtype, elements, 0, count);
        }
        if (elements == NULL)
            out = NULL; /* the pool still owns it */
        *out_count = (uint32_t)count;
    } else if (attribute != NULL && attribute->kind == INLAY_ATTR_FLOATS) {
        out = ml_alloc(pool, attribute->count, sizeof *out);
        for (uint32_t i = 0; out != NULL && i < attribute->count; i++)
            out[i] = (double)attribute->floats[i];
        *out_count = attribute->count;
    }
    return out;
}

/* Returns the floats of an attribute, which belong to the node; NULL and *out_count = 0 if it has none. */
static inline const float *ml_floats(const kit_node *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *attribute = kit_attr(node->info, name);
    const bool has = attribute != NULL && attribute->kind == INLAY_ATTR_FLOATS;

    *out_count = has ? attribute->count : 0;
    return has ? attribute->floats : NULL;
}

/* Copies the labels of the classes: classlabels_strings, or the attribute with the name `integers`. */
static inline void ml_labels_read(ml_pool *pool, const kit_node *node, const char *integers, ml_labels *labels)
{
    const inlay_attr_info *attribute = kit_attr(node->info, "classlabels_strings");

    *labels = (ml_labels){ 0 };
    if (attribute != NULL && attribute->kind == INLAY_ATTR_STRINGS && attribute->count > 0) {
        labels->texts = ml_strings(pool, attribute->strings, attribute->count);
        labels->count = attribute->count;
    } else {
        labels->integers = ml_integers(pool, node, integers, &labels->count);
    }
}
#endif
