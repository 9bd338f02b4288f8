#include "bundle/emit.h"
#include "base/element.h"
#include "base/memory.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

struct emitter {
    FILE *to, *data;
    bundle_collection *c;
    const bundle_names *n;
    const bundle_facts *f;
    uint64_t at;      /* bytes of data so far */
    uint32_t **value; /* [part_count][value_count] the number that a value gets, INLAY_NONE: nobody asks for it */
    uint32_t *values; /* [part_count] how many do */
};

/* ------------------------------------------------------------------ values that are asked for */

static void want(struct emitter *e, uint32_t part, uint32_t v)
{
    if (v != INLAY_NONE)
        e->value[part][v] = 0;
}

/* What regions read and make, inputs and outputs; the others are left of what the optimiser took out. */
static bool number_values(struct emitter *e)
{
    bundle_collection *c = e->c;

    e->value = arena_array(&c->a, (size_t)c->part_count + 1, sizeof *e->value);
    e->values = arena_array(&c->a, (size_t)c->part_count + 1, sizeof *e->values);
    for (uint32_t i = 0; e->value != NULL && e->values != NULL && i < c->part_count; i++) {
        const struct graph *g = c->parts[i].p->graph;

        e->value[i] = arena_array(&c->a, (size_t)g->value_count + 1, sizeof **e->value);
        if (e->value[i] == NULL)
            return false;
        memset(e->value[i], 0xff, g->value_count * sizeof **e->value);
        for (uint32_t n = 0; n < g->node_count; n++) {
            for (uint32_t k = 0; k < g->nodes[n]->info.input_count; k++)
                want(e, i, g->nodes[n]->info.inputs[k]);
            for (uint32_t k = 0; k < g->nodes[n]->info.output_count; k++)
                want(e, i, g->nodes[n]->info.outputs[k]);
        }
        for (uint32_t k = 0; k < g->input_count; k++)
            want(e, i, g->inputs[k]);
        for (uint32_t k = 0; k < g->output_count; k++)
            want(e, i, g->outputs[k]);
        for (uint32_t v = 0; v < g->value_count; v++)
            if (e->value[i][v] == 0 || c->parts[i].item_of[v] != INLAY_NONE)
                e->value[i][v] = e->values[i]++;
    }
    return e->value != NULL && e->values != NULL;
}

/* ------------------------------------------------------------------ constants */

static uint64_t put_data(struct emitter *e, const void *data, uint64_t bytes)
{
    static const char zeros[64];
    const uint64_t at = e->at;
    const uint64_t pad = (64 - bytes % 64) % 64;

    (void)fwrite(data, 1, (size_t)bytes, e->data);
    (void)fwrite(zeros, 1, (size_t)pad, e->data);
    e->at += bytes + pad;
    return at;
}

static void put_text(struct emitter *e, const char *text, uint64_t bytes)
{
    (void)fputc('"', e->to);
    for (uint64_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];

        if (isalnum(c) || (c < 0x80 && strchr(" _./:-+*=,;()[]", c) != NULL && c != '\0'))
            (void)fputc(c, e->to);
        else
            (void)fprintf(e->to, "\\%03o", c);
    }
    (void)fputc('"', e->to);
}

static void put_str(struct emitter *e, inlay_str s)
{
    (void)fputs("{ ", e->to);
    put_text(e, s.data != NULL ? s.data : "", s.data != NULL ? s.bytes : 0);
    (void)fprintf(e->to, ", %" PRIu64 " }", s.data != NULL ? s.bytes : 0);
}

static void put_double(struct emitter *e, double v)
{
    if (isnan(v))
        (void)fputs("__builtin_nan(\"\")", e->to);
    else if (isinf(v))
        (void)fprintf(e->to, "%s__builtin_inf()", v < 0 ? "-" : "");
    else
        (void)fprintf(e->to, "%a", v);
}

static void put_numbers(struct emitter *e, const char *name, uint32_t a, uint32_t b, const uint32_t *list,
                        uint32_t count)
{
    (void)fprintf(e->to, "static const uint32_t %s%u_%u[] = { ", name, a, b);
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(e->to, "%uu, ", list[i]);
    (void)fprintf(e->to, "0 };\n");
}

/* The same of values. */
static void put_values_of(struct emitter *e, const char *name, uint32_t a, uint32_t b, uint32_t part,
                          const uint32_t *list, uint32_t count)
{
    (void)fprintf(e->to, "static const uint32_t %s%u_%u[] = { ", name, a, b);
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(e->to, "%uu, ", list[i] == INLAY_NONE ? INLAY_NONE : e->value[part][list[i]]);
    (void)fprintf(e->to, "0 };\n");
}

/* ------------------------------------------------------------------ nodes */

static bool is_plain(const inlay_attr_info *a)
{
    return a->kind == INLAY_ATTR_FLOAT || a->kind == INLAY_ATTR_INT || a->kind == INLAY_ATTR_STRING ||
           (a->kind == INLAY_ATTR_TENSOR && a->tensor->dtype != INLAY_STRING) || a->kind == INLAY_ATTR_FLOATS ||
           a->kind == INLAY_ATTR_INTS || a->kind == INLAY_ATTR_STRINGS;
}

/* The arrays that an attribute points to: aP_N_A. */
static void put_attr_arrays(struct emitter *e, const inlay_attr_info *a, const char *name)
{
    if (a->kind == INLAY_ATTR_INTS) {
        (void)fprintf(e->to, "static const int64_t %s[] = { ", name);
        for (uint32_t i = 0; i < a->count; i++)
            (void)fprintf(e->to, "(int64_t)%" PRIu64 "u, ", (uint64_t)a->ints[i]);
        (void)fprintf(e->to, "0 };\n");
    } else if (a->kind == INLAY_ATTR_FLOATS) {
        (void)fprintf(e->to, "static const float %s[] = { ", name);
        for (uint32_t i = 0; i < a->count; i++) {
            put_double(e, (double)a->floats[i]);
            (void)fputs(isfinite(a->floats[i]) ? "f, " : ", ", e->to);
        }
        (void)fprintf(e->to, "0 };\n");
    } else if (a->kind == INLAY_ATTR_STRINGS) {
        (void)fprintf(e->to, "static const inlay_str %s[] = { ", name);
        for (uint32_t i = 0; i < a->count; i++) {
            put_str(e, a->strings[i]);
            (void)fputs(", ", e->to);
        }
        (void)fprintf(e->to, "{ 0 } };\n");
    } else if (a->kind == INLAY_ATTR_TENSOR) {
        const inlay_tensor_view *t = a->tensor;

        (void)fprintf(e->to, "static const int64_t %s_dims[] = { ", name);
        for (uint32_t i = 0; i < t->rank; i++)
            (void)fprintf(e->to, "%" PRId64 ", ", t->dims[i]);
        (void)fprintf(e->to,
                      "0 };\nstatic const inlay_tensor_view %s = { %s_data + %" PRIu64 "u, %" PRIu64
                      "u, %s_dims, %u, %d };\n",
                      name, e->n->name, put_data(e, t->data, t->bytes), t->bytes, name, t->rank, (int)t->dtype);
    }
}

static void put_attrs(struct emitter *e, const inlay_node_info *n, uint32_t part, uint32_t node)
{
    char name[64];
    uint32_t count = 0;

    for (uint32_t i = 0; i < n->attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, n->attrs, n->attr_stride, i);

        (void)snprintf(name, sizeof name, "a%u_%u_%u", part, node, i);
        if (is_plain(a))
            put_attr_arrays(e, a, name);
    }
    (void)fprintf(e->to, "static const inlay_attr_info attrs%u_%u[] = {\n", part, node);
    for (uint32_t i = 0; i < n->attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, n->attrs, n->attr_stride, i);
        const char *member = a->kind == INLAY_ATTR_INTS      ? ".ints = "
                             : a->kind == INLAY_ATTR_FLOATS  ? ".floats = "
                             : a->kind == INLAY_ATTR_STRINGS ? ".strings = "
                             : a->kind == INLAY_ATTR_TENSOR  ? ".tensor = &"
                                                             : NULL;
        if (!is_plain(a))
            continue;
        count++;
        (void)fputs("    { .name = ", e->to);
        put_str(e, a->name);
        (void)fprintf(e->to, ", .kind = %u, .count = %u, .i = (int64_t)%" PRIu64 "u, .f = ", a->kind, a->count,
                      (uint64_t)a->i);
        put_double(e, a->f);
        (void)fputs(", .s = ", e->to);
        put_str(e, a->s);
        if (member != NULL)
            (void)fprintf(e->to, ", %sa%u_%u_%u", member, part, node, i);
        (void)fputs(" },\n", e->to);
    }
    (void)fprintf(e->to, "    { .kind = 0 } };\nenum { attrs%u_%u_count = %u };\n", part, node, count);
}

static void put_nodes(struct emitter *e, uint32_t part)
{
    const struct graph *g = e->c->parts[part].p->graph;

    for (uint32_t i = 0; i < g->node_count; i++) {
        const inlay_node_info *n = &g->nodes[i]->info;

        put_attrs(e, n, part, i);
        put_values_of(e, "in", part, i, part, n->inputs, n->input_count);
        put_values_of(e, "out", part, i, part, n->outputs, n->output_count);
    }
    (void)fprintf(e->to, "static const inlay_node_info nodes%u[] = {\n", part);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const inlay_node_info *n = &g->nodes[i]->info;

        (void)fputs("    { .name = ", e->to);
        put_str(e, n->name);
        (void)fputs(", .domain = ", e->to);
        put_str(e, n->domain);
        (void)fputs(", .op_type = ", e->to);
        put_str(e, n->op_type);
        (void)fprintf(e->to,
                      ", .since_version = %u, .inputs = in%u_%u, .outputs = out%u_%u, .input_count = %u, "
                      ".output_count = %u, .attrs = attrs%u_%u, .attr_count = attrs%u_%u_count, "
                      ".attr_stride = sizeof(inlay_attr_info), .body_stride = sizeof(inlay_body_none) },\n",
                      n->since_version, part, i, part, i, n->input_count, n->output_count, part, i, part, i);
    }
    (void)fprintf(e->to, "    { .since_version = 0 } };\n");
}

/* ------------------------------------------------------------------ values */

/* Where the elements of a value are, if they are known; -1: nowhere. Constants that no region reads itself are left
 * out: who packed them has the pack. */
static int64_t place_data(struct emitter *e, uint32_t part, uint32_t v)
{
    const inlay_value_info *info = &e->c->parts[part].p->graph->values[v].info;

    if (info->data == NULL || info->dtype == INLAY_STRING || info->kind != INLAY_VALUE_TENSOR)
        return -1;
    if (e->f->unread != NULL && e->f->unread[part][v] == 1)
        return 0; /* an address that is never read */
    return (int64_t)put_data(e, info->data, info->data_bytes);
}

static void put_values(struct emitter *e, uint32_t part)
{
    const struct graph *g = e->c->parts[part].p->graph;
    int64_t *data = arena_array(&e->c->a, (size_t)g->value_count + 1, sizeof *data);

    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;

        data[v] = e->value[part][v] != INLAY_NONE ? place_data(e, part, v) : -1;
        if (info->rank == INLAY_RANK_UNKNOWN || e->value[part][v] == INLAY_NONE)
            continue;
        (void)fprintf(e->to, "static const inlay_dim d%u_%u[] = { ", part, v);
        for (uint32_t d = 0; d < info->rank; d++)
            (void)fprintf(e->to, "{ %" PRId64 ", %u, 0 }, ", info->dims[d].value, info->dims[d].kind);
        (void)fprintf(e->to, "{ 0 } };\nstatic const int64_t s%u_%u[] = { ", part, v);
        for (uint32_t d = 0; d < info->rank; d++)
            (void)fprintf(e->to, "%" PRId64 ", ", info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1);
        (void)fprintf(e->to, "0 };\n");
    }
    (void)fprintf(e->to, "static const inlay_value_info values%u[] = {\n", part);
    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;

        if (e->value[part][v] == INLAY_NONE)
            continue;
        (void)fprintf(e->to,
                      "    { .name = { \"\", 0 }, .kind = %u, .flags = %u, .dtype = %d, .rank = %uu, "
                      ".producer = %uu, .content_hash = %" PRIu64 "u",
                      info->kind, info->flags, (int)info->dtype, info->rank, info->producer, info->content_hash);
        if (info->rank != INLAY_RANK_UNKNOWN)
            (void)fprintf(e->to, ", .dims = d%u_%u", part, v);
        if (data[v] >= 0)
            (void)fprintf(e->to, ", .data = %s_data + %" PRId64 ", .data_bytes = %" PRIu64 "u", e->n->name, data[v],
                          info->data_bytes);
        (void)fputs(" },\n", e->to);
    }
    (void)fprintf(e->to, "    { .kind = 0 } };\nstatic const inlay_value_state states%u[] = {\n", part);
    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;

        if (e->value[part][v] == INLAY_NONE)
            continue;
        (void)fprintf(e->to, "    { .rank = %uu, .dtype = %d", info->rank, (int)info->dtype);
        if (info->rank != INLAY_RANK_UNKNOWN)
            (void)fprintf(e->to, ", .dims = s%u_%u", part, v);
        if (data[v] >= 0)
            (void)fprintf(e->to, ", .data = %s_data + %" PRId64 ", .data_bytes = %" PRIu64 "u", e->n->name, data[v],
                          info->data_bytes);
        (void)fputs(" },\n", e->to);
    }
    (void)fprintf(e->to, "    { .rank = 0 } };\n");
    for (uint32_t i = 0; i < e->c->item_count; i++)
        if (e->c->items[i].kind == ITEM_DATA)
            for (uint32_t v = 0; v < g->value_count; v++)
                if (e->c->parts[part].item_of[v] == i && data[v] >= 0)
                    e->c->items[i].offset = (uint64_t)data[v];
}

static void put_graph(struct emitter *e, uint32_t part)
{
    const struct program *p = e->c->parts[part].p;
    const struct graph *g = p->graph;

    put_nodes(e, part);
    put_values(e, part);
    put_values_of(e, "inputs", part, 0, part, g->inputs, g->input_count);
    put_values_of(e, "outputs", part, 0, part, g->outputs, g->output_count);
    (void)fprintf(e->to,
                  "static const inlay_graph graph%u = { .struct_size = sizeof(inlay_graph), .name = { \"\", 0 }, "
                  ".content_hash = %" PRIu64 "u, .nodes = nodes%u, .values = values%u, .inputs = inputs%u_0, "
                  ".outputs = outputs%u_0, .node_count = %u, .node_stride = sizeof(inlay_node_info), "
                  ".value_count = %u, .value_stride = sizeof(inlay_value_info), "
                  ".symbol_stride = sizeof(inlay_symbol_info), .input_count = %u, .output_count = %u, "
                  ".constant_bytes = %" PRIu64 "u };\n\n",
                  part, p->snapshot.content_hash, part, part, part, part, g->node_count, e->values[part],
                  g->input_count, g->output_count, p->snapshot.constant_bytes);
}

/* ------------------------------------------------------------------ regions and steps */

static void put_place(struct emitter *e, uint32_t item)
{
    static const char *const kinds[] = { "BUNDLE_SLAB", "BUNDLE_INPUT", "BUNDLE_OUTPUT", "BUNDLE_DATA" };
    const bundle_item *i = &e->c->items[item];

    (void)fprintf(e->to, "{ %s, %u, %" PRIu64 "u, %" PRIu64 "u, ", kinds[i->kind], i->index,
                  i->kind == ITEM_SLAB ? i->offset : 0, i->bytes);
    if (i->kind == ITEM_DATA)
        (void)fprintf(e->to, "%s_data + %" PRIu64 "u }, ", e->n->name, i->offset);
    else
        (void)fputs("0 }, ", e->to);
}

static void put_region(struct emitter *e, uint32_t step)
{
    const bundle_do *d = &e->c->steps[step];
    const part_region *r = d->step->region;
    const struct program *p = e->c->parts[d->part].p;

    put_numbers(e, "rn", step, 0, r->nodes, r->node_count);
    put_values_of(e, "ri", step, 0, d->part, r->inputs, r->input_count);
    put_values_of(e, "ro", step, 0, d->part, r->outputs, r->output_count);
    (void)fprintf(e->to, "static const uint64_t rc%u_0[] = { ", step);
    for (uint32_t i = 0; i < r->offer_count; i++)
        (void)fprintf(e->to, "%" PRIu64 "u, ", p->parts.offers[r->offers[i]].cookie);
    (void)fprintf(e->to, "0 };\n");
}

static void put_regions(struct emitter *e)
{
    for (uint32_t i = 0; i < e->c->step_count; i++)
        if (e->c->steps[i].what == DO_RUN)
            put_region(e, i);
    (void)fprintf(e->to, "static const bundle_region regions[] = {\n");
    for (uint32_t i = 0; i < e->c->step_count; i++) {
        const bundle_do *d = &e->c->steps[i];

        if (d->what == DO_RUN)
            (void)fprintf(e->to, "    { %s, &graph%u, states%u, rn%u_0, rc%u_0, ri%u_0, ro%u_0, %u, %u, %u, %u },\n",
                          bundle_is_region(e->c, d) ? "BUNDLE_CPU" : "BUNDLE_REFERENCE", d->part, d->part, i, i, i, i,
                          d->step->region->node_count, d->step->region->offer_count, d->step->region->input_count,
                          d->step->region->output_count);
    }
    (void)fprintf(e->to, "    { .node_count = 0 } };\n\n");
}

static void put_steps(struct emitter *e)
{
    static const char *const whats[] = { "BUNDLE_RUN",   "BUNDLE_COPY", "BUNDLE_UNLESS", "BUNDLE_JUMP",
                                         "BUNDLE_BEGIN", "BUNDLE_TEST", "BUNDLE_NEXT",   "BUNDLE_SCAN" };
    uint32_t region = 0;

    for (uint32_t i = 0; i < e->c->step_count; i++) {
        const bundle_do *d = &e->c->steps[i];

        (void)fprintf(e->to, "static const bundle_place places%u[] = { ", i);
        for (uint32_t k = 0; k < d->in_count + d->out_count; k++)
            put_place(e, d->in[k]);
        (void)fprintf(e->to, "{ 0 } };\n");
    }
    (void)fprintf(e->to, "static const bundle_step steps[] = {\n");
    for (uint32_t i = 0; i < e->c->step_count; i++) {
        const bundle_do *d = &e->c->steps[i];

        (void)fprintf(e->to, "    { %s, %u, %u, %u, places%u, places%u + %u },\n", whats[d->what],
                      d->what == DO_RUN ? region++ : 0, d->target, d->in_count, i, i, d->in_count);
    }
    (void)fprintf(e->to, "    { .kind = 0 } };\n\n");
}

/* ------------------------------------------------------------------ inputs, outputs, packs */

/* The header of a .npy file of the type and shape, version 1.0; returns its length. */
static uint32_t npy_header(const inlay_value_info *v, char *out, size_t bytes)
{
    const char *type = bundle_c_type(v->dtype);
    const char kind = strcmp(type, "float") == 0 || strcmp(type, "double") == 0 || v->dtype == INLAY_FLOAT16 ? 'f'
                      : v->dtype == INLAY_BOOL                                                               ? 'b'
                      : type[0] == 'u'                                                                       ? 'u'
                                                                                                             : 'i';
    const uint32_t size = inlay_dtype_bits(v->dtype) / 8;
    size_t used = (size_t)snprintf(out + 10, bytes - 10, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
                                   size == 1 ? '|' : '<', kind, size) +
                  10;
    uint32_t whole;

    for (uint32_t d = 0; d < v->rank; d++)
        used +=
            (size_t)snprintf(out + used, bytes - used, "%" PRId64 ",%s", v->dims[d].value, d + 1 < v->rank ? " " : "");
    used += (size_t)snprintf(out + used, bytes - used, "), }");
    whole = (uint32_t)((used + 1 + 63) / 64 * 64);
    memset(out + used, ' ', whole - used);
    out[whole - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01", 8);
    out[8] = (char)((whole - 10) & 0xff);
    out[9] = (char)((whole - 10) >> 8);
    return whole;
}

static void put_tensors(struct emitter *e, const char *what, const uint32_t *list, uint32_t count)
{
    const struct graph *g = e->c->parts[0].p->graph;

    (void)fprintf(e->to, "static const bundle_tensor %s[] = {\n", what);
    for (uint32_t i = 0; i < count; i++) {
        const inlay_value_info *v = &g->values[list[i]].info;
        char npy[2048];
        const uint32_t npy_bytes = npy_header(v, npy, sizeof npy);

        (void)fputs("    { ", e->to);
        put_text(e, v->name.data, v->name.bytes);
        (void)fputs(", ", e->to);
        put_text(e, npy, npy_bytes);
        (void)fprintf(e->to, ", %u, %u, %" PRIu64 "u },\n", npy_bytes, inlay_dtype_bits(v->dtype) / 8,
                      e->c->items[e->c->parts[0].item_of[list[i]]].bytes);
    }
    (void)fprintf(e->to, "    { .name = 0 } };\n");
}

static void put_packs(struct emitter *e)
{
    (void)fprintf(e->to, "static const bundle_pack packs[] = {\n");
    for (uint32_t i = 0; i < e->f->pack_count; i++)
        (void)fprintf(e->to, "    { { %" PRIu64 "u, %" PRIu64 "u }, %" PRIu64 "u, %" PRIu64 "u },\n",
                      e->f->packs[i].key[0], e->f->packs[i].key[1], e->f->packs[i].bytes,
                      e->f->packs[i].kept ? e->f->packs[i].offset : UINT64_MAX);
    (void)fprintf(e->to, "    { { 0, 0 }, 0, 0 } };\n\n");
}

/* The parts that are needed are named, and so the linker takes them; the others are functions that do nothing, and in
 * the first run say that they were missed. */
static void put_parts(struct emitter *e)
{
    static const char *const kinds[] = { "extern const kit_table", "extern const char", "void *", "int",
                                         "extern const char" };

    (void)fprintf(e->to, "void bundle_missed(const char *name);\n"
                         "void bundle_left_out(void);\nvoid left_out(void);\nvoid left_out(void)\n{\n"
                         "    bundle_left_out();\n}\n");
    for (uint32_t i = 0; i < e->n->part_count; i++) {
        const bundle_part_of *p = &e->n->parts[i];
        const bool function = p->kind == PART_SET || p->kind == PART_FUNCTION;

        if (p->kind == PART_KERNEL) {
            if (!p->needed && !e->f->first) /* the first run has functions in assembly, which name themselves */
                (void)fprintf(e->to, "void %s(void) __attribute__((alias(\"left_out\")));\n", p->name);
            continue;
        }
        if (p->kind == PART_LEVEL || (!e->n->has_cpu && p->kind == PART_FAMILY))
            continue;
        if (p->needed)
            (void)fprintf(e->to, "%s %s%s;\n", kinds[p->kind], p->name, function ? "(void)" : "");
        else if (p->kind == PART_SET)
            (void)fprintf(e->to, "void *%s(void);\nvoid *%s(void)\n{\n    return 0;\n}\n", p->name, p->name);
        else if (p->kind == PART_FUNCTION)
            (void)fprintf(e->to, "int %s(void);\nint %s(void)\n{\n    %s%s%sreturn %d;\n}\n", p->name, p->name,
                          e->f->first ? "bundle_missed(\"" : "", e->f->first ? p->name : "",
                          e->f->first ? "\");\n    " : "", INLAY_UNSUPPORTED);
    }
    (void)fprintf(e->to, "__attribute__((used)) static const void *const needed[] = { 0, ");
    for (uint32_t i = 0; i < e->n->part_count; i++)
        if (e->n->parts[i].needed && e->n->parts[i].kind != PART_TABLE && e->n->parts[i].kind != PART_LEVEL &&
            e->n->parts[i].kind != PART_KERNEL && (!e->n->has_cpu || e->n->parts[i].kind != PART_BASELINE))
            (void)fprintf(e->to, "(const void *)&%s, ", e->n->parts[i].name);
    (void)fprintf(e->to, "};\n");
}

/* Which list of bundled_tables a table belongs to: what its name ends in. */
static const char *table_list(const char *name)
{
    const char *end = strrchr(name, '_');

    end = end != NULL ? end + 1 : name;
    return strcmp(end, "avx512") == 0 || strcmp(end, "avx2") == 0 || strcmp(end, "neon") == 0 ? end : "plain";
}

static void put_providers(struct emitter *e)
{
    static const char *const lists[] = { "avx512", "avx2", "neon", "plain" };

    put_parts(e);
    if (!e->n->has_reference)
        return;
    (void)fprintf(e->to, "static const inlay_provider *open_reference(const inlay_host *host)\n{\n");
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        (void)fprintf(e->to, "    static const kit_table *const %s[] = { ", lists[l]);
        for (uint32_t i = 0; i < e->n->part_count; i++)
            if (e->n->parts[i].kind == PART_TABLE && e->n->parts[i].needed &&
                strcmp(table_list(e->n->parts[i].name), lists[l]) == 0)
                (void)fprintf(e->to, "&%s, ", e->n->parts[i].name);
        (void)fprintf(e->to, "0 };\n");
    }
    (void)fprintf(e->to, "    static const bundled_tables tables = { avx512, avx2, neon, plain };\n\n"
                         "    return bundled_reference(host, &tables);\n}\n");
}

/* What a provider's create gets: every option, with its default where nothing was set. */
static uint32_t put_options(struct emitter *e, const char *name, inlay_diag *diag, inlay_status *status)
{
    uint32_t count = 0;

    (void)fprintf(e->to, "static const inlay_option_value options_%s[] = {\n", name);
    for (uint32_t i = 0; i < e->c->provider_count; i++) {
        const part_provider *p = &e->c->providers[i];
        inlay_option_value *values;

        if (strcmp(p->name, name) != 0 || p->table->option_stride != sizeof *p->table->options)
            continue;
        count = p->table->option_count;
        values = arena_array(&e->c->a, (size_t)count + 1, sizeof *values);
        if (values == NULL)
            *status = no_memory(diag, "to write the bundle");
        else
            *status =
                provider_parse_options(name, p->table->options, count, p->settings, p->setting_count, values, diag);
        for (uint32_t k = 0; *status == INLAY_OK && k < count; k++) {
            (void)fputs("    { .name = ", e->to);
            put_text(e, values[k].name, strlen(values[k].name));
            (void)fprintf(e->to, ", .i = %" PRId64 ", .f = ", values[k].i);
            put_double(e, values[k].f);
            (void)fputs(", .s = ", e->to);
            put_text(e, values[k].s != NULL ? values[k].s : "", values[k].s != NULL ? strlen(values[k].s) : 0);
            (void)fputs(" },\n", e->to);
        }
    }
    (void)fputs("    { .name = 0 } };\n", e->to);
    return count;
}

static void put_model(struct emitter *e, const uint32_t *option_counts)
{
    const struct graph *g = e->c->parts[0].p->graph;
    uint32_t regions = 0;

    for (uint32_t i = 0; i < e->c->step_count; i++)
        regions += e->c->steps[i].what == DO_RUN;
    (void)fprintf(
        e->to,
        "const bundle_model %s_model = {\n    .providers = { %s, %s },\n"
        "    .options = { options_reference, options_cpu }, .option_counts = { %u, %u },\n"
        "    .regions = regions, .steps = steps, .inputs = tensors_in, .outputs = tensors_out, .packs = packs,\n"
        "    .packs_data = %s_packs, .data = %s_data, .data_bytes = %" PRIu64
        "u, .region_count = %u, .step_count = %u, .input_count = %u,\n"
        "    .output_count = %u, .pack_count = %u, .packs_levels = %u, .has_originals = %d,\n"
        "    .packs_first = %d, .only_level = %u, .isa = %s%s%s, .slab_bytes = %" PRIu64 "u, .arena_bytes = %" PRIu64
        "u,\n};\n\n",
        e->n->name, e->n->has_reference ? "open_reference" : "0", e->n->has_cpu ? "bundled_cpu" : "0", option_counts[0],
        option_counts[1], e->n->name, e->n->name, e->at, regions, e->c->step_count, g->input_count, g->output_count,
        e->f->pack_count, e->f->packs_levels, !e->f->drops, e->f->first, e->f->only_level,
        e->n->isa != NULL ? "\"" : "", e->n->isa != NULL ? e->n->isa : "0", e->n->isa != NULL ? "\"" : "",
        e->c->slab_bytes, e->f->arena_bytes);
}

static void put_functions(struct emitter *e)
{
    const struct graph *g = e->c->parts[0].p->graph;
    const char *name = e->n->name;

    (void)fprintf(e->to,
                  "int %s_start(void)\n{\n    return bundle_start(&%s_model, 0, 0);\n}\n\n"
                  "int %s_start_in(void *buffer, uint64_t bytes)\n{\n"
                  "    return bundle_start(&%s_model, buffer, bytes);\n}\n\nint %s_run(",
                  name, name, name, name, name);
    bundle_write_parameters(e->to, g, e->n);
    (void)fprintf(e->to, ")\n{\n    const void *const bundle_in[] = { ");
    for (uint32_t i = 0; i < g->input_count; i++)
        (void)fprintf(e->to, "%s, ", e->n->inputs[i]);
    (void)fprintf(e->to, "0 };\n    void *const bundle_out[] = { ");
    for (uint32_t i = 0; i < g->output_count; i++)
        (void)fprintf(e->to, "%s, ", e->n->outputs[i]);
    (void)fprintf(e->to,
                  "0 };\n\n    return bundle_run(&%s_model, bundle_in, bundle_out);\n}\n\n"
                  "int %s_run_in(void *buffer, uint64_t bytes, ",
                  name, name);
    bundle_write_parameters(e->to, g, e->n);
    (void)fprintf(e->to,
                  ")\n{\n    const int bundle_code = bundle_start(&%s_model, buffer, bytes);\n\n"
                  "    return bundle_code != 0 ? bundle_code : %s_run(",
                  name, name);
    for (uint32_t i = 0; i < g->input_count + g->output_count; i++)
        (void)fprintf(e->to, "%s%s", i > 0 ? ", " : "",
                      i < g->input_count ? e->n->inputs[i] : e->n->outputs[i - g->input_count]);
    (void)fprintf(e->to, ");\n}\n\nconst char *%s_error(void)\n{\n    return bundle_error();\n}\n", name);
}

inlay_status bundle_emit_source(FILE *to, FILE *data, bundle_collection *c, const bundle_names *n, bundle_facts *f,
                                inlay_diag *diag)
{
    struct emitter e = { .to = to, .data = data, .c = c, .n = n, .f = f };
    uint32_t option_counts[2] = { 0 };
    inlay_status status = INLAY_OK;

    if (!number_values(&e))
        return no_memory(diag, "to write the bundle");
    f->value = e.value;
    f->values = e.values;
    (void)fprintf(to,
                  "/* Made by inlay bundle. */\n#include \"bundle.h\"\n#include \"bundled.h\"\n#include \"%s.h\"\n\n"
                  "#define inlay_body_none inlay_node_info /* no node has bodies */\n"
                  "extern const char %s_data[], %s_packs[];\n\n",
                  n->name, n->name, n->name);
    for (uint32_t i = 0; i < c->part_count; i++)
        put_graph(&e, i);
    put_regions(&e);
    put_steps(&e);
    put_tensors(&e, "tensors_in", c->parts[0].p->graph->inputs, c->parts[0].p->graph->input_count);
    put_tensors(&e, "tensors_out", c->parts[0].p->graph->outputs, c->parts[0].p->graph->output_count);
    put_packs(&e);
    put_providers(&e);
    option_counts[0] = put_options(&e, "reference", diag, &status);
    if (status == INLAY_OK)
        option_counts[1] = put_options(&e, "cpu", diag, &status);
    put_model(&e, option_counts);
    put_functions(&e);
    return status;
}
