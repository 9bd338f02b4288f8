/* inlay/operator_schema.hpp - schemas, attributes and shapes of operator.hpp, which includes this file. */
#ifndef INLAY_OPERATOR_SCHEMA_HPP
#define INLAY_OPERATOR_SCHEMA_HPP
#include "inlay/operator_detail.hpp"

namespace inlay {

template <auto... F> spec op(const char *type, const char *signature)
{
    static_assert(sizeof...(F) > 0, "an operator has a function");
    return { type, signature, detail::forms_of<F...>, sizeof...(F), nullptr, 1, 0, nullptr, nullptr, {}, {} };
}

template <auto Make> spec spec::with_state() const
{
    spec s = *this;

    s.maker = detail::made<Make>::functions;
    return s;
}

namespace detail {

/* ------------------------------------------------------------------ the text */

inline void skip_blanks(const char *&text)
{
    while (*text == ' ' || *text == '\n' || *text == '\t')
        text++;
}

/* Reads the next parameter of the text: up to a comma, the arrow or the end, without the blanks around it. Commas within
 * quotes and brackets belong to it. */
inline std::string next_name(const char *&text)
{
    std::string name;
    bool quoted = false, listed = false;

    skip_blanks(text);
    if (*text == ',')
        text++;
    skip_blanks(text);
    while (*text != '\0' && (quoted || listed || (*text != ',' && std::strncmp(text, "->", 2) != 0))) {
        quoted ^= *text == '\'';
        if (!quoted)
            listed = *text == '[' || (listed && *text != ']');
        name += *text++;
    }
    while (!name.empty() && name.back() == ' ')
        name.pop_back();
    return name;
}

/* ------------------------------------------------------------------ the signature */

/* Returns the number of the type variable of tensor parameter p: tensors that have the same type in every form share a
 * number. */
inline uint32_t variable_of(const spec &s, uint32_t p)
{
    for (uint32_t q = 0; q < p; q++) {
        bool same = is_tensor(s.forms[0].parameters[q].what);

        for (uint32_t f = 0; same && f < s.form_count; f++)
            same = s.forms[f].parameters[q].dtype == s.forms[f].parameters[p].dtype;
        if (same)
            return q;
    }
    return p;
}

inline void check_parameters(const spec &s)
{
    for (uint32_t f = 0; f < s.form_count; f++) {
        bool same = s.forms[f].count == s.forms[0].count && s.forms[0].count <= MOST_PARAMETERS;

        for (uint32_t p = 0; same && p < s.forms[0].count; p++)
            same = s.forms[f].parameters[p].what == s.forms[0].parameters[p].what;
        if (!same)
            throw std::invalid_argument("its functions differ in more than element types, or have more than 32 "
                                        "parameters");
        for (uint32_t p = 0; p < s.forms[f].count; p++)
            if (s.forms[f].parameters[p].what == STATE && s.forms[f].parameters[p].type != s.maker.type)
                throw std::invalid_argument("a function has a state that is not of the type of with_state");
    }
}

/* Returns the attribute `alpha=0.5` in the syntax of the schema, and stores its name. */
inline std::string describe_attribute(opened &op, kind what, const std::string &text)
{
    const char *const letters[] = { "i", "f", "s", "is", "fs", "ss" }; /* static: plugins would share one copy */
    const size_t equals = text.find('=');
    std::string name = text.substr(0, equals), value = equals != text.npos ? text.substr(equals + 1) : "";

    while (!name.empty() && name.back() == ' ')
        name.pop_back();
    op.attributes.push_back({ name, what });
    name += std::string(":") + letters[what - INTEGER];
    if (equals == text.npos)
        return name + "!";
    if (what == STRING && value.find('\'') == value.npos)
        value = "'" + value + "'";
    return name + "=" + value;
}

/* Builds "a:T0, b:T0 -> y:T0; T0=float|double; alpha:f=0.5" from the parameters and their names. Throws
 * std::invalid_argument if parameters and names do not agree. */
inline void build_signature(opened &op)
{
    const spec &s = op.s;
    const form &first = s.forms[0];
    const std::string quoted = std::string("'") + s.signature + "'";
    std::string attributes, types;
    const char *text = s.signature;
    bool ends = false; /* the last tensor is variadic */

    check_parameters(s);
    for (uint32_t p = 0; p < first.count; p++) {
        const kind what = first.parameters[p].what;

        if (what == CALL || what == STATE)
            continue;
        if (is_output(what) && op.out_count == 0) {
            skip_blanks(text);
            if (std::strncmp(text, "->", 2) != 0)
                throw std::invalid_argument(quoted + " needs '->' after the names of its " +
                                            std::to_string(op.in_count + op.attributes.size()) +
                                            " inputs and attributes");
            text += 2;
            op.signature += " ->";
        } else if (!is_output(what) && op.out_count > 0) {
            throw std::invalid_argument("outputs come last");
        }
        const std::string name = next_name(text);
        if (is_tensor(what) && ends && is_output(what) == (op.out_count > 0))
            throw std::invalid_argument("a variadic input or output comes last");
        ends = is_tensor(what) ? what == VARIADIC || what == VARIADIC_OUTPUT : ends;
        const char *const mark = what == OPTIONAL || what == OPTIONAL_OUTPUT ? "?"
                                 : what == VARIADIC || what == VARIADIC_OUTPUT ? "*"
                                                                               : "";
        const std::string typed = mark + (":T" + std::to_string(is_tensor(what) ? variable_of(s, p) : 0));

        if (name.empty())
            throw std::invalid_argument(quoted + " has no name for parameter " + std::to_string(p));
        if (is_attribute(what)) {
            attributes += op.attributes.empty() ? "; " : ", ";
            attributes += describe_attribute(op, what, name);
        } else if (is_output(what)) {
            op.signature += (op.out_count++ > 0 ? ", " : " ") + name + typed;
        } else {
            op.signature += (op.in_count++ > 0 ? ", " : "") + name + typed;
        }
    }
    skip_blanks(text);
    if (*text != '\0' || op.out_count == 0)
        throw std::invalid_argument(quoted + " names more than its function has, or no output");
    for (uint32_t p = 0; p < first.count; p++) {
        if (!is_tensor(first.parameters[p].what) || variable_of(s, p) != p)
            continue;
        types += std::string(types.empty() ? "; T" : ", T") + std::to_string(p) + "=";
        for (uint32_t f = 0; f < s.form_count; f++) {
            const std::string dtype = inlay_dtype_name(s.forms[f].parameters[p].dtype);
            bool repeated = false;

            for (uint32_t g = 0; g < f; g++)
                repeated |= s.forms[g].parameters[p].dtype == s.forms[f].parameters[p].dtype;
            types += repeated ? "" : (f > 0 ? "|" : "") + dtype;
        }
    }
    op.signature += types + attributes;
}

/* ------------------------------------------------------------------ attributes */

/* Reads the attributes of a node; the values do not borrow from it. */
inline std::vector<value> read_values(const opened &op, const inlay_node_info *info)
{
    std::vector<value> values(op.attributes.size());

    for (size_t i = 0; i < values.size(); i++) {
        const char *name = op.attributes[i].name.c_str();
        const inlay_attr_info *a = kit_attr(info, name);
        value &v = values[i];

        v.i = kit_attr_int(info, name, 0);
        v.f = kit_attr_float(info, name, 0);
        v.s = kit_attr_string(info, name, "");
        if (a == nullptr)
            continue;
        if (a->kind == INLAY_ATTR_INTS)
            v.ints.assign(a->ints, a->ints + a->count);
        if (a->kind == INLAY_ATTR_FLOATS)
            v.floats.assign(a->floats, a->floats + a->count);
        for (uint32_t k = 0; a->kind == INLAY_ATTR_STRINGS && k < a->count; k++)
            v.strings.emplace_back(a->strings[k].data, a->strings[k].bytes);
        for (const std::string &s : v.strings)
            v.texts.push_back(s.c_str());
    }
    return values;
}

inline const value &find_value(const attributes &a, const char *name, kind what)
{
    for (size_t i = 0; i < a.op->attributes.size(); i++)
        if (a.op->attributes[i].what == what && a.op->attributes[i].name == name)
            return a.values[i];
    throw std::invalid_argument(std::string("it has no attribute '") + name + "' of this type");
}
}

inline int64_t attributes::integer(const char *name) const
{
    return detail::find_value(*this, name, detail::INTEGER).i;
}
inline double attributes::number(const char *name) const
{
    return detail::find_value(*this, name, detail::FLOAT).f;
}
inline const char *attributes::text(const char *name) const
{
    return detail::find_value(*this, name, detail::STRING).s.c_str();
}
inline list<int64_t> attributes::integers(const char *name) const
{
    return detail::list_of(detail::find_value(*this, name, detail::INTEGERS).ints);
}
inline list<float> attributes::numbers(const char *name) const
{
    return detail::list_of(detail::find_value(*this, name, detail::FLOATS).floats);
}
inline list<const char *> attributes::texts(const char *name) const
{
    return detail::list_of(detail::find_value(*this, name, detail::STRINGS).texts);
}

/* ------------------------------------------------------------------ shapes */

namespace detail {

/* The shapes of the inputs of a node, in the form that shape functions get. */
struct input_shapes {
    std::vector<input_shape> in;
    std::vector<dim> dims; /* [in.size() * INLAY_MAX_RANK] */

    /* Adds an input; returns its sizes, [rank], which the caller must set. */
    dim *add(uint32_t rank, inlay_dtype dtype)
    {
        const size_t i = in.size();

        in.push_back({ &dims[i * INLAY_MAX_RANK], rank, dtype });
        return &dims[i * INLAY_MAX_RANK];
    }
    explicit input_shapes(uint32_t count) : dims(static_cast<size_t>(count) * INLAY_MAX_RANK + 1) { in.reserve(count); }
};

inline input_shapes shapes_of(const kit_tensor *in, uint32_t count)
{
    input_shapes out(count);

    for (uint32_t i = 0; i < count; i++) {
        dim *dims = out.add(in[i].rank, in[i].dtype);

        for (uint32_t d = 0; d < in[i].rank && d < INLAY_MAX_RANK; d++)
            dims[d] = in[i].dims[d];
    }
    return out;
}

/* Returns false if the rank of an input is unknown. */
inline bool take_shapes(const inlay_infer *in, input_shapes *out)
{
    for (uint32_t i = 0; i < in->input_count; i++) {
        const inlay_value_info *v = in->inputs[i];

        if (v != nullptr && v->rank == INLAY_RANK_UNKNOWN)
            return false;
        dim *dims = out->add(v != nullptr ? v->rank : 0, v != nullptr ? v->dtype : INLAY_UNDEFINED);

        for (uint32_t d = 0; v != nullptr && d < v->rank && d < INLAY_MAX_RANK; d++)
            dims[d] = v->dims[d].kind == INLAY_DIM_FIXED ? dim(v->dims[d].value)
                              : dim::unknown(v->dims[d].kind == INLAY_DIM_SYMBOLIC ? v->dims[d].symbol : INLAY_NONE);
    }
    return true;
}

/* Calls the shape function. Outputs whose shape it did not set remain unset. */
inline void compute_shapes(const opened &op, const value *values, const input_shapes &in, shapes *out)
{
    out->op = &op;
    out->values = values;
    out->in = in.in.data();
    out->in_count = static_cast<uint32_t>(in.in.size());
    std::memset(out->is_set, 0, sizeof out->is_set);
    try {
        if (op.s.shape != nullptr)
            op.s.shape(*out);
        else
            for (uint32_t o = 0; !in.in.empty() && o < shapes::most_outputs; o++)
                if (op.output_kind(o) != RESULT)
                    out->set_like(o, 0);
    } catch (const unknown_size &) {
    }
}

inline inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const opened &op = *static_cast<const opened *>(ctx);

    return guarded(diag, op.s.type, [&] {
        const std::vector<value> values = read_values(op, in->node);
        input_shapes inputs(in->input_count);
        shapes s;

        if (!take_shapes(in, &inputs))
            return;
        compute_shapes(op, values.data(), inputs, &s);
        for (uint32_t o = 0; o < in->output_count && o < shapes::most_outputs; o++) {
            inlay_dim out[INLAY_MAX_RANK] = {};
            inlay_status status;

            if (!s.is_set[o])
                continue;
            for (uint32_t d = 0; d < s.rank[o]; d++) {
                const dim &size = s.dims[o][d];

                if (size.known())
                    out[d].value = size;
                else if (size.symbol() != INLAY_NONE)
                    out[d] = { -1, INLAY_DIM_SYMBOLIC, size.symbol() };
                else
                    out[d] = { -1, INLAY_DIM_UNKNOWN, 0 };
            }
            status = in->set_output(in->ctx, o, INLAY_UNDEFINED, s.rank[o], out);
            if (status != INLAY_OK)
                throw stopped(status);
        }
    });
}

/* ------------------------------------------------------------------ examples */

inline inlay_str string_of(const std::string &s)
{
    inlay_str str = {};

    str.data = s.c_str();
    str.bytes = static_cast<decltype(str.bytes)>(s.size());
    return str;
}

inline void build_views(const std::vector<array> &arrays, std::vector<inlay_tensor_view> &out,
                        std::vector<std::vector<inlay_str>> &elements)
{
    for (const array &a : arrays) {
        inlay_tensor_view view = { a.bytes.data(), a.bytes.size(), a.dims.data(), static_cast<uint32_t>(a.dims.size()),
                                   a.dtype };

        if (a.dtype == INLAY_STRING) {
            std::vector<inlay_str> texts;

            for (const std::string &s : a.strings)
                texts.push_back(string_of(s));
            elements.push_back(std::move(texts)); /* a vector that is moved keeps its elements */
            view.data = elements.back().data();
            view.bytes = elements.back().size() * sizeof(inlay_str);
        }
        out.push_back(view);
    }
}

inline void build_examples(opened &op)
{
    for (const example &e : op.s.examples) {
        op.built.push_back(std::make_unique<built_example>());
        built_example &b = *op.built.back();
        inlay_op_example out = {};

        b.source = e;
        build_views(b.source.in, b.in, b.elements);
        build_views(b.source.out, b.out, b.elements);
        for (const setting &s : b.source.settings) {
            inlay_attr_info a = {};

            b.strings.emplace_back();
            for (const std::string &text : s.strings)
                b.strings.back().push_back(string_of(text));
            a.name = string_of(s.name);
            a.kind = s.kind;
            a.i = s.i;
            a.f = s.f;
            a.s = s.kind == INLAY_ATTR_STRING ? string_of(s.strings[0]) : inlay_str{};
            a.ints = s.ints.data();
            a.floats = s.floats.data();
            a.strings = b.strings.back().data();
            a.count = static_cast<uint32_t>(s.kind == INLAY_ATTR_INTS     ? s.ints.size()
                                            : s.kind == INLAY_ATTR_FLOATS ? s.floats.size()
                                            : s.kind == INLAY_ATTR_STRINGS ? s.strings.size() : 0);
            b.attrs.push_back(a);
        }
        out.name = b.source.name;
        out.attrs = b.attrs.data();
        out.inputs = b.in.data();
        out.outputs = b.out.data();
        out.attr_count = static_cast<uint32_t>(b.attrs.size());
        out.attr_stride = sizeof(inlay_attr_info);
        out.input_count = static_cast<uint32_t>(b.in.size());
        out.output_count = static_cast<uint32_t>(b.out.size());
        out.rtol = b.source.rtol;
        out.atol = b.source.atol;
        op.examples.push_back(out);
    }
}
}
}
#endif
