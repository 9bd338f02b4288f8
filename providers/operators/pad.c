/* Pad: ONNX 1, 2 (attributes), 11, 13, 18, 19, 21, 23, 24, 25 (inputs; axes from 18, mode wrap from 19).
 *
 * The axes after the last padded one are moved as one block. Each axis gets a table that maps an index of the output to
 * an index of the input (-1: the constant). So all modes use the same loop over rows, which copies the part of a row
 * that the input covers by memcpy. Negative pads crop the input first. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "operators/strided.h"

enum { MODE_CONSTANT, MODE_REFLECT, MODE_EDGE, MODE_WRAP };
enum { BRIEF = 64 }; /* a brief margin has at most BRIEF bytes, and is written as BRIEF bytes at once */

typedef struct pad_state {
    int64_t pads[2 * INLAY_MAX_RANK];
    int32_t pad_count;
    uint32_t mode;
    bool by_attributes;
    double value;
} pad_state;

static inlay_status prepare_pad(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const modes[] = { "constant", "reflect", "edge", "wrap" };
    const char *mode = kit_attr_string(node->info, "mode", "constant");
    const uint32_t version = kit_since_version(node);
    inlay_status status = INLAY_OK;
    pad_state *state;

    INLAY_TRY(arg_allocate_state(sizeof(pad_state), out_state, diag));
    state = *out_state;
    while (state->mode < KIT_COUNT(modes) && strcmp(mode, modes[state->mode]) != 0)
        state->mode++;
    if (state->mode >= (version < 19 ? 3 : KIT_COUNT(modes)))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "mode '%s' is none of constant, reflect, edge%s", mode,
                          version < 19 ? "" : ", wrap");
    state->by_attributes = version < 11;
    state->value = kit_attr_float(node->info, "value", 0);
    if (state->by_attributes)
        INLAY_TRY(arg_ints(node, version < 2 ? "paddings" : "pads", state->pads, KIT_COUNT(state->pads),
                           &state->pad_count, diag));
done:
    return status;
}

/* The workspace has a table per axis with an entry for each index of the output, and the bytes of unpacked elements. */
static inlay_status shape_pad(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *output = &plan->out[0];
    uint64_t indexes = 0;

    (void)state;
    (void)diag;
    for (uint32_t i = 0; i < output->rank && output->count > 0; i++)
        indexes += (uint64_t)output->dims[i];
    plan->workspace_bytes = indexes * sizeof(int64_t);
    if (strided_is_packed(input->dtype) && output->count > 0)
        plan->workspace_bytes += (uint64_t)input->count + (uint64_t)output->count;
    return INLAY_OK;
}

/* Reads before[i] and after[i], 0 for axes that are not listed; checks them against the output's dims. */
static inlay_status read_pads(const kit_call *call, int64_t *before, int64_t *after)
{
    const pad_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const bool has_axes = !state->by_attributes && kit_has_input(call, 3);
    const int64_t count = has_axes ? call->in[3].count : (int64_t)input->rank;
    const int64_t pad_count = state->by_attributes ? state->pad_count : call->in[1].count;
    int64_t dims[INLAY_MAX_RANK];
    uint32_t seen = 0;

    if (pad_count != 2 * count)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "pads has %lld values; %lld axes need %lld",
                          (long long)pad_count, (long long)count, 2 * (long long)count);
    memset(before, 0, input->rank * sizeof *before);
    memset(after, 0, input->rank * sizeof *after);
    for (int64_t i = 0; i < count; i++) {
        uint32_t axis;
        inlay_status status =
            arg_axis(call->diag, has_axes ? arg_index(&call->in[3], i) : i, input->rank, "axes", &axis);

        if (status != INLAY_OK)
            return status;
        if ((seen >> axis & 1) != 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "axes contains axis %u twice", axis);
        seen |= 1u << axis;
        before[axis] = state->by_attributes ? state->pads[i] : arg_index(&call->in[1], i);
        after[axis] = state->by_attributes ? state->pads[count + i] : arg_index(&call->in[1], count + i);
    }
    for (uint32_t i = 0; i < input->rank; i++)
        if (__builtin_add_overflow(input->dims[i], before[i], &dims[i]) ||
            __builtin_add_overflow(dims[i], after[i], &dims[i]) || dims[i] < 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "pads %lld and %lld on axis %u of size %lld",
                              (long long)before[i], (long long)after[i], i, (long long)input->dims[i]);
    return arg_expect_dims(call->diag, &call->out[0], input->rank, dims);
}

/* Returns the index in the input for index `index` of the output minus the padding before the input. kept: size of the
 * input after cropping. -1: the constant. */
static int64_t map_index(uint32_t mode, int64_t index, int64_t kept)
{
    int64_t period;

    INLAY_CHECK(kept > 0);
    if (index >= 0 && index < kept)
        return index;
    switch (mode) {
    case MODE_EDGE:
        return index < 0 ? 0 : kept - 1;
    case MODE_WRAP:
        index %= kept;
        return index < 0 ? index + kept : index;
    case MODE_REFLECT:
        if (kept == 1)
            return 0;
        period = 2 * (kept - 1);
        index %= period;
        index = index < 0 ? index + period : index;
        return index < kept ? index : period - index;
    default:
        return -1;
    }
}

/* Fills map (size entries) for one axis. *first and *length: the range of the output that is a copy of the input. */
static void map_axis(uint32_t mode, int64_t dim, int64_t before, int64_t after, int64_t *map, int64_t size,
                     int64_t *first, int64_t *length)
{
    const int64_t cut_low = before < 0 ? -before : 0, cut_high = after < 0 ? -after : 0;
    const int64_t kept = dim - cut_low - cut_high, start = before > 0 ? before : 0;

    for (int64_t i = 0; i < size; i++) {
        int64_t at = kept > 0 ? map_index(mode, i - start, kept) : -1;
        map[i] = at < 0 ? -1 : at + cut_low;
    }
    *first = start < size ? start : size;
    *length = kept <= 0 ? 0 : kept < size - *first ? kept : size - *first;
    INLAY_CHECK(*first >= 0 && *first + *length <= size);
}

typedef struct pad_job {
    const char *in;
    char *out;
    const int64_t *maps[INLAY_MAX_RANK];
    int64_t steps[INLAY_MAX_RANK]; /* strides of the input in bytes */
    const int64_t *dims;           /* dims of the output */
    uint32_t rank;                 /* axes up to the last padded one, which is the axis of rows */
    uint32_t element;
    int64_t block; /* bytes per position of a row */
    int64_t first, length;
    bool brief; /* constant margins of at most BRIEF bytes, and at least BRIEF bytes of input between the margins */
    _Alignas(double) char value[BRIEF]; /* the constant; repeated if brief */
} pad_job;

/* Copies positions [begin, end) of a row as mapped; all of them are in the input. The function is inlined once for each
 * usual size. */
static inline void pad_from(const int64_t *map, const char *row, char *out, int64_t begin, int64_t end, int64_t block)
{
    for (int64_t i = begin; i < end; i++)
        memcpy(out + i * block, row + map[i] * block, (size_t)block);
}

/* Writes positions [begin, end) of the row at `out`, which are margins: not a plain copy of the input. */
static void pad_columns(const pad_job *job, const char *row, char *out, int64_t begin, int64_t end)
{
    const int64_t *map = job->maps[job->rank - 1];

    if (begin >= end)
        return;
    if (map[begin] < 0 && job->block == 1) { /* if one position is the constant, all positions are */
        memset(out + begin, job->value[0], (size_t)(end - begin));
        return;
    }
    if (map[begin] < 0) {
        strided_fill(out + begin * job->block, job->value, job->element, (end - begin) * job->block / job->element);
        return;
    }
    switch (job->block) {
    case 1:
        pad_from(map, row, out, begin, end, 1);
        break;
    case 2:
        pad_from(map, row, out, begin, end, 2);
        break;
    case 4:
        pad_from(map, row, out, begin, end, 4);
        break;
    case 8:
        pad_from(map, row, out, begin, end, 8);
        break;
    default:
        pad_from(map, row, out, begin, end, job->block);
    }
}

/* Writes a row that contains input. Brief margins are written as BRIEF bytes: the next writes overwrite the excess. The
 * margin after the last row is written exactly. */
static inline void pad_row(const pad_job *job, const char *row, char *out, bool is_last)
{
    const int64_t end = job->first + job->length;

    if (job->brief)
        memcpy(out, job->value, BRIEF);
    else
        pad_columns(job, row, out, 0, job->first);
    if (job->length > 0)
        memcpy(out + job->first * job->block, row + job->maps[job->rank - 1][job->first] * job->block,
               (size_t)(job->length * job->block));
    if (job->brief && !is_last)
        memcpy(out + end * job->block, job->value, BRIEF);
    else
        pad_columns(job, row, out, end, job->dims[job->rank - 1]);
}

/* The input at indexes `index` of the first `rank` axes of the output; NULL: the constant. */
static const char *pad_source(const pad_job *job, const int64_t *index, uint32_t rank)
{
    const char *source = job->in;

    for (uint32_t i = 0; i < rank && source != NULL; i++)
        source = job->maps[i][index[i]] < 0 ? NULL : source + job->maps[i][index[i]] * job->steps[i];
    return source;
}

static inlay_status pad_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const pad_job *job = user;
    /* outer: axes outside of the axes of an image */
    const uint32_t last = job->rank - 1, outer = last > 0 ? last - 1 : 0;
    const int64_t columns = job->dims[last], one = 0, height = last > 0 ? job->dims[outer] : 1,
                  step = last > 0 ? job->steps[outer] : 0;
    const int64_t *map = last > 0 ? job->maps[outer] : &one;
    int64_t index[INLAY_MAX_RANK] = { 0 }, remaining = begin / height, row_in = begin % height;
    char *out = job->out + begin * columns * job->block;
    const char *image;

    INLAY_CHECK(job->rank >= 1 && job->rank <= INLAY_MAX_RANK && height > 0);
    (void)worker;
    for (uint32_t i = outer; i-- > 0;) {
        index[i] = remaining % job->dims[i];
        remaining /= job->dims[i];
    }
    image = pad_source(job, index, outer);
    for (int64_t row_index = begin; row_index < end; row_index++, out += columns * job->block) {
        if (image == NULL || map[row_in] < 0)
            strided_fill(out, job->value, job->element, columns * job->block / job->element);
        else
            pad_row(job, image + map[row_in] * step, out, row_index + 1 == end);
        if (++row_in < height)
            continue;
        row_in = 0;
        for (uint32_t i = outer; i-- > 0;) {
            if (++index[i] < job->dims[i])
                break;
            index[i] = 0;
        }
        image = pad_source(job, index, outer);
    }
    return INLAY_OK;
}

/* Reads the constant; the default is 0, false or the empty string. */
static void read_value(const kit_call *call, char value[BRIEF])
{
    const pad_state *state = call->state;
    const inlay_dtype dtype = call->in[0].dtype;

    memset(value, 0, BRIEF);
    if (state->by_attributes)
        convert_from_f64(dtype, value, 0, 1, &state->value, 0);
    else if (kit_has_input(call, 2) && call->in[2].count > 0 && strided_is_packed(dtype))
        strided_unpack(dtype, call->in[2].data, 1, (uint8_t *)value);
    else if (kit_has_input(call, 2) && call->in[2].count > 0)
        memcpy(value, call->in[2].data, strided_element_bytes(dtype));
}

static inlay_status run_pad(const kit_call *call)
{
    const pad_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const bool packed = strided_is_packed(input->dtype);
    int64_t before[INLAY_MAX_RANK], after[INLAY_MAX_RANK], *map = call->workspace;
    pad_job job = {
        .in = input->data, .out = output->data, .dims = output->dims, .element = strided_element_bytes(input->dtype)
    };
    inlay_status status = INLAY_OK;
    uint32_t last = 0;

    INLAY_TRY(read_pads(call, before, after));
    if (output->count == 0)
        goto done;
    for (uint32_t i = 0; i < input->rank; i++) {
        if (state->mode != MODE_CONSTANT &&
            input->dims[i] + (before[i] < 0 ? before[i] : 0) + (after[i] < 0 ? after[i] : 0) <= 0)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "axis %u has no elements left to %s", i,
                              state->mode == MODE_REFLECT ? "reflect"
                              : state->mode == MODE_EDGE  ? "repeat"
                                                          : "wrap");
        last = before[i] != 0 || after[i] != 0 ? i : last;
    }
    strided_row_major(input->rank, input->dims, job.element, job.steps);
    job.rank = input->rank > 0 ? last + 1 : 0;
    job.block = strided_product(input->dims, job.rank, input->rank) * job.element;
    for (uint32_t i = 0; i < job.rank; i++, map += output->dims[i - 1]) {
        job.maps[i] = map;
        map_axis(state->mode, input->dims[i], before[i], after[i], map, output->dims[i], &job.first, &job.length);
    }
    read_value(call, job.value);
    if (state->mode == MODE_CONSTANT && job.rank > 0) {
        const int64_t margin_after = output->dims[last] - job.first - job.length;

        job.brief =
            job.length * job.block >= BRIEF && job.first * job.block <= BRIEF && margin_after * job.block <= BRIEF;
    }
    for (uint32_t i = job.element; job.brief && i < BRIEF; i += job.element)
        memcpy(job.value + i, job.value, job.element);
    if (packed) {
        uint8_t *bytes = (uint8_t *)map;

        /* `map` now points after the tables of the padded axes. The tables of the other axes are unused, so the
         * unpacked elements may overwrite them. */
        strided_unpack(input->dtype, input->data, input->count, bytes);
        job.in = (const char *)bytes;
        job.out = (char *)bytes + input->count;
    }
    if (job.rank == 0) /* a scalar cannot be padded */
        memcpy(job.out, job.in, job.element);
    else
        INLAY_TRY(kit_parallel(call, strided_product(output->dims, 0, last),
                               65536 / (output->dims[last] * job.block) + 1, pad_rows, &job));
    if (packed)
        strided_pack(input->dtype, (const uint8_t *)job.out, output->count, output->data);
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "Pad", .prepare = prepare_pad, .shape = shape_pad, .run = run_pad },
};
const kit_table OPERATOR(operators_pad) = { kernels, KIT_COUNT(kernels) };
