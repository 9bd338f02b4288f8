/* Attributes of nodes, and attributes created by programs. */
#include "custom.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

void ort_ReleaseOpAttr(OrtOpAttr *attribute)
{
    if (attribute == NULL)
        return;
    for (size_t i = 0; attribute->strings != NULL && i < (attribute->type == ORT_OP_ATTR_STRING ? 1 : attribute->count);
         i++)
        free((char *)(uintptr_t)attribute->strings[i].data);
    free(attribute->strings);
    free(attribute->ints);
    free(attribute->floats);
    free(attribute->name);
    ort_ReleaseValue(attribute->tensor);
    free(attribute);
}

static OrtOpAttr *new_attr(const char *name, size_t name_bytes, OrtOpAttrType type, size_t count)
{
    OrtOpAttr *attribute = calloc(1, sizeof *attribute);
    bool ok = attribute != NULL && (attribute->name = strndup(name, name_bytes)) != NULL;
    INLAY_CHECK(name != NULL && type >= ORT_OP_ATTR_UNDEFINED && type <= ORT_OP_ATTR_TENSOR);

    if (ok) {
        attribute->type = type;
        attribute->count = count;
        if (type == ORT_OP_ATTR_INT || type == ORT_OP_ATTR_INTS)
            ok = (attribute->ints = calloc(count + 1, sizeof *attribute->ints)) != NULL;
        if (type == ORT_OP_ATTR_FLOAT || type == ORT_OP_ATTR_FLOATS)
            ok = (attribute->floats = calloc(count + 1, sizeof *attribute->floats)) != NULL;
        if (type == ORT_OP_ATTR_STRING || type == ORT_OP_ATTR_STRINGS)
            ok = (attribute->strings = calloc(count + 1, sizeof *attribute->strings)) != NULL;
    }
    if (!ok) {
        ort_ReleaseOpAttr(attribute);
        return NULL;
    }
    return attribute;
}

static bool set_string(inlay_str *to, const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    INLAY_CHECK(to->data == NULL);

    if (copy == NULL)
        return false;
    if (bytes > 0)
        memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    to->data = copy;
    to->bytes = bytes;
    return true;
}

static OrtValue *copy_tensor(const inlay_tensor_view *view)
{
    inlay_value *value = NULL;
    OrtValue *out = NULL;

    if (view->dtype == INLAY_STRING) {
        if (inlay_value_create_strings(view->rank, view->dims, view->data, &value, NULL) != INLAY_OK)
            return NULL;
    } else {
        if (inlay_value_create(view->dtype, view->rank, view->dims, &value, NULL) != INLAY_OK)
            return NULL;
        if (view->bytes > 0)
            memcpy(inlay_value_data(value), view->data, (size_t)view->bytes);
    }
    if (ort_value_wrap(value, &out) != NULL)
        return NULL;
    return out;
}

OrtOpAttr *ort_attr_copy(const inlay_attr_info *attr)
{
    static const OrtOpAttrType types[] = {
        [INLAY_ATTR_FLOAT] = ORT_OP_ATTR_FLOAT,     [INLAY_ATTR_INT] = ORT_OP_ATTR_INT,
        [INLAY_ATTR_STRING] = ORT_OP_ATTR_STRING,   [INLAY_ATTR_TENSOR] = ORT_OP_ATTR_TENSOR,
        [INLAY_ATTR_FLOATS] = ORT_OP_ATTR_FLOATS,   [INLAY_ATTR_INTS] = ORT_OP_ATTR_INTS,
        [INLAY_ATTR_STRINGS] = ORT_OP_ATTR_STRINGS,
    };
    OrtOpAttrType type = attr->kind < sizeof types / sizeof types[0] ? types[attr->kind] : ORT_OP_ATTR_UNDEFINED;
    bool list = attr->kind >= INLAY_ATTR_FLOATS, ok = true;
    OrtOpAttr *attribute = new_attr(attr->name.data, (size_t)attr->name.bytes, type, list ? attr->count : 1);

    if (attribute == NULL)
        return NULL;
    switch (attr->kind) {
    case INLAY_ATTR_FLOAT:
        attribute->floats[0] = (float)attr->f;
        break;
    case INLAY_ATTR_INT:
        attribute->ints[0] = attr->i;
        break;
    case INLAY_ATTR_STRING:
        ok = set_string(&attribute->strings[0], attr->s.data, (size_t)attr->s.bytes);
        break;
    case INLAY_ATTR_TENSOR:
        attribute->tensor = copy_tensor(attr->tensor);
        ok = attribute->tensor != NULL;
        break;
    case INLAY_ATTR_FLOATS:
        if (attr->count > 0)
            memcpy(attribute->floats, attr->floats, attr->count * sizeof *attribute->floats);
        break;
    case INLAY_ATTR_INTS:
        if (attr->count > 0)
            memcpy(attribute->ints, attr->ints, attr->count * sizeof *attribute->ints);
        break;
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; ok && i < attr->count; i++)
            ok = set_string(&attribute->strings[i], attr->strings[i].data, (size_t)attr->strings[i].bytes);
        break;
    default:
        break;
    }
    if (!ok) {
        ort_ReleaseOpAttr(attribute);
        return NULL;
    }
    return attribute;
}

OrtStatus *ort_CreateOpAttr(const char *name, const void *data, int len, OrtOpAttrType type, OrtOpAttr **op_attr)
{
    bool single = type == ORT_OP_ATTR_INT || type == ORT_OP_ATTR_FLOAT || type == ORT_OP_ATTR_STRING, ok = true;
    OrtOpAttr *attribute;

    ORT_NEED(name);
    ORT_NEED(op_attr);
    *op_attr = NULL;
    if (type < ORT_OP_ATTR_INT || type > ORT_OP_ATTR_STRINGS)
        return ort_fail(ORT_INVALID_ARGUMENT, "attributes of type %d cannot be created", type);
    if (len < 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "attribute %s has a length of %d", name, len);
    if (len > 0)
        ORT_NEED(data);
    for (int i = 0; type == ORT_OP_ATTR_STRINGS && i < len; i++)
        ORT_NEED(((const char *const *)data)[i]);
    attribute = new_attr(name, strlen(name), type, single ? 1 : (size_t)len);
    if (attribute == NULL)
        return ort_no_memory();
    if (attribute->ints != NULL && len > 0)
        memcpy(attribute->ints, data, attribute->count * sizeof *attribute->ints);
    if (attribute->floats != NULL && len > 0)
        memcpy(attribute->floats, data, attribute->count * sizeof *attribute->floats);
    if (type == ORT_OP_ATTR_STRING)
        ok = set_string(attribute->strings, data, (size_t)len);
    for (size_t i = 0; ok && type == ORT_OP_ATTR_STRINGS && i < attribute->count; i++)
        ok = set_string(&attribute->strings[i], ((const char *const *)data)[i], strlen(((const char *const *)data)[i]));
    if (!ok) {
        ort_ReleaseOpAttr(attribute);
        return ort_no_memory();
    }
    *op_attr = attribute;
    return NULL;
}

OrtStatus *ort_attr_clone(const OrtOpAttr *attribute, OrtOpAttr **out)
{
    const char **texts;
    OrtStatus *failed;

    switch (attribute->type) {
    case ORT_OP_ATTR_INT:
    case ORT_OP_ATTR_INTS:
        return ort_CreateOpAttr(attribute->name, attribute->ints, (int)attribute->count, attribute->type, out);
    case ORT_OP_ATTR_FLOAT:
    case ORT_OP_ATTR_FLOATS:
        return ort_CreateOpAttr(attribute->name, attribute->floats, (int)attribute->count, attribute->type, out);
    case ORT_OP_ATTR_STRING:
        return ort_CreateOpAttr(attribute->name, attribute->strings[0].data, (int)attribute->strings[0].bytes,
                                attribute->type, out);
    case ORT_OP_ATTR_STRINGS:
        texts = calloc(attribute->count + 1, sizeof *texts);
        for (size_t i = 0; texts != NULL && i < attribute->count; i++)
            texts[i] = attribute->strings[i].data;
        failed = texts == NULL ? ort_no_memory()
                               : ort_CreateOpAttr(attribute->name, texts, (int)attribute->count, attribute->type, out);
        free(texts);
        return failed;
    case ORT_OP_ATTR_TENSOR:
        *out = new_attr(attribute->name, strlen(attribute->name), attribute->type, 1);
        if (*out == NULL)
            return ort_no_memory();
        (*out)->tensor = ort_value_ref(attribute->tensor);
        return NULL;
    default:
        return ort_fail(ORT_NOT_IMPLEMENTED, "attribute %s: attributes of type %d are not supported", attribute->name,
                        attribute->type);
    }
}

/* The size of an attribute's value. The strings of a list are stored consecutively, each with NUL; a single string has
 * no NUL. */
static size_t bytes_of(const OrtOpAttr *attribute)
{
    size_t bytes = 0;

    if (attribute->ints != NULL)
        return attribute->count * sizeof *attribute->ints;
    if (attribute->floats != NULL)
        return attribute->count * sizeof *attribute->floats;
    if (attribute->type == ORT_OP_ATTR_STRING)
        return (size_t)attribute->strings[0].bytes;
    for (size_t i = 0; attribute->strings != NULL && i < attribute->count; i++)
        bytes += (size_t)attribute->strings[i].bytes + 1;
    return bytes;
}

OrtStatus *ort_ReadOpAttr(const OrtOpAttr *op_attr, OrtOpAttrType type, void *data, size_t len, size_t *out)
{
    char *at = data;

    ORT_NEED(op_attr);
    ORT_NEED(out);
    if (op_attr->type != type || type == ORT_OP_ATTR_TENSOR || type == ORT_OP_ATTR_UNDEFINED)
        return ort_fail(ORT_INVALID_ARGUMENT, "attribute %s has type %d, not %d", op_attr->name, op_attr->type, type);
    *out = bytes_of(op_attr);
    if (len < *out)
        return ort_fail(ORT_INVALID_ARGUMENT, "Size of data not large enough to hold the array.");
    if (*out == 0)
        return NULL;
    ORT_NEED(data);
    if (op_attr->ints != NULL)
        memcpy(data, op_attr->ints, *out);
    if (op_attr->floats != NULL)
        memcpy(data, op_attr->floats, *out);
    if (type == ORT_OP_ATTR_STRING)
        memcpy(data, op_attr->strings[0].data, *out);
    for (size_t i = 0; type == ORT_OP_ATTR_STRINGS && i < op_attr->count; i++) {
        memcpy(at, op_attr->strings[i].data, (size_t)op_attr->strings[i].bytes + 1);
        at += op_attr->strings[i].bytes + 1;
    }
    INLAY_CHECK(type != ORT_OP_ATTR_STRINGS || at == (char *)data + *out);
    return NULL;
}

ORT_GETTER(ort_OpAttr_GetType, const OrtOpAttr *, attribute, OrtOpAttrType, type, attribute->type)
ORT_GETTER(ort_OpAttr_GetName, const OrtOpAttr *, attribute, const char *, name, attribute->name)

OrtStatus *ort_OpAttr_GetTensorAttributeAsOrtValue(const OrtOpAttr *attribute, OrtValue **attr_tensor)
{
    ORT_NEED(attribute);
    ORT_NEED(attr_tensor);
    *attr_tensor = NULL;
    if (attribute->tensor == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "attribute %s is not a tensor", attribute->name);
    *attr_tensor = ort_value_ref(attribute->tensor);
    return NULL;
}
