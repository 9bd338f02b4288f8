/* TopK: ONNX 1, 10, 11, 24. Of two equal elements, the element with the lower index comes first; NaN is the largest.
 * The output is always sorted. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/rank.h"
#include "operators/operators.h"
#include "simd/move_set.h"
#include "simd/row_set.h"
#include "operators/strided.h"
#include "operators/work.h"

/* BLOCK, PART: elements tested at once, first BLOCK, then PART of them, before single ones. FEW: maximum k for a heap.
 * SHORT: maximum elements for counting. SCANNED: elements for each of the best k from which a heap is faster. COLUMNS:
 * rows along an axis that is not the last, copied together: they share cache lines. LANES: rows of which the best k are
 * selected at once. */
enum { BLOCK = 64, PART = 16, FEW = 16, SHORT = 192, SCANNED = 16, COLUMNS = 16, LANES = 16 };

/* Returns the number of elements of a part, if the maxima of parts are used as a bound for the best k of a row; 0 if
 * they are not. */
static int64_t part_of(int64_t count, int64_t k)
{
    return k <= FEW || count < 16 * BLOCK ? 0 : count / BLOCK >= 2 * k ? BLOCK : count / 16 >= k + k / 2 ? 16 : 0;
}

/* Returns the number of entries in which the best k are collected. For a large k it is at least k + BLOCK, and there is
 * room for the maxima of the parts. */
static int64_t select_room(int64_t count, int64_t k)
{
    const int64_t part = part_of(count, k), room = 2 * k + 2 * BLOCK;
    const int64_t parts = part > 0 ? count / part + count / part / 4 + 1 : 0;

    return k <= FEW ? k : parts > room ? parts : room;
}
/* Returns the number of entries of a worker: select_room(), and scratch memory for sorting k entries. */
static int64_t worker_room(int64_t count, int64_t k)
{
    return select_room(count, k) + (k <= FEW ? 0 : k);
}

/* Selects the best k of a short row: compares each element with all others; the number of better elements is its
 * position. Returns false if the row is not suitable. */
static bool select_short(const float *input, int64_t count, int64_t k, bool smallest, rank_entry *best)
{
    const row_set *set = KERNEL_BEST(rows);
    INLAY_CHECK(k <= count);
    const float limit = (float)k;
    float negated[SHORT], better[SHORT];
    uint8_t equal[SHORT] = { 0 }; /* for each number of better elements, how many elements had it so far */

    if (count > SHORT || !set->finite(input, count))
        return false;
    for (int64_t i = 0; i < count && smallest; i++)
        negated[i] = -input[i];
    set->greater(smallest ? negated : input, better, count);
    for (int64_t i = 0; i < count; i++) {
        int32_t at;

        if (better[i] >= limit)
            continue;
        at = (int32_t)better[i];
        if (at + equal[at] < k)
            best[at + equal[at]++].index = i;
    }
    return true;
}

/* Finds a lower bound for the best k of a row: the k-th best of the maxima of parts. Returns false if there is none. */
static bool find_least(const float *input, int64_t count, int64_t k, uint64_t flip, rank_entry *scratch, float *out)
{
    const int64_t part = part_of(count, k), parts = part > 0 ? count / part : 0;
    float *maxima = (float *)(void *)(scratch + parts);
    uint64_t bar;

    if (parts == 0)
        return false;
    INLAY_CHECK(parts >= k);
    (flip != 0 ? KERNEL_BEST(rows)->lows : KERNEL_BEST(rows)->tops)(input, maxima, parts, part);
    for (int64_t i = 0; i < parts; i++)
        scratch[i] = (rank_entry){ rank_key_f32(maxima[i]) ^ flip, i };
    bar = rank_keep(scratch, parts, k);
    for (int64_t i = 0; i < k; i++)
        if (scratch[i].key == bar)
            *out = maxima[scratch[i].index];
    return true;
}

/* One of the best k of each of LANES rows: its key above the complement of its index, with the order of signed
 * integers. */
typedef struct top_k_lanes {
    int64_t rank[LANES];
} top_k_lanes;

/* Are floats selected in another way than other elements of 4 bytes? */
static bool has_float_paths(int64_t count, int64_t k)
{
    return count <= SHORT || part_of(count, k) > 0;
}

/* Selects the best k of a row of other elements that was converted to floats. Returns false if the floats do not
 * suffice: they are not exact, and two of the best k + 1 are equal. */
static void select_f32(const void *data, int64_t count, int64_t k, uint64_t flip, rank_entry *best, float *row);
static bool select_floats(const float *row, bool exact, int64_t count, int64_t k, uint64_t flip, rank_entry *best)
{
    const int64_t selected = exact || k == count ? k : k + 1;

    select_f32(row, count, selected, flip, best, NULL);
    for (int64_t i = 1; i < selected && !exact; i++)
        if (row[best[i - 1].index] == row[best[i].index])
            return false;
    return true;
}

#define IS_F32 _Generic((T)0, float : true, default : false)
#define KEY(x) _Generic((ACC)0, float : rank_key_f32, double : rank_key_f64)(LOAD(x))
#define VALUE(x) LOAD(x)
#define NARROW(x) (uint32_t) KEY(x)
#define EXACT(x) ((ACC)(float)(x) == (x))
#define BODY "top_k.inc"
#include "operators/floats.inc"
#undef KEY
#undef VALUE
#undef NARROW
#undef EXACT

#define KEY(x) ((T)-1 < (T)1 ? (uint64_t)rank_key_i64((int64_t)(x)) : (uint64_t)(x))
#define VALUE(x) (x)
#define NARROW(x) ((uint32_t)(x) ^ ((T)-1 < (T)1 ? UINT32_C(1) << 31 : 0))
#define EXACT(x) ((UNSIGNED)(x) + ((T)-1 < (T)1 ? 1u << 24 : 0) <= ((T)-1 < (T)1 ? 1u << 25 : 1u << 24))
#define BODY "top_k.inc"
#include "operators/integers.inc"

typedef struct top_k_functions {
    void (*select)(const void *data, int64_t count, int64_t k, uint64_t flip, rank_entry *best, float *row);
    void (*select_lanes)(const void *data, int64_t step, int64_t count, int64_t k, uint64_t flip, top_k_lanes *lists);
    bool (*narrow)(const void *data, int64_t step, int64_t rows, int64_t columns, float *to);
    void (*spread)(const char *const *from, int64_t inner, int64_t count, int64_t lanes, void *columns);
} top_k_functions;
#define FUNCTIONS(suffix)                                                                                              \
    {                                                                                                                  \
        select_##suffix, select_lanes_##suffix, narrow_##suffix, spread_##suffix                                       \
    }
static const top_k_functions by_dtype[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = FUNCTIONS(f32),     [INLAY_DOUBLE] = FUNCTIONS(f64), [INLAY_FLOAT16] = FUNCTIONS(f16),
    [INLAY_BFLOAT16] = FUNCTIONS(bf16), [INLAY_INT8] = FUNCTIONS(i8),    [INLAY_INT16] = FUNCTIONS(i16),
    [INLAY_INT32] = FUNCTIONS(i32),     [INLAY_INT64] = FUNCTIONS(i64),  [INLAY_UINT8] = FUNCTIONS(u8),
    [INLAY_UINT16] = FUNCTIONS(u16),    [INLAY_UINT32] = FUNCTIONS(u32), [INLAY_UINT64] = FUNCTIONS(u64),
};

typedef struct top_k_state {
    int64_t axis;
    int64_t k; /* the attribute of TopK-1; -1 if K is an input */
    bool largest;
} top_k_state;

static inlay_status prepare_top_k(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(top_k_state), out_state, diag);

    if (status == INLAY_OK)
        *(top_k_state *)*out_state =
            (top_k_state){ .axis = kit_attr_int(node->info, "axis", -1),
                           .k = kit_since_version(node) < 10 ? kit_attr_int(node->info, "k", 0) : -1,
                           .largest = kit_attr_int(node->info, "largest", 1) != 0 };
    return status;
}

/* The output that determines the shape: values, or indices if there are no values. */
static const kit_tensor *any_output(const kit_tensor *out, uint32_t count)
{
    return count > 1 && out[0].dtype == INLAY_UNDEFINED ? &out[1] : &out[0];
}

/* Are the rows read as lanes of columns? Not if lists are so long that insertions take the time, nor contiguous rows so
 * long that most of their blocks have none of the best. */
static bool has_lanes(int64_t rows, int64_t count, int64_t k, int64_t inner)
{
    const int64_t long_row = 16 * BLOCK;

    return k <= FEW && rows >= LANES / 2 && count <= UINT32_MAX && (inner > LANES || count < long_row);
}

/* Memory of a worker, in entries: the best of its rows, copies of rows whose elements are not adjacent, and floats
 * (select_floats, select_narrowed). */
typedef struct top_k_rooms {
    int64_t best, copies, floats;
} top_k_rooms;

static int64_t entries_of(int64_t bytes)
{
    return (bytes + (int64_t)sizeof(rank_entry) - 1) / (int64_t)sizeof(rank_entry);
}

static top_k_rooms rooms_of(int64_t count, int64_t k, int64_t inner, inlay_dtype dtype, bool lanes)
{
    const int64_t element = strided_element_bytes(dtype), copied = lanes ? LANES : inner < COLUMNS ? inner : COLUMNS;
    const int64_t lists = (k + 1) * (int64_t)(sizeof(top_k_lanes) / sizeof(rank_entry));
    const int64_t best = worker_room(count, k), more = worker_room(count, k + 1), most = best > more ? best : more;

    return (top_k_rooms){ lanes && lists > most ? lists : most,
                          lanes || inner > 1 ? entries_of(count * copied * element) : 0,
                          dtype == INLAY_FLOAT ? 0 : entries_of(count * (lanes ? LANES : 1) * (int64_t)sizeof(float)) };
}

/* The workspace has entries for each worker. */
static inlay_status shape_top_k(const void *opaque, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0], *output = any_output(plan->out, plan->out_count);
    uint64_t entries = UINT64_MAX;
    uint32_t axis;
    inlay_status status = arg_axis(diag, ((const top_k_state *)opaque)->axis, input->rank, "axis", &axis);

    if (status != INLAY_OK || output->count < 0 || output->rank != input->rank)
        return status;
    if (output->dims[axis] <= INT64_MAX / 1024 && input->dims[axis] <= INT64_MAX / 1024) {
        const int64_t count = input->dims[axis], k = output->dims[axis];
        const int64_t inner = strided_product(input->dims, axis + 1, input->rank);
        const top_k_rooms rooms =
            rooms_of(count, k, inner, input->dtype, k > 0 && has_lanes(output->count / k, count, k, inner));

        entries = (uint64_t)rooms.best + (uint64_t)rooms.copies + (uint64_t)rooms.floats;
    }
    if (entries == UINT64_MAX ||
        __builtin_mul_overflow(entries, sizeof(rank_entry) * plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "K is %lld", (long long)output->dims[axis]);
    return INLAY_OK;
}

typedef struct top_k_job {
    const char *in;
    char *values;     /* NULL: not needed */
    int64_t *indices; /* NULL: not needed */
    rank_entry *room;
    const top_k_functions *functions;
    int64_t count, k, inner;
    uint64_t flip;
    uint32_t element;
    top_k_rooms rooms;
} top_k_job;

/* The memory of a worker. */
typedef struct top_k_memory {
    void *best, *copy;
    float *floats;
} top_k_memory;

static top_k_memory memory_of(const top_k_job *job, uint32_t worker)
{
    const top_k_rooms *rooms = &job->rooms;
    rank_entry *best = job->room + worker * (rooms->best + rooms->copies + rooms->floats);

    return (top_k_memory){ best, best + rooms->best, (float *)(void *)(best + rooms->best + rooms->copies) };
}

static void copy_element(char *to, const char *from, uint32_t bytes)
{
    if (bytes == 4)
        memcpy(to, from, 4);
    else if (bytes == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, bytes);
}

/* Writes the result of a row to element `to` and the elements after it, in steps of `inner`. from: the elements of the
 * row. */
static void put_best(const top_k_job *job, const char *from, const rank_entry *best, int64_t to)
{
    for (int64_t i = 0; i < job->k; i++, to += job->inner) {
        if (job->indices != NULL)
            job->indices[to] = best[i].index;
        if (job->values != NULL)
            copy_element(job->values + to * job->element, from + best[i].index * job->element, job->element);
    }
}

/* Makes contiguous rows of elements that are inner apart. */
static void copy_columns(const top_k_job *job, char *to, const char *from, int64_t columns)
{
    const int64_t count = job->count, inner = job->inner, element = job->element;

    KERNEL_BEST(moves)->turn[__builtin_ctz(job->element)](
        &(move_turns){ from, to, inner * element, count * element, count, columns, 1, 0, 0 });
}

/* Selects the best of a row of adjacent elements. */
static void select_row(const top_k_job *job, const top_k_memory *memory, const char *row, int64_t to)
{
    job->functions->select(row, job->count, job->k, job->flip, memory->best, memory->floats);
    put_best(job, row, memory->best, to);
}

/* A unit of work is a row: (index before the axis, index after it). */
static inlay_status top_k_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const top_k_job *job = user;
    const int64_t row_bytes = job->count * job->element;
    const top_k_memory memory = memory_of(job, worker);

    INLAY_CHECK(job->k > 0 && job->k <= job->count && job->inner > 0);
    for (int64_t row = begin, columns; row < end; row += columns) {
        const int64_t outer = row / job->inner, inner = row % job->inner, left = job->inner - inner;
        const char *from = job->in + outer * job->inner * row_bytes + inner * job->element;

        columns = left < COLUMNS ? left : COLUMNS;
        columns = columns < end - row ? columns : end - row;
        if (job->inner > 1) {
            copy_columns(job, memory.copy, from, columns);
            from = memory.copy;
        }
        for (int64_t c = 0; c < columns; c++, from += row_bytes)
            select_row(job, &memory, from, outer * job->k * job->inner + inner + c);
    }
    return INLAY_OK;
}

/* Writes the best of `lanes` rows; from, to: their first elements, in bytes of the input and elements of the output. */
static void put_lanes(const top_k_job *job, const top_k_lanes *lists, int64_t lanes, const char *const *from,
                      int64_t *to)
{
    const int64_t step = job->inner * job->element;

    for (int64_t j = 0; j < job->k; j++)
        for (int64_t lane = 0; lane < lanes; lane++, to[lane - 1] += job->inner) {
            const int64_t index = (int64_t)(uint32_t)~lists[j].rank[lane];

            if (job->indices != NULL)
                job->indices[to[lane]] = index;
            if (job->values != NULL)
                copy_element(job->values + to[lane] * job->element, from[lane] + index * step, job->element);
        }
}

/* Selects the best of `lanes` columns of wide elements, converted to floats. Returns false if the floats do not suffice
 * (select_floats). */
static bool select_narrowed(const top_k_job *job, const void *data, int64_t step, int64_t lanes, float *floats,
                            top_k_lanes *lists)
{
    const bool dense = step == LANES;
    const int64_t count = job->count;
    const bool exact = job->functions->narrow(data, step, dense ? 1 : count, dense ? count * LANES : LANES, floats);
    const int64_t selected = exact || job->k == count ? job->k : job->k + 1;

    by_dtype[INLAY_FLOAT].select_lanes(floats, LANES, count, selected, job->flip, lists);
    for (int64_t j = 1; j < selected && !exact; j++)
        for (int64_t lane = 0; lane < lanes; lane++)
            if (lists[j - 1].rank[lane] >> 32 == lists[j].rank[lane] >> 32)
                return false;
    return true;
}

/* Selects the best of LANES rows at once. They are read in place where they are next to each other. */
static inlay_status top_k_lanes_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const top_k_job *job = user;
    const char *from[LANES];
    int64_t to[LANES];
    const top_k_memory memory = memory_of(job, worker);

    memset(memory.copy, 0, (size_t)(job->count * LANES * job->element)); /* lanes without a row */
    for (int64_t row = begin; row < end; row += LANES) {
        const int64_t lanes = end - row < LANES ? end - row : LANES, first = row % job->inner;
        const bool in_place = lanes == LANES && first + LANES <= job->inner;
        const void *data = memory.copy;
        int64_t outer = row / job->inner, inner = first;

        for (int64_t lane = 0; lane < lanes; lane++) {
            from[lane] = job->in + (outer * job->count * job->inner + inner) * job->element;
            to[lane] = outer * job->k * job->inner + inner;
            outer += inner + 1 == job->inner;
            inner = inner + 1 == job->inner ? 0 : inner + 1;
        }
        if (in_place)
            data = from[0];
        else if (job->inner == 1)
            KERNEL_BEST(moves)->turn[__builtin_ctz(job->element)](&(move_turns){
                from[0], memory.copy, job->count * job->element, LANES * job->element, lanes, job->count, 1, 0, 0 });
        else
            job->functions->spread(from, job->inner, job->count, lanes, memory.copy);
        if (job->element <= sizeof(uint32_t)) {
            job->functions->select_lanes(data, in_place ? job->inner : LANES, job->count, job->k, job->flip,
                                         memory.best);
        } else if (!select_narrowed(job, data, in_place ? job->inner : LANES, lanes, memory.floats, memory.best)) {
            for (int64_t lane = 0; lane < lanes; lane++) {
                if (job->inner > 1)
                    copy_columns(job, memory.copy, from[lane], 1);
                select_row(job, &memory, job->inner > 1 ? memory.copy : from[lane], to[lane]);
            }
            continue;
        }
        put_lanes(job, memory.best, lanes, from, to);
    }
    return INLAY_OK;
}

static inlay_status run_top_k(const kit_call *call)
{
    const top_k_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = any_output(call->out, call->out_count);
    top_k_job job = { .in = input->data, .room = call->workspace, .functions = &by_dtype[input->dtype] };
    int64_t dims[INLAY_MAX_RANK];
    inlay_status status = INLAY_OK;
    uint32_t axis;
    bool lanes;

    if (job.functions->select == NULL)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "elements of type %s", inlay_dtype_name(input->dtype));
    INLAY_TRY(arg_axis(call->diag, state->axis, input->rank, "axis", &axis));
    if (state->k < 0 && call->in[1].count != 1)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "K must hold one value");
    job.k = state->k >= 0 ? state->k : *(const int64_t *)call->in[1].data;
    job.count = input->dims[axis];
    if (job.k < 0 || job.k > job.count)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "K is %lld of %lld elements", (long long)job.k,
                          (long long)job.count);
    memcpy(dims, input->dims, input->rank * sizeof *dims);
    dims[axis] = job.k;
    INLAY_TRY(arg_expect_dims(call->diag, output, input->rank, dims));
    if (output->count == 0)
        goto done;
    job.values = kit_has_output(call, 0) ? call->out[0].data : NULL;
    job.indices = kit_has_output(call, 1) ? call->out[1].data : NULL;
    job.inner = strided_product(input->dims, axis + 1, input->rank);
    job.flip = state->largest ? 0 : UINT64_MAX;
    job.element = strided_element_bytes(input->dtype);
    lanes = has_lanes(output->count / job.k, job.count, job.k, job.inner);
    job.rooms = rooms_of(job.count, job.k, job.inner, input->dtype, lanes);
    INLAY_TRY(kit_parallel(call, output->count / job.k, (8192 / job.count + LANES) / LANES * LANES,
                           lanes ? top_k_lanes_range : top_k_range, &job));
done:
    return status;
}

/* Every element is read. In lanes, elements are inserted into sorted lists. Otherwise, for a small k, about
 * k * (1 + ln(n / k)) of n elements in random order enter the heap, and k are removed from it in order; for a large k,
 * candidates are collected, and are then read once per digit of their keys. */
static void cost_top_k(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *input = &shapes->in[0], *output = any_output(shapes->out, shapes->out_count);
    int64_t axis = kit_attr_int(node->info, "axis", -1);
    double axis_length, k, rows;

    axis += axis < 0 ? (int64_t)input->rank : 0;
    if (input->count <= 0 || output->count <= 0 || output->rank != input->rank || axis < 0 ||
        axis >= (int64_t)input->rank)
        return;
    axis_length = (double)input->dims[axis];
    k = (double)output->dims[axis];
    rows = (double)input->count / axis_length;
    if (has_lanes((int64_t)rows, input->dims[axis], output->dims[axis],
                  strided_product(input->dims, (uint32_t)axis + 1, input->rank))) {
        const bool wide = strided_element_bytes(input->dtype) == 8;
        const double early = fmin(axis_length, 2 * LANES * k); /* all elements are inserted, then some */
        const double inserted = early + LANES * k * log(axis_length / early);

        work_cost(shapes, rows * (axis_length * (wide ? 0.3 : 0.15) + inserted * (wide ? k + 1 : k) * 0.08 + 2 + 2 * k),
                  0.7, rows, cost);
        return;
    }
    work_cost(shapes, rows * (axis_length / 4 + k * (k <= FEW ? (2 + log(axis_length / k)) * log2(k + 1) : 20)), 1.5,
              rows, cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "TopK", .prepare = prepare_top_k, .shape = shape_top_k, .cost = cost_top_k, .run = run_top_k },
};
const kit_table OPERATOR(operators_top_k) = { kernels, KIT_COUNT(kernels) };
