/* ops/types.c - sets of value types, and the types of a node's outputs that follow from them. */
#include "schema.h"
#include "inlay/check.h"
#include <string.h>

struct text {
    char *out;
    size_t bytes, used;
};

static void put(struct text *text, const char *string)
{
    size_t length = strlen(string);

    INLAY_CHECK(text->bytes == 0 || text->used < text->bytes);
    if (text->bytes == 0)
        return;
    if (length < text->bytes - text->used) {
        memcpy(text->out + text->used, string, length + 1);
        text->used += length;
    } else if (text->bytes > 4) { /* truncate with dots; further texts do not fit */
        size_t at = text->used < text->bytes - 4 ? text->used : text->bytes - 4;

        memcpy(text->out + at, "...", 4);
        text->used = text->bytes - 1;
    }
}

void op_value_type_text(const op_value_type *type, char *out, size_t bytes)
{
    struct text text = { .out = out, .bytes = bytes };
    uint32_t core = type->kind;
    const char *close = "";

    if (bytes > 0)
        out[0] = '\0';
    if (core == INLAY_VALUE_OPTIONAL) {
        put(&text, type->inner_kind == INLAY_VALUE_SEQUENCE ? "optional(seq(" : "optional(");
        close = type->inner_kind == INLAY_VALUE_SEQUENCE ? "))" : ")";
        core = INLAY_VALUE_TENSOR;
    } else if (core == INLAY_VALUE_SEQUENCE) {
        put(&text, "seq(");
        close = ")";
        core = type->inner_kind;
    }
    if (core == INLAY_VALUE_MAP) {
        put(&text, "map(");
        put(&text, inlay_dtype_name(type->map_key));
        put(&text, ",");
        put(&text, inlay_dtype_name(type->dtype));
        put(&text, ")");
    } else {
        put(&text, inlay_dtype_name(type->dtype));
    }
    put(&text, close);
}

void op_types_each(const op_types *types, bool (*visit)(void *ctx, const op_value_type *type), void *ctx)
{
    static const inlay_dtype keys[] = { INLAY_INT64, INLAY_STRING };
    const struct {
        uint64_t set;
        uint32_t kind, inner_kind;
    } plain[] = {
        { types->tensor, INLAY_VALUE_TENSOR, 0 },
        { types->sequence, INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR },
        { types->optional, INLAY_VALUE_OPTIONAL, INLAY_VALUE_TENSOR },
        { types->optional_sequence, INLAY_VALUE_OPTIONAL, INLAY_VALUE_SEQUENCE },
    }, maps[] = {
        { types->map, INLAY_VALUE_MAP, 0 },
        { types->sequence_map, INLAY_VALUE_SEQUENCE, INLAY_VALUE_MAP },
    };

    for (uint32_t p = 0; p < OP_COUNT(plain); p++)
        for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
            if ((plain[p].set & INLAY_DTYPE_BIT(dtype)) != 0 &&
                !visit(ctx, &(op_value_type){ plain[p].kind, plain[p].inner_kind, dtype, INLAY_UNDEFINED }))
                return;
    for (uint32_t m = 0; m < OP_COUNT(maps); m++)
        for (uint32_t k = 0; k < OP_COUNT(keys); k++)
            for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
                if ((maps[m].set & op_map_bit(keys[k], dtype)) != 0 &&
                    !visit(ctx, &(op_value_type){ maps[m].kind, maps[m].inner_kind, dtype, keys[k] }))
                    return;
}

struct listing {
    struct text text;
    uint32_t seen, total;
};

static bool count_type(void *ctx, const op_value_type *type)
{
    (void)type;
    ((struct listing *)ctx)->total++;
    return true;
}

static bool list_type(void *ctx, const op_value_type *type)
{
    struct listing *listing = ctx;
    char one[48];

    op_value_type_text(type, one, sizeof one);
    if (listing->seen > 0)
        put(&listing->text, listing->seen + 1 == listing->total ? " or " : ", ");
    put(&listing->text, one);
    listing->seen++;
    return true;
}

void op_types_text(const op_types *types, char *out, size_t bytes)
{
    struct listing listing = { .text = { .out = out, .bytes = bytes } };

    if (bytes > 0)
        out[0] = '\0';
    op_types_each(types, count_type, &listing);
    op_types_each(types, list_type, &listing);
}

struct search {
    const op_value_type *wanted;
    op_value_type first;
    uint32_t count;
    bool found;
};

static bool match_type(void *ctx, const op_value_type *type)
{
    struct search *search = ctx;
    const op_value_type *wanted = search->wanted;

    search->found = wanted->kind == type->kind && (wanted->inner_kind == 0 || wanted->inner_kind == type->inner_kind) &&
                    (wanted->dtype == INLAY_UNDEFINED || wanted->dtype == type->dtype) &&
                    (wanted->map_key == INLAY_UNDEFINED || wanted->map_key == type->map_key);
    return !search->found;
}

bool op_types_allow(const op_types *types, const op_value_type *type)
{
    struct search search = { .wanted = type };

    if (type->kind == 0)
        return true;
    op_types_each(types, match_type, &search);
    return search.found;
}

static bool keep_first(void *ctx, const op_value_type *type)
{
    struct search *search = ctx;

    if (search->count == 0)
        search->first = *type;
    return ++search->count < 2;
}

bool op_types_single(const op_types *types, op_value_type *out)
{
    struct search search = { 0 };

    op_types_each(types, keep_first, &search);
    if (search.count == 1)
        *out = search.first;
    return search.count == 1;
}

const op_attr *op_find_attr(const op_schema *schema, const char *name)
{
    for (uint32_t i = 0; i < schema->attr_count; i++)
        if (strcmp(schema->attrs[i].name, name) == 0)
            return &schema->attrs[i];
    return NULL;
}

const op_formal *op_input_formal(const op_schema *schema, uint32_t i)
{
    INLAY_CHECK(schema->max_inputs != UINT32_MAX || schema->input_count > 0);
    if (i < schema->input_count)
        return &schema->inputs[i];
    return schema->max_inputs == UINT32_MAX ? &schema->inputs[schema->input_count - 1] : NULL;
}

const op_formal *op_output_formal(const op_schema *schema, uint32_t i)
{
    INLAY_CHECK(schema->max_outputs != UINT32_MAX || schema->output_count > 0);
    if (i < schema->output_count)
        return &schema->outputs[i];
    return schema->max_outputs == UINT32_MAX ? &schema->outputs[schema->output_count - 1] : NULL;
}

static bool is_known(const op_value_type *type)
{
    return type->kind != 0 && type->dtype != INLAY_UNDEFINED;
}

static bool is_same(const op_value_type *a, const op_value_type *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->map_key == b->map_key &&
           (a->inner_kind == b->inner_kind || a->inner_kind == 0 || b->inner_kind == 0);
}

/* The type of a type parameter in a node, and the input that determined it. */
struct binding {
    op_value_type type;
    uint32_t input;
};

enum { MAX_PARAMS = 3 * OP_MAX_FORMALS };

/* Checks the type of input i against the set of its formal and against earlier inputs of the same type parameter. */
static inlay_status check_input(const op_schema *schema, const inlay_node_info *node, uint32_t i,
                                const op_value_type *type, struct binding *bound, inlay_diag *diag)
{
    const op_formal *formal = op_input_formal(schema, i);
    char got[48], allowed[200];
    struct binding *binding;

    if (formal == NULL || !is_known(type))
        return INLAY_OK;
    INLAY_CHECK(formal->type_param >= 0 && (uint32_t)formal->type_param < schema->type_count);
    op_value_type_text(type, got, sizeof got);
    if (!op_types_allow(&schema->types[formal->type_param].types, type)) {
        op_types_text(&schema->types[formal->type_param].types, allowed, sizeof allowed);
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "%.48s node '%.80s': input %u (%.48s) is %s; %.48s-%u takes %s there", node->op_type.data,
                          node->name.data, i, formal->name, got, node->op_type.data, node->since_version, allowed);
    }
    if (formal->option == OP_VARIADIC_MIXED)
        return INLAY_OK;
    binding = &bound[formal->type_param];
    if (binding->type.kind == 0) {
        binding->type = *type;
        binding->input = i;
    } else if (!is_same(&binding->type, type)) {
        op_value_type_text(&binding->type, allowed, sizeof allowed);
        return inlay_fail(
            diag, INLAY_INVALID_MODEL,
            "%.48s node '%.80s': input %u (%.48s) is %s but input %u is %s; they must have the same type: "
            "insert a Cast",
            node->op_type.data, node->name.data, i, formal->name, got, binding->input, allowed);
    }
    return INLAY_OK;
}

inlay_status op_infer_types(const op_schema *schema, const inlay_node_info *node, const op_value_type *in,
                            op_value_type *out, inlay_diag *diag)
{
    struct binding bound[MAX_PARAMS];
    inlay_status status = INLAY_OK;

    INLAY_CHECK(schema->type_count <= MAX_PARAMS);
    memset(bound, 0, sizeof bound);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] != INLAY_NONE)
            INLAY_TRY(check_input(schema, node, i, &in[i], bound, diag));
    for (uint32_t output = 0; output < node->output_count; output++) {
        const op_formal *formal = op_output_formal(schema, output);

        if (formal == NULL || node->outputs[output] == INLAY_NONE)
            continue;
        if (formal->option != OP_VARIADIC_MIXED && bound[formal->type_param].type.kind != 0)
            out[output] = bound[formal->type_param].type;
        else
            (void)op_types_single(&schema->types[formal->type_param].types, &out[output]);
    }
done:
    if (status != INLAY_OK && diag != NULL && diag->struct_size >= sizeof *diag)
        (void)snprintf(diag->node, sizeof diag->node, "%s", node->name.data);
    return status;
}
