/* inlay/operator_detail.hpp - implementation of operator.hpp, which includes it. */
#ifndef INLAY_OPERATOR_DETAIL_HPP
#define INLAY_OPERATOR_DETAIL_HPP
#include "inlay/operator.hpp"

namespace inlay {
namespace detail {

/* ------------------------------------------------------------------ schemas */

enum : uint32_t { MOST_OPERATORS = 64, MOST_PARAMETERS = 24, NAME_BYTES = 64, SIGNATURE_BYTES = 2048 };

/* An operator of an open plugin. */
struct opened {
    spec s;
    uint32_t value_count, in_count, out_count;
    char names[MOST_PARAMETERS][NAME_BYTES]; /* names of attributes */
    kind kinds[MOST_PARAMETERS];
    char signature[SIGNATURE_BYTES];
};

inline int64_t integer_of(const opened &op, const value *values, const char *name)
{
    for (uint32_t i = 0; i < op.value_count; i++)
        if (op.kinds[i] == INTEGER && std::strcmp(op.names[i], name) == 0)
            return values[i].i;
    throw std::invalid_argument("the shape function reads an integer attribute that the operator does not have");
}

/* Appends text to a fixed buffer; `full` becomes true if it does not fit. */
struct writer {
    char *at, *end;
    bool full;

    INLAY_PRINTF(2, 3) void say(const char *format, ...)
    {
        va_list args;
        int n;

        va_start(args, format);
        n = std::vsnprintf(at, static_cast<size_t>(end - at), format, args);
        va_end(args);
        full = full || n < 0 || n >= end - at;
        at = full ? at : at + n;
    }
};

/* Reads the next name of the text: up to a comma, the arrow or the end, without the blanks around it. Returns false if
 * no name is left. */
inline bool next_name(const char *&text, char (&out)[2 * NAME_BYTES])
{
    size_t n = 0;

    while (*text == ' ' || *text == ',')
        text++;
    while (*text != '\0' && *text != ',' && std::strncmp(text, "->", 2) != 0 && n + 1 < sizeof out)
        out[n++] = *text++;
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
    return n > 0;
}

/* Returns the number of the type variable of tensor parameter p: tensors that have the same type in every form share
 * one. */
inline uint32_t variable_of(const spec &s, uint32_t p)
{
    for (uint32_t q = 0; q < p; q++) {
        bool same = s.forms[0].parameters[q].what <= OUTPUT;

        for (uint32_t f = 0; same && f < s.form_count; f++)
            same = s.forms[f].parameters[q].dtype == s.forms[f].parameters[p].dtype;
        if (same)
            return q;
    }
    return p;
}

inline bool same_parameters(const spec &s)
{
    for (uint32_t f = 1; f < s.form_count; f++) {
        if (s.forms[f].count != s.forms[0].count)
            return false;
        for (uint32_t p = 0; p < s.forms[0].count; p++)
            if (s.forms[f].parameters[p].what != s.forms[0].parameters[p].what)
                return false;
    }
    return s.forms[0].count <= MOST_PARAMETERS;
}

/* Appends the attribute `alpha=0.5` in the syntax of the schema, and stores its name. */
inline void write_attribute(opened &op, writer &out, kind what, char *name)
{
    char *value = std::strchr(name, '=');
    const char letter = what == INTEGER ? 'i' : what == FLOAT ? 'f' : 's';
    const uint32_t at = op.value_count++;

    if (value != nullptr)
        *value++ = '\0';
    op.kinds[at] = what;
    (void)std::snprintf(op.names[at], sizeof op.names[at], "%.60s", name);
    if (value == nullptr)
        out.say("%s %s:%c!", at == 0 ? ";" : ",", op.names[at], letter);
    else if (what == STRING && *value != '\'')
        out.say("%s %s:%c='%s'", at == 0 ? ";" : ",", op.names[at], letter, value);
    else
        out.say("%s %s:%c=%s", at == 0 ? ";" : ",", op.names[at], letter, value);
}

/* Builds "a:T0, b:T0 -> y:T0; T0=float|double; alpha:f=0.5" from the parameters and their names. */
inline inlay_status write_signature(opened &op, inlay_diag *diag)
{
    const spec &s = op.s;
    const form &first = s.forms[0];
    char attributes[SIGNATURE_BYTES] = "", name[2 * NAME_BYTES];
    writer out = { op.signature, op.signature + sizeof op.signature, false };
    writer attrs = { attributes, attributes + sizeof attributes, false };
    const char *text = s.text;
    uint32_t vars = 0;

    if (!same_parameters(s))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "operator %s: its functions differ in more than element types, "
                          "or have more than %u parameters", s.type, static_cast<unsigned>(MOST_PARAMETERS));
    for (uint32_t p = 0; p < first.count; p++) {
        const kind what = first.parameters[p].what;

        if (what == CALL)
            continue;
        if (what == OUTPUT && op.out_count == 0) {
            while (*text == ' ')
                text++;
            if (std::strncmp(text, "->", 2) != 0)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "operator %s: '%s' needs '->' after the names of its "
                                  "%u inputs and attributes", s.type, s.text, op.in_count + op.value_count);
            text += 2;
            out.say(" ->");
        } else if (what != OUTPUT && op.out_count > 0) {
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "operator %s: outputs come last", s.type);
        }
        if (!next_name(text, name))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "operator %s: '%s' has no name for parameter %u", s.type,
                              s.text, p);
        if (what > OUTPUT)
            write_attribute(op, attrs, what, name);
        else if (what == OUTPUT)
            out.say("%s %s:T%u", op.out_count++ > 0 ? "," : "", name, variable_of(s, p));
        else
            out.say("%s%s%s:T%u", op.in_count++ > 0 ? ", " : "", name, what == OPTIONAL ? "?" : "", variable_of(s, p));
    }
    while (*text == ' ')
        text++;
    if (*text != '\0' || op.out_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "operator %s: '%s' names more than its function has, or no "
                          "output", s.type, s.text);
    for (uint32_t p = 0; p < first.count; p++) {
        if (first.parameters[p].what > OUTPUT || variable_of(s, p) != p)
            continue;
        out.say("%s T%u=", vars++ == 0 ? ";" : ",", p);
        for (uint32_t f = 0; f < s.form_count; f++)
            out.say("%s%s", f > 0 ? "|" : "", inlay_dtype_name(s.forms[f].parameters[p].dtype));
    }
    out.say("%s", attributes);
    return out.full || attrs.full ? inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "operator %s: its schema is too long", s.type)
                                  : INLAY_OK;
}

/* ------------------------------------------------------------------ exceptions */

/* Calls fn and converts exceptions to a status; none leaves the plugin. */
template <class F> inlay_status guarded(inlay_diag *diag, const char *type, F fn)
{
    try {
        fn();
        return INLAY_OK;
    } catch (const stopped &e) {
        return e.status;
    } catch (const std::bad_alloc &) {
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory", type);
    } catch (const std::invalid_argument &e) {
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s", type, e.what());
    } catch (const std::exception &e) {
        return inlay_fail(diag, INLAY_INTERNAL, "%s: %s", type, e.what());
    } catch (...) {
        return inlay_fail(diag, INLAY_INTERNAL, "%s: an exception without a text", type);
    }
}

/* ------------------------------------------------------------------ shapes */

/* Strings borrow from the node. */
inline void read_values(const opened &op, const inlay_node_info *node, value *out)
{
    for (uint32_t i = 0; i < op.value_count; i++) {
        out[i].i = kit_attr_int(node, op.names[i], 0);
        out[i].f = kit_attr_float(node, op.names[i], 0);
        out[i].s = kit_attr_string(node, op.names[i], "");
    }
}

inline void compute_shapes(const opened &op, const value *values, const kit_tensor *in, uint32_t in_count, shapes *out)
{
    *out = {};
    out->in = in;
    out->in_count = in_count;
    out->op = &op;
    out->values = values;
    op.s.shape(*out);
}

/* Copies the shapes of the inputs. Returns false if a size is unknown or there are too many inputs or axes. */
inline bool known_inputs(const inlay_infer *in, kit_tensor *out, int64_t (*dims)[shapes::most])
{
    if (in->input_count > MOST_PARAMETERS)
        return false;
    for (uint32_t i = 0; i < in->input_count; i++) {
        const inlay_value_info *v = in->inputs[i];

        out[i] = {};
        if (v == nullptr)
            continue;
        if (v->rank == INLAY_RANK_UNKNOWN || v->rank > shapes::most)
            return false;
        for (uint32_t d = 0; d < v->rank; d++) {
            if (v->dims[d].kind != INLAY_DIM_FIXED)
                return false;
            dims[i][d] = v->dims[d].value;
        }
        out[i].dims = dims[i];
        out[i].rank = v->rank;
        out[i].dtype = v->dtype;
    }
    return true;
}

inline inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const opened &op = *static_cast<const opened *>(ctx);
    int64_t dims[MOST_PARAMETERS][shapes::most];
    kit_tensor inputs[MOST_PARAMETERS];
    value values[MOST_PARAMETERS];
    inlay_status status = INLAY_OK;
    shapes s;

    if (op.s.shape == nullptr) {
        const inlay_value_info *x = in->input_count > 0 ? in->inputs[0] : nullptr;

        for (uint32_t o = 0; x != nullptr && o < in->output_count && status == INLAY_OK; o++)
            if (x->rank != INLAY_RANK_UNKNOWN)
                status = in->set_output(in->ctx, o, INLAY_UNDEFINED, x->rank, x->dims);
        return status;
    }
    if (!known_inputs(in, inputs, dims))
        return INLAY_OK;
    read_values(op, in->node, values);
    status = guarded(diag, op.s.type, [&] { compute_shapes(op, values, inputs, in->input_count, &s); });
    for (uint32_t o = 0; status == INLAY_OK && o < in->output_count && o < shapes::most; o++) {
        inlay_dim out[shapes::most] = {};

        for (uint32_t d = 0; d < s.rank[o]; d++)
            out[d].value = s.dims[o][d];
        status = in->set_output(in->ctx, o, INLAY_UNDEFINED, s.rank[o], out);
    }
    return status;
}

/* ------------------------------------------------------------------ kernels */

/* A plugin with its operators; static storage. */
struct plugin {
    opened operators[MOST_OPERATORS];
    inlay_operator described[MOST_OPERATORS];
    kit_kernel kernels[MOST_OPERATORS];
    kit_table table;
    const kit_table *tables[1];
    kit_provider provider;
    kit_plugin self;
    kit_exports exports;
};

struct prepared {
    const opened *op;
    const form *chosen;
    value values[1]; /* [op->value_count], followed by their strings */
};

inline const opened *find_operator(const kit_node *node)
{
    const plugin *p = static_cast<const plugin *>(node->provider);

    for (uint32_t i = 0; i < p->table.count; i++)
        if (std::strcmp(p->operators[i].s.type, node->info->op_type.data) == 0)
            return &p->operators[i];
    return nullptr;
}

/* Finds the function for a node's element types. */
inline const form *find_form(const opened &op, const kit_node *node)
{
    for (uint32_t f = 0; f < op.s.form_count; f++) {
        const form &candidate = op.s.forms[f];
        uint32_t in = 0, out = 0;
        bool fits = true;

        for (uint32_t p = 0; p < candidate.count && fits; p++) {
            const parameter &is = candidate.parameters[p];
            inlay_dtype dtype = INLAY_UNDEFINED;

            if (is.what <= OPTIONAL)
                dtype = kit_input_dtype(node, in++);
            else if (is.what == OUTPUT)
                dtype = kit_output_dtype(node, out++);
            fits = is.what > OUTPUT || dtype == INLAY_UNDEFINED || dtype == is.dtype;
        }
        if (fits)
            return &candidate;
    }
    return nullptr;
}

inline bool supports(const kit_node *node, kit_refusal *why)
{
    const opened *op = find_operator(node);

    if (op != nullptr && find_form(*op, node) != nullptr)
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, "add a function for these element types to op<>",
                      "no function of this plugin takes these element types together");
}

inline inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const opened *op = find_operator(node);
    value values[MOST_PARAMETERS];
    size_t string_bytes = 0;
    prepared *state;
    char *strings;

    read_values(*op, node->info, values);
    for (uint32_t i = 0; i < op->value_count; i++)
        string_bytes += std::strlen(values[i].s) + 1;
    state = static_cast<prepared *>(
        std::calloc(1, sizeof *state + op->value_count * sizeof(value) + string_bytes));
    if (state == nullptr)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory", op->s.type);
    state->op = op;
    state->chosen = find_form(*op, node);
    strings = reinterpret_cast<char *>(state->values + op->value_count);
    for (uint32_t i = 0; i < op->value_count; i++) {
        const size_t bytes = std::strlen(values[i].s) + 1;

        state->values[i] = values[i];
        state->values[i].s = static_cast<const char *>(std::memcpy(strings, values[i].s, bytes));
        strings += bytes;
    }
    *out_state = state;
    return INLAY_OK;
}

inline inlay_status shape(const void *state, kit_plan *plan, inlay_diag *)
{
    const bool computed = static_cast<const prepared *>(state)->op->s.shape != nullptr;

    for (uint32_t o = 0; o < plan->out_count && o < 32; o++)
        if (computed || plan->out[o].count < 0)
            plan->allocates |= UINT32_C(1) << o;
    return INLAY_OK;
}

inline inlay_status allocate(const kit_call *run, const prepared *state)
{
    shapes s;

    if (state->op->s.shape != nullptr)
        compute_shapes(*state->op, state->values, run->in, run->in_count, &s);
    for (uint32_t o = 0; o < run->out_count && o < shapes::most; o++) {
        const bool computed = state->op->s.shape != nullptr;
        inlay_status status;

        if (!kit_has_output(run, o) || run->out[o].data != nullptr)
            continue;
        status = kit_alloc_output(run, o, computed ? s.rank[o] : run->in[0].rank, computed ? s.dims[o] : run->in[0].dims);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

inline inlay_status run(const kit_call *run)
{
    const prepared *state = static_cast<const prepared *>(run->state);
    cursor c = { run, state->values, 0, 0 };

    return guarded(run->diag, state->op->s.type, [&] {
        if (inlay_status status = allocate(run, state); status != INLAY_OK)
            throw stopped(status);
        state->chosen->invoke(c);
    });
}

/* Fills in the structs of the ABI, only once for each process, although a host may open a plugin twice. */
inline inlay_status open(plugin &p, const char *name, const char *domain, const char *version, const spec *specs,
                         uint32_t count, const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag,
                         inlay_status (*provide)(const inlay_host *, const inlay_create_args *, void **, inlay_diag *))
{
    if (count > MOST_OPERATORS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s: at most %u operators in a plugin", name,
                          static_cast<unsigned>(MOST_OPERATORS));
    for (uint32_t i = 0; i < count && p.table.count == 0; i++) {
        opened &op = p.operators[i];

        op = {};
        op.s = specs[i];
        if (inlay_status status = write_signature(op, diag); status != INLAY_OK)
            return status;
        p.described[i] = {};
        p.described[i].struct_size = sizeof p.described[i];
        p.described[i].domain = domain;
        p.described[i].op_type = op.s.type;
        p.described[i].signature = op.signature;
        p.described[i].doc = op.s.doc;
        p.described[i].since_version = op.s.version;
        p.described[i].ctx = &op;
        p.described[i].infer = infer;
        p.kernels[i] = {};
        p.kernels[i].domain = domain;
        p.kernels[i].op_type = op.s.type;
        p.kernels[i].since_max = op.s.version;
        p.kernels[i].supports = supports;
        p.kernels[i].prepare = prepare;
        p.kernels[i].shape = shape;
        p.kernels[i].run = run;
    }
    p.table = { p.kernels, count };
    p.tables[0] = &p.table;
    p.provider = {};
    p.provider.name = name;
    p.provider.description = "operators of a plugin in C++";
    p.provider.tables = p.tables;
    p.provider.table_count = 1;
    p.provider.open = provide;
    p.self = { name, version, &p.provider, p.described, count, 0 };
    return kit_open(&p.self, &p.exports, host, out_plugin, diag);
}
}
}
#endif
