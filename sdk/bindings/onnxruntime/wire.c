/* ONNX's wire format. */
#include "wire.h"
#include "custom.h"
#include "inlay/check.h"

void ort_put_attr(ort_writer *node, const OrtOpAttr *attribute)
{
    /* AttributeProto.type and the field of the value, by kind */
    static const struct {
        int type;
        uint32_t field;
    } kinds[] = { [ORT_OP_ATTR_INT] = { 2, 3 },    [ORT_OP_ATTR_INTS] = { 7, 8 },   [ORT_OP_ATTR_FLOAT] = { 1, 2 },
                  [ORT_OP_ATTR_FLOATS] = { 6, 7 }, [ORT_OP_ATTR_STRING] = { 3, 4 }, [ORT_OP_ATTR_STRINGS] = { 8, 9 },
                  [ORT_OP_ATTR_TENSOR] = { 4, 5 } };
    const uint32_t field = kinds[attribute->type].field;
    ort_writer attr = { 0 };
    INLAY_CHECK(attribute->type > ORT_OP_ATTR_UNDEFINED && attribute->type <= ORT_OP_ATTR_TENSOR && field != 0);

    ort_put_text(&attr, 1, attribute->name);
    ort_put_number(&attr, 20, kinds[attribute->type].type);
    for (size_t i = 0; attribute->ints != NULL && i < attribute->count; i++)
        ort_put_number(&attr, field, attribute->ints[i]);
    for (size_t i = 0; attribute->floats != NULL && i < attribute->count; i++)
        ort_put_float(&attr, field, attribute->floats[i]);
    for (size_t i = 0; attribute->strings != NULL && i < attribute->count; i++)
        ort_put_blob(&attr, field, attribute->strings[i].data, (size_t)attribute->strings[i].bytes);
    if (attribute->tensor != NULL)
        ort_put_tensor(&attr, field, attribute->name, attribute->tensor);
    ort_put_message(node, NODE_ATTRIBUTE, &attr);
}

void ort_put_tensor(ort_writer *writer, uint32_t field, const char *name, const OrtValue *value)
{
    const inlay_value *from = value->value;
    const inlay_dtype dtype = inlay_value_dtype(from);
    const int64_t *dims = inlay_value_dims(from);
    ort_writer tensor = { 0 };
    INLAY_CHECK(from != NULL && value->type == ONNX_TYPE_TENSOR);

    for (uint32_t d = 0; d < inlay_value_rank(from); d++)
        ort_put_number(&tensor, TENSOR_DIMS, dims[d]);
    ort_put_number(&tensor, TENSOR_TYPE, dtype);
    ort_put_text(&tensor, TENSOR_NAME, name);
    if (dtype == INLAY_STRING) {
        const inlay_str *texts = inlay_value_data(from);

        ort_strings_sync(value);
        for (int64_t i = 0; i < inlay_value_count(from); i++)
            ort_put_blob(&tensor, TENSOR_STRINGS, texts[i].data, (size_t)texts[i].bytes);
    } else {
        ort_put_blob(&tensor, TENSOR_RAW, inlay_value_data(from), (size_t)inlay_value_bytes(from));
    }
    ort_put_message(writer, field, &tensor);
}

/* TypeProto.Tensor and TypeProto.SparseTensor. */
static void put_tensor_type(ort_writer *type, uint32_t field, const OrtTensorTypeAndShapeInfo *from)
{
    ort_writer tensor = { 0 }, shape = { 0 };

    ort_put_number(&tensor, 1, ort_dtype(from->type));
    for (size_t d = 0; from->has_shape && d < from->rank; d++) {
        ort_writer dim = { 0 };

        if (from->dims[d] >= 0)
            ort_put_number(&dim, 1, from->dims[d]);
        else if (ort_shape_name(from, d)[0] != '\0')
            ort_put_text(&dim, 2, ort_shape_name(from, d));
        ort_put_message(&shape, 1, &dim);
    }
    if (from->has_shape)
        ort_put_message(&tensor, 2, &shape);
    ort_put_message(type, field, &tensor);
}

void ort_put_type(ort_writer *writer, uint32_t field, const OrtTypeInfo *type)
{
    ort_writer message = { 0 }, part = { 0 };

    switch (type->type) {
    case ONNX_TYPE_TENSOR:
        put_tensor_type(&message, 1, type->tensor);
        break;
    case ONNX_TYPE_SPARSETENSOR:
        put_tensor_type(&message, 8, type->tensor);
        break;
    case ONNX_TYPE_SEQUENCE:
        ort_put_type(&part, 1, type->sequence->element);
        ort_put_message(&message, 4, &part);
        break;
    case ONNX_TYPE_MAP:
        ort_put_number(&part, 1, ort_dtype(type->map->key));
        ort_put_type(&part, 2, type->map->value);
        ort_put_message(&message, 5, &part);
        break;
    case ONNX_TYPE_OPTIONAL:
        ort_put_type(&part, 1, type->optional->contained);
        ort_put_message(&message, 9, &part);
        break;
    default:
        break;
    }
    ort_put_message(writer, field, &message);
}

bool ort_find_field(wire_span message, uint32_t number, wire_field *out)
{
    bool found = false;
    wire_field field;

    while (wire_next(&message, &field)) {
        if (field.number != number)
            continue;
        *out = field;
        found = true;
    }
    return found;
}

bool ort_read_dims(const wire_field *field, int64_t dims[INLAY_MAX_RANK], size_t *rank)
{
    const uint8_t *at = field->data.at, *const end = at + field->data.count;
    uint64_t dim = field->value;

    for (bool more = field->type == WIRE_VARINT || at < end; more; more = at < end) {
        if (at < end && !wire_varint(&at, end, &dim))
            return false;
        if (*rank < INLAY_MAX_RANK)
            dims[*rank] = (int64_t)dim;
        ++*rank;
    }
    return true;
}
