/* Steps for binary functions: loops over the elements in any layout. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/elementwise/element_loops.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(cpu_binary_at);
OPTIONAL_IF_CALLED(cpu_binary_row);

enum { LOOP_AXES = CPU_MAX_RANK };

/* y[i] = f(x0[..], x1[..]). The axes are ordered by the strides of y, outermost first; strides count elements. */
struct loop {
    cpu_native native;
    element_function function;
    uint32_t rank; /* number of axes without the innermost */
    int64_t rows;  /* product of dims */
    int64_t dims[LOOP_AXES], y[LOOP_AXES], x0[LOOP_AXES], x1[LOOP_AXES];
    int64_t count, s0, s1; /* the innermost axis: y is dense there */
};

struct call {
    const struct loop *loop;
    const float *x0, *x1;
    float *output;
};

static pair_fn *rows_of(element_function function)
{
    const element_loops *const loops = KERNEL_BEST(element_loops);

    if (function == FUNCTION_PRELU)
        return loops->prelu;
    switch (function) {
    case FUNCTION_ADD:
        return loops->add;
    case FUNCTION_SUB:
        return loops->sub;
    case FUNCTION_MUL:
        return loops->mul;
    case FUNCTION_DIV:
        return loops->div;
    case FUNCTION_MAX:
        return loops->max;
    default:
        return loops->min;
    }
}

void cpu_binary_row(element_function function, const float *x0, const float *x1, float *output, int64_t n, int64_t step)
{
    INLAY_CHECK(n >= 0 && (step == 0 || step == 1));
    rows_of(function)(x0, x1, output, n, 1, step, 1, &(const pair_steps){ 0 });
}

static inlay_status run_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *call = user;
    const struct loop *loop = call->loop;
    pair_fn *const rows = rows_of(loop->function);
    uint32_t outer = loop->rank > 0 ? loop->rank - 1 : 0; /* the last axis is looped over by `rows` itself */
    int64_t at[LOOP_AXES] = { 0 }, size = loop->rank > 0 ? loop->dims[outer] : 1, rest = begin, y = 0, x0 = 0, x1 = 0;
    const pair_steps step =
        loop->rank > 0 ? (pair_steps){ loop->y[outer], loop->x0[outer], loop->x1[outer] } : (pair_steps){ 0, 0, 0 };

    (void)worker;
    INLAY_CHECK(loop->rank <= LOOP_AXES && 0 <= begin && begin <= end && end <= loop->rows);
    for (uint32_t d = loop->rank; d-- > 0; rest /= loop->dims[d]) {
        at[d] = rest % loop->dims[d];
        y += at[d] * loop->y[d];
        x0 += at[d] * loop->x0[d];
        x1 += at[d] * loop->x1[d];
    }
    for (int64_t r = begin; r < end;) {
        int64_t n = size - at[outer] < end - r ? size - at[outer] : end - r;

        rows(call->x0 + x0, call->x1 + x1, call->output + y, loop->count, loop->s0, loop->s1, n, &step);
        r += n;
        y -= at[outer] * step.y;
        x0 -= at[outer] * step.x0;
        x1 -= at[outer] * step.x1;
        at[outer] = 0;
        for (uint32_t d = outer; d-- > 0;) { /* advances the index without a division */
            y += loop->y[d];
            x0 += loop->x0[d];
            x1 += loop->x1[d];
            if (++at[d] < loop->dims[d])
                break;
            y -= loop->dims[d] * loop->y[d];
            x0 -= loop->dims[d] * loop->x0[d];
            x1 -= loop->dims[d] * loop->x1[d];
            at[d] = 0;
        }
    }
    return INLAY_OK;
}

static inlay_status run_loop(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct loop *loop = (const struct loop *)(const void *)native;
    struct call call = { loop, args[0], args[1], args[2] };
    int64_t grain = 32768 / (loop->count > 0 ? loop->count : 1) + 1;

    if (threads <= 1 || loop->rows <= grain)
        return run_rows(&call, 0, loop->rows, 0);
    return state->host->parallel_for(state->host->ctx, run, loop->rows, grain, run_rows, &call);
}

/* An axis of the result in memory, and the strides of all three tensors along it. */
struct axis {
    int64_t size, y, x0, x1;
};

/* The stride of an operand along axis d of the result; axes of size 1 are broadcast with stride 0. */
static int64_t stride_along(const tensor_layout *input, int d)
{
    return input->dims[d] == 1 ? 0 : input->strides[d];
}

/* Orders axes by descending strides of the result. */
static int by_stride(const void *a, const void *b)
{
    const struct axis *first = a, *second = b;

    return first->y < second->y ? 1 : first->y > second->y ? -1 : 0;
}

/* Merges adjacent axes that are contiguous in all three tensors, and drops axes of size 1. */
static uint32_t merge_axes(struct axis *list, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct axis *last = kept > 0 ? &list[kept - 1] : NULL;

        if (list[i].size == 1)
            continue;
        if (last != NULL && last->y == list[i].size * list[i].y && last->x0 == list[i].size * list[i].x0 &&
            last->x1 == list[i].size * list[i].x1) {
            *last = (struct axis){ last->size * list[i].size, list[i].y, list[i].x0, list[i].x1 };
            continue;
        }
        list[kept++] = list[i];
    }
    return kept;
}

static struct loop make_loop(element_function function, const tensor_layout *x0, const tensor_layout *x1,
                             const tensor_layout *output)
{
    struct loop loop = { .native.run = run_loop, .function = function, .rows = 1, .count = 1 };
    struct axis list[LOOP_AXES];
    uint32_t count = 0;

    INLAY_CHECK(output->rank <= LOOP_AXES);
    for (int d = 0; d < output->rank; d++)
        list[count++] = (struct axis){ output->dims[d], output->strides[d], stride_along(x0, d), stride_along(x1, d) };
    qsort(list, count, sizeof *list, by_stride);
    count = merge_axes(list, count);
    if (count > 0 && list[count - 1].y == 1) {
        loop.count = list[count - 1].size;
        loop.s0 = list[count - 1].x0;
        loop.s1 = list[count - 1].x1;
        count--;
    }
    for (uint32_t d = 0; d < count; d++) {
        loop.dims[d] = list[d].size;
        loop.y[d] = list[d].y;
        loop.x0[d] = list[d].x0;
        loop.x1[d] = list[d].x1;
        loop.rows *= list[d].size;
    }
    loop.rank = count;
    return loop;
}

bool cpu_has_dims(const tensor_layout *layout, uint32_t rank, const int64_t *dims)
{
    return (uint32_t)layout->rank == rank && memcmp(layout->dims, dims, rank * sizeof *dims) == 0;
}

/* Prepends axes of size 1 up to `rank`. */
static void raise_rank(cpu_place *place, uint32_t rank)
{
    int64_t dims[CPU_MAX_RANK], strides[CPU_MAX_RANK];
    uint32_t old_rank = (uint32_t)place->layout.rank, front = rank - old_rank;

    INLAY_CHECK(rank <= CPU_MAX_RANK);
    if (old_rank >= rank)
        return;
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = d < front ? 1 : place->layout.dims[d - front];
        strides[d] = d < front ? 1 : place->layout.strides[d - front];
    }
    layout_strides(&place->layout, rank, dims, strides);
}

static bool is_commutative(element_function function)
{
    return function != FUNCTION_SUB && function != FUNCTION_DIV && function != FUNCTION_PRELU;
}

/* Reorders the operands to layouts that the loop can run over together, and emits it. */
static inlay_status emit_loop(cpu_build *build, element_function function, cpu_place x0, cpu_place x1, bool overwrite,
                              uint32_t like, uint32_t result, cpu_place *out)
{
    uint32_t rank = build->ranks[like];
    const int64_t *dims = build->dims[like];
    inlay_status status;
    tensor_layout plain;
    struct loop loop;

    if (cpu_has_dims(&x0.layout, rank, dims) && layout_bytes(&x0.layout) > 0) {
        raise_rank(&x1, rank);
        plain = x0.layout;
    } else {
        layout_plain(&plain, (uint32_t)x0.layout.rank, x0.layout.dims);
        INLAY_TRY(cpu_reorder(build, &x0, &plain, &x0));
        layout_plain(&plain, (uint32_t)x1.layout.rank, x1.layout.dims);
        INLAY_TRY(cpu_reorder(build, &x1, &plain, &x1));
        raise_rank(&x0, rank);
        raise_rank(&x1, rank);
        layout_plain(&plain, rank, dims);
        overwrite = false;
    }
    if (!layout_is_dense(&plain)) { /* a strided view */
        layout_plain(&plain, rank, dims);
        overwrite = false;
    }
    if (overwrite && (result == INLAY_NONE || build->compiled->values[result].output == INLAY_NONE))
        *out = x0;
    else if (result != INLAY_NONE)
        INLAY_TRY(cpu_result_place(build, result, &plain, out));
    else
        INLAY_TRY(cpu_new_place(build, &plain, out));
    loop = make_loop(function, &x0.layout, &x1.layout, &out->layout);
    status = cpu_emit_step(build, &loop.native, sizeof loop, (const cpu_place *const[]){ &x0, &x1, out }, 3);
done:
    return status;
}

inlay_status cpu_binary_at(cpu_build *build, element_function function, const cpu_place *input, bool overwrite,
                           uint32_t other, uint32_t like, uint32_t result, cpu_place *out)
{
    uint32_t rank = build->ranks[like];
    cpu_place x0 = *input, x1;
    inlay_status status = cpu_read(build, other, &x1);

    if (status != INLAY_OK)
        return status;
    if (!cpu_has_dims(&x0.layout, rank, build->dims[like]) && cpu_has_dims(&x1.layout, rank, build->dims[like]) &&
        is_commutative(function)) {
        const cpu_place place = x0;

        x0 = x1;
        x1 = place;
        overwrite = false;
    }
    /* Two tensors of equal dims in different layouts: one reorder is faster than a loop with two layouts. */
    if (cpu_has_dims(&x0.layout, rank, build->dims[like]) && cpu_has_dims(&x1.layout, rank, build->dims[like]) &&
        layout_is_dense(&x0.layout)) {
        status = cpu_reorder(build, &x1, &x0.layout, &x1);
        if (status != INLAY_OK)
            return status;
    }
    return emit_loop(build, function, x0, x1, overwrite, like, result, out);
}
