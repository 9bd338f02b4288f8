#include "modelkit/sparsity.h"
#include "base/element.h"
#include "base/memory.h"
#include <math.h>
#include <string.h>

static uint32_t count_constants(const struct graph *g)
{
    uint32_t count = 0;

    for (uint32_t v = 0; v < g->value_count; v++)
        count += (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            count += count_constants(g->nodes[i]->bodies[b].graph);
    return count;
}

/* Which elements are 0: a byte each. Counts small ones on the way. */
static bool mark_zeros(struct sparsity *s, uint8_t *zero)
{
    const inlay_value_info *info = &s->g->values[s->v].info;
    const bool is_float = element_is_float(info->dtype);
    double squares = 0, bound;

    for (uint64_t i = 0; i < s->elements; i++) {
        double x;

        if (!element_number(info->dtype, info->data, (int64_t)i, &x, NULL))
            return false;
        zero[i] = x == 0;
        s->zeros += x == 0;
        squares += isfinite(x) ? x * x : 0;
    }
    bound = 0.01 * sqrt(squares / (double)s->elements);
    for (uint64_t i = 0; is_float && i < s->elements; i++) {
        double x;

        (void)element_number(info->dtype, info->data, (int64_t)i, &x, NULL);
        s->small += fabs(x) < bound || x == 0;
    }
    return true;
}

/* Rows, columns, blocks and groups of a matrix [rows, inner], whose last axis has `last` elements. */
static void count_patterns(struct sparsity *s, const uint8_t *zero, uint64_t rows, uint64_t inner, uint64_t last)
{
    s->rows = rows;
    s->columns = last;
    for (uint64_t r = 0; r < rows; r++)
        s->zero_rows += memchr(zero + r * inner, 0, inner) == NULL;
    for (uint64_t c = 0; c < last; c++) {
        bool all = true;

        for (uint64_t i = c; all && i < s->elements; i += last)
            all = zero[i] != 0;
        s->zero_columns += all;
    }
    for (uint64_t i = 0; last % 4 == 0 && i < s->elements; i += 4) {
        s->groups++;
        s->groups_2_4 += zero[i] + zero[i + 1] + zero[i + 2] + zero[i + 3] >= 2;
    }
    for (uint64_t r = 0; r + 4 <= rows; r += 4)
        for (uint64_t c = 0; c + 4 <= inner; c += 4) {
            bool all = true;

            for (uint64_t k = 0; all && k < 4; k++)
                all = memchr(zero + (r + k) * inner + c, 0, 4) == NULL;
            s->blocks++;
            s->zero_blocks += all;
        }
}

static inlay_status look_one(const struct graph *g, uint32_t v, struct sparsities *out, inlay_diag *diag)
{
    const inlay_value_info *info = &g->values[v].info;
    struct sparsity s = { .g = g, .v = v, .elements = 1, .bytes = info->data_bytes };
    struct arena scratch = { 0 };
    uint8_t *zero;

    if ((info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype == INLAY_STRING)
        return INLAY_OK;
    for (uint32_t i = 0; i < info->rank; i++)
        s.elements *= (uint64_t)info->dims[i].value;
    if (s.elements < out->least || s.elements == 0)
        return INLAY_OK;
    if (out->progress != NULL && out->progress(NULL, 0.5, info->name.data) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    zero = arena_alloc(&scratch, s.elements);
    if (zero != NULL && mark_zeros(&s, zero)) {
        const uint64_t rows = info->rank > 1 ? (uint64_t)info->dims[0].value : 1;

        count_patterns(&s, zero, rows, s.elements / rows,
                       info->rank > 0 ? (uint64_t)info->dims[info->rank - 1].value : 1);
        out->list[out->count++] = s;
    }
    arena_deinit(&scratch);
    return zero != NULL ? INLAY_OK : no_memory(diag, "to look at '%.200s'", info->name.data);
}

static inlay_status look(const struct graph *g, struct sparsities *out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t v = 0; v < g->value_count; v++)
        INLAY_TRY(look_one(g, v, out, diag));
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            INLAY_TRY(look(g->nodes[i]->bodies[b].graph, out, diag));
done:
    return status;
}

inlay_status sparsity_find(const graph_model *model, struct sparsities *out, inlay_diag *diag)
{
    out->list = arena_array(&out->a, (size_t)count_constants(model->main) + 1, sizeof *out->list);
    if (out->list == NULL)
        return no_memory(diag, "for the list of weights");
    return look(model->main, out, diag);
}
