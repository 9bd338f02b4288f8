/* recurrent_run.c - the run of a recurrent layer, see recurrent.h. */
#include "simd/convert.h"
#include "recurrent_loops.h"
#include <math.h>

/* What the gates' functions of one sample at one step read and write: rows in blocks, but for those of h. */
typedef struct cell_row {
    const void *x; /* projected input */
    void *gates;   /* recurrent share */
    const void *candidate;
    void *reset;
    void *c;
    const void *old; /* hidden state before, [hidden] */
    void *h;         /* and after */
} cell_row;

#define T float
#define NAME(x) f32_##x
#define LOOPS KERNEL_BEST(recurrent_f32)
#include "recurrent_cells.inc"
#undef T
#undef NAME
#undef LOOPS
#define T double
#define NAME(x) f64_##x
#define LOOPS KERNEL_BEST(recurrent_f64)
#include "recurrent_cells.inc"

typedef struct recurrent_call {
    const kit_call *call;
    const recurrent_state *s;
    const recurrent_plan *p;
    int64_t element; /* bytes of what is computed with */
    bool converts;   /* tensors are of another type: float16, bfloat16 */
    bool peeps;
    panels_fn of_w, of_r; /* products */
    recurrent_weights weights[2];
} recurrent_call;

/* A unit and where its room is. Arrays of pointers have an entry a sample that is still going on, `active` in all;
 * h_rows and c_rows one for every sample. */
struct unit {
    const recurrent_call *r;
    const recurrent_weights *weights;
    const struct activation *f;
    int64_t d, first, rows; /* direction, samples */
    bool backward;
    int64_t active;
    int64_t *who;   /* which samples these are */
    const void **x; /* of a projection: a row of input each */
    void **projected_rows;
    const void **old;
    void **new_rows, **gates_rows, **reset_rows, **candidate_rows;
    const void **h_rows; /* the state now */
    char *c, *h, *input, *zeros;
    int64_t state_bytes; /* of a row of c, of h */
    int64_t projected;   /* rows of this stretch that are used up */
};

static void load(const recurrent_call *r, const kit_tensor *t, int64_t first, int64_t count, void *to)
{
    if (r->s->wide)
        convert_to_f64(to, t->dtype, t->data, first, count);
    else
        convert_to_f32(to, t->dtype, t->data, first, count);
}

static void store(const recurrent_call *r, const kit_tensor *t, int64_t first, int64_t count, const void *from)
{
    if (r->s->wide)
        convert_from_f64(t->dtype, t->data, first, count, from, 0);
    else
        convert_from_f32(t->dtype, t->data, first, count, from, 0);
}

static int64_t length_of(const recurrent_call *r, int64_t sample)
{
    int64_t length;

    if (!kit_has_input(r->call, IN_LENGTHS))
        return r->p->steps;
    length = ((const int32_t *)r->call->in[IN_LENGTHS].data)[sample];
    return length < 0 ? 0 : length > r->p->steps ? r->p->steps : length;
}

/* Element index of a sample's row in X, in Y, and in the first and last states. */
static int64_t x_at(const recurrent_plan *p, bool batch_first, int64_t t, int64_t sample)
{
    return (batch_first ? sample * p->steps + t : t * p->batch + sample) * p->inputs;
}
static int64_t y_at(const recurrent_plan *p, bool batch_first, int64_t t, int64_t d, int64_t sample)
{
    return (batch_first ? (sample * p->steps + t) * p->directions + d : (t * p->directions + d) * p->batch + sample) *
           p->hidden;
}
static int64_t state_at(const recurrent_plan *p, bool batch_first, int64_t d, int64_t sample)
{
    return (batch_first ? sample * p->directions + d : d * p->batch + sample) * p->hidden;
}

/* ------------------------------------------------------------------ a unit */

static void place(struct unit *u, char *room)
{
    const recurrent_plan *p = u->r->p;
    const recurrent_layout *l = &p->weights;
    const int64_t es = u->r->element;

    u->state_bytes = l->candidate.stored * es;
    u->who = (void *)(room + p->order_at);
    u->x = (void *)(room + p->x_at);
    u->projected_rows = (void *)(room + p->projected_rows_at);
    u->old = (void *)(room + p->old_at);
    u->new_rows = (void *)(room + p->new_at);
    u->gates_rows = (void *)(room + p->gates_rows_at);
    u->reset_rows = (void *)(room + p->reset_rows_at);
    u->candidate_rows = u->reset_rows + p->rows;
    u->h_rows = (void *)(room + p->h_rows_at);
    u->c = room + p->c_at;
    u->h = room + p->h_at;
    u->input = room + p->input_at;
    u->zeros = room + p->zeros_at;
    for (int64_t i = 0; i < p->stretch; i++)
        u->projected_rows[i] = room + p->projected_at + i * l->w.stored * es;
    for (int64_t i = 0; i < u->rows; i++) {
        u->gates_rows[i] = room + p->gates_at + i * l->r.stored * es;
        u->reset_rows[i] = room + p->reset_at + i * u->state_bytes;
        u->candidate_rows[i] = room + p->candidate_at + i * u->state_bytes;
    }
}

/* First states, and the rows of Y beyond the end of their sample. */
static void open_unit(struct unit *u, const recurrent_call *r, int64_t index, char *room)
{
    const recurrent_plan *p = r->p;
    const bool batch_first = r->s->layout != 0;
    const kit_tensor *h0 = &r->call->in[IN_H], *y = &r->call->out[OUT_Y];

    *u = (struct unit){ .r = r, .d = index / p->units, .first = index % p->units * p->rows };
    u->rows = p->batch - u->first < p->rows ? p->batch - u->first : p->rows;
    u->weights = &r->weights[u->d];
    u->f = r->s->f + u->d * r->s->functions;
    u->backward = r->s->direction == 1 || u->d == 1;
    place(u, room);
    memset(u->zeros, 0, (size_t)u->state_bytes);
    for (int64_t i = 0; i < u->rows; i++) {
        const int64_t at = state_at(p, batch_first, u->d, u->first + i);
        char *row = u->h + i * u->state_bytes;
        if (!kit_has_input(r->call, IN_H)) {
            u->h_rows[i] = u->zeros;
        } else if (!r->converts) {
            u->h_rows[i] = (const char *)h0->data + at * r->element;
        } else {
            load(r, h0, at, p->hidden, row);
            u->h_rows[i] = row;
        }
        if (r->s->cell == CELL_LSTM) {
            memset(u->c + i * u->state_bytes, 0, (size_t)u->state_bytes);
            if (kit_has_input(r->call, IN_C))
                load(r, &r->call->in[IN_C], at, p->hidden, u->c + i * u->state_bytes);
        }
        for (int64_t t = length_of(r, u->first + i); t < p->steps && kit_has_output(r->call, OUT_Y); t++)
            memset((char *)y->data + kit_bytes(y->dtype, y_at(p, batch_first, t, u->d, u->first + i)), 0,
                   kit_bytes(y->dtype, p->hidden));
    }
}

static void close_unit(const struct unit *u)
{
    const recurrent_call *r = u->r;

    for (int64_t i = 0; i < u->rows; i++) {
        const int64_t at = state_at(r->p, r->s->layout != 0, u->d, u->first + i);
        if (kit_has_output(r->call, OUT_H))
            store(r, &r->call->out[OUT_H], at, r->p->hidden, u->h_rows[i]);
        if (r->s->cell == CELL_LSTM && kit_has_output(r->call, OUT_C))
            store(r, &r->call->out[OUT_C], at, r->p->hidden, u->c + i * u->state_bytes);
    }
}

/* The step of a sample in time. */
static int64_t time_of(const struct unit *u, int64_t sample, int64_t step)
{
    return u->backward ? length_of(u->r, sample) - 1 - step : step;
}

/* Lists the input rows of steps from `step` on, as many as make a stretch: returns the first step that is not among
 * them, and how many rows. */
static int64_t gather(struct unit *u, int64_t step, int64_t *out_rows)
{
    const recurrent_call *r = u->r;
    const recurrent_plan *p = r->p;
    const kit_tensor *x = &r->call->in[IN_X];
    int64_t n = 0;

    for (; step < p->steps && n + u->rows <= p->stretch; step++) {
        for (int64_t i = 0; i < u->rows; i++) {
            if (step >= length_of(r, u->first + i))
                continue;
            const int64_t at = x_at(p, r->s->layout != 0, time_of(u, u->first + i, step), u->first + i);
            if (r->converts) {
                u->x[n] = u->input + n * p->inputs * r->element;
                load(r, x, at, p->inputs, u->input + n * p->inputs * r->element);
            } else {
                u->x[n] = (const char *)x->data + at * r->element;
            }
            n++;
        }
    }
    u->projected = 0;
    *out_rows = n;
    return step;
}

/* Panels [first, end) of W for the rows that were gathered. */
static void project(const struct unit *u, int64_t rows, int64_t first, int64_t end)
{
    u->r->of_w(&u->r->p->weights.w, u->weights->w, first, end, false, rows, u->x, u->weights->bias, u->projected_rows);
}

/* Who takes part in a step, and where their states are. */
static void begin_step(struct unit *u, int64_t step)
{
    const recurrent_call *r = u->r;
    const recurrent_plan *p = r->p;
    const bool direct = kit_has_output(r->call, OUT_Y) && !r->converts;

    u->active = 0;
    for (int64_t i = 0; i < u->rows; i++) {
        const int64_t sample = u->first + i;
        if (step >= length_of(r, sample))
            continue;
        u->who[u->active] = i;
        u->old[u->active] = u->h_rows[i];
        if (direct)
            u->new_rows[u->active] = (char *)r->call->out[OUT_Y].data +
                                     y_at(p, r->s->layout != 0, time_of(u, sample, step), u->d, sample) * r->element;
        else /* two rows a sample, in turn: the first state may be in the first */
            u->new_rows[u->active] = u->h + ((step + 1) % 2 * p->rows + i) * u->state_bytes;
        u->active++;
    }
}

/* One half of a step for some panels: of R, or (in a GRU whose candidate has a product of its own) of the candidate. */
static void do_step(const struct unit *u, int64_t step, bool second, int64_t first, int64_t end)
{
    const recurrent_call *r = u->r;
    const recurrent_layout *l = &r->p->weights;
    const struct panels *p = second ? &l->candidate : &l->r;
    const bool two = r->s->cell == CELL_GRU && !r->s->linear_before_reset;
    const int64_t each = p->width / p->gates, last = l->candidate.blocks;
    const int64_t b0 = first * each, b1 = end * each < last ? end * each : last;

    r->of_r(p, second ? u->weights->candidate : u->weights->r, first, end, step % 2 != 0, u->active,
            second ? (const void *const *)u->reset_rows : u->old, second ? NULL : u->weights->bias_r,
            second ? u->candidate_rows : u->gates_rows);
    for (int64_t a = 0; a < u->active; a++) {
        const cell_row row = { .x = u->projected_rows[u->projected + a],
                               .gates = u->gates_rows[a],
                               .candidate = u->candidate_rows[a],
                               .reset = u->reset_rows[a],
                               .c = u->c + u->who[a] * u->state_bytes,
                               .old = u->old[a],
                               .h = u->new_rows[a] };
        (r->s->wide ? f64_cells : f32_cells)(r->s, u->f, r->p->hidden, b0, b1, two && !second, &row,
                                             r->peeps ? u->weights->peephole : NULL, l->candidate.stored);
    }
}

static void end_step(struct unit *u, int64_t step)
{
    const recurrent_call *r = u->r;

    for (int64_t a = 0; a < u->active; a++) {
        const int64_t sample = u->first + u->who[a];
        u->h_rows[u->who[a]] = u->new_rows[a];
        if (r->converts && kit_has_output(r->call, OUT_Y))
            store(r, &r->call->out[OUT_Y], y_at(r->p, r->s->layout != 0, time_of(u, sample, step), u->d, sample),
                  r->p->hidden, u->new_rows[a]);
    }
    u->projected += u->active;
}

/* ------------------------------------------------------------------ units side by side */

static char *room_of(const recurrent_call *r, int64_t index)
{
    const recurrent_plan *p = r->p;

    return (char *)r->call->workspace + (uint64_t)p->directions * p->weights_bytes + (uint64_t)index * p->room_bytes;
}

static inlay_status run_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const recurrent_call *r = user;
    const recurrent_plan *p = r->p;
    const bool two = r->s->cell == CELL_GRU && !r->s->linear_before_reset;
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        struct unit u;
        open_unit(&u, r, i, room_of(r, i));
        for (int64_t step = 0, next, rows; step < p->steps; step = next) {
            next = gather(&u, step, &rows);
            project(&u, rows, 0, p->weights.w.count);
            for (int64_t k = step; k < next; k++) {
                INLAY_TRY(kit_poll(r->call));
                begin_step(&u, k);
                do_step(&u, k, false, 0, p->weights.r.count);
                if (two)
                    do_step(&u, k, true, 0, p->weights.candidate.count);
                end_step(&u, k);
            }
        }
        close_unit(&u);
    }
done:
    return status;
}

/* ------------------------------------------------------------------ one step after the other, shared by panels */

enum { SHARE_PROJECTION, SHARE_STEP, SHARE_CANDIDATE };
struct share {
    struct unit units[2]; /* one a direction */
    int64_t count;        /* panels of one */
    int64_t rows, step;
    uint32_t what;
};

static inlay_status run_share(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct share *s = user;

    (void)worker;
    for (int64_t at = begin; at < end;) {
        const struct unit *u = &s->units[at / s->count];
        const int64_t first = at % s->count, left = s->count - first, n = end - at < left ? end - at : left;
        if (s->what == SHARE_PROJECTION)
            project(u, s->rows, first, first + n);
        else
            do_step(u, s->step, s->what == SHARE_CANDIDATE, first, first + n);
        at += n;
    }
    return INLAY_OK;
}

static inlay_status share_out(const recurrent_call *r, struct share *s, uint32_t what, int64_t count)
{
    const int64_t all = count * r->p->directions, threads = r->call->max_threads > 0 ? r->call->max_threads : 1;

    s->what = what;
    s->count = count;
    return kit_parallel(r->call, all, all / threads + (all % threads != 0), run_share, s);
}

static inlay_status run_shared(const recurrent_call *r)
{
    const recurrent_plan *p = r->p;
    const bool two = r->s->cell == CELL_GRU && !r->s->linear_before_reset;
    struct share s = { .step = 0 };
    inlay_status status = INLAY_OK;

    for (int64_t d = 0; d < p->directions; d++)
        open_unit(&s.units[d], r, d, room_of(r, d));
    for (int64_t step = 0, next = 0; step < p->steps; step = next) {
        for (int64_t d = 0; d < p->directions; d++)
            next = gather(&s.units[d], step, &s.rows);
        INLAY_TRY(share_out(r, &s, SHARE_PROJECTION, p->weights.w.count));
        for (s.step = step; s.step < next; s.step++) {
            INLAY_TRY(kit_poll(r->call));
            for (int64_t d = 0; d < p->directions; d++)
                begin_step(&s.units[d], s.step);
            INLAY_TRY(share_out(r, &s, SHARE_STEP, p->weights.r.count));
            if (two)
                INLAY_TRY(share_out(r, &s, SHARE_CANDIDATE, p->weights.candidate.count));
            for (int64_t d = 0; d < p->directions; d++)
                end_step(&s.units[d], s.step);
        }
    }
    for (int64_t d = 0; d < p->directions; d++)
        close_unit(&s.units[d]);
done:
    return status;
}

/* Weights of direction d that come as in[IN_W].rank says. */
static void find_panels(recurrent_call *r, int64_t d)
{
    const recurrent_layout *l = &r->p->weights;
    const kit_tensor *w = &r->call->in[IN_W], *of_r = &r->call->in[IN_R];
    recurrent_weights *to = &r->weights[d];

    if (w->rank == 0) {
        const recurrent_matrix *const of[] = { w->data, of_r->data };

        r->of_w = of[0]->product;
        r->of_r = of[1]->product;
        to->w = (void *)(uintptr_t)of[0]->packed[d];
        to->r = (void *)(uintptr_t)of[1]->packed[d];
        to->candidate = (void *)(uintptr_t)of[1]->candidate[d];
        return;
    }
    to->w = (char *)w->data + (uint64_t)d * recurrent_panel_bytes(l, IN_W);
    to->r = (char *)of_r->data + (uint64_t)d * recurrent_panel_bytes(l, IN_R);
    to->candidate = (char *)to->r + (l->candidate_at - l->r_at);
}

inlay_status recurrent_run(const kit_call *call)
{
    static const kit_tensor none = { .data = NULL };
    const recurrent_state *s = call->state;
    const recurrent_plan *p = call->plan;
    recurrent_call r = { .call = call, .s = s, .p = p, .element = s->wide ? sizeof(double) : sizeof(float) };

    if (p->hidden == 0 || p->batch == 0)
        return INLAY_OK;
    r.of_w = r.of_r = s->product;
    r.converts = inlay_dtype_bits(call->in[IN_X].dtype) != 8 * (uint32_t)r.element;
    r.peeps = s->cell == CELL_LSTM && kit_has_input(call, IN_P);
    for (int64_t d = 0; d < p->directions; d++) {
        r.weights[d] = s->constant[d];
        if (s->pack.data != NULL)
            continue;
        r.weights[d] = recurrent_weights_at(&p->weights, (char *)call->workspace + (uint64_t)d * p->weights_bytes);
        if (call->in[IN_W].rank <= 1) {
            find_panels(&r, d);
            recurrent_pack_vectors(s, &p->weights, kit_has_input(call, IN_B) ? &call->in[IN_B] : &none,
                                   r.peeps ? &call->in[IN_P] : &none, d, &r.weights[d]);
            continue;
        }
        recurrent_pack(s, &p->weights, &call->in[IN_W], &call->in[IN_R],
                       kit_has_input(call, IN_B) ? &call->in[IN_B] : &none, r.peeps ? &call->in[IN_P] : &none, d,
                       &r.weights[d]);
    }
    if (p->shared)
        return run_shared(&r);
    if (p->alone)
        return run_units(&r, 0, p->directions * p->units, 0);
    return kit_parallel(call, p->directions * p->units, 1, run_units, &r);
}
