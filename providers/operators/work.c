/* The expected work of single operators, see work_ns.h. */
#include "common/price.h"
#include "inlay/extensions.h"
#include "operators/work_ns.h"
#include "simd/cpu.h"
#include <math.h>
#include <string.h>

/* Of a Zen 4, on which the table was measured: plain code, and arithmetic of vectors. */
#define FLOPS_BASELINE 45.0
#define MULTIPLY_PACE 0.37
/* Conversion of an element of float16, plain and with vectors. */
#define HALF_NS 1.9
#define HALF_VECTOR_NS 0.05
/* The time of an element of 8 bytes, relative to that of one of 4 bytes. */
#define WIDE_TIMES 2.5
/* A call, beyond what the kit assumes. */
#define CALL_NS 100.0

enum unit { EACH, VECTOR, MOVED, COPIED, OUT, WHOLE, TIMES, START, ROWS };

static const struct work {
    const char *op_type;
    enum unit unit;
    double ns[2]; /* plain, vector */
} table[] = {
#define WORK(op_type, unit, plain, vector) { op_type, unit, { plain, vector } },
#include "operators/work.def"
#undef WORK
};

static double elements_of(const kit_tensor *tensors, uint32_t count)
{
    double elements = 0;

    for (uint32_t i = 0; i < count; i++)
        elements += tensors[i].count > 0 ? (double)tensors[i].count : 0;
    return elements;
}

static double halves_of(const kit_tensor *tensors, uint32_t count)
{
    double elements = 0;

    for (uint32_t i = 0; i < count; i++)
        elements += tensors[i].dtype == INLAY_FLOAT16 && tensors[i].count > 0 ? (double)tensors[i].count : 0;
    return elements;
}

static bool is_integer(inlay_dtype dtype)
{
    return (KIT_INTEGERS & INLAY_DTYPE_BIT(dtype)) != 0;
}

/* The rows of a loop over inputs that are broadcast; a single one counts as none. */
static double rows_of(const kit_plan *shapes)
{
    const kit_tensor *out = &shapes->out[0];
    double length;

    if (shapes->out_count == 0 || out->count <= 0)
        return 0;
    length = (double)out->count;
    for (uint32_t i = 0; i < shapes->in_count; i++)
        if (shapes->in[i].count > 0)
            length = fmin(length, price_row_length(out->dims, out->rank, shapes->in[i].dims, shapes->in[i].rank));
    return length < (double)out->count ? (double)out->count / length : 0;
}

/* *out_start: nanoseconds of a call and of rows. */
static const struct work *find(const char *op_type, const kit_plan *shapes, bool integers, bool vectors,
                               double *out_start)
{
    const struct work *found = NULL;

    *out_start = CALL_NS;
    for (size_t i = 0; i < KIT_COUNT(table); i++) {
        if (strcmp(table[i].op_type, op_type) != 0)
            continue;
        if (table[i].unit == START)
            *out_start += table[i].ns[vectors];
        else if (table[i].unit == ROWS)
            *out_start += table[i].ns[vectors] * rows_of(shapes);
        else if (table[i].unit != WHOLE || integers)
            found = &table[i];
    }
    return found;
}

static double work_ns(const kit_node *node, const kit_plan *shapes, double estimate, bool vectors)
{
    const inlay_speed *speed = cpu_measured_speed(node->host);
    const double pace = speed != NULL && speed->flops_baseline > 0 ? FLOPS_BASELINE / speed->flops_baseline : 1;
    const inlay_dtype dtype = shapes->in_count > 0 ? shapes->in[0].dtype : INLAY_UNDEFINED;
    inlay_dtype wide;
    double start, ns;
    const struct work *work =
        find(kit_op_type(node), shapes, dtype < INLAY_DTYPE_COUNT && is_integer(dtype), vectors, &start);
    const double in = shapes->in_count > 0 && shapes->in[0].count > 0 ? (double)shapes->in[0].count : 0,
                 out = elements_of(shapes->out, shapes->out_count);

    if (work == NULL)
        return start + estimate;
    if (work->unit == TIMES)
        return (start + work->ns[vectors] * estimate) * pace;
    if (work->unit == COPIED)
        return (start + work->ns[vectors] * out * (dtype < INLAY_DTYPE_COUNT ? inlay_dtype_bits(dtype) / 32.0 : 1)) *
               pace;
    wide = work->unit == OUT && shapes->out_count > 0 ? shapes->out[0].dtype : dtype;
    ns = work->ns[vectors] * (work->unit == OUT || work->unit == WHOLE || out > in ? out : in);
    if (work->unit != MOVED) {
        if (work->unit != WHOLE && (wide == INLAY_DOUBLE || wide == INLAY_INT64 || wide == INLAY_UINT64))
            ns *= WIDE_TIMES;
        ns += (halves_of(shapes->in, shapes->in_count) + halves_of(shapes->out, shapes->out_count)) *
              (vectors ? HALF_VECTOR_NS : HALF_NS);
    }
    if (vectors && work->unit == VECTOR)
        ns *= MULTIPLY_PACE / cpu_local_pace(speed).multiply / pace;
    return (start + ns) * pace;
}

double operator_plain_work_ns(const kit_node *node, const kit_plan *shapes, double estimate)
{
    return fmax(work_ns(node, shapes, estimate, false), estimate);
}

double operator_vector_work_ns(const kit_node *node, const kit_plan *shapes, double estimate)
{
    return work_ns(node, shapes, estimate, true);
}
