/* The expected work of single operators, see work_ns.h. */
#include "common/price_moves.h"
#include "inlay/extensions.h"
#include "operators/args.h"
#include "operators/work.h"
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
/* The time of an element of 8 bytes, and of one of 1 byte, relative to that of one of 4 bytes. */
#define WIDE_TIMES 2.5
#define BYTE_TIMES 0.4
#define TURN_NS 0.15 /* of an element of 4 bytes that is transposed before and after its line is processed */
#define LONG 65.0    /* elements of lines that are not transposed, at least (simd/axis.h) */
/* A call, beyond what the kit assumes. */
#define CALL_NS 100.0
/* The start of elements that have the same scale, or of the last axis if that has scales. */
#define SCALED_NS 7.0

enum unit {
    EACH,
    VECTOR,
    MOVED,
    COPIED,
    OUT,
    WHOLE,
    WIDE,
    TIMES,
    LOCAL,
    START,
    ROWS,
    PARTS,
    PIECES,
    LINES,
    RESULTS,
    LAST,
    PLANES,
    SCALES
};

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

static double bytes_of(const kit_tensor *tensors, uint32_t count)
{
    double bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += tensors[i].count > 0 ? (double)kit_bytes(tensors[i].dtype, tensors[i].count) : 0;
    return bytes;
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

/* Does the tensor repeat an element along the innermost axis of `out` of more than one element? */
static bool repeats_elements(const kit_tensor *in, const kit_tensor *out)
{
    uint32_t d = 0;

    while (d < out->rank && out->dims[out->rank - 1 - d] == 1)
        d++;
    return d < out->rank && (d >= in->rank || in->dims[in->rank - 1 - d] == 1);
}

/* The rows of a loop over inputs of which an element is broadcast along each; a single one counts as none. Short rows
 * that are broadcast themselves are joined. */
static double rows_of(const kit_plan *shapes)
{
    const kit_tensor *out = &shapes->out[0];
    double length;

    if (shapes->out_count == 0 || out->count <= 0)
        return 0;
    length = (double)out->count;
    for (uint32_t i = 0; i < shapes->in_count; i++)
        if (shapes->in[i].count > 0 && repeats_elements(&shapes->in[i], out))
            length = fmin(length, price_row_length(out->dims, out->rank, shapes->in[i].dims, shapes->in[i].rank));
    return length < (double)out->count ? (double)out->count / length : 0;
}

/* The elements of the axes of the first input from `first` on; of its last axis if that is negative. */
static double inner_of(const kit_plan *shapes, int first)
{
    const kit_tensor *in = &shapes->in[0];
    double count = 1;

    for (uint32_t d = first < 0 ? (in->rank > 0 ? in->rank - 1 : 0) : (uint32_t)first; d < in->rank; d++)
        count *= in->dims[d] > 0 ? (double)in->dims[d] : 1;
    return count;
}

/* The pieces of memory that a copy moves, and nanoseconds of them. Several inputs are parts of the output, several
 * outputs those of the input. */
static double pieces_of(const kit_plan *shapes, double *out_ns)
{
    const uint32_t count = shapes->out_count > 1 ? shapes->out_count : shapes->in_count;
    double all = 0;

    *out_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        const kit_tensor *in = &shapes->in[shapes->out_count > 1 ? 0 : i],
                         *out = &shapes->out[shapes->out_count > 1 ? i : 0];
        const double moved = (double)(in->count < out->count ? in->count : out->count);
        double pieces;

        if (moved <= 0 || in->rank != out->rank)
            continue;
        pieces = price_pieces(in->dims, out->dims, in->rank, moved);
        *out_ns += pieces * price_piece_ns((double)kit_bytes(in->dtype, (int64_t)moved) / pieces);
        all += pieces;
    }
    return all;
}

static int64_t default_axis(const char *op_type)
{
    return strncmp(op_type, "Arg", 3) == 0 ? 0 : strstr(op_type, "Quantize") != NULL ? 1 : -1;
}

/* The axes that an operator reduces, or along which it works, as the middle one of three; false: they are not known, or
 * not adjacent. */
static bool cut_along(const kit_node *node, const kit_plan *shapes, double cut[3])
{
    const kit_tensor *in = &shapes->in[0], *list = shapes->in_count > 1 ? &shapes->in[1] : NULL;
    const bool reduces = strncmp(kit_op_type(node), "Reduce", 6) == 0;
    uint32_t count = 0, part = 0;
    const int64_t *axes = kit_attr_ints(node->info, "axes", &count);
    int64_t own[INLAY_MAX_RANK];

    if (shapes->in_count == 0 || in->count <= 0)
        return false;
    if (axes == NULL) {
        axes = own;
        count = 1;
        if (list != NULL && list->data != NULL && is_integer(list->dtype) && list->count > 0 &&
            list->count <= INLAY_MAX_RANK)
            for (count = 0; count < list->count; count++)
                own[count] = arg_index(list, count);
        else if (reduces)
            return false;
        else
            own[0] = kit_attr_int(node->info, "axis", default_axis(kit_op_type(node)));
    }
    cut[0] = cut[1] = cut[2] = 1;
    for (uint32_t d = 0; d < in->rank; d++) {
        bool along = false;

        for (uint32_t i = 0; i < count; i++)
            along = along || axes[i] == (int64_t)d || axes[i] + (int64_t)in->rank == (int64_t)d;
        if (in->dims[d] == 1)
            continue;
        if (along && part == 2)
            return false;
        part = along ? 1 : part > 0 ? 2 : 0;
        cut[part] *= (double)in->dims[d];
    }
    return true;
}

/* Bytes of a vector. */
static double vector_bytes(bool vectors)
{
    return !vectors || !cpu_has(CPU_AVX2) ? 16 : cpu_has(CPU_AVX512) ? 64 : 32;
}

/* Nanoseconds of an operator along an axis. line_ns: of a contiguous row; result_ns: of a row or column. */
static double along_ns(const kit_node *node, const kit_plan *shapes, double each_ns, double line_ns, double result_ns,
                       bool vectors)
{
    const inlay_dtype dtype = shapes->in[0].dtype;
    const double bytes = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16 ? 4 : inlay_dtype_bits(dtype) / 8.0;
    double cut[3];
    price_along work;

    if (bytes < 1 || !cut_along(node, shapes, cut))
        return shapes->in[0].count > 0 ? each_ns * (double)shapes->in[0].count : 0;
    work = price_along_of(cut[0], cut[1], cut[2], vector_bytes(vectors) / bytes, LONG);
    return each_ns * work.elements + line_ns * (cut[2] == 1 ? work.rows : 0) + result_ns * cut[0] * cut[2] +
           TURN_NS * bytes / 4 * work.turned * (shapes->out[0].count < shapes->in[0].count ? 0.5 : 1);
}

/* The rows of the table of an operator. */
typedef struct work_rows {
    const struct work *work; /* NULL: none */
    double start;            /* nanoseconds of a call, of broadcast rows and pieces */
    double pieces;           /* nanoseconds of this machine */
    double line, result;
    bool along; /* an axis */
} work_rows;

static work_rows find(const kit_node *node, const kit_plan *shapes, bool vectors)
{
    const char *op_type = kit_op_type(node);
    const inlay_dtype dtype = shapes->in_count > 0 ? shapes->in[0].dtype : INLAY_UNDEFINED;
    const bool integers = dtype < INLAY_DTYPE_COUNT && is_integer(dtype);
    work_rows rows = { .start = CALL_NS };
    double parts_ns, cut[3];

    for (size_t i = 0; i < KIT_COUNT(table); i++) {
        const double ns = table[i].ns[vectors];

        if (strcmp(table[i].op_type, op_type) != 0)
            continue;
        if (table[i].unit == START)
            rows.start += ns;
        else if (table[i].unit == ROWS)
            rows.start += ns * rows_of(shapes);
        else if (table[i].unit == PARTS && pieces_of(shapes, &parts_ns) > 0)
            rows.pieces += ns * parts_ns;
        else if (table[i].unit == PIECES)
            rows.start += ns * pieces_of(shapes, &parts_ns);
        else if (table[i].unit == LINES)
            rows.line = ns, rows.along = true;
        else if ((table[i].unit == LAST || table[i].unit == PLANES) && shapes->in_count > 0)
            rows.start += ns * work_count(&shapes->in[0]) / inner_of(shapes, table[i].unit == LAST ? -1 : 2);
        else if (table[i].unit == SCALES && shapes->in_count > 1 && shapes->in[1].count > 1 &&
                 cut_along(node, shapes, cut)) {
            rows.work = &table[i];
            rows.start += SCALED_NS * cut[0] * (cut[2] > 1 ? cut[1] : 1);
        } else if (table[i].unit == SCALES)
            continue;
        else if (table[i].unit == RESULTS)
            rows.result = ns, rows.along = true;
        else if ((table[i].unit != WHOLE || integers) && (table[i].unit != WIDE || dtype == INLAY_DOUBLE))
            rows.work = &table[i];
    }
    return rows;
}

/* The time of an element of a type, relative to one of 4 bytes. */
static double width_times(inlay_dtype dtype, bool vectors)
{
    if (dtype == INLAY_DOUBLE || dtype == INLAY_INT64 || dtype == INLAY_UINT64)
        return WIDE_TIMES;
    return vectors && (dtype == INLAY_INT8 || dtype == INLAY_UINT8 || dtype == INLAY_BOOL) ? BYTE_TIMES : 1;
}

static double work_ns(const kit_node *node, const kit_plan *shapes, double estimate, bool vectors)
{
    const inlay_speed *speed = cpu_measured_speed(node->host);
    const double pace = speed != NULL && speed->flops_baseline > 0 ? FLOPS_BASELINE / speed->flops_baseline : 1;
    const inlay_dtype dtype = shapes->in_count > 0 ? shapes->in[0].dtype : INLAY_UNDEFINED;
    const work_rows rows = find(node, shapes, vectors);
    const struct work *work = rows.work;
    const double in = shapes->in_count > 0 && shapes->in[0].count > 0 ? (double)shapes->in[0].count : 0,
                 out = elements_of(shapes->out, shapes->out_count);
    double each, ns;

    if (work == NULL)
        return rows.start + estimate;
    each = work->ns[vectors];
    if (work->unit == TIMES)
        return (rows.start + each * estimate) * pace;
    if (work->unit == LOCAL)
        return rows.start * pace + each * estimate;
    if (work->unit == COPIED)
        return (rows.start + each / 4 * bytes_of(shapes->out, shapes->out_count)) * pace + rows.pieces;
    if (work->unit != MOVED && work->unit != WHOLE && work->unit != WIDE)
        each *= width_times(work->unit == OUT && shapes->out_count > 0 ? shapes->out[0].dtype : dtype, vectors);
    ns = rows.along ? along_ns(node, shapes, each, rows.line, rows.result, vectors)
                    : each * (work->unit == OUT || work->unit == WHOLE || out > in ? out : in);
    if (work->unit != MOVED)
        ns += (halves_of(shapes->in, shapes->in_count) + halves_of(shapes->out, shapes->out_count)) *
              (vectors ? HALF_VECTOR_NS : HALF_NS);
    if (vectors && work->unit == VECTOR)
        ns *= MULTIPLY_PACE / cpu_local_pace(speed).multiply / pace;
    return (rows.start + ns) * pace;
}

double operator_plain_work_ns(const kit_node *node, const kit_plan *shapes, double estimate)
{
    return fmax(work_ns(node, shapes, estimate, false), estimate);
}

double operator_vector_work_ns(const kit_node *node, const kit_plan *shapes, double estimate)
{
    return work_ns(node, shapes, estimate, true);
}
