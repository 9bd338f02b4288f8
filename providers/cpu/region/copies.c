/* Copies between layouts as steps of a region, and places that may need one. */
#include "cpu/region/build.h"
#include "cpu/layout/moves.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_emit_copy);

enum {
    ROW_BLOCK = 256,   /* rows of a transposed block, along the target's innermost axis */
    COLUMN_BLOCK = 64, /* minimum number of columns of a transposed block */
    UNIT_WORDS = ROW_BLOCK * COLUMN_BLOCK,
    SHORT_WORDS = 1024,          /* below this size the two innermost axes are too small for a unit */
    MIN_SHARED_WORDS = 24 * 1024 /* below this size one thread is faster */
};

/* The kernel runs over two axes, `row` and `column` of the source; the other axes are outer loops. Steps are in bytes.
 */
typedef struct move_step {
    cpu_native native;
    const move_set *set;
    move_axes axes;
    uint32_t size;        /* bytes of an element: 1, 2, 4 or 8 */
    uint32_t row, column; /* equal: only the column axis is used */
    uint32_t batch;       /* the axis of matrices that one call transposes; INLAY_NONE: there is none */
    bool transpose;       /* the column is the source's innermost axis, the row the target's */
    int64_t row_block, column_block;
    int64_t counts[TENSOR_MAX_RANK]; /* units along each axis */
    int64_t units;
} move_step;

typedef struct move_call {
    const move_step *step;
    const char *source;
    char *target;
} move_call;

/* Moves single elements, where neither side has contiguous rows. */
static inline __attribute__((always_inline)) void move_elements(const move_step *step, const char *source, char *target,
                                                                int64_t rows, int64_t columns, const size_t size)
{
    const move_axes *axes = &step->axes;
    const int64_t from = axes->from[step->column], to = axes->to[step->column];

    for (int64_t r = 0; r < rows; r++, source += axes->from[step->row], target += axes->to[step->row])
        for (int64_t c = 0; c < columns; c++)
            memcpy(target + c * to, source + c * from, size);
}

/* Moves rows that are contiguous on both sides. */
static void move_rows(const move_step *step, const char *source, char *target, int64_t rows, int64_t columns)
{
    const int64_t size = step->size, from = step->axes.from[step->row], to = step->axes.to[step->row];

    if ((columns * size | from | to) % (int64_t)sizeof(float) == 0 &&
        ((uintptr_t)source | (uintptr_t)target) % sizeof(float) == 0) {
        step->set->rows((const float *)(const void *)source, from / 4, (float *)(void *)target, to / 4, rows,
                        columns * size / 4);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        memcpy(target + r * to, source + r * from, (size_t)(columns * size));
}

/* Whether every n-th float of rows becomes a contiguous row. */
static bool gathers_floats(const move_step *step, const char *source, const char *target)
{
    const int64_t *from = step->axes.from, *to = step->axes.to, size = sizeof(float);

    return step->size == size && from[step->column] > size && to[step->column] == size &&
           (from[step->column] | from[step->row] | to[step->row] | (intptr_t)source | (intptr_t)target) % size == 0;
}

static void gather_rows(const move_step *step, const char *source, char *target, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++, source += step->axes.from[step->row], target += step->axes.to[step->row])
        step->set->every((const float *)(const void *)source, step->axes.from[step->column] / (int64_t)sizeof(float),
                         (float *)(void *)target, columns);
}

/* Moves unit `at`, or `count` of them along the batch axis. */
static void move_units(const move_call *call, const int64_t *at, int64_t count)
{
    const move_step *step = call->step;
    const move_axes *axes = &step->axes;
    const char *source = call->source;
    char *target = call->target;
    int64_t rows = 1, columns = axes->dims[step->column] - at[step->column] * step->column_block;

    INLAY_CHECK(columns > 0 && (count == 1 || step->batch != INLAY_NONE));
    for (uint32_t d = 0; d < axes->rank; d++) {
        int64_t i = at[d] * (d == step->column ? step->column_block : d == step->row ? step->row_block : 1);

        source += i * axes->from[d];
        target += i * axes->to[d];
    }
    columns = columns < step->column_block ? columns : step->column_block;
    if (step->row != step->column) {
        rows = axes->dims[step->row] - at[step->row] * step->row_block;
        rows = rows < step->row_block ? rows : step->row_block;
    }
    if (step->transpose)
        step->set->turn[__builtin_ctz(step->size)](&(move_turns){ .x = source,
                                                                  .y = target,
                                                                  .x_row = axes->from[step->row],
                                                                  .y_row = axes->to[step->column],
                                                                  .rows = rows,
                                                                  .columns = columns,
                                                                  .count = count,
                                                                  .x_step = count > 1 ? axes->from[step->batch] : 0,
                                                                  .y_step = count > 1 ? axes->to[step->batch] : 0 });
    else if (axes->from[step->column] == step->size && axes->to[step->column] == step->size)
        move_rows(step, source, target, rows, columns);
    else if (gathers_floats(step, source, target))
        gather_rows(step, source, target, rows, columns);
    else if (step->size == 8)
        move_elements(step, source, target, rows, columns, 8);
    else if (step->size == 4)
        move_elements(step, source, target, rows, columns, 4);
    else if (step->size == 2)
        move_elements(step, source, target, rows, columns, 2);
    else
        move_elements(step, source, target, rows, columns, 1);
}

static inlay_status move_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const move_call *call = user;
    const move_step *step = call->step;
    int64_t at[TENSOR_MAX_RANK], rest = begin;

    (void)worker;
    INLAY_CHECK(begin <= end && end <= step->units);
    for (uint32_t d = step->axes.rank; d-- > 0; rest /= step->counts[d])
        at[d] = rest % step->counts[d];
    for (int64_t u = begin, count; u < end; u += count) {
        uint32_t d = step->axes.rank;

        count = step->batch == INLAY_NONE ? 1 : step->axes.dims[step->batch] - at[step->batch];
        count = count < end - u ? count : end - u;
        move_units(call, at, count);
        if (step->batch != INLAY_NONE)
            at[step->batch] += count - 1;
        while (d-- > 0 && ++at[d] == step->counts[d])
            at[d] = 0;
    }
    return INLAY_OK;
}

static inlay_status run_move(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const move_step *step = (const move_step *)(const void *)native;
    move_call call = { step, args[0], args[1] };
    int64_t words = 1, grain;

    for (uint32_t d = 0; d < step->axes.rank; d++)
        words *= step->axes.dims[d];
    if (threads <= 1 || step->units == 1 || words < MIN_SHARED_WORDS)
        return move_range(&call, 0, step->units, 0);
    grain = UNIT_WORDS / (words / step->units + 1) + 1;
    return state->host->parallel_for(state->host->ctx, run, step->units, grain, move_range, &call);
}

/* Chooses the axes of the kernel, and divides the copy into units. */
static void choose_units(move_step *step)
{
    const move_axes *axes = &step->axes;
    uint32_t last = axes->rank - 1, inner = INLAY_NONE;

    for (uint32_t d = 0; d < axes->rank; d++)
        if (axes->from[d] == step->size)
            inner = d;
    step->batch = INLAY_NONE;
    step->transpose =
        axes->to[last] == step->size && axes->from[last] != step->size && inner != INLAY_NONE && inner != last;
    if (step->transpose) {
        step->row = last;
        step->column = inner;
        step->row_block = ROW_BLOCK;
        step->column_block = axes->dims[last] < ROW_BLOCK ? UNIT_WORDS / axes->dims[last] / COLUMN_BLOCK * COLUMN_BLOCK
                                                          : COLUMN_BLOCK; /* more columns if there are few rows */
    } else {
        step->column = last;
        step->row = last > 0 ? last - 1 : last;
        for (uint32_t d = 0; d < last && axes->dims[last - 1] * axes->dims[last] < SHORT_WORDS; d++)
            if (axes->dims[d] > axes->dims[step->row])
                step->row = d;
        step->column_block = axes->dims[last] < UNIT_WORDS ? axes->dims[last] : UNIT_WORDS;
        step->row_block = step->row == step->column ? step->column_block : UNIT_WORDS / step->column_block;
    }
    step->units = 1;
    for (uint32_t d = 0; d < axes->rank; d++) {
        int64_t block = d == step->column ? step->column_block : d == step->row ? step->row_block : 1;

        step->counts[d] = axes->dims[d] / block + (axes->dims[d] % block != 0);
        step->units *= step->counts[d];
    }
    if (step->transpose && step->counts[step->row] == 1 && step->counts[step->column] == 1)
        for (uint32_t d = 0; d < axes->rank; d++)
            step->batch = d == step->row || d == step->column ? step->batch : d;
}

/* Steps in bytes; elements that stay together become one, if a register has its size. */
static void widen_elements(move_step *step)
{
    move_axes *axes = &step->axes;

    for (uint32_t d = 0; d < axes->rank; d++) {
        axes->from[d] *= step->size;
        axes->to[d] *= step->size;
    }
    for (uint32_t last = axes->rank - 1; last > 0 && axes->from[last] == step->size && axes->to[last] == step->size;
         last--) {
        const int64_t bytes = axes->dims[last] * step->size;

        if (bytes > 8 || (bytes & (bytes - 1)) != 0)
            return;
        step->size = (uint32_t)bytes;
        axes->rank = last;
    }
}

static inlay_status emit_move(cpu_build *build, const move_axes *axes, const cpu_place *from, const cpu_place *to)
{
    move_step step = { .native.run = run_move,
                       .set = build->state->moves,
                       .axes = *axes,
                       .size = (uint32_t)cpu_type_bytes(from->layout.type) };

    INLAY_CHECK(step.size == 1 || step.size == 2 || step.size == 4);
    widen_elements(&step);
    choose_units(&step);
    return cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ from, to }, 2);
}

inlay_status cpu_emit_copy(cpu_build *build, const cpu_place *from, const cpu_place *to)
{
    move_axes axes;

    if (layout_count(&from->layout) == 0) /* operators with an empty input may have a result */
        return INLAY_OK;
    if (!move_axes_of(&from->layout, &to->layout, &axes))
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': there is no copy between these layouts",
                          build->op->name);
    return emit_move(build, &axes, from, to);
}

inlay_status cpu_reorder(cpu_build *build, const cpu_place *place, const tensor_layout *layout, cpu_place *out)
{
    const cpu_place from = *place; /* out may be place */
    const tensor_layout wanted = *layout;
    inlay_status status;

    INLAY_CHECK(from.buffer < build->instance->buffer_count);
    if (layout_equal(&from.layout, &wanted) ||
        (from.layout.type == wanted.type && layout_is_plain(&from.layout) && layout_is_plain(&wanted))) {
        *out = from;
        out->layout = wanted;
        return INLAY_OK;
    }
    status = cpu_new_place(build, &wanted, out);
    return status == INLAY_OK ? cpu_emit_copy(build, &from, out) : status;
}

inlay_status cpu_set_place(cpu_build *build, uint32_t value, const cpu_place *place)
{
    const cpu_value *properties = &build->compiled->values[value];
    const cpu_buffer *buffer = &build->instance->buffers[place->buffer];
    inlay_status status = INLAY_OK;
    cpu_place out;
    tensor_layout plain;

    INLAY_CHECK(value < build->compiled->value_count && place->buffer < build->instance->buffer_count);
    build->places[value] = *place;
    build->instance->buffers[place->buffer].pending += build->uses[value];
    if (properties->output == INLAY_NONE || (buffer->kind == CPU_OUTPUT && buffer->index == properties->output))
        return INLAY_OK;
    /* The value is an output of the region: the host expects it row-major in its own buffer. */
    layout_plain(&plain, build->ranks[value], build->dims[value]);
    plain.type = cpu_type(build, value);
    INLAY_TRY(cpu_result_place(build, value, &plain, &out));
    INLAY_TRY(cpu_emit_copy(build, place, &out));
    build->plains[value] = out;
    build->has[value] |= CPU_HAS_PLAIN;
done:
    return status;
}
