/* inlay/operator_kernel.hpp - kernels and the plugin of operator.hpp, which includes this file. */
#ifndef INLAY_OPERATOR_KERNEL_HPP
#define INLAY_OPERATOR_KERNEL_HPP
#include "inlay/operator_schema.hpp"

namespace inlay {

template <class T> optional<const T> node::constant(uint32_t i) const
{
    const inlay_value_info *info = kit_input(raw, i);
    const void *data = info != nullptr && info->dtype == detail::dtype_of<T>() ? kit_constant(raw, i) : nullptr;
    int64_t count = 1;

    if (data == nullptr)
        return {};
    for (uint32_t d = 0; d < info->rank; d++)
        count *= dims[d] = info->dims[d].value;
    return { { static_cast<const T *>(data), dims, count, info->rank } };
}

namespace detail {

/* A node of a session. */
struct prepared {
    const opened *op;
    const form *chosen;
    std::vector<value> values;
    void *state = nullptr; /* of the author's type */

    ~prepared()
    {
        if (state != nullptr)
            op->s.maker.destroy(state);
    }
};

inline const opened *find_operator(const kit_node *node)
{
    for (const opened &op : static_cast<const plugin *>(node->provider)->operators)
        if (op.s.version == node->info->since_version && std::strcmp(op.s.type, node->info->op_type.data) == 0)
            return &op;
    return nullptr;
}

/* Returns true if all tensors of the node that belong to parameter `is` have its type. *at is the index of the first of
 * these tensors, and afterwards the index behind the last. */
inline bool fits(const parameter &is, const kit_node *node, uint32_t *at)
{
    const uint32_t count = is_input(is.what) ? node->info->input_count : node->info->output_count;
    const uint32_t end = is.what == VARIADIC || is.what == VARIADIC_OUTPUT ? count : *at + 1;

    while (*at < end) {
        const inlay_dtype dtype = is_input(is.what) ? kit_input_dtype(node, *at) : kit_output_dtype(node, *at);

        (*at)++;
        if (dtype != is.dtype && (dtype != INLAY_UNDEFINED || is.what == VARIADIC || is.what == VARIADIC_OUTPUT))
            return false;
    }
    return true;
}

/* Finds the function for a node's element types. */
inline const form *find_form(const opened &op, const kit_node *node)
{
    for (uint32_t f = 0; f < op.s.form_count; f++) {
        const form &candidate = op.s.forms[f];
        uint32_t in = 0, out = 0;
        bool all = true;

        for (uint32_t p = 0; p < candidate.count && all; p++)
            all = !is_tensor(candidate.parameters[p].what) ||
                  fits(candidate.parameters[p], node, is_input(candidate.parameters[p].what) ? &in : &out);
        if (all)
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

/* An estimate without the author's function is better than a failure. */
inline void estimate(const kit_node *node, const kit_plan *plan, inlay_cost *cost)
{
    const opened *op = find_operator(node);
    inlay_diag ignored = INLAY_DIAG_INIT;

    if (op == nullptr || op->s.cost == nullptr)
        return;
    for (uint32_t i = 0; i < plan->in_count; i++)
        if (plan->in[i].count < 0)
            return;
    (void)guarded(&ignored, op->s.type, [&] {
        const std::vector<value> values = read_values(*op, node->info);
        const input_shapes inputs = shapes_of(plan->in, plan->in_count);
        shapes s;

        compute_shapes(*op, values.data(), inputs, &s);
        op->s.cost(s, *cost);
    });
}

inline inlay_status prepare(const kit_node *raw, void **out_state, inlay_diag *diag)
{
    const opened *op = find_operator(raw);

    return guarded(diag, op->s.type, [&] {
        auto own = std::make_unique<prepared>();

        own->op = op;
        own->chosen = find_form(*op, raw);
        own->values = read_values(*op, raw->info);
        if (op->s.maker.make != nullptr) {
            node n = {};

            n.op = op;
            n.values = own->values.data();
            n.raw = raw;
            own->state = op->s.maker.make(n);
        }
        *out_state = own.release();
    });
}

inline void release(void *state)
{
    delete static_cast<prepared *>(state);
}

/* Outputs whose shapes are known before the run are planned by the host, unless the function allocates them. */
inline inlay_status shape(const void *state, kit_plan *plan, inlay_diag *)
{
    const prepared &own = *static_cast<const prepared *>(state);

    for (uint32_t o = 0; o < plan->out_count && o < shapes::most_outputs; o++)
        if (plan->out[o].count < 0 || own.op->output_kind(o) == RESULT)
            plan->allocates |= UINT32_C(1) << o;
    return INLAY_OK;
}

using output_dims = int64_t[shapes::most_outputs][INLAY_MAX_RANK];

/* Allocates the outputs that the host has not planned. Their tensors point to dims. */
inline void allocate(const kit_call *run, const prepared &own, output_dims &dims)
{
    const input_shapes inputs = shapes_of(run->in, run->in_count);
    shapes s;

    compute_shapes(*own.op, own.values.data(), inputs, &s);
    for (uint32_t o = 0; o < run->out_count && o < shapes::most_outputs; o++) {
        inlay_status status;

        if (!kit_has_output(run, o) || run->out[o].data != nullptr || own.op->output_kind(o) == RESULT)
            continue;
        if (!s.is_set[o])
            throw std::invalid_argument("the shape function does not set output " + std::to_string(o));
        for (uint32_t d = 0; d < s.rank[o]; d++)
            dims[o][d] = s.dims[o][d];
        status = kit_alloc_output(run, o, s.rank[o], dims[o]);
        if (status != INLAY_OK)
            throw stopped(status);
    }
}

inline inlay_status run(const kit_call *run)
{
    const prepared &own = *static_cast<const prepared *>(run->state);
    cursor c = { run, own.values.data(), own.state, 0, 0 };

    return guarded(run->diag, own.op->s.type, [&] {
        output_dims dims;
        bool missing = false;

        for (uint32_t o = 0; o < run->out_count; o++)
            missing |= kit_has_output(run, o) && run->out[o].data == nullptr && own.op->output_kind(o) != RESULT;
        if (missing)
            allocate(run, own, dims);
        own.chosen->invoke(c);
        for (uint32_t o = 0; o < run->out_count; o++)
            if (kit_has_output(run, o) && run->out[o].data == nullptr)
                throw std::invalid_argument("the function does not allocate output " + std::to_string(o));
    });
}

/* The texts of a plugin. */
struct about {
    const char *name, *domain, *version, *description;
};

inline void describe(plugin &p, const about &texts, opened &op)
{
    inlay_operator described = {};
    kit_kernel kernel = {};

    described.struct_size = sizeof described;
    described.domain = texts.domain;
    described.op_type = op.s.type;
    described.signature = op.signature.c_str();
    described.doc = op.s.doc;
    described.since_version = op.s.version;
    described.ctx = &op;
    described.infer = infer;
    described.examples = op.examples.data();
    described.example_count = static_cast<uint32_t>(op.examples.size());
    described.example_stride = sizeof(inlay_op_example);
    p.described.push_back(described);
    kernel.domain = texts.domain;
    kernel.op_type = op.s.type;
    kernel.since_min = kernel.since_max = op.s.version;
    kernel.supports = supports;
    kernel.cost = estimate;
    kernel.prepare = prepare;
    kernel.release = release;
    kernel.shape = shape;
    kernel.run = run;
    p.kernels.push_back(kernel);
}

inline void build(plugin &p, const about &texts, const std::vector<spec> &specs,
                  inlay_status (*provide)(const inlay_host *, const inlay_create_args *, void **, inlay_diag *))
{
    p.operators.reserve(specs.size()); /* pointers to the elements are kept */
    p.provider = {};
    for (const spec &s : specs) {
        p.operators.emplace_back();
        p.operators.back().s = s;
        try {
            build_signature(p.operators.back());
        } catch (const std::invalid_argument &e) {
            throw std::invalid_argument(std::string("operator ") + s.type + ": " + e.what());
        }
        build_examples(p.operators.back());
        describe(p, texts, p.operators.back());
        p.provider.poll_ms = s.poll_ms > p.provider.poll_ms ? s.poll_ms : p.provider.poll_ms;
    }
    p.table = { p.kernels.data(), static_cast<uint32_t>(p.kernels.size()) };
    p.tables[0] = &p.table;
    p.provider.name = texts.name;
    p.provider.description = texts.description;
    p.provider.tables = p.tables;
    p.provider.table_count = 1;
    p.provider.open = provide;
    p.self = { texts.name, texts.version[0] != '\0' ? texts.version : "1.0.0", &p.provider, p.described.data(),
               p.table.count, 0 };
}

/* Builds the plugin, only once for each process, although a host may open it twice. */
template <class List>
inlay_status open(plugin *&own, const about &texts, List list, const inlay_host *host, const inlay_plugin **out_plugin,
                  inlay_diag *diag,
                  inlay_status (*provide)(const inlay_host *, const inlay_create_args *, void **, inlay_diag *))
{
    inlay_status status = INLAY_OK;

    if (own == nullptr)
        status = guarded(diag, texts.name, [&] {
            auto p = std::make_unique<plugin>();

            build(*p, texts, list(), provide);
            own = p.release();
        });
    return status == INLAY_OK ? kit_open(&own->self, &own->exports, host, out_plugin, diag) : status;
}
}
}
#endif
