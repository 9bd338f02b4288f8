#include "plugin/schemas.h"
#include "base/arena.h"
#include "base/memory.h"
#include "schema.h"
#include <stdio.h>

_Static_assert((int)OP_SINGLE == INLAY_FORMAL_SINGLE && (int)OP_OPTIONAL == INLAY_FORMAL_OPTIONAL &&
                   (int)OP_VARIADIC == INLAY_FORMAL_VARIADIC && (int)OP_VARIADIC_MIXED == INLAY_FORMAL_VARIADIC_MIXED,
               "the numbers of extensions.h are those of schema.h");

/* Collects the texts of types. */
struct type_texts {
    struct arena *arena;
    const char **list; /* [count]; NULL: they are only counted */
    uint32_t count;
    bool failed;
};

/* Writes the type as ONNX does: "tensor(float)", "seq(tensor(float))", "map(int64,tensor(float))". */
static void write_type(const op_value_type *type, char text[64])
{
    const char *element = inlay_dtype_name(type->dtype);
    const uint32_t core = type->kind == INLAY_VALUE_SEQUENCE ? type->inner_kind : type->kind;
    char inner[48];

    if (core == INLAY_VALUE_MAP)
        (void)snprintf(inner, sizeof inner, "map(%s,tensor(%s))", inlay_dtype_name(type->map_key), element);
    else if (core == INLAY_VALUE_OPTIONAL && type->inner_kind == INLAY_VALUE_SEQUENCE)
        (void)snprintf(inner, sizeof inner, "optional(seq(tensor(%s)))", element);
    else if (core == INLAY_VALUE_OPTIONAL)
        (void)snprintf(inner, sizeof inner, "optional(tensor(%s))", element);
    else
        (void)snprintf(inner, sizeof inner, "tensor(%s)", element);
    (void)snprintf(text, 64, type->kind == INLAY_VALUE_SEQUENCE ? "seq(%s)" : "%s", inner);
}

static bool add_type(void *ctx, const op_value_type *type)
{
    struct type_texts *texts = ctx;
    char text[64];

    write_type(type, text);
    if (texts->list != NULL) {
        texts->list[texts->count] = arena_string(texts->arena, text);
        texts->failed = texts->failed || texts->list[texts->count] == NULL;
    }
    texts->count++;
    return !texts->failed;
}

static bool convert_types(struct arena *arena, const op_type_param *from, inlay_schema_types *out)
{
    struct type_texts texts = { .arena = arena };

    op_types_each(&from->types, add_type, &texts);
    texts.list = arena_array(arena, (size_t)texts.count + 1, sizeof *texts.list);
    if (texts.list == NULL)
        return false;
    texts.count = 0;
    op_types_each(&from->types, add_type, &texts);
    *out = (inlay_schema_types){ .name = from->name, .types = texts.list, .type_count = texts.count };
    return !texts.failed;
}

static inlay_formal *convert_formals(struct arena *arena, const op_formal *from, uint32_t count)
{
    inlay_formal *formals = arena_array(arena, (size_t)count + 1, sizeof *formals);

    for (uint32_t i = 0; formals != NULL && i < count; i++)
        formals[i] = (inlay_formal){ .name = from[i].name,
                                     .option = from[i].option,
                                     .least_count = from[i].option == OP_SINGLE     ? 1
                                                    : from[i].option == OP_OPTIONAL ? 0
                                                                                    : from[i].min_arity,
                                     .types = (uint32_t)from[i].type_param };
    return formals;
}

inlay_status schema_find(void *ctx, const char *domain, const char *op_type, int64_t opset,
                         void (*receive)(void *user, const inlay_schema *schema), void *user, inlay_diag *diag)
{
    const op_row *row = op_find(domain, op_type, opset, NULL);
    struct arena arena = { 0 };
    inlay_schema_types *types;
    inlay_status status;
    op_schema parsed;

    (void)ctx;
    if (row == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "there is no operator %.64s of domain %.64s at version %lld", op_type,
                          domain[0] != '\0' ? domain : "ai.onnx", (long long)opset);
    status = op_schema_parse(row->signature, arena_alloc_callback, &arena, &parsed, diag);
    if (status == INLAY_OK) {
        inlay_schema schema = { .struct_size = sizeof schema,
                                .inputs = convert_formals(&arena, parsed.inputs, parsed.input_count),
                                .outputs = convert_formals(&arena, parsed.outputs, parsed.output_count),
                                .formal_stride = sizeof(inlay_formal),
                                .types_stride = sizeof(inlay_schema_types),
                                .input_count = parsed.input_count,
                                .output_count = parsed.output_count,
                                .type_count = parsed.type_count,
                                .since_version = row->since_version };
        bool ok;

        schema.types = types = arena_array(&arena, (size_t)parsed.type_count + 1, sizeof *types);
        ok = types != NULL && schema.inputs != NULL && schema.outputs != NULL;
        for (uint32_t i = 0; ok && i < parsed.type_count; i++)
            ok = convert_types(&arena, &parsed.types[i], &types[i]);
        if (ok)
            receive(user, &schema);
        else
            status = no_memory(diag, "for the schema of %.64s", op_type);
    }
    arena_deinit(&arena);
    return status;
}
