#include "modelkit/sparsity.h"
#include "inlay/check.h"
#include "base/element.h"
#include "base/memory.h"
#include <math.h>
#include <string.h>

static uint32_t count_constants(const struct graph *graph)
{
    uint32_t count = 0;

    for (uint32_t value = 0; value < graph->value_count; value++)
        count += (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            count += count_constants(graph->nodes[i]->bodies[b].graph);
    return count;
}

/* Sets zero[i] for elements that are 0, and counts zeros and small elements. False: not numbers. */
static bool mark_zeros(struct sparsity *sparsity, uint8_t *zero)
{
    const inlay_value_info *info = &sparsity->graph->values[sparsity->value].info;
    const bool is_float = element_is_float(info->dtype);
    double squares = 0, bound;

    for (uint64_t i = 0; i < sparsity->elements; i++) {
        double number;

        if (!element_number(info->dtype, info->data, (int64_t)i, &number, NULL))
            return false;
        zero[i] = number == 0;
        sparsity->zeros += number == 0;
        squares += isfinite(number) ? number * number : 0;
    }
    bound = 0.01 * sqrt(squares / (double)sparsity->elements);
    for (uint64_t i = 0; is_float && i < sparsity->elements; i++) {
        double number;

        (void)element_number(info->dtype, info->data, (int64_t)i, &number, NULL);
        sparsity->small += fabs(number) < bound || number == 0;
    }
    return true;
}

/* Counts the zero rows, columns, blocks and 2:4 groups of a matrix [rows, inner] whose last axis has `last`
 * elements. */
static void count_patterns(struct sparsity *sparsity, const uint8_t *zero, uint64_t rows, uint64_t inner, uint64_t last)
{
    INLAY_CHECK(rows * inner == sparsity->elements);
    sparsity->rows = rows;
    sparsity->columns = last;
    for (uint64_t row = 0; row < rows; row++)
        sparsity->zero_rows += memchr(zero + row * inner, 0, inner) == NULL;
    for (uint64_t column = 0; column < last; column++) {
        bool all = true;

        for (uint64_t i = column; all && i < sparsity->elements; i += last)
            all = zero[i] != 0;
        sparsity->zero_columns += all;
    }
    for (uint64_t i = 0; last % 4 == 0 && i < sparsity->elements; i += 4) {
        sparsity->groups++;
        sparsity->groups_2_4 += zero[i] + zero[i + 1] + zero[i + 2] + zero[i + 3] >= 2;
    }
    for (uint64_t row = 0; row + 4 <= rows; row += 4)
        for (uint64_t column = 0; column + 4 <= inner; column += 4) {
            bool all = true;

            for (uint64_t k = 0; all && k < 4; k++)
                all = memchr(zero + (row + k) * inner + column, 0, 4) == NULL;
            sparsity->blocks++;
            sparsity->zero_blocks += all;
        }
}

static inlay_status analyse_constant(const struct graph *graph, uint32_t value, struct sparsities *out,
                                     inlay_diag *diag)
{
    const inlay_value_info *info = &graph->values[value].info;
    struct sparsity sparsity = { .graph = graph, .value = value, .elements = 1, .bytes = info->data_bytes };
    struct arena scratch = { 0 };
    uint8_t *zero;

    if ((info->flags & INLAY_VALUE_CONSTANT) == 0 || info->dtype == INLAY_STRING)
        return INLAY_OK;
    for (uint32_t i = 0; i < info->rank; i++)
        sparsity.elements *= (uint64_t)info->dims[i].value;
    if (sparsity.elements < out->least || sparsity.elements == 0)
        return INLAY_OK;
    if (out->progress != NULL && out->progress(NULL, 0.5, info->name.data) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    zero = arena_alloc(&scratch, sparsity.elements);
    if (zero != NULL && mark_zeros(&sparsity, zero)) {
        const uint64_t rows = info->rank > 1 ? (uint64_t)info->dims[0].value : 1;

        count_patterns(&sparsity, zero, rows, sparsity.elements / rows,
                       info->rank > 0 ? (uint64_t)info->dims[info->rank - 1].value : 1);
        out->list[out->count++] = sparsity;
    }
    arena_deinit(&scratch);
    return zero != NULL ? INLAY_OK : no_memory(diag, "to analyse '%.200s'", info->name.data);
}

static inlay_status analyse_graph(const struct graph *graph, struct sparsities *out, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t value = 0; value < graph->value_count; value++)
        INLAY_TRY(analyse_constant(graph, value, out, diag));
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            INLAY_TRY(analyse_graph(graph->nodes[i]->bodies[b].graph, out, diag));
done:
    return status;
}

inlay_status sparsity_find(const graph_model *model, struct sparsities *out, inlay_diag *diag)
{
    out->list = arena_array(&out->arena, (size_t)count_constants(model->main) + 1, sizeof *out->list);
    if (out->list == NULL)
        return no_memory(diag, "for the list of weights");
    return analyse_graph(model->main, out, diag);
}
