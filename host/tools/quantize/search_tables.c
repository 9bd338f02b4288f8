/* Tables that are looked up: bytes where the agreement holds with them. They make a model smaller, not faster, so they
 * are tried when it is known which layers have integers. */
#include "quantize/search_parts.h"
#include <string.h>

static const double SLOWER = 1.03;

static bool is_table(const char *op)
{
    return strcmp(op, "Gather") == 0;
}

/* The layer of the report that layer i of the result is, if it is a table that may be narrower; INLAY_NONE: there is
 * none. Tables stand in the same order in both; nodes without names have others in each. */
static uint32_t table_of(const search_result *r, const layer_list *list, uint32_t i)
{
    const struct layer *l = &list->items[i];
    uint32_t before = 0, k = 0;

    if (!is_table(l->node->info.op_type.data) || l->path[0] != '\0' || l->count < NARROW_LEAST_WEIGHTS)
        return INLAY_NONE;
    for (uint32_t j = 0; j < i; j++)
        before += is_table(list->items[j].node->info.op_type.data);
    for (; k < r->list.count && (!is_table(r->ops[k]) || before > 0); k++)
        before -= is_table(r->ops[k]);
    return k < r->list.count && r->list.items[k].count == l->count && r->list.items[k].kept == NULL &&
                   r->forms[k].bits == 32
               ? k
               : INLAY_NONE;
}

/* The result with its tables in bytes; forms are of the report's layers. *out_any: there are tables. */
static inlay_status build(struct search *x, layer_form *forms, char *path, bool *out_any)
{
    const session_source source = { .path = x->out->path, .fd = -1 };
    inlay_session raw = { .model = NULL };
    narrow_how how = { .bits = 8 };
    layer_form *made = NULL;
    struct arena a = { 0 };
    layer_list list;
    uint8_t *bits;
    inlay_status status;

    *out_any = false;
    INLAY_TRY(session_load_model(&raw, &source, x->args->options, x->diag));
    INLAY_TRY(layers_find(raw.model, NULL, 0, &a, &list, x->diag));
    bits = arena_array(&a, (size_t)list.count + 1, 1);
    made = arena_array(&a, (size_t)list.count + 1, sizeof *made);
    if (bits == NULL || made == NULL) {
        status = no_memory(x->diag, "to search");
        goto done;
    }
    for (uint32_t i = 0; i < list.count; i++) {
        bits[i] = table_of(x->out, &list, i) != INLAY_NONE ? 8 : 32;
        *out_any = *out_any || bits[i] == 8;
    }
    if (!*out_any)
        goto done;
    how.bits_of = bits;
    INLAY_TRY(narrow_model(raw.model, &list, &how, made, x->diag));
    for (uint32_t i = 0; i < list.count; i++)
        if (bits[i] == 8)
            forms[table_of(x->out, &list, i)] = made[i];
    INLAY_TRY(scratch_save(x->scratch, "tables", raw.model, false, path, x->diag));
done:
    graph_model_destroy(raw.model);
    arena_deinit(&a);
    return status;
}

inlay_status search_tables(struct search *x)
{
    search_result *r = x->out;
    layer_form *forms = arena_copy(x->a, r->forms, ((size_t)r->list.count + 1) * sizeof *forms);
    struct subject after = { 0 };
    char path[PATH_MAX];
    double ms[2];
    struct verdict v;
    bool any;
    inlay_status status;

    if (forms == NULL)
        return no_memory(x->diag, "to search");
    INLAY_TRY(build(x, forms, path, &any));
    if (!any)
        goto done;
    INLAY_TRY(subject_open(path, x->plain, &after, x->diag));
    INLAY_TRY(judge_agreement(x->args->data, 0, x->args->metric, x->before, &after, &v, x->diag));
    if (!search_holds(x, &v))
        goto done;
    INLAY_TRY(judge_time(x->args->data, x->before, &after, 1, &ms[0], &ms[1], x->diag));
    if (!x->args->must && ms[1] / ms[0] > r->ms_after / r->ms_before * SLOWER)
        goto done;
    memcpy(r->path, path, sizeof r->path);
    r->forms = forms;
    r->agreement = v;
    r->ms_before = ms[0];
    r->ms_after = ms[1];
    r->what = arena_format(x->a, "%s, tables in 8 bits", r->what);
    if (r->what == NULL)
        status = no_memory(x->diag, "to search");
done:
    subject_close(&after);
    return status;
}
