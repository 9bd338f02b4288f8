/* The parser of operator signatures: inputs, outputs, types, attributes; the grammar stands in schema.h. */
#include "signature.h"
#include <string.h>

/* Skips a type expression and remembers where it is: names of types are declared further on. */
static inlay_status read_type_span(struct parser *p, struct span *out)
{
    uint32_t open = 0;

    sig_skip_space(p);
    out->begin = p->at;
    for (; *p->at != '\0' && *p->at != ';'; p->at++) {
        if (*p->at == '(')
            open++;
        else if (*p->at == ')' && open > 0)
            open--;
        else if ((*p->at == ',' && open == 0) || (p->at[0] == '-' && p->at[1] == '>'))
            break;
    }
    out->bytes = (size_t)(p->at - out->begin);
    while (out->bytes > 0 && strchr(" \t\r\n", out->begin[out->bytes - 1]) != NULL)
        out->bytes--;
    return out->bytes > 0 ? INLAY_OK : sig_mistake(p, p->at, "expected a type after ':'");
}

static inlay_status read_formal(struct parser *p, op_formal *formal, struct span *type)
{
    inlay_status status;
    struct span name;

    *formal = (op_formal){ .option = OP_SINGLE, .type_param = -1 };
    INLAY_TRY(sig_read_word(p, "expected the name of an input or output", &name));
    INLAY_TRY(sig_copy_text(p, name, &formal->name));
    if (sig_take(p, '?')) {
        formal->option = OP_OPTIONAL;
    } else if (sig_peek(p) == '*' || sig_peek(p) == '%') {
        formal->option = *p->at++ == '*' ? OP_VARIADIC : OP_VARIADIC_MIXED;
        formal->min_arity = 1;
        if (*p->at >= '0' && *p->at <= '9') {
            formal->min_arity = (uint32_t)(*p->at++ - '0');
            if (*p->at >= '0' && *p->at <= '9')
                return sig_mistake(p, p->at, "a least count has one digit");
        }
    }
    INLAY_TRY(sig_expect(p, ':', "expected ':' and a type"));
    status = read_type_span(p, type);
done:
    return status;
}

static inlay_status read_formals(struct parser *p, op_formal *formals, struct span *types, uint32_t *out_count)
{
    inlay_status status;

    *out_count = 0;
    if (sig_peek(p) == '-' || sig_peek(p) == ';' || sig_peek(p) == '\0')
        return INLAY_OK;
    do {
        const char *place = p->at;

        if (*out_count == OP_MAX_FORMALS)
            return sig_too_many(p, "inputs or outputs", OP_MAX_FORMALS);
        if (*out_count > 0 && formals[*out_count - 1].option >= OP_VARIADIC)
            return sig_mistake(p, place, "a variadic input or output must be the last");
        INLAY_TRY(read_formal(p, &formals[*out_count], &types[*out_count]));
        ++*out_count;
    } while (sig_take(p, ','));
done:
    return status;
}

static inlay_status read_types(struct parser *p, struct draft *d)
{
    inlay_status status = INLAY_OK;
    struct span name;

    if (sig_peek(p) == ';' || sig_peek(p) == '\0')
        return INLAY_OK;
    do {
        op_type_param *type = &d->types[d->type_count];

        if (d->type_count == OP_MAX_FORMALS)
            return sig_too_many(p, "types", OP_MAX_FORMALS);
        INLAY_TRY(sig_read_word(p, "expected the name of a type", &name));
        for (uint32_t i = 0; i < d->type_count; i++)
            if (sig_span_is(name, d->types[i].name))
                return sig_mistake(p, name.begin, "this type is declared twice");
        INLAY_TRY(sig_copy_text(p, name, &type->name));
        INLAY_TRY(sig_expect(p, '=', "expected '=' and a set of types"));
        INLAY_TRY(sig_read_set(p, 0, &type->types));
        d->type_count++;
    } while (sig_take(p, ','));
done:
    return status;
}

/* Ties formals to declared types; a type that is written out becomes a nameless one. */
static inlay_status resolve_types(struct parser *p, struct draft *d, op_formal *formals, const struct span *types,
                                  uint32_t count)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        struct parser inner = *p;

        for (uint32_t t = 0; t < d->type_count && formals[i].type_param < 0; t++)
            if (d->types[t].name[0] != '\0' && sig_span_is(types[i], d->types[t].name))
                formals[i].type_param = (int32_t)t;
        if (formals[i].type_param >= 0)
            continue;
        inner.at = types[i].begin;
        d->types[d->type_count].name = "";
        INLAY_TRY(sig_read_set(&inner, 0, &d->types[d->type_count].types));
        sig_skip_space(&inner);
        if (inner.at < types[i].begin + types[i].bytes)
            return sig_mistake(p, inner.at, "expected ',', ';' or '->'");
        formals[i].type_param = (int32_t)d->type_count++;
    }
done:
    return status;
}

static void count_formals(const op_formal *formals, uint32_t count, uint32_t *out_min, uint32_t *out_max)
{
    *out_min = 0;
    *out_max = count;
    for (uint32_t i = 0; i < count; i++) {
        if (formals[i].option == OP_SINGLE)
            *out_min = i + 1;
        if (formals[i].option >= OP_VARIADIC) {
            *out_max = UINT32_MAX;
            *out_min = i + formals[i].min_arity; /* places, which may be left empty by optional ones */
        }
    }
}

static inlay_status copy_draft(const struct parser *p, const struct draft *d, op_schema *out)
{
    inlay_status status;
    const void *mine = NULL;

    *out = (op_schema){ .input_count = d->input_count,
                        .output_count = d->output_count,
                        .type_count = d->type_count,
                        .attr_count = d->attr_count,
                        .open_attrs = d->open_attrs };
    INLAY_TRY(sig_copy(p, d->inputs, d->input_count * sizeof d->inputs[0], &mine));
    out->inputs = mine;
    INLAY_TRY(sig_copy(p, d->outputs, d->output_count * sizeof d->outputs[0], &mine));
    out->outputs = mine;
    INLAY_TRY(sig_copy(p, d->types, d->type_count * sizeof d->types[0], &mine));
    out->types = mine;
    INLAY_TRY(sig_copy(p, d->attrs, d->attr_count * sizeof d->attrs[0], &mine));
    out->attrs = mine;
    count_formals(d->inputs, d->input_count, &out->min_inputs, &out->max_inputs);
    count_formals(d->outputs, d->output_count, &out->min_outputs, &out->max_outputs);
done:
    return status;
}

inlay_status op_schema_parse(const char *signature, op_alloc_fn alloc, void *alloc_ctx, op_schema *out_schema,
                             inlay_diag *diag)
{
    inlay_status status;
    struct parser p = { .text = signature, .at = signature, .alloc = alloc, .alloc_ctx = alloc_ctx, .diag = diag };
    struct draft d;

    memset(&d, 0, sizeof d);
    *out_schema = (op_schema){ 0 };
    INLAY_TRY(read_formals(&p, d.inputs, d.input_types, &d.input_count));
    INLAY_TRY(sig_expect(&p, '-', "expected ',' or '->' and the outputs"));
    INLAY_TRY(sig_expect(&p, '>', "expected '->'"));
    INLAY_TRY(read_formals(&p, d.outputs, d.output_types, &d.output_count));
    if (sig_take(&p, ';'))
        INLAY_TRY(read_types(&p, &d));
    INLAY_TRY(resolve_types(&p, &d, d.inputs, d.input_types, d.input_count));
    INLAY_TRY(resolve_types(&p, &d, d.outputs, d.output_types, d.output_count));
    if (sig_take(&p, ';'))
        INLAY_TRY(sig_read_attrs(&p, &d));
    if (sig_peek(&p) != '\0') {
        status = sig_mistake(&p, p.at, "expected the end");
        goto done;
    }
    status = copy_draft(&p, &d, out_schema);
done:
    return status;
}
