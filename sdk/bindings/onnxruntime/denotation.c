/* Fixed sizes for dimensions by their denotation ("DATA_BATCH"), which only the model's file has. */
#include "wire.h"
#include "inlay/check.h"
#include <stdio.h>

OrtStatus *ort_AddFreeDimensionOverride(OrtSessionOptions *options, const char *dim_denotation, int64_t dim_value)
{
    char text[32];

    ORT_NEED(options);
    ORT_NEED(dim_denotation);
    (void)snprintf(text, sizeof text, "%lld", (long long)dim_value);
    return ort_pairs_set(&options->denotations, dim_denotation, text) ? NULL : ort_no_memory();
}

/* Sets the dimension `axis` of an input if its denotation is among the given ones. inlay names a dimension that has no
 * name in the file by the input and the axis. */
static OrtStatus *set_dim(OrtKeyValuePairs *to, const OrtKeyValuePairs *given, wire_span input_name, uint32_t axis,
                          wire_span dim)
{
    wire_field denotation, name;
    char text[300];

    if (!ort_find_field(dim, 3, &denotation))
        return NULL;
    for (size_t i = 0; i < given->count; i++) {
        if (!wire_is(denotation.data, given->keys[i]))
            continue;
        if (ort_find_field(dim, 2, &name) && name.data.count > 0)
            (void)snprintf(text, sizeof text, "%.*s", (int)(name.data.count < 255 ? name.data.count : 255),
                           (const char *)name.data.at);
        else
            (void)snprintf(text, sizeof text, "%.*s[%u]", (int)(input_name.count < 255 ? input_name.count : 255),
                           (const char *)input_name.at, axis);
        if (!ort_pairs_set(to, text, given->values[i]))
            return ort_no_memory();
    }
    return NULL;
}

static OrtStatus *set_input(OrtKeyValuePairs *to, const OrtKeyValuePairs *given, wire_span input)
{
    wire_field type, tensor, shape, name = { 0 }, field;
    uint32_t axis = 0;

    if (!ort_find_field(input, 1, &name) || !ort_find_field(input, 2, &type) ||
        !ort_find_field(type.data, 1, &tensor) || !ort_find_field(tensor.data, 2, &shape))
        return NULL;
    while (wire_next(&shape.data, &field))
        if (field.number == 1)
            ORT_TRY(set_dim(to, given, name.data, axis++, field.data));
    return NULL;
}

OrtStatus *ort_denoted_dims(const OrtKeyValuePairs *given, const void *data, size_t bytes, OrtKeyValuePairs *to)
{
    wire_field graph, field;

    INLAY_CHECK(given->count > 0);
    if (!ort_find_field((wire_span){ data, bytes }, MODEL_GRAPH, &graph)) /* loading reports the error */
        return NULL;
    while (wire_next(&graph.data, &field))
        if (field.number == GRAPH_INPUT)
            ORT_TRY(set_input(to, given, field.data));
    return NULL;
}
