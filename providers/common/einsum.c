/* Einsum: ONNX 12, numpy's rules: repeated labels take diagonals, "..." broadcasts, a missing "->" keeps the labels
 * that occur once in alphabetical order.
 *
 * Terms are contracted from left to right, two at a time. A label of a pair that the result keeps belongs to one term
 * or both, which makes it a row, column or batch of a matrix product; a label that nobody needs later is summed over.
 * Pairs without such sums, and single terms, are plain loops. Types that have no product of their own are widened
 * first: half precision to float, 8 and 16 bit integers to 32, which wrap alike. */
#include "args.h"
#include "simd/convert.h"
#include "einsum.h"
#include "product_cost.h"
#include "products.h"
#include <stdlib.h>

/* ------------------------------------------------------------------ the equation */

static inlay_status parse_term(const char **text, struct term *t, inlay_diag *diag)
{
    const char *p = *text;

    for (; *p != '\0' && *p != ',' && strncmp(p, "->", 2) != 0; p++) {
        uint8_t label;
        if (*p == ' ')
            continue;
        if (*p >= 'a' && *p <= 'z')
            label = (uint8_t)(*p - 'a');
        else if (*p >= 'A' && *p <= 'Z')
            label = (uint8_t)(*p - 'A' + 26);
        else if (strncmp(p, "...", 3) == 0 && !t->ellipsis) {
            label = ELLIPSIS;
            t->ellipsis = true;
            p += 2;
        } else
            return inlay_fail(diag, INLAY_INVALID_MODEL, "the equation cannot be read from '%.32s' on", p);
        if (t->count == INLAY_MAX_RANK)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "a term of the equation has more than %d labels",
                              INLAY_MAX_RANK);
        t->labels[t->count++] = label;
    }
    *text = p;
    return INLAY_OK;
}

/* The output of an equation without "->". */
static void imply_output(einsum_state *state)
{
    uint32_t seen[LETTERS] = { 0 };
    bool ellipsis = false;

    for (uint32_t t = 0; t < state->term_count; t++) {
        ellipsis |= state->terms[t].ellipsis;
        for (uint32_t i = 0; i < state->terms[t].count; i++)
            if (state->terms[t].labels[i] < LETTERS)
                seen[state->terms[t].labels[i]]++;
    }
    if (ellipsis) {
        state->output.labels[state->output.count++] = ELLIPSIS;
        state->output.ellipsis = true;
    }
    /* numpy sorts capitals before small letters */
    for (uint32_t i = 0; i < LETTERS; i++) {
        uint32_t label = (i + 26) % LETTERS;
        if (seen[label] == 1 && state->output.count < INLAY_MAX_RANK)
            state->output.labels[state->output.count++] = (uint8_t)label;
    }
}

inlay_status einsum_read(const kit_node *node, einsum_state *state, inlay_diag *diag)
{
    const char *text = kit_attr_string(node->info, "equation", "");
    inlay_status status = INLAY_OK;

    *state = (einsum_state){ .engine = node->provider };
    for (;;) {
        if (state->term_count == MAX_TERMS)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "the equation has more than %d terms", MAX_TERMS);
        INLAY_TRY(parse_term(&text, &state->terms[state->term_count++], diag));
        if (*text != ',')
            break;
        text++;
    }
    if (state->term_count != node->info->input_count)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "the equation has %u terms for %u inputs", state->term_count,
                          node->info->input_count);
    if (*text == '\0') {
        imply_output(state);
        return INLAY_OK;
    }
    text += 2;
    INLAY_TRY(parse_term(&text, &state->output, diag));
    if (*text != '\0')
        return inlay_fail(diag, INLAY_INVALID_MODEL, "the equation goes on after its output: '%.32s'", text);
    for (uint32_t i = 1; i < state->output.count; i++)
        if (memchr(state->output.labels, state->output.labels[i], i) != NULL)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "the output of the equation repeats a label");
done:
    return status;
}

bool einsum_is_product(const einsum_state *state)
{
    for (uint32_t t = 0; t < state->term_count && state->term_count > 1; t++) {
        for (uint32_t i = 0; i < state->terms[t].count; i++) {
            const uint8_t label = state->terms[t].labels[i];
            uint32_t terms = 0;

            for (uint32_t other = 0; other < state->term_count; other++)
                terms += memchr(state->terms[other].labels, label, state->terms[other].count) != NULL;
            if (terms > 1 && memchr(state->output.labels, label, state->output.count) == NULL)
                return true;
        }
    }
    return false;
}

inlay_status product_einsum_prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    einsum_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_state(sizeof *state, (void **)&state, diag));
    INLAY_TRY(einsum_read(node, state, diag));
    *out_state = state;
    state = NULL;
done:
    free(state);
    return status;
}

void product_einsum_release(void *state)
{
    free(state);
}

/* The sizes of labels, as the inputs give them; what an ellipsis stands for is one label. false: not known. */
static bool size_labels(const einsum_state *state, const kit_plan *shapes, double size[LETTERS + 1])
{
    for (uint32_t l = 0; l <= LETTERS; l++)
        size[l] = 1;
    for (uint32_t t = 0; t < state->term_count; t++) {
        const struct term *labels = &state->terms[t];
        const kit_tensor *input = &shapes->in[t];
        uint32_t named = labels->count - labels->ellipsis, hidden, d = 0;
        double rest = 1;

        if (input->count < 0 || input->rank < named || (input->rank > named && !labels->ellipsis))
            return false;
        hidden = input->rank - named;
        for (uint32_t i = 0; i < labels->count; i++) {
            uint8_t l = labels->labels[i];
            if (l != ELLIPSIS && input->dims[d] > size[l])
                size[l] = (double)input->dims[d];
            for (uint32_t j = 0; l == ELLIPSIS && j < hidden; j++)
                rest *= (double)input->dims[d + j];
            d += l == ELLIPSIS ? hidden : 1;
        }
        size[LETTERS] = rest > size[LETTERS] ? rest : size[LETTERS];
    }
    return true;
}

static uint64_t label_set(const struct term *t)
{
    uint64_t set = 0;

    for (uint32_t i = 0; i < t->count; i++)
        set |= UINT64_C(1) << (t->labels[i] == ELLIPSIS ? LETTERS : t->labels[i]);
    return set;
}

static double count_labels(uint64_t set, const double *size)
{
    double n = 1;

    for (uint32_t l = 0; l <= LETTERS; l++)
        n *= (set >> l & 1) != 0 ? size[l] : 1;
    return n;
}

/* Is the last label of a term one of the set? Then its matrix lies along what is summed. */
static bool label_is_last(const struct term *t, uint64_t set)
{
    return t->count > 0 && t->labels[t->count - 1] != ELLIPSIS && (set >> t->labels[t->count - 1] & 1) != 0;
}

/* Terms are contracted from left to right, as einsum_plan.c does it. */
void product_einsum_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    product_size sizes[MAX_TERMS] = { { 0 } };
    double size[LETTERS + 1], looped = 0;
    uint32_t count = 0;
    uint64_t left;
    einsum_state state;

    if (einsum_read(node, &state, NULL) != INLAY_OK || !size_labels(&state, shapes, size))
        return;
    left = label_set(&state.terms[0]);
    for (uint32_t t = 1; t < state.term_count; t++) {
        uint64_t right = label_set(&state.terms[t]), needed = label_set(&state.output), all = left | right;
        for (uint32_t later = t + 1; later < state.term_count; later++)
            needed |= label_set(&state.terms[later]);
        if (count_labels(all & ~needed, size) > 1)
            sizes[count++] =
                (product_size){ .batch = count_labels(left & right & needed, size),
                                .m = count_labels(left & ~right & needed, size),
                                .n = count_labels(right & ~left & needed, size),
                                .k = count_labels(all & ~needed, size),
                                .b_along = (right & ~needed) != 0 && label_is_last(&state.terms[t], all & ~needed) };
        else
            looped += count_labels(all, size);
        left = all & needed;
    }
    if (state.term_count == 1)
        looped = count_labels(left, size);
    product_cost_set(node, shapes, gemm_type_of(shapes->in[0].dtype), sizes, count, looped * 0.3, cost);
    cost->flops += looped;
}

/* ------------------------------------------------------------------ run */

typedef struct loop_task {
    const struct loops *loops;
    const void *a, *b;
    void *c;
} loop_task;

#define LOOPS(T, name)                                                                                                 \
    static inlay_status name(void *user, int64_t begin, int64_t end, uint32_t worker)                                  \
    {                                                                                                                  \
        const loop_task *t = user;                                                                                     \
        const struct loops *l = t->loops;                                                                              \
        (void)worker;                                                                                                  \
        for (int64_t o = begin; o < end; o++) {                                                                        \
            int64_t rest = o, a_at = 0, b_at = 0;                                                                      \
            T *c = (T *)t->c + o * l->inner;                                                                           \
            for (uint32_t d = l->rank; d-- > 0; rest /= l->dims[d]) {                                                  \
                a_at += rest % l->dims[d] * l->a[d];                                                                   \
                b_at += rest % l->dims[d] * l->b[d];                                                                   \
            }                                                                                                          \
            for (int64_t j = 0; j < l->inner; j++)                                                                     \
                c[j] = 0;                                                                                              \
            for (int64_t k = 0; k < l->sums; k++) {                                                                    \
                const T *a = (const T *)t->a + a_at + l->a_sum[k], *b = (const T *)t->b;                               \
                if (b == NULL)                                                                                         \
                    for (int64_t j = 0; j < l->inner; j++)                                                             \
                        c[j] += a[j * l->a_inner];                                                                     \
                else                                                                                                   \
                    for (int64_t j = 0; j < l->inner; j++)                                                             \
                        c[j] += a[j * l->a_inner] * b[b_at + j * l->b_inner];                                          \
            }                                                                                                          \
        }                                                                                                              \
        return INLAY_OK;                                                                                               \
    }
LOOPS(float, loops_f32)
LOOPS(double, loops_f64)
LOOPS(uint32_t, loops_u32)
LOOPS(uint64_t, loops_u64)

/* Puts the elements of a tile where the result has them. */
struct scatter {
    const struct contraction *st;
    char *c;
    uint32_t bytes;
};
static void store_scattered(void *user, const gemm_tile *tile)
{
    const struct scatter *scatter = user;

    for (int64_t i = tile->i0; i < tile->i1; i++) {
        const char *from = (const char *)tile->c + (i - tile->i0) * tile->c_stride * scatter->bytes;
        char *to = scatter->c + (scatter->st->batch_at[tile->batch] + scatter->st->row_at[i]) * scatter->bytes;
        for (int64_t j = tile->j0; j < tile->j1; j++, from += scatter->bytes)
            memcpy(to + scatter->st->column_at[j] * scatter->bytes, from, scatter->bytes);
    }
}

static void widen(const einsum_plan *plan, const kit_tensor *t, void *to)
{
    if (plan->dtype == INLAY_FLOAT)
        convert_to_f32(to, t->dtype, t->data, 0, t->count);
    else if (inlay_dtype_bits(t->dtype) == 8)
        for (int64_t i = 0; i < t->count; i++)
            ((uint32_t *)to)[i] = ((const uint8_t *)t->data)[i];
    else
        for (int64_t i = 0; i < t->count; i++)
            ((uint32_t *)to)[i] = ((const uint16_t *)t->data)[i];
}

static void narrow(const einsum_plan *plan, const kit_tensor *t, const void *from)
{
    if (plan->dtype == INLAY_FLOAT)
        convert_from_f32(t->dtype, t->data, 0, t->count, from, 0);
    else if (inlay_dtype_bits(t->dtype) == 8)
        for (int64_t i = 0; i < t->count; i++)
            ((uint8_t *)t->data)[i] = (uint8_t)((const uint32_t *)from)[i];
    else
        for (int64_t i = 0; i < t->count; i++)
            ((uint16_t *)t->data)[i] = (uint16_t)((const uint32_t *)from)[i];
}

static const void *locate(const kit_call *call, const einsum_plan *plan, const struct view *view)
{
    if (view->in_workspace)
        return (char *)call->workspace + view->at;
    return plan->widen ? (char *)call->workspace + plan->widened_at[view->input] : call->in[view->input].data;
}

static inlay_status run_step(const kit_call *call, const einsum_plan *plan, const struct contraction *st, void *to)
{
    static const inlay_parallel_fn by_type[] = { loops_f32, loops_f64, loops_u32, loops_u64 };
    const void *a = locate(call, plan, &st->left), *b = st->single ? NULL : locate(call, plan, &st->right);
    struct scatter scatter = { st, to, inlay_dtype_bits(plan->dtype) / 8 };
    gemm_job job = st->job;

    if (!st->product) {
        loop_task t = { &st->loops, a, b, to };
        int64_t work = st->loops.inner * st->loops.sums;
        return kit_parallel(call, st->loops.outer, 32768 / (work > 0 ? work : 1) + 1, by_type[plan->type], &t);
    }
    job.a.data = a;
    job.b.data = b;
    job.c = to;
    if (job.c_in_workspace) {
        job.finish = store_scattered;
        job.finish_user = &scatter;
    }
    return gemm_run(call, &job, (char *)call->workspace + plan->gemm_at);
}

inlay_status product_einsum_run(const kit_call *call)
{
    const einsum_plan *plan = call->plan;
    char *workspace = call->workspace;
    inlay_status status = INLAY_OK;

    if (call->out[0].count == 0)
        return INLAY_OK;
    for (uint32_t i = 0; i < call->in_count && plan->widen; i++)
        widen(plan, &call->in[i], workspace + plan->widened_at[i]);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct contraction *st = &plan->steps[i];
        void *to = st->result.in_workspace ? workspace + st->result.at
                   : plan->widen           ? workspace + plan->result_at
                                           : call->out[0].data;
        INLAY_TRY(run_step(call, plan, st, to));
    }
    if (plan->widen)
        narrow(plan, &call->out[0], workspace + plan->result_at);
done:
    return status;
}
