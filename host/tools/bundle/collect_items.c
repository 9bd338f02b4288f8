/* The items and steps of a collection. */
#include "bundle/collect_parts.h"
#include "base/checked.h"
#include "plan/layout/planner.h"
#include <string.h>

uint32_t collect_item(struct collector *k, bundle_item item)
{
    bundle_collection *c = k->c;

    if (!ARENA_GROW(&c->a, c->items, c->item_count))
        return INLAY_NONE;
    c->items[c->item_count] = item;
    return c->item_count++;
}

bundle_do *collect_step(struct collector *k, bundle_what what, uint32_t in_count, uint32_t out_count)
{
    bundle_collection *c = k->c;
    bundle_do *s;

    if (!ARENA_GROW(&c->a, c->steps, c->step_count))
        return NULL;
    s = &c->steps[c->step_count];
    *s = (bundle_do){ .what = what, .in_count = in_count, .out_count = out_count };
    s->in = arena_array(&c->a, (size_t)in_count + out_count + 1, sizeof *s->in);
    s->out = s->in != NULL ? s->in + in_count : NULL;
    return s->in != NULL ? s : NULL;
}

void collect_finish(struct collector *k)
{
    bundle_collection *c = k->c;
    const bundle_do *s = &c->steps[c->step_count];

    for (uint32_t i = 0; i < s->in_count + s->out_count; i++) {
        bundle_item *item = &c->items[s->in[i]];

        item->first = item->first < c->step_count ? item->first : c->step_count;
        item->last = item->last > c->step_count ? item->last : c->step_count;
    }
    c->step_count++;
}

inlay_status collect_copy(struct collector *k, uint32_t from, uint32_t to)
{
    bundle_do *s = collect_step(k, DO_COPY, 1, 1);

    if (s == NULL)
        return no_memory(k->diag, "to bundle the model");
    s->in[0] = from;
    s->out[0] = to;
    collect_finish(k);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ values */

inlay_status collect_bytes(const struct collector *k, const inlay_value_info *info, uint64_t *out_bytes)
{
    size_t bytes;

    if (info->kind != INLAY_VALUE_TENSOR || info->dtype == INLAY_STRING)
        return inlay_fail(k->diag, INLAY_UNSUPPORTED, "'%s' is %s: a bundle holds tensors of numbers alone",
                          info->name.data, info->dtype == INLAY_STRING ? "a tensor of texts" : "no tensor");
    if (!plan_info_bytes(info, &bytes))
        return inlay_fail(k->diag, INLAY_UNSUPPORTED,
                          "the size of '%s' is not fixed: fix the open sizes of the inputs "
                          "with --dim NAME=N; sizes that depend on data cannot be bundled",
                          info->name.data);
    *out_bytes = bytes;
    return INLAY_OK;
}

inlay_status collect_value(struct collector *k, uint32_t part, uint32_t v)
{
    const inlay_value_info *info = &k->c->parts[part].p->graph->values[v].info;
    bundle_item item = { .kind = ITEM_SLAB, .first = UINT32_MAX };
    uint32_t number;
    inlay_status status = collect_bytes(k, info, &item.bytes);

    if (status != INLAY_OK)
        return status;
    number = collect_item(k, item);
    k->c->parts[part].item_of[v] = number;
    return number != INLAY_NONE ? INLAY_OK : no_memory(k->diag, "to bundle the model");
}

inlay_status collect_find(struct collector *k, uint32_t part, uint32_t v, uint32_t *out)
{
    const inlay_value_info *info = &k->c->parts[part].p->graph->values[v].info;

    if (k->c->parts[part].item_of[v] == INLAY_NONE && info->data != NULL)
        k->c->parts[part].item_of[v] = collect_item(
            k, (bundle_item){ .kind = ITEM_DATA, .first = UINT32_MAX, .bytes = info->data_bytes, .data = info->data });
    *out = k->c->parts[part].item_of[v];
    if (*out == INLAY_NONE)
        return inlay_fail(k->diag, INLAY_UNSUPPORTED, "nothing makes '%s' before it is read", info->name.data);
    return INLAY_OK;
}

inlay_status collect_part(struct collector *k, const struct program *p, uint32_t *out)
{
    bundle_collection *c = k->c;
    uint32_t *item_of = arena_array(&c->a, (size_t)p->graph->value_count + 1, sizeof *item_of);

    if (item_of == NULL || !ARENA_GROW(&c->a, c->parts, c->part_count))
        return no_memory(k->diag, "to bundle the model");
    memset(item_of, 0xff, p->graph->value_count * sizeof *item_of);
    c->parts[c->part_count] = (bundle_part){ p, item_of };
    *out = c->part_count++;
    return INLAY_OK;
}
