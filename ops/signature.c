/* ops/signature.c - the parser of operator signatures: inputs, outputs, types, attributes. schema.h has the grammar. */
#include "signature.h"
#include "inlay/check.h"
#include <string.h>

/* Skips a type expression and stores its position, because types are declared after the formals that use them. */
static inlay_status read_type_span(struct parser *parser, struct span *out)
{
    uint32_t open = 0;

    sig_skip_space(parser);
    out->begin = parser->at;
    for (; *parser->at != '\0' && *parser->at != ';'; parser->at++) {
        if (*parser->at == '(')
            open++;
        else if (*parser->at == ')' && open > 0)
            open--;
        else if ((*parser->at == ',' && open == 0) || (parser->at[0] == '-' && parser->at[1] == '>'))
            break;
    }
    out->bytes = (size_t)(parser->at - out->begin);
    while (out->bytes > 0 && strchr(" \t\r\n", out->begin[out->bytes - 1]) != NULL)
        out->bytes--;
    return out->bytes > 0 ? INLAY_OK : sig_mistake(parser, parser->at, "expected a type after ':'");
}

static inlay_status read_formal(struct parser *parser, op_formal *formal, struct span *type)
{
    inlay_status status;
    struct span name;

    *formal = (op_formal){ .option = OP_SINGLE, .type_param = -1 };
    INLAY_TRY(sig_read_word(parser, "expected the name of an input or output", &name));
    INLAY_TRY(sig_copy_text(parser, name, &formal->name));
    if (sig_take(parser, '?')) {
        formal->option = OP_OPTIONAL;
    } else if (sig_peek(parser) == '*' || sig_peek(parser) == '%') {
        formal->option = *parser->at++ == '*' ? OP_VARIADIC : OP_VARIADIC_MIXED;
        formal->min_arity = 1;
        if (*parser->at >= '0' && *parser->at <= '9') {
            formal->min_arity = (uint32_t)(*parser->at++ - '0');
            if (*parser->at >= '0' && *parser->at <= '9')
                return sig_mistake(parser, parser->at, "a least count has one digit");
        }
    }
    INLAY_TRY(sig_expect(parser, ':', "expected ':' and a type"));
    status = read_type_span(parser, type);
done:
    return status;
}

static inlay_status read_formals(struct parser *parser, op_formal *formals, struct span *types, uint32_t *out_count)
{
    inlay_status status;

    *out_count = 0;
    if (sig_peek(parser) == '-' || sig_peek(parser) == ';' || sig_peek(parser) == '\0')
        return INLAY_OK;
    do {
        const char *place = parser->at;

        if (*out_count == OP_MAX_FORMALS)
            return sig_too_many(parser, "inputs or outputs", OP_MAX_FORMALS);
        if (*out_count > 0 && formals[*out_count - 1].option >= OP_VARIADIC)
            return sig_mistake(parser, place, "a variadic input or output must be the last");
        INLAY_TRY(read_formal(parser, &formals[*out_count], &types[*out_count]));
        ++*out_count;
    } while (sig_take(parser, ','));
done:
    return status;
}

static inlay_status read_types(struct parser *parser, struct draft *draft)
{
    inlay_status status = INLAY_OK;
    struct span name;

    if (sig_peek(parser) == ';' || sig_peek(parser) == '\0')
        return INLAY_OK;
    do {
        op_type_param *type = &draft->types[draft->type_count];

        if (draft->type_count == OP_MAX_FORMALS)
            return sig_too_many(parser, "types", OP_MAX_FORMALS);
        INLAY_TRY(sig_read_word(parser, "expected the name of a type", &name));
        for (uint32_t i = 0; i < draft->type_count; i++)
            if (sig_span_is(name, draft->types[i].name))
                return sig_mistake(parser, name.begin, "this type is declared twice");
        INLAY_TRY(sig_copy_text(parser, name, &type->name));
        INLAY_TRY(sig_expect(parser, '=', "expected '=' and a set of types"));
        INLAY_TRY(sig_read_set(parser, 0, &type->types));
        draft->type_count++;
    } while (sig_take(parser, ','));
done:
    return status;
}

/* Resolves the types of formals. A set of types that is not a declared name becomes a type parameter without a name. */
static inlay_status resolve_types(struct parser *parser, struct draft *draft, op_formal *formals,
                                  const struct span *types, uint32_t count)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        struct parser inner = *parser;

        for (uint32_t type = 0; type < draft->type_count && formals[i].type_param < 0; type++)
            if (draft->types[type].name[0] != '\0' && sig_span_is(types[i], draft->types[type].name))
                formals[i].type_param = (int32_t)type;
        if (formals[i].type_param >= 0)
            continue;
        INLAY_CHECK(draft->type_count < sizeof draft->types / sizeof draft->types[0]);
        inner.at = types[i].begin;
        draft->types[draft->type_count].name = "";
        INLAY_TRY(sig_read_set(&inner, 0, &draft->types[draft->type_count].types));
        sig_skip_space(&inner);
        if (inner.at < types[i].begin + types[i].bytes)
            return sig_mistake(parser, inner.at, "expected ',', ';' or '->'");
        formals[i].type_param = (int32_t)draft->type_count++;
    }
done:
    return status;
}

/* The least and the highest number of inputs (outputs) of a node. */
static void count_formals(const op_formal *formals, uint32_t count, uint32_t *out_min, uint32_t *out_max)
{
    *out_min = 0;
    *out_max = count;
    for (uint32_t i = 0; i < count; i++) {
        if (formals[i].option == OP_SINGLE)
            *out_min = i + 1;
        if (formals[i].option >= OP_VARIADIC) {
            *out_max = UINT32_MAX;
            *out_min = i + formals[i].min_arity; /* including optional formals before it, which may be omitted */
        }
    }
}

static inlay_status copy_draft(const struct parser *parser, const struct draft *draft, op_schema *out)
{
    inlay_status status;
    const void *copy = NULL;

    *out = (op_schema){ .input_count = draft->input_count,
                        .output_count = draft->output_count,
                        .type_count = draft->type_count,
                        .attr_count = draft->attr_count,
                        .open_attrs = draft->open_attrs };
    INLAY_TRY(sig_copy(parser, draft->inputs, draft->input_count * sizeof draft->inputs[0], &copy));
    out->inputs = copy;
    INLAY_TRY(sig_copy(parser, draft->outputs, draft->output_count * sizeof draft->outputs[0], &copy));
    out->outputs = copy;
    INLAY_TRY(sig_copy(parser, draft->types, draft->type_count * sizeof draft->types[0], &copy));
    out->types = copy;
    INLAY_TRY(sig_copy(parser, draft->attrs, draft->attr_count * sizeof draft->attrs[0], &copy));
    out->attrs = copy;
    count_formals(draft->inputs, draft->input_count, &out->min_inputs, &out->max_inputs);
    count_formals(draft->outputs, draft->output_count, &out->min_outputs, &out->max_outputs);
done:
    return status;
}

inlay_status op_schema_parse(const char *signature, op_alloc_fn alloc, void *alloc_ctx, op_schema *out_schema,
                             inlay_diag *diag)
{
    inlay_status status;
    struct parser parser = { .text = signature, .at = signature, .alloc = alloc, .alloc_ctx = alloc_ctx, .diag = diag };
    struct draft draft;

    memset(&draft, 0, sizeof draft);
    *out_schema = (op_schema){ 0 };
    INLAY_TRY(read_formals(&parser, draft.inputs, draft.input_types, &draft.input_count));
    INLAY_TRY(sig_expect(&parser, '-', "expected ',' or '->' and the outputs"));
    INLAY_TRY(sig_expect(&parser, '>', "expected '->'"));
    INLAY_TRY(read_formals(&parser, draft.outputs, draft.output_types, &draft.output_count));
    if (sig_take(&parser, ';'))
        INLAY_TRY(read_types(&parser, &draft));
    INLAY_TRY(resolve_types(&parser, &draft, draft.inputs, draft.input_types, draft.input_count));
    INLAY_TRY(resolve_types(&parser, &draft, draft.outputs, draft.output_types, draft.output_count));
    if (sig_take(&parser, ';'))
        INLAY_TRY(sig_read_attrs(&parser, &draft));
    if (sig_peek(&parser) != '\0') {
        status = sig_mistake(&parser, parser.at, "expected the end");
        goto done;
    }
    status = copy_draft(&parser, &draft, out_schema);
done:
    return status;
}
