#include "check/frozen.h"
#include "check/check.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Room is taken from the front. In a first pass without memory it is only counted. */
struct room {
    char *base; /* NULL: counting */
    size_t used;
    uint32_t extra;
    bool borrowed;
};

static void *take(struct room *r, size_t bytes)
{
    char *p = r->base == NULL ? NULL : r->base + r->used;

    r->used += (bytes + 15) / 16 * 16;
    return p;
}

static void *copy(struct room *r, const void *data, size_t bytes)
{
    void *p = take(r, bytes);

    if (p != NULL && bytes > 0 && data != NULL)
        memcpy(p, data, bytes);
    return data == NULL ? NULL : p;
}

static inlay_str copy_text(struct room *r, inlay_str text)
{
    char *p = take(r, (size_t)text.bytes + 1);

    if (p != NULL && text.bytes > 0)
        memcpy(p, text.data, (size_t)text.bytes);
    return (inlay_str){ p, text.bytes };
}

static const inlay_str *copy_texts(struct room *r, const inlay_str *texts, uint64_t count)
{
    inlay_str *p = take(r, (size_t)count * sizeof *p);

    for (uint64_t i = 0; i < count; i++) {
        inlay_str one = copy_text(r, texts[i]);

        if (p != NULL)
            p[i] = one;
    }
    return p;
}

/* Elements of a tensor; those of strings bring their texts. */
static const void *copy_elements(struct room *r, inlay_dtype dtype, const void *data, uint64_t bytes)
{
    if (data == NULL)
        return NULL;
    return dtype == INLAY_STRING ? (const void *)copy_texts(r, data, bytes / sizeof(inlay_str))
                                 : copy(r, data, (size_t)bytes);
}

static const inlay_tensor_view *copy_tensor(struct room *r, const inlay_tensor_view *t)
{
    inlay_tensor_view *p;

    if (t == NULL)
        return NULL;
    p = copy(r, t, sizeof *t);
    if (p == NULL) {
        (void)copy(r, t->dims, t->rank * sizeof *t->dims);
        (void)copy_elements(r, t->dtype, t->data, t->bytes);
        return NULL;
    }
    p->dims = copy(r, t->dims, t->rank * sizeof *t->dims);
    p->data = copy_elements(r, t->dtype, t->data, t->bytes);
    return p;
}

static void *element(char *list, size_t stride, uint32_t i)
{
    return list == NULL ? NULL : list + stride * i;
}

static const inlay_attr_info *copy_attrs(struct room *r, const inlay_node_info *n)
{
    size_t stride = sizeof(inlay_attr_info) + r->extra;
    char *list = take(r, n->attr_count * stride);

    for (uint32_t i = 0; i < n->attr_count; i++) {
        inlay_attr_info a = *INLAY_AT(inlay_attr_info, n->attrs, n->attr_stride, i), *to = element(list, stride, i);

        a.name = copy_text(r, a.name);
        if (a.kind == INLAY_ATTR_STRING)
            a.s = copy_text(r, a.s);
        if (a.kind == INLAY_ATTR_STRINGS)
            a.strings = copy_texts(r, a.strings, a.count);
        if (a.kind == INLAY_ATTR_INTS)
            a.ints = copy(r, a.ints, a.count * sizeof *a.ints);
        if (a.kind == INLAY_ATTR_FLOATS)
            a.floats = copy(r, a.floats, a.count * sizeof *a.floats);
        if (a.kind == INLAY_ATTR_TENSOR)
            a.tensor = copy_tensor(r, a.tensor);
        if (to != NULL)
            *to = a;
    }
    return (const inlay_attr_info *)(const void *)list;
}

static const inlay_node_info *copy_nodes(struct room *r, const inlay_graph *g)
{
    size_t stride = sizeof(inlay_node_info) + r->extra;
    char *list = take(r, g->node_count * stride);

    for (uint32_t i = 0; i < g->node_count; i++) {
        inlay_node_info n = *inlay_graph_node(g, i), *to = element(list, stride, i);

        n.attrs = copy_attrs(r, &n);
        n.attr_stride = (uint32_t)(sizeof(inlay_attr_info) + r->extra);
        n.name = copy_text(r, n.name);
        n.domain = copy_text(r, n.domain);
        n.op_type = copy_text(r, n.op_type);
        n.inputs = copy(r, n.inputs, n.input_count * sizeof *n.inputs);
        n.outputs = copy(r, n.outputs, n.output_count * sizeof *n.outputs);
        if (to != NULL)
            *to = n;
    }
    return (const inlay_node_info *)(const void *)list;
}

static const inlay_value_info *copy_values(struct room *r, const inlay_graph *g)
{
    size_t stride = sizeof(inlay_value_info) + r->extra;
    char *list = take(r, g->value_count * stride);

    for (uint32_t i = 0; i < g->value_count; i++) {
        inlay_value_info v = *inlay_graph_value(g, i), *to = element(list, stride, i);

        v.name = copy_text(r, v.name);
        if (v.rank != INLAY_RANK_UNKNOWN)
            v.dims = copy(r, v.dims, v.rank * sizeof *v.dims);
        if (!r->borrowed)
            v.data = copy_elements(r, v.dtype, v.data, v.data_bytes);
        v.elements = copy(r, v.elements, (size_t)v.element_count * sizeof *v.elements);
        if (to != NULL)
            *to = v;
    }
    return (const inlay_value_info *)(const void *)list;
}

static const inlay_symbol_info *copy_symbols(struct room *r, const inlay_graph *g)
{
    size_t stride = sizeof(inlay_symbol_info) + r->extra;
    char *list = take(r, g->symbol_count * stride);

    for (uint32_t i = 0; i < g->symbol_count; i++) {
        inlay_symbol_info s = *INLAY_AT(inlay_symbol_info, g->symbols, g->symbol_stride, i),
                          *to = element(list, stride, i);
        s.name = copy_text(r, s.name);
        if (to != NULL)
            *to = s;
    }
    return (const inlay_symbol_info *)(const void *)list;
}

static inlay_graph *copy_graph(struct room *r, const inlay_graph *g)
{
    inlay_graph *to = take(r, sizeof *to + r->extra), all = *g;

    all.struct_size = sizeof all + r->extra;
    all.name = copy_text(r, g->name);
    all.nodes = copy_nodes(r, g);
    all.node_stride = (uint32_t)(sizeof(inlay_node_info) + r->extra);
    all.values = copy_values(r, g);
    all.value_stride = (uint32_t)(sizeof(inlay_value_info) + r->extra);
    all.symbols = copy_symbols(r, g);
    all.symbol_stride = (uint32_t)(sizeof(inlay_symbol_info) + r->extra);
    all.inputs = copy(r, g->inputs, g->input_count * sizeof *g->inputs);
    all.outputs = copy(r, g->outputs, g->output_count * sizeof *g->outputs);
    if (to != NULL)
        *to = all;
    return to;
}

bool frozen_create(const inlay_graph *from, uint32_t extra, bool borrowed, struct frozen *out)
{
    struct room r = { .extra = extra, .borrowed = borrowed };

    (void)copy_graph(&r, from);
    if (!fenced_alloc(r.used, 64, 0, "behind the snapshot", &out->memory))
        return false;
    r = (struct room){ .base = out->memory.data, .extra = extra, .borrowed = borrowed };
    out->graph = copy_graph(&r, from);
    fenced_protect(&out->memory, true);
    crash_name_range(out->memory.data, out->memory.bytes, "of the snapshot, which is read-only");
    return true;
}

void frozen_hide(struct frozen *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = f->memory.data - (uintptr_t)f->memory.data % page;

    crash_forget_range(f->memory.data);
    (void)mprotect(start, (size_t)(f->memory.data + f->memory.bytes + f->memory.slack - start), PROT_NONE);
    crash_name_range(f->memory.data, f->memory.bytes, "of the graph that compile was shown, after compile returned");
}

void frozen_destroy(struct frozen *f)
{
    if (f->memory.map == NULL)
        return;
    crash_forget_range(f->memory.data);
    fenced_free(&f->memory);
}
