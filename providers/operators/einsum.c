/* Einsum: ONNX 12, with numpy's rules: repeated labels take diagonals, "..." broadcasts, and without "->" the output
 * has the labels that occur once, in alphabetical order.
 *
 * Terms are contracted from left to right, two at a time. A kept label of a pair belongs to one term or both, which
 * makes it a row, column or batch of a matrix multiplication; a label that no later term needs is summed over. Pairs
 * without summed labels, and single terms, are plain loops. Types without a multiplication kernel are converted first:
 * half precision to float, 8-bit and 16-bit integers to 32 bits, which wrap alike. */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/einsum.h"
#include "operators/product_cost.h"
#include "operators/products.h"
#include <stdlib.h>

static inlay_status parse_term(const char **text, struct term *term, inlay_diag *diag)
{
    const char *at = *text;

    for (; *at != '\0' && *at != ',' && strncmp(at, "->", 2) != 0; at++) {
        uint8_t label;
        if (*at == ' ')
            continue;
        if (*at >= 'a' && *at <= 'z')
            label = (uint8_t)(*at - 'a');
        else if (*at >= 'A' && *at <= 'Z')
            label = (uint8_t)(*at - 'A' + 26);
        else if (strncmp(at, "...", 3) == 0 && !term->ellipsis) {
            label = ELLIPSIS;
            term->ellipsis = true;
            at += 2;
        } else
            return inlay_fail(diag, INLAY_INVALID_MODEL, "syntax error in the equation at '%.32s'", at);
        if (term->count == INLAY_MAX_RANK)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "a term of the equation has more than %d labels",
                              INLAY_MAX_RANK);
        term->labels[term->count++] = label;
    }
    *text = at;
    return INLAY_OK;
}

/* Derives the output of an equation without "->". */
static void derive_output(einsum_state *state)
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
        derive_output(state);
        return INLAY_OK;
    }
    text += 2;
    INLAY_TRY(parse_term(&text, &state->output, diag));
    if (*text != '\0')
        return inlay_fail(diag, INLAY_INVALID_MODEL, "the equation has text after its output: '%.32s'", text);
    for (uint32_t i = 1; i < state->output.count; i++)
        if (memchr(state->output.labels, state->output.labels[i], i) != NULL)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "the output of the equation repeats a label");
done:
    return status;
}

bool einsum_has_product(const einsum_state *state)
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

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
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

/* The sizes of labels according to the inputs; all dimensions of an ellipsis are one label. false: unknown. */
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

static uint64_t label_set(const struct term *term)
{
    uint64_t set = 0;

    for (uint32_t i = 0; i < term->count; i++)
        set |= UINT64_C(1) << (term->labels[i] == ELLIPSIS ? LETTERS : term->labels[i]);
    return set;
}

static double count_labels(uint64_t set, const double *size)
{
    double count = 1;

    for (uint32_t l = 0; l <= LETTERS; l++)
        count *= (set >> l & 1) != 0 ? size[l] : 1;
    return count;
}

/* Whether the last label of a term is in the set. Its matrix is then contiguous along the summed dimension. */
static bool label_is_last(const struct term *term, uint64_t set)
{
    return term->count > 0 && term->labels[term->count - 1] != ELLIPSIS &&
           (set >> term->labels[term->count - 1] & 1) != 0;
}

/* Contracts terms from left to right, like einsum_plan.c. */
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

typedef struct loop_task {
    const struct loops *loops;
    const void *a, *b;
    void *c;
} loop_task;

#define LOOPS(T, name)                                                                                                 \
    static inlay_status name(void *user, int64_t begin, int64_t end, uint32_t worker)                                  \
    {                                                                                                                  \
        const loop_task *task = user;                                                                                  \
        const struct loops *loops = task->loops;                                                                       \
        (void)worker;                                                                                                  \
        for (int64_t o = begin; o < end; o++) {                                                                        \
            int64_t rest = o, a_at = 0, b_at = 0;                                                                      \
            T *c = (T *)task->c + o * loops->inner;                                                                    \
            for (uint32_t d = loops->rank; d-- > 0; rest /= loops->dims[d]) {                                          \
                a_at += rest % loops->dims[d] * loops->a[d];                                                           \
                b_at += rest % loops->dims[d] * loops->b[d];                                                           \
            }                                                                                                          \
            for (int64_t j = 0; j < loops->inner; j++)                                                                 \
                c[j] = 0;                                                                                              \
            for (int64_t k = 0; k < loops->sums; k++) {                                                                \
                const T *a = (const T *)task->a + a_at + loops->a_sum[k], *b = (const T *)task->b;                     \
                if (b == NULL)                                                                                         \
                    for (int64_t j = 0; j < loops->inner; j++)                                                         \
                        c[j] += a[j * loops->a_inner];                                                                 \
                else                                                                                                   \
                    for (int64_t j = 0; j < loops->inner; j++)                                                         \
                        c[j] += a[j * loops->a_inner] * b[b_at + j * loops->b_inner];                                  \
            }                                                                                                          \
        }                                                                                                              \
        return INLAY_OK;                                                                                               \
    }
LOOPS(float, loops_f32)
LOOPS(double, loops_f64)
LOOPS(uint32_t, loops_u32)
LOOPS(uint64_t, loops_u64)

/* Stores the elements of a tile at their offsets in the result. */
struct scatter {
    const struct contraction *step;
    char *c;
    uint32_t bytes;
};
static void store_scattered(void *user, const gemm_tile *tile)
{
    const struct scatter *scatter = user;

    for (int64_t i = tile->i0; i < tile->i1; i++) {
        const char *from = (const char *)tile->c + (i - tile->i0) * tile->c_stride * scatter->bytes;
        char *to = scatter->c + (scatter->step->batch_at[tile->batch] + scatter->step->row_at[i]) * scatter->bytes;
        for (int64_t j = tile->j0; j < tile->j1; j++, from += scatter->bytes)
            memcpy(to + scatter->step->column_at[j] * scatter->bytes, from, scatter->bytes);
    }
}

static void widen(const einsum_plan *plan, const kit_tensor *tensor, void *to)
{
    if (plan->dtype == INLAY_FLOAT)
        convert_to_f32(to, tensor->dtype, tensor->data, 0, tensor->count);
    else if (inlay_dtype_bits(tensor->dtype) == 8)
        for (int64_t i = 0; i < tensor->count; i++)
            ((uint32_t *)to)[i] = ((const uint8_t *)tensor->data)[i];
    else
        for (int64_t i = 0; i < tensor->count; i++)
            ((uint32_t *)to)[i] = ((const uint16_t *)tensor->data)[i];
}

static void narrow(const einsum_plan *plan, const kit_tensor *tensor, const void *from)
{
    if (plan->dtype == INLAY_FLOAT)
        convert_from_f32(tensor->dtype, tensor->data, 0, tensor->count, from, 0);
    else if (inlay_dtype_bits(tensor->dtype) == 8)
        for (int64_t i = 0; i < tensor->count; i++)
            ((uint8_t *)tensor->data)[i] = (uint8_t)((const uint32_t *)from)[i];
    else
        for (int64_t i = 0; i < tensor->count; i++)
            ((uint16_t *)tensor->data)[i] = (uint16_t)((const uint32_t *)from)[i];
}

static const void *locate(const kit_call *call, const einsum_plan *plan, const struct view *view)
{
    if (view->in_workspace)
        return (char *)call->workspace + view->at;
    return plan->widen ? (char *)call->workspace + plan->widened_at[view->input] : call->in[view->input].data;
}

static inlay_status run_step(const kit_call *call, const einsum_plan *plan, const struct contraction *step, void *to)
{
    static const inlay_parallel_fn by_type[] = { loops_f32, loops_f64, loops_u32, loops_u64 };
    const void *a = locate(call, plan, &step->left), *b = step->single ? NULL : locate(call, plan, &step->right);
    struct scatter scatter = { step, to, inlay_dtype_bits(plan->dtype) / 8 };
    gemm_job job = step->job;

    INLAY_CHECK(plan->type < KIT_COUNT(by_type));
    if (!step->product) {
        loop_task task = { &step->loops, a, b, to };
        int64_t work = step->loops.inner * step->loops.sums;
        return kit_parallel(call, step->loops.outer, 32768 / (work > 0 ? work : 1) + 1, by_type[plan->type], &task);
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
        const struct contraction *step = &plan->steps[i];
        void *to = step->result.in_workspace ? workspace + step->result.at
                   : plan->widen             ? workspace + plan->result_at
                                             : call->out[0].data;
        INLAY_TRY(run_step(call, plan, step, to));
    }
    if (plan->widen)
        narrow(plan, &call->out[0], workspace + plan->result_at);
done:
    return status;
}
