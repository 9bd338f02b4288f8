/* ops/infer/access.c - read access to the node and the inputs of an infer function, write access to its outputs. */
#include "infer.h"
#include "inlay/check.h"
#include <stdarg.h>
#include <string.h>

inlay_status infer_fail(const op_infer *infer, inlay_status code, const char *format, ...)
{
    char what[400];
    va_list args;

    INLAY_CHECK(code != INLAY_OK);
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)inlay_fail(infer->diag, code, "%.48s node '%.80s': %s", infer->node->op_type.data, infer->node->name.data,
                     what);
    if (infer->diag != NULL && infer->diag->struct_size >= sizeof *infer->diag)
        (void)snprintf(infer->diag->node, sizeof infer->diag->node, "%s", infer->node->name.data);
    return code;
}

bool infer_has_in(const op_infer *infer, uint32_t i)
{
    return i < infer->in_count && infer->in[i] != NULL;
}

bool infer_has_out(const op_infer *infer, uint32_t i)
{
    return i < infer->out_count && infer->out[i] != NULL;
}

uint32_t infer_rank(const op_infer *infer, uint32_t i)
{
    const uint32_t rank = infer_has_in(infer, i) ? infer->in[i]->rank : INLAY_RANK_UNKNOWN;

    INLAY_CHECK(rank == INLAY_RANK_UNKNOWN || rank <= INLAY_MAX_RANK); /* callers copy dims to arrays of that size */
    return rank;
}

inlay_dim infer_dim(const op_infer *infer, uint32_t i, uint32_t d)
{
    uint32_t rank = infer_rank(infer, i);

    INLAY_CHECK(rank == INLAY_RANK_UNKNOWN || d >= rank || infer->in[i]->dims != NULL);
    return rank != INLAY_RANK_UNKNOWN && d < rank ? infer->in[i]->dims[d] : dim_unknown();
}

/* The number of elements of a constant; -1 if the value is not a constant, has more than `limit` elements, or has too
 * little data for them. */
static int64_t data_count(const inlay_value_info *value, int64_t limit)
{
    int64_t count = 1;
    uint32_t bits = inlay_dtype_bits(value->dtype);

    if (value->data == NULL || value->rank == INLAY_RANK_UNKNOWN || bits == 0)
        return -1;
    for (uint32_t d = 0; d < value->rank; d++) {
        if (value->dims[d].kind != INLAY_DIM_FIXED || value->dims[d].value < 0 ||
            __builtin_mul_overflow(count, value->dims[d].value, &count) || count > limit)
            return -1;
    }
    return ((uint64_t)count * bits + 7) / 8 <= value->data_bytes ? count : -1;
}

/* True if a dimension has size 0. The elements of such a value count as known, because there are none. */
static bool is_empty(const inlay_value_info *value)
{
    for (uint32_t d = 0; value->rank != INLAY_RANK_UNKNOWN && d < value->rank; d++)
        if (value->dims[d].kind == INLAY_DIM_FIXED && value->dims[d].value == 0)
            return true;
    return false;
}

/* Element i of integer data, which may be misaligned; false if the type is not an integer type. */
static bool load_integer(const inlay_value_info *value, int64_t i, int64_t *out)
{
    const unsigned char *data = value->data;

    INLAY_CHECK(data != NULL && i >= 0);
#define LOAD(DTYPE, T)                                                                                                 \
    case INLAY_##DTYPE: {                                                                                              \
        T element;                                                                                                     \
        memcpy(&element, data + i * (int64_t)sizeof element, sizeof element);                                          \
        *out = (int64_t)element;                                                                                       \
        return true;                                                                                                   \
    }
    switch (value->dtype) {
        LOAD(INT8, int8_t)
        LOAD(INT16, int16_t)
        LOAD(INT32, int32_t)
        LOAD(INT64, int64_t)
        LOAD(UINT8, uint8_t)
        LOAD(UINT16, uint16_t)
        LOAD(UINT32, uint32_t)
        LOAD(UINT64, uint64_t)
    default:
        return false;
    }
#undef LOAD
}

const inlay_dim *infer_elements(op_infer *infer, uint32_t i, uint32_t *out_count)
{
    const inlay_value_info *value = infer_has_in(infer, i) ? infer->in[i] : NULL;
    inlay_dim *elements;
    int64_t count;

    *out_count = 0;
    if (value == NULL)
        return NULL;
    if (value->elements != NULL && value->element_count <= INFER_MAX_ELEMENTS) {
        *out_count = (uint32_t)value->element_count;
        return value->elements;
    }
    count = is_empty(value) ? 0 : data_count(value, INFER_MAX_ELEMENTS);
    if (count < 0)
        return NULL;
    INLAY_CHECK(count <= INFER_MAX_ELEMENTS);
    elements = infer->alloc(infer->ctx, (size_t)(count + 1) * sizeof *elements);
    if (elements == NULL)
        return NULL;
    INLAY_CHECK(((uintptr_t)elements & (sizeof elements->value - 1)) == 0);
    for (int64_t element = 0; element < count; element++) {
        elements[element] = dim_fixed(0);
        if (!load_integer(value, element, &elements[element].value))
            return NULL;
    }
    *out_count = (uint32_t)count;
    return elements;
}

bool infer_ints(op_infer *infer, uint32_t i, int64_t *values, uint32_t max, uint32_t *out_count)
{
    uint32_t count;
    const inlay_dim *elements = infer_elements(infer, i, &count);

    *out_count = 0;
    if (elements == NULL || count > max)
        return false;
    for (uint32_t element = 0; element < count; element++) {
        if (elements[element].kind != INLAY_DIM_FIXED)
            return false;
        values[element] = elements[element].value;
    }
    *out_count = count;
    return true;
}

/* Converts the bits of a float16, or of a bfloat16, to double. */
static double half_to_double(uint16_t bits, bool bfloat)
{
    uint32_t wide = (uint32_t)bits << 16;
    uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
    float f;
    double value;

    if (bfloat || exponent == 31) {
        if (!bfloat)
            wide = ((uint32_t)(bits & 0x8000u) << 16) | 0x7f800000u | (fraction << 13);
        memcpy(&f, &wide, sizeof f);
        return (double)f;
    }
    value = exponent == 0 ? fraction / 1024.0 : 1 + fraction / 1024.0;
    for (int e = exponent == 0 ? 1 : (int)exponent; e < 15; e++)
        value /= 2;
    for (int e = (int)exponent; e > 15; e--)
        value *= 2;
    return (bits & 0x8000u) != 0 ? -value : value;
}

bool infer_floats(op_infer *infer, uint32_t i, double *values, uint32_t max, uint32_t *out_count)
{
    const inlay_value_info *value = infer_has_in(infer, i) ? infer->in[i] : NULL;
    const unsigned char *data;
    int64_t count, whole;

    *out_count = 0;
    if (value == NULL || (count = data_count(value, max)) < 0)
        return false;
    INLAY_CHECK(count <= (int64_t)max);
    data = value->data;
    for (int64_t e = 0; e < count; e++) {
        float f;
        uint16_t bits;

        if (value->dtype == INLAY_FLOAT) {
            memcpy(&f, data + 4 * e, sizeof f);
            values[e] = (double)f;
        } else if (value->dtype == INLAY_DOUBLE) {
            memcpy(&values[e], data + 8 * e, sizeof values[e]);
        } else if (value->dtype == INLAY_FLOAT16 || value->dtype == INLAY_BFLOAT16) {
            memcpy(&bits, data + 2 * e, sizeof bits);
            values[e] = half_to_double(bits, value->dtype == INLAY_BFLOAT16);
        } else if (load_integer(value, e, &whole)) {
            values[e] = (double)whole;
        } else {
            return false;
        }
    }
    *out_count = (uint32_t)count;
    return true;
}

const inlay_attr_info *infer_attr(const op_infer *infer, const char *name)
{
    const inlay_node_info *node = infer->node;
    size_t bytes = strlen(name);

    for (uint32_t i = 0; i < node->attr_count; i++) {
        const inlay_attr_info *attr = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);

        if (attr->name.bytes == bytes && memcmp(attr->name.data, name, bytes) == 0)
            return attr;
    }
    return NULL;
}

int64_t infer_attr_int(const op_infer *infer, const char *name, int64_t otherwise)
{
    const inlay_attr_info *attr = infer_attr(infer, name);

    return attr != NULL && attr->kind == INLAY_ATTR_INT ? attr->i : otherwise;
}

double infer_attr_float(const op_infer *infer, const char *name, double otherwise)
{
    const inlay_attr_info *attr = infer_attr(infer, name);

    return attr != NULL && attr->kind == INLAY_ATTR_FLOAT ? attr->f : otherwise;
}

inlay_status infer_attr_dtype(const op_infer *infer, const char *name, inlay_dtype otherwise, inlay_dtype *out)
{
    const int64_t number = infer_attr_int(infer, name, otherwise);

    *out = INLAY_UNDEFINED;
    if (number < 0 || number >= INLAY_DTYPE_COUNT)
        return infer_fail(infer, INLAY_INVALID_MODEL, "%s is %lld, which is not an element type", name,
                          (long long)number);
    *out = (inlay_dtype)number;
    return INLAY_OK;
}

const char *infer_attr_string(const op_infer *infer, const char *name, const char *otherwise)
{
    const inlay_attr_info *attr = infer_attr(infer, name);

    return attr != NULL && attr->kind == INLAY_ATTR_STRING ? attr->s.data : otherwise;
}

const int64_t *infer_attr_ints(const op_infer *infer, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *attr = infer_attr(infer, name);
    bool has = attr != NULL && attr->kind == INLAY_ATTR_INTS;

    *out_count = has ? attr->count : 0;
    return has ? attr->ints : NULL;
}

inlay_status infer_axis(const op_infer *infer, int64_t axis, uint32_t rank, const char *what, uint32_t *out_axis)
{
    *out_axis = 0;
    if (rank == 0)
        return infer_fail(infer, INLAY_INVALID_MODEL, "%s is %lld, but a tensor of rank 0 has no axes", what,
                          (long long)axis);
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return infer_fail(infer, INLAY_INVALID_MODEL, "%s is %lld, outside [-%u, %u] of a tensor of rank %u", what,
                          (long long)axis, rank, rank - 1, rank);
    *out_axis = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    INLAY_CHECK(*out_axis < rank);
    return INLAY_OK;
}

void infer_set_dtype(op_infer *infer, uint32_t o, inlay_dtype dtype)
{
    if (infer_has_out(infer, o))
        infer->out[o]->dtype = dtype;
}

static inlay_status out_of_memory(const op_infer *infer)
{
    return infer_fail(infer, INLAY_OUT_OF_MEMORY, "no memory for the shape of an output");
}

inlay_status infer_set_shape(op_infer *infer, uint32_t o, uint32_t rank, const inlay_dim *dims)
{
    inlay_dim *copy;

    INLAY_CHECK(rank == INLAY_RANK_UNKNOWN || rank == 0 || dims != NULL);
    if (!infer_has_out(infer, o))
        return INLAY_OK;
    infer->out[o]->rank = INLAY_RANK_UNKNOWN;
    infer->out[o]->dims = NULL;
    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "output %u would have rank %u; at most %d is supported", o, rank,
                          INLAY_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d].kind == INLAY_DIM_FIXED && dims[d].value < 0)
            return infer_fail(infer, INLAY_INVALID_MODEL, "dimension %u of output %u would have the size %lld", d, o,
                              (long long)dims[d].value);
        if (dim_is_beyond(dims[d]))
            return infer_fail(infer, dims[d].value < 0 ? INLAY_INVALID_MODEL : INLAY_LIMIT_EXCEEDED,
                              "dimension %u of output %u would %s", d, o,
                              dims[d].value < 0 ? "be negative" : "have more elements than memory can hold");
    }
    copy = infer->alloc(infer->ctx, (rank + 1) * sizeof *copy);
    if (copy == NULL)
        return out_of_memory(infer);
    if (rank > 0)
        memcpy(copy, dims, rank * sizeof *copy);
    infer->out[o]->rank = rank;
    infer->out[o]->dims = copy;
    return INLAY_OK;
}

/* True if the element type can hold the value; true for int64 and unknown types. */
static bool fits(inlay_dtype dtype, int64_t value)
{
    switch (dtype) {
    case INLAY_INT32:
        return value >= INT32_MIN && value <= INT32_MAX;
    case INLAY_INT16:
        return value >= INT16_MIN && value <= INT16_MAX;
    case INLAY_INT8:
        return value >= INT8_MIN && value <= INT8_MAX;
    case INLAY_UINT8:
        return value >= 0 && value <= UINT8_MAX;
    case INLAY_UINT16:
        return value >= 0 && value <= UINT16_MAX;
    case INLAY_UINT32:
        return value >= 0 && value <= UINT32_MAX;
    default:
        return dtype != INLAY_UINT64 || value >= 0;
    }
}

inlay_status infer_set_elements(op_infer *infer, uint32_t o, uint32_t count, const inlay_dim *elements)
{
    inlay_dim *copy;

    INLAY_CHECK(count == 0 || elements != NULL);
    if (!infer_has_out(infer, o) || count > INFER_MAX_ELEMENTS)
        return INLAY_OK;
    copy = infer->alloc(infer->ctx, (count + 1) * sizeof *copy);
    if (copy == NULL)
        return out_of_memory(infer);
    for (uint32_t i = 0; i < count; i++)
        copy[i] = elements[i].kind == INLAY_DIM_SYMBOLIC ||
                          (elements[i].kind == INLAY_DIM_FIXED && fits(infer->out[o]->dtype, elements[i].value))
                      ? elements[i]
                      : dim_unknown();
    infer->out[o]->elements = copy;
    infer->out[o]->element_count = count;
    return INLAY_OK;
}
