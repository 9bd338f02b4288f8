/* Fixed sizes for dimensions by their denotation ("DATA_BATCH"), which only the model's file has. */
#include "wire.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>

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
static OrtStatus *set_dim(OrtKeyValuePairs *to, const OrtKeyValuePairs *given, const ort_field *input_name,
                          uint32_t axis, const ort_field *dim)
{
    ort_field denotation, name;
    char text[300];

    if (!ort_find_field(dim, 3, &denotation))
        return NULL;
    for (size_t i = 0; i < given->count; i++) {
        if (!ort_field_is(&denotation, given->keys[i]))
            continue;
        if (ort_find_field(dim, 2, &name) && name.bytes > 0)
            (void)snprintf(text, sizeof text, "%.*s", (int)(name.bytes < 255 ? name.bytes : 255),
                           (const char *)name.data);
        else
            (void)snprintf(text, sizeof text, "%.*s[%u]", (int)(input_name->bytes < 255 ? input_name->bytes : 255),
                           (const char *)input_name->data, axis);
        if (!ort_pairs_set(to, text, given->values[i]))
            return ort_no_memory();
    }
    return NULL;
}

static OrtStatus *set_input(OrtKeyValuePairs *to, const OrtKeyValuePairs *given, const ort_field *input)
{
    ort_field type, tensor, shape, name = { 0 }, field;
    const unsigned char *at;
    bool bad = false;
    uint32_t axis = 0;

    if (!ort_find_field(input, 1, &name) || !ort_find_field(input, 2, &type) || !ort_find_field(&type, 1, &tensor) ||
        !ort_find_field(&tensor, 2, &shape))
        return NULL;
    at = shape.data;
    while (ort_next_field(&at, shape.data + shape.bytes, &field, &bad))
        if (field.number == 1)
            ORT_TRY(set_dim(to, given, &name, axis++, &field));
    return NULL;
}

OrtStatus *ort_denoted_dims(const OrtKeyValuePairs *given, const void *data, size_t bytes, OrtKeyValuePairs *to)
{
    const ort_field model = { .data = data, .bytes = bytes };
    const unsigned char *at;
    ort_field graph, field;
    bool bad = false;

    INLAY_CHECK(given->count > 0);
    if (!ort_find_field(&model, MODEL_GRAPH, &graph)) /* loading reports the error */
        return NULL;
    at = graph.data;
    while (ort_next_field(&at, graph.data + graph.bytes, &field, &bad))
        if (field.number == GRAPH_INPUT)
            ORT_TRY(set_input(to, given, &field));
    return NULL;
}
