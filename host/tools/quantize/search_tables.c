/* Embedding tables: 8 bits where the agreement holds. Tables make a model smaller, not faster, so they are tried after
 * the layers with integers are known. */
#include "quantize/search_parts.h"
#include <string.h>

static const double SLOWER = 1.03; /* largest time with tables in 8 bits, relative to the result so far */

static bool is_table(const char *op)
{
    return strcmp(op, "Gather") == 0;
}

/* The layer of the report that corresponds to layer i of the result, if it is a table that can be quantized, otherwise
 * INLAY_NONE. Tables have the same order in both; unnamed nodes have different names in each. */
static uint32_t table_of(const search_result *result, const layer_list *list, uint32_t i)
{
    const struct layer *layer = &list->items[i];
    uint32_t before = 0, k = 0;

    if (!is_table(layer->node->info.op_type.data) || layer->path[0] != '\0' || layer->count < LOW_BIT_MIN_WEIGHTS)
        return INLAY_NONE;
    for (uint32_t j = 0; j < i; j++)
        before += is_table(list->items[j].node->info.op_type.data);
    for (; k < result->list.count && (!is_table(result->ops[k]) || before > 0); k++)
        before -= is_table(result->ops[k]);
    return k < result->list.count && result->list.items[k].count == layer->count &&
                   result->list.items[k].reason == NULL && result->forms[k].bits == 32
               ? k
               : INLAY_NONE;
}

/* Builds the result with its tables in 8 bits; forms belongs to the report's layers. *out_any: there are tables. */
static inlay_status build(struct search *search, layer_form *forms, char *path, bool *out_any)
{
    const session_source source = { .path = search->out->path, .fd = -1 };
    inlay_session raw = { .model = NULL };
    low_bit_options how = { .bits = 8 };
    layer_form *made = NULL;
    struct arena arena = { 0 };
    layer_list list;
    uint8_t *bits;
    inlay_status status;

    *out_any = false;
    INLAY_TRY(session_load_model(&raw, &source, search->args->options, search->diag));
    INLAY_TRY(layers_find(raw.model, NULL, 0, &arena, &list, search->diag));
    bits = arena_array(&arena, (size_t)list.count + 1, 1);
    made = arena_array(&arena, (size_t)list.count + 1, sizeof *made);
    if (bits == NULL || made == NULL) {
        status = no_memory(search->diag, "to search");
        goto done;
    }
    for (uint32_t i = 0; i < list.count; i++) {
        bits[i] = table_of(search->out, &list, i) != INLAY_NONE ? 8 : 32;
        *out_any = *out_any || bits[i] == 8;
    }
    if (!*out_any)
        goto done;
    how.bits_of = bits;
    INLAY_TRY(low_bit_model(raw.model, &list, &how, made, search->diag));
    for (uint32_t i = 0; i < list.count; i++)
        if (bits[i] == 8)
            forms[table_of(search->out, &list, i)] = made[i];
    INLAY_TRY(scratch_save(search->scratch, "tables", raw.model, false, path, search->diag));
done:
    graph_model_destroy(raw.model);
    arena_deinit(&arena);
    return status;
}

inlay_status search_tables(struct search *search)
{
    search_result *result = search->out;
    layer_form *forms = arena_copy(search->arena, result->forms, ((size_t)result->list.count + 1) * sizeof *forms);
    struct subject after = { 0 };
    char path[PATH_MAX];
    double ms[2];
    struct verdict verdict;
    bool any;
    inlay_status status;

    if (forms == NULL)
        return no_memory(search->diag, "to search");
    INLAY_TRY(build(search, forms, path, &any));
    if (!any)
        goto done;
    INLAY_TRY(subject_open(path, search->plain, &after, search->diag));
    INLAY_TRY(evaluate_agreement(search->args->data, 0, &search->args->demand, search->before, &after, &verdict,
                                 search->diag));
    if (!search_holds(search, &verdict))
        goto done;
    INLAY_TRY(evaluate_time(search->args->data, search->before, &after, 1, &ms[0], &ms[1], search->diag));
    if (!search->args->must && ms[1] / ms[0] > result->ms_after / result->ms_before * SLOWER)
        goto done;
    memcpy(result->path, path, sizeof result->path);
    result->forms = forms;
    result->agreement = verdict;
    result->ms_before = ms[0];
    result->ms_after = ms[1];
    result->what = arena_format(search->arena, "%s, tables in 8 bits", result->what);
    if (result->what == NULL)
        status = no_memory(search->diag, "to search");
done:
    subject_close(&after);
    return status;
}
