#include "weights/halves.h"
#include "simd/convert.h"
#include "simd/optional.h"

static bool read_cast(const kit_node *node)
{
    const inlay_value_info *x = kit_input(node, 0);

    return x != NULL && (x->flags & INLAY_VALUE_CONSTANT) != 0 && x->data != NULL &&
           (x->dtype == INLAY_FLOAT16 || x->dtype == INLAY_BFLOAT16) && x->rank <= RG_MAX_RANK &&
           kit_output_dtype(node, 0) == INLAY_FLOAT && x->data_bytes > 0 && x->data_bytes / 2 < INT32_MAX;
}

bool rg_takes_halves(const kit_node *node)
{
    return read_cast(node);
}

bool halves_is_constant(const inlay_graph *graph, uint32_t value)
{
    const inlay_value_info *v = inlay_graph_value(graph, value);
    const kit_node maker = { .graph = graph,
                             .info = v != NULL && v->producer < graph->node_count ? inlay_graph_node(graph, v->producer)
                                                                                  : NULL };

    return maker.info != NULL && strcmp(maker.info->op_type.data, "Cast") == 0 &&
           strcmp(maker.info->domain.data, "ai.onnx") == 0 && read_cast(&maker);
}

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    (void)node, (void)op, (void)why;
    return true; /* its row is for nothing else */
}

void halves_find(inlay_compiled *c, const inlay_graph *graph)
{
    for (uint32_t o = 0; o < c->op_count; o++) {
        rg_op *op = &c->ops[o];
        const rg_constant *from;
        const rg_value *x;
        rg_value *v;

        if (op->row->family != &rg_halves)
            continue;
        x = &c->values[op->in[0]];
        from = &c->constants[x->constant];
        v = &c->values[op->out[0]];
        v->constant = c->constant_count;
        v->rank = x->rank;
        memcpy(v->dims, x->dims, sizeof v->dims);
        c->constants[c->constant_count++] = (rg_constant){
            .value = v->snapshot,
            .bytes = from->bytes * 2,
            .content_hash = from->content_hash == 0 ? 0 : from->content_hash * UINT64_C(0x9e3779b97f4a7c15) + 1,
            .sources = { from->value, from->value },
            .halves = from->data,
            .half_type = inlay_graph_value(graph, x->snapshot)->dtype,
        };
        op->silent = v->output == INLAY_NONE;
    }
}

void halves_settle(inlay_compiled *c)
{
    for (uint32_t o = 0; o < c->op_count; o++) {
        const rg_op *op = &c->ops[o];
        rg_constant *k = op->row->family == &rg_halves ? &c->constants[c->values[op->out[0]].constant] : NULL;

        if (k == NULL || !op->silent || k->plain_used || (!rg_constant_is_packed(k) && !c->state->alone) ||
            k->packs == NULL)
            continue;
        k->halves = NULL; /* other packs are made of those that are there */
        c->constants[c->values[op->in[0]].constant].given_up++;
    }
}

inlay_status halves_floats(const rg_constant *k, void **out, inlay_diag *diag)
{
    enum { PART = 2048 };
    const int64_t count = (int64_t)(k->bytes / sizeof(float));

    if (posix_memalign(out, 64, k->bytes + 64) != 0) {
        *out = NULL;
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "a constant of %llu bytes", (unsigned long long)k->bytes);
    }
    for (int64_t at = 0, n; at < count; at += n) { /* through words of our own: files lay them at any address */
        uint16_t part[PART];

        n = count - at < PART ? count - at : PART;
        memcpy(part, (const char *)k->halves + 2 * at, (size_t)n * sizeof *part);
        convert_to_f32((float *)*out + at, k->half_type, part, 0, n);
    }
    return INLAY_OK;
}

/* Somebody else wants them, in each run. */
static inlay_status lower(rg_build *b, const rg_group *group)
{
    rg_place y;
    inlay_status status = rg_read_plain(b, group->out, &y);

    return status == INLAY_OK ? rg_set_place(b, group->out, &y) : status;
}

const rg_family rg_halves = { "floats of halves", parse, lower };

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(halves_find, "rg_halves");
OPTIONAL_WITH(halves_settle, "rg_halves");
OPTIONAL_WITH(halves_floats, "rg_halves");
OPTIONAL_WITH(halves_is_constant, "rg_halves");
