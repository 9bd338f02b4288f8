/* recurrent_run.c - runs a recurrent layer, see recurrent.h. */
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/recurrent/recurrent_loops.h"
#include <math.h>

/* The rows that the gate functions of one sample read and write at one step. All except old and h are in blocks. */
typedef struct cell_row {
    const void *input; /* projected input */
    void *gates;       /* recurrent contribution */
    const void *candidate;
    void *reset;
    void *c;
    const void *old; /* hidden state before the step, [hidden] */
    void *h;         /* hidden state after the step */
} cell_row;

#define T float
#define NAME(name) f32_##name
#define LOOPS KERNEL_BEST(recurrent_f32)
#include "operators/recurrent/recurrent_cells.inc"
#undef T
#undef NAME
#undef LOOPS
#define T double
#define NAME(name) f64_##name
#define LOOPS KERNEL_BEST(recurrent_f64)
#include "operators/recurrent/recurrent_cells.inc"

typedef struct recurrent_call {
    const kit_call *call;
    const recurrent_state *state;
    const recurrent_plan *plan;
    int64_t element; /* bytes of an element of the computation type */
    bool converts;   /* tensors have another type: float16, bfloat16 */
    bool has_peepholes;
    panels_fn of_w, of_r;                 /* multiplications by W and by R */
    const recurrent_projected *projected; /* replaces the multiplication by W; or NULL */
    recurrent_weights weights[2];
} recurrent_call;

/* A unit and its memory. Arrays of pointers have one entry per active sample; h_rows and c one for every sample. */
struct unit {
    const recurrent_call *call;
    const recurrent_weights *weights;
    const struct activation *activation;
    int64_t d, first, rows; /* direction, samples */
    bool backward;
    int64_t active;
    int64_t *active_samples; /* [active] indexes of the samples that are active in the step */
    const void **x;          /* the input rows of a projection */
    void **projected_rows;
    const void **old;
    void **new_rows, **gates_rows, **reset_rows, **candidate_rows;
    const void **h_rows; /* current state */
    char *c, *h, *input, *zeros;
    int64_t state_bytes; /* bytes of a row of c, of h */
    int64_t projected;   /* rows of this chunk that were consumed */
};

static void load(const recurrent_call *call, const kit_tensor *tensor, int64_t first, int64_t count, void *to)
{
    if (call->state->wide)
        convert_to_f64(to, tensor->dtype, tensor->data, first, count);
    else
        convert_to_f32(to, tensor->dtype, tensor->data, first, count);
}

static void store(const recurrent_call *call, const kit_tensor *tensor, int64_t first, int64_t count, const void *from)
{
    if (call->state->wide)
        convert_from_f64(tensor->dtype, tensor->data, first, count, from, 0);
    else
        convert_from_f32(tensor->dtype, tensor->data, first, count, from, 0);
}

static int64_t length_of(const recurrent_call *call, int64_t sample)
{
    if (!kit_has_input(call->call, IN_LENGTHS))
        return call->plan->steps;
    return ((const int32_t *)call->call->in[IN_LENGTHS].data)[sample];
}

/* The index of a sample's row in X; and the element index of its row in Y, and in the initial and final states. */
static int64_t x_row(const recurrent_plan *plan, bool batch_first, int64_t t, int64_t sample)
{
    return batch_first ? sample * plan->steps + t : t * plan->batch + sample;
}
static int64_t y_at(const recurrent_plan *plan, bool batch_first, int64_t t, int64_t d, int64_t sample)
{
    return (batch_first ? (sample * plan->steps + t) * plan->directions + d
                        : (t * plan->directions + d) * plan->batch + sample) *
           plan->hidden;
}
static int64_t state_at(const recurrent_plan *plan, bool batch_first, int64_t d, int64_t sample)
{
    return (batch_first ? sample * plan->directions + d : d * plan->batch + sample) * plan->hidden;
}

static void set_unit_pointers(struct unit *unit, char *memory)
{
    const recurrent_plan *plan = unit->call->plan;
    const recurrent_layout *layout = &plan->weights;
    const int64_t element = unit->call->element;

    unit->state_bytes = layout->candidate.stored * element;
    unit->active_samples = (void *)(memory + plan->at.order);
    unit->x = (void *)(memory + plan->at.x);
    unit->projected_rows = (void *)(memory + plan->at.projected_rows);
    unit->old = (void *)(memory + plan->at.old);
    unit->new_rows = (void *)(memory + plan->at.new);
    unit->gates_rows = (void *)(memory + plan->at.gates_rows);
    unit->reset_rows = (void *)(memory + plan->at.reset_rows);
    unit->candidate_rows = unit->reset_rows + plan->rows;
    unit->h_rows = (void *)(memory + plan->at.h_rows);
    unit->c = memory + plan->at.c;
    unit->h = memory + plan->at.h;
    unit->input = memory + plan->at.input;
    unit->zeros = memory + plan->at.zeros;
    for (int64_t i = 0; i < plan->chunk_rows; i++)
        unit->projected_rows[i] = memory + plan->at.projected + i * layout->panels.stored * element;
    for (int64_t i = 0; i < unit->rows; i++) {
        unit->gates_rows[i] = memory + plan->at.gates + i * layout->r.stored * element;
        unit->reset_rows[i] = memory + plan->at.reset + i * unit->state_bytes;
        unit->candidate_rows[i] = memory + plan->at.candidate + i * unit->state_bytes;
    }
}

/* Loads the initial states, and clears the rows of Y beyond the end of each sample. */
static void open_unit(struct unit *unit, const recurrent_call *call, int64_t index, char *room)
{
    const recurrent_plan *plan = call->plan;
    const bool batch_first = call->state->layout != 0;
    const kit_tensor *h0 = &call->call->in[IN_H], *output = &call->call->out[OUT_Y];

    *unit = (struct unit){ .call = call, .d = index / plan->units, .first = index % plan->units * plan->rows };
    unit->rows = plan->batch - unit->first < plan->rows ? plan->batch - unit->first : plan->rows;
    INLAY_CHECK(unit->d < plan->directions && unit->rows > 0);
    unit->weights = &call->weights[unit->d];
    unit->activation = call->state->activation + unit->d * call->state->functions;
    unit->backward = call->state->direction == 1 || unit->d == 1;
    set_unit_pointers(unit, room);
    memset(unit->zeros, 0, (size_t)unit->state_bytes);
    for (int64_t i = 0; i < unit->rows; i++) {
        const int64_t at = state_at(plan, batch_first, unit->d, unit->first + i);
        char *row = unit->h + i * unit->state_bytes;
        if (!kit_has_input(call->call, IN_H)) {
            unit->h_rows[i] = unit->zeros;
        } else if (!call->converts) {
            unit->h_rows[i] = (const char *)h0->data + at * call->element;
        } else {
            load(call, h0, at, plan->hidden, row);
            unit->h_rows[i] = row;
        }
        if (call->state->cell == CELL_LSTM) {
            memset(unit->c + i * unit->state_bytes, 0, (size_t)unit->state_bytes);
            if (kit_has_input(call->call, IN_C))
                load(call, &call->call->in[IN_C], at, plan->hidden, unit->c + i * unit->state_bytes);
        }
        for (int64_t step = length_of(call, unit->first + i); step < plan->steps && kit_has_output(call->call, OUT_Y);
             step++)
            memset((char *)output->data +
                       kit_bytes(output->dtype, y_at(plan, batch_first, step, unit->d, unit->first + i)),
                   0, kit_bytes(output->dtype, plan->hidden));
    }
}

static void close_unit(const struct unit *unit)
{
    const recurrent_call *call = unit->call;

    for (int64_t i = 0; i < unit->rows; i++) {
        const int64_t at = state_at(call->plan, call->state->layout != 0, unit->d, unit->first + i);
        if (kit_has_output(call->call, OUT_H))
            store(call, &call->call->out[OUT_H], at, call->plan->hidden, unit->h_rows[i]);
        if (call->state->cell == CELL_LSTM && kit_has_output(call->call, OUT_C))
            store(call, &call->call->out[OUT_C], at, call->plan->hidden, unit->c + i * unit->state_bytes);
    }
}

/* The time index of a step of a sample. */
static int64_t time_of(const struct unit *unit, int64_t sample, int64_t step)
{
    return unit->backward ? length_of(unit->call, sample) - 1 - step : step;
}

/* Lists the input rows of steps from `step` on, as many as fit into a chunk. Returns the first step after them, and
 * the number of rows. */
static int64_t gather(struct unit *unit, int64_t step, int64_t *out_rows)
{
    const recurrent_call *call = unit->call;
    const recurrent_plan *plan = call->plan;
    const kit_tensor *input = &call->call->in[IN_X];
    int64_t count = 0;

    for (; step < plan->steps && count + unit->rows <= plan->chunk_rows; step++) {
        for (int64_t i = 0; i < unit->rows; i++) {
            if (step >= length_of(call, unit->first + i))
                continue;
            const int64_t row =
                x_row(plan, call->state->layout != 0, time_of(unit, unit->first + i, step), unit->first + i);
            const int64_t at = row * plan->inputs;
            if (call->projected != NULL) {
                unit->projected_rows[count] = call->projected->rows[unit->d] + row * plan->weights.panels.stored;
            } else if (call->converts) {
                unit->x[count] = unit->input + count * plan->inputs * call->element;
                load(call, input, at, plan->inputs, unit->input + count * plan->inputs * call->element);
            } else {
                unit->x[count] = (const char *)input->data + at * call->element;
            }
            count++;
        }
    }
    unit->projected = 0;
    INLAY_CHECK(count <= plan->chunk_rows);
    *out_rows = count;
    return step;
}

/* Multiplies the gathered rows by panels [first, end) of W, unless the caller has. */
static void project(const struct unit *unit, int64_t rows, int64_t first, int64_t end)
{
    if (unit->call->projected != NULL)
        return;
    unit->call->of_w(&unit->call->plan->weights.panels, unit->weights->weights, first, end, false, rows, unit->x,
                     unit->weights->bias, unit->projected_rows);
}

/* Lists the samples that are active in a step, and the places of their states. */
static void begin_step(struct unit *unit, int64_t step)
{
    const recurrent_call *call = unit->call;
    const recurrent_plan *plan = call->plan;
    const bool direct = kit_has_output(call->call, OUT_Y) && !call->converts;

    unit->active = 0;
    for (int64_t i = 0; i < unit->rows; i++) {
        const int64_t sample = unit->first + i;
        if (step >= length_of(call, sample))
            continue;
        unit->active_samples[unit->active] = i;
        unit->old[unit->active] = unit->h_rows[i];
        if (direct)
            unit->new_rows[unit->active] =
                (char *)call->call->out[OUT_Y].data +
                y_at(plan, call->state->layout != 0, time_of(unit, sample, step), unit->d, sample) * call->element;
        else /* a sample has two rows, used alternately; the initial state may be in the first */
            unit->new_rows[unit->active] = unit->h + ((step + 1) % 2 * plan->rows + i) * unit->state_bytes;
        unit->active++;
    }
}

/* Computes one half of a step for some panels: of R, or (in a GRU with a separate candidate matrix) of the
 * candidate. */
static void compute_half_step(const struct unit *unit, int64_t step, bool second, int64_t first, int64_t end)
{
    const recurrent_call *call = unit->call;
    const recurrent_layout *layout = &call->plan->weights;
    const struct panels *panels = second ? &layout->candidate : &layout->r;
    const bool two = call->state->cell == CELL_GRU && !call->state->linear_before_reset;
    const int64_t each = panels->width / panels->gates, last = layout->candidate.blocks;
    const int64_t b0 = first * each, b1 = end * each < last ? end * each : last;

    call->of_r(panels, second ? unit->weights->candidate : unit->weights->r, first, end, step % 2 != 0, unit->active,
               second ? (const void *const *)unit->reset_rows : unit->old, second ? NULL : unit->weights->bias_r,
               second ? unit->candidate_rows : unit->gates_rows);
    for (int64_t active = 0; active < unit->active; active++) {
        const cell_row row = { .input = unit->projected_rows[unit->projected + active],
                               .gates = unit->gates_rows[active],
                               .candidate = unit->candidate_rows[active],
                               .reset = unit->reset_rows[active],
                               .c = unit->c + unit->active_samples[active] * unit->state_bytes,
                               .old = unit->old[active],
                               .h = unit->new_rows[active] };
        (call->state->wide ? f64_cells
                           : f32_cells)(call->state, unit->activation, call->plan->hidden, b0, b1, two && !second, &row,
                                        call->has_peepholes ? unit->weights->peephole : NULL, layout->candidate.stored);
    }
}

static void end_step(struct unit *unit, int64_t step)
{
    const recurrent_call *call = unit->call;

    for (int64_t active = 0; active < unit->active; active++) {
        const int64_t sample = unit->first + unit->active_samples[active];
        unit->h_rows[unit->active_samples[active]] = unit->new_rows[active];
        if (call->converts && kit_has_output(call->call, OUT_Y))
            store(call, &call->call->out[OUT_Y],
                  y_at(call->plan, call->state->layout != 0, time_of(unit, sample, step), unit->d, sample),
                  call->plan->hidden, unit->new_rows[active]);
    }
    INLAY_CHECK(unit->active <= unit->rows && unit->projected + unit->active <= call->plan->chunk_rows);
    unit->projected += unit->active;
}

static char *memory_of_unit(const recurrent_call *call, int64_t index)
{
    const recurrent_plan *plan = call->plan;

    return (char *)call->call->workspace + (uint64_t)plan->directions * plan->weights_bytes +
           (uint64_t)index * plan->unit_bytes;
}

static inlay_status run_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const recurrent_call *call = user;
    const recurrent_plan *plan = call->plan;
    const bool two = call->state->cell == CELL_GRU && !call->state->linear_before_reset;
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        struct unit unit;
        open_unit(&unit, call, i, memory_of_unit(call, i));
        for (int64_t step = 0, next, rows; step < plan->steps; step = next) {
            next = gather(&unit, step, &rows);
            project(&unit, rows, 0, plan->weights.panels.count);
            for (int64_t k = step; k < next; k++) {
                INLAY_TRY(kit_poll(call->call));
                begin_step(&unit, k);
                compute_half_step(&unit, k, false, 0, plan->weights.r.count);
                if (two)
                    compute_half_step(&unit, k, true, 0, plan->weights.candidate.count);
                end_step(&unit, k);
            }
        }
        close_unit(&unit);
    }
done:
    return status;
}

enum { SHARE_PROJECTION, SHARE_STEP, SHARE_CANDIDATE };
struct shared_step {
    struct unit units[2]; /* one per direction */
    int64_t count;        /* panels per unit */
    int64_t rows, step;
    uint32_t what;
};

static inlay_status run_shared_part(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct shared_step *share = user;

    (void)worker;
    for (int64_t at = begin; at < end;) {
        const struct unit *unit = &share->units[at / share->count];
        const int64_t first = at % share->count, left = share->count - first, count = end - at < left ? end - at : left;
        if (share->what == SHARE_PROJECTION)
            project(unit, share->rows, first, first + count);
        else
            compute_half_step(unit, share->step, share->what == SHARE_CANDIDATE, first, first + count);
        at += count;
    }
    return INLAY_OK;
}

static inlay_status run_on_threads(const recurrent_call *call, struct shared_step *share, uint32_t what, int64_t count)
{
    const int64_t all = count * call->plan->directions,
                  threads = call->call->max_threads > 0 ? call->call->max_threads : 1;

    share->what = what;
    share->count = count;
    /* A grain rounded up would leave fewer ranges than threads if the count is not a multiple of them. */
    return kit_parallel(call->call, all, all >= threads ? all / threads : 1, run_shared_part, share);
}

static inlay_status run_shared(const recurrent_call *call)
{
    const recurrent_plan *plan = call->plan;
    const bool two = call->state->cell == CELL_GRU && !call->state->linear_before_reset;
    struct shared_step share = { .step = 0 };
    inlay_status status = INLAY_OK;

    for (int64_t d = 0; d < plan->directions; d++)
        open_unit(&share.units[d], call, d, memory_of_unit(call, d));
    for (int64_t step = 0, next = 0; step < plan->steps; step = next) {
        for (int64_t d = 0; d < plan->directions; d++)
            next = gather(&share.units[d], step, &share.rows);
        if (call->projected == NULL)
            INLAY_TRY(run_on_threads(call, &share, SHARE_PROJECTION, plan->weights.panels.count));
        for (share.step = step; share.step < next; share.step++) {
            INLAY_TRY(kit_poll(call->call));
            for (int64_t d = 0; d < plan->directions; d++)
                begin_step(&share.units[d], share.step);
            INLAY_TRY(run_on_threads(call, &share, SHARE_STEP, plan->weights.r.count));
            if (two)
                INLAY_TRY(run_on_threads(call, &share, SHARE_CANDIDATE, plan->weights.candidate.count));
            for (int64_t d = 0; d < plan->directions; d++)
                end_step(&share.units[d], share.step);
        }
    }
    for (int64_t d = 0; d < plan->directions; d++)
        close_unit(&share.units[d]);
done:
    return status;
}

/* Finds the weights of direction d, see recurrent_run(). */
static void find_panels(recurrent_call *call, int64_t d)
{
    const recurrent_layout *layout = &call->plan->weights;
    const kit_tensor *weights = &call->call->in[IN_W], *of_r = &call->call->in[IN_R];
    recurrent_weights *to = &call->weights[d];

    if (weights->rank == 0) {
        const recurrent_matrix *const of[] = { weights->data, of_r->data };

        call->of_w = of[0]->product;
        call->of_r = of[1]->product;
        to->weights = (void *)(uintptr_t)of[0]->packed[d];
        to->r = (void *)(uintptr_t)of[1]->packed[d];
        to->candidate = (void *)(uintptr_t)of[1]->candidate[d];
        return;
    }
    to->weights = (char *)weights->data + (uint64_t)d * recurrent_panel_bytes(layout, IN_W);
    to->r = (char *)of_r->data + (uint64_t)d * recurrent_panel_bytes(layout, IN_R);
    to->candidate = (char *)to->r + (layout->candidate_at - layout->r_at);
}

/* Fails unless each of sequence_lens is a number of steps of X. */
static inlay_status check_lengths(const kit_call *call)
{
    const recurrent_plan *plan = call->plan;
    const int32_t *lengths = kit_has_input(call, IN_LENGTHS) ? call->in[IN_LENGTHS].data : NULL;

    for (int64_t i = 0; lengths != NULL && i < plan->batch; i++)
        if (lengths[i] < 0 || lengths[i] > plan->steps)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "sequence_lens[%lld] is %ld; X has %lld steps",
                              (long long)i, (long)lengths[i], (long long)plan->steps);
    return INLAY_OK;
}

inlay_status recurrent_run(const kit_call *call)
{
    static const kit_tensor none = { .data = NULL };
    const recurrent_state *state = call->state;
    const recurrent_plan *plan = call->plan;
    recurrent_call run = {
        .call = call, .state = state, .plan = plan, .element = state->wide ? sizeof(double) : sizeof(float)
    };

    if (plan->hidden == 0 || plan->batch == 0)
        return INLAY_OK;
    if (check_lengths(call) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    run.of_w = run.of_r = state->product;
    if (state->pack.data != NULL && call->in[IN_W].rank == 0)
        run.projected = call->in[IN_W].data;
    run.converts = inlay_dtype_bits(call->in[IN_X].dtype) != 8 * (uint32_t)run.element;
    run.has_peepholes = state->cell == CELL_LSTM && kit_has_input(call, IN_P);
    for (int64_t d = 0; d < plan->directions; d++) {
        run.weights[d] = state->constant[d];
        if (state->pack.data != NULL)
            continue;
        run.weights[d] =
            recurrent_weights_at(&plan->weights, (char *)call->workspace + (uint64_t)d * plan->weights_bytes);
        if (call->in[IN_W].rank <= 1) {
            find_panels(&run, d);
            recurrent_pack_vectors(state, &plan->weights, kit_has_input(call, IN_B) ? &call->in[IN_B] : &none,
                                   run.has_peepholes ? &call->in[IN_P] : &none, d, &run.weights[d]);
            continue;
        }
        recurrent_pack(state, &plan->weights, &call->in[IN_W], &call->in[IN_R],
                       kit_has_input(call, IN_B) ? &call->in[IN_B] : &none, run.has_peepholes ? &call->in[IN_P] : &none,
                       d, &run.weights[d]);
    }
    INLAY_CHECK(plan->directions <= 2 && !(plan->shared && plan->calling_thread_only));
    if (plan->shared)
        return run_shared(&run);
    if (plan->calling_thread_only)
        return run_units(&run, 0, plan->directions * plan->units, 0);
    return kit_parallel(call, plan->directions * plan->units, 1, run_units, &run);
}
