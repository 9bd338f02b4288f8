/* RotaryEmbedding-23: pairs of elements of each head are turned by the angles of their place. As the reference does,
 * read and written where the products and attention around it have the heads. */
#include "attention/score_loops.h"
#include "region/build.h"

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0), *places = kit_input(node, 3);

    op->size = kit_attr_int(node->info, "rotary_embedding_dim", 0);
    op->rotary.heads = kit_attr_int(node->info, "num_heads", 0);
    op->rotary.interleaved = kit_attr_int(node->info, "interleaved", 0) != 0;
    if (!rg_known_rank(x, 3, 4, "input 0", why))
        return false;
    if (x->rank == 3 && op->rotary.heads <= 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "state num_heads", "the number of heads is not known");
    if (places != NULL && (places->dtype != INLAY_INT64 || places->rank != 2))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the places are not int64 of rank 2");
    return rg_known_rank(kit_input(node, 1), places != NULL ? 2 : 3, places != NULL ? 2 : 3, "input 1", why) &&
           rg_known_rank(kit_input(node, 2), places != NULL ? 2 : 3, places != NULL ? 2 : 3, "input 2", why);
}

/* ------------------------------------------------------------------ the step */

typedef struct rotary_step {
    rg_native native;
    int64_t batch, heads, length, size, half;
    int64_t from[3], to[3]; /* elements from one batch, head and place to the next */
    int64_t table;          /* rows of the tables */
    bool placed, interleaved;
} rotary_step;

typedef struct rotary_call {
    const rotary_step *s;
    void *const *args; /* x, cosines, sines, y, places */
} rotary_call;

static void turn_pairs(const float *x, const float *c, const float *s, float *y, int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        const float real = x[2 * i] * c[i] - x[2 * i + 1] * s[i];

        y[2 * i + 1] = x[2 * i] * s[i] + x[2 * i + 1] * c[i];
        y[2 * i] = real;
    }
}

/* Places [begin, end) of all batches. */
static inlay_status run_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rotary_call *call = user;
    const rotary_step *s = call->s;
    const int64_t *places = s->placed ? call->args[4] : NULL;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / s->length, t = i % s->length, row = places != NULL ? places[i] : i;
        const float *c = (const float *)call->args[1] + row * s->half;
        const float *sines = (const float *)call->args[2] + row * s->half;

        if (row < 0 || row >= s->table)
            return INLAY_INVALID_ARGUMENT;
        for (int64_t h = 0; h < s->heads; h++) {
            const float *x = (const float *)call->args[0] + b * s->from[0] + h * s->from[1] + t * s->from[2];
            float *y = (float *)call->args[3] + b * s->to[0] + h * s->to[1] + t * s->to[2];

            if (s->interleaved)
                turn_pairs(x, c, sines, y, s->half);
            else
                KERNEL_BEST(score_loops)->turn_halves(x, c, sines, y, s->half);
            if (2 * s->half < s->size)
                memcpy(y + 2 * s->half, x + 2 * s->half, (size_t)(s->size - 2 * s->half) * sizeof *y);
        }
    }
    return INLAY_OK;
}

static inlay_status run_rotary(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const rotary_step *s = (const rotary_step *)(const void *)native;
    rotary_call call = { s, args };
    const int64_t count = s->batch * s->length, grain = 16384 / (s->heads * s->size + 1) + 1;

    if (threads <= 1 || count <= grain)
        return run_some(&call, 0, count, 0);
    return state->host->parallel_for(state->host->ctx, run, count, grain, run_some, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Sizes; of rank 3 the heads are side by side in a row. */
static inlay_status plan(const rg_build *b, rotary_step *s)
{
    const rg_op *op = b->op;
    const int64_t *x = b->dims[op->in[0]], *table = b->dims[op->in[1]], *other = b->dims[op->in[2]];
    const bool heads_apart = b->ranks[op->in[0]] == 4;
    int64_t rotary;

    s->placed = op->in_count > 3 && op->in[3] != INLAY_NONE;
    s->interleaved = op->rotary.interleaved;
    s->batch = x[0];
    s->heads = heads_apart ? x[1] : op->rotary.heads;
    s->length = heads_apart ? x[2] : x[1];
    s->size = heads_apart ? x[3] : x[2] / op->rotary.heads;
    rotary = op->size > 0 ? op->size : s->size;
    s->half = rotary / 2;
    s->table = s->placed ? table[0] : s->batch * s->length;
    if ((!heads_apart && x[2] % op->rotary.heads != 0) || rotary > s->size || rotary % 2 != 0 ||
        rg_count(b, op->in[1]) != s->table * s->half ||
        memcmp(table, other, (s->placed ? 2 : 3) * sizeof *table) != 0 ||
        (s->placed && rg_count(b, op->in[3]) != s->batch * s->length))
        return inlay_fail(b->diag, INLAY_SHAPE_MISMATCH,
                          "node '%s': the caches and positions do not fit heads of %lld, of which %lld turn", op->name,
                          (long long)s->size, (long long)rotary);
    return INLAY_OK;
}

static void steps_of(const rotary_step *s, const rg_md *md, int64_t *out)
{
    const bool heads_apart = md->ndims == 4;

    out[0] = md->strides[0];
    out[1] = heads_apart ? md->strides[1] : s->size;
    out[2] = heads_apart ? md->strides[2] : md->strides[1];
}

static inlay_status lower(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    rotary_step s = { .native = { .run = run_rotary, .wrong = "a position is outside the caches" } };
    rg_place x, cosines, sines, y, places;
    const rg_place *const all[] = { &x, &cosines, &sines, &y, &places };
    const uint32_t rank = b->ranks[op->in[0]];
    inlay_status status;
    rg_md md;

    INLAY_TRY(plan(b, &s));
    INLAY_TRY(rg_read_strided(b, op->in[0], &x));
    if (rg_md_is_blocked(&x.md) || x.md.strides[rank - 1] != 1)
        INLAY_TRY(rg_read_plain(b, op->in[0], &x));
    INLAY_TRY(rg_read_plain(b, op->in[1], &cosines));
    INLAY_TRY(rg_read_plain(b, op->in[2], &sines));
    if (s.placed)
        INLAY_TRY(rg_read_plain(b, op->in[3], &places));
    rg_md_plain(&md, rank, b->dims[group->out]);
    INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    steps_of(&s, &x.md, s.from);
    steps_of(&s, &y.md, s.to);
    if (rg_count(b, group->out) > 0)
        INLAY_TRY(rg_emit_step(b, &s.native, sizeof s, all, s.placed ? 5 : 4));
    status = rg_set_place(b, group->out, &y);
done:
    return status;
}

const rg_family rg_rotary = { "rotary", parse, lower };
