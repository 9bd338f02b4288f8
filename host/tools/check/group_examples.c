/* The examples of the plugin's operators, by whatever provider takes them: the plugin's own first. */
#include "check/agree.h"
#include <string.h>

static bool view_fits(const inlay_tensor_view *t)
{
    uint64_t count = 1;

    if (t->rank > CASE_RANK || (t->rank > 0 && t->dims == NULL) || inlay_dtype_bits(t->dtype) == 0)
        return false;
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->dims[d] < 0 || __builtin_mul_overflow(count, (uint64_t)t->dims[d], &count))
            return false;
    return (count * inlay_dtype_bits(t->dtype) + 7) / 8 == t->bytes && (count == 0 || t->data != NULL);
}

/* The case that an example describes. False: it does not make sense, and a line said so. */
static bool case_of(struct check *c, const char *subject, const inlay_operator *op, const inlay_op_example *e,
                    op_case *k)
{
    case_init(k, op->domain, op->op_type, op->since_version);
    k->random = (op->flags & INLAY_OPERATOR_RANDOM) != 0;
    k->out_count = e->output_count;
    for (uint32_t i = 0; i < e->input_count + e->output_count; i++) {
        const inlay_tensor_view *t = i < e->input_count ? &e->inputs[i] : &e->outputs[i - e->input_count];
        case_tensor *in;

        if (!view_fits(t)) {
            check_fail(c, "examples", subject, "tensors whose bytes follow from dims and dtype",
                       "set bytes = sizeof data", "%s %u of rank %u has %llu bytes",
                       i < e->input_count ? "input" : "output", i < e->input_count ? i : i - e->input_count, t->rank,
                       (unsigned long long)t->bytes);
            return false;
        }
        if (i >= e->input_count)
            continue;
        in = case_input(k, t->dtype, t->rank, t->dims, false);
        if (in == NULL)
            return false;
        in->data = (void *)(uintptr_t)t->data;
        in->bytes = t->bytes;
        in->count = (int64_t)(t->bytes * 8 / inlay_dtype_bits(t->dtype));
    }
    for (uint32_t i = 0; i < e->attr_count; i++)
        if (!case_attr(k, INLAY_AT(inlay_attr_info, e->attrs, e->attr_stride, i)))
            return false;
    return true;
}

static void compare(struct check *c, const char *subject, const inlay_op_example *e, const bench_result *r,
                    const char *by)
{
    char text[400];

    for (uint32_t o = 0; o < e->output_count; o++) {
        if (agree_tensor(&r->out[o], &e->outputs[o], e->rtol, e->atol, text, sizeof text))
            continue;
        check_fail(c, "examples", subject, "the outputs that the example gives",
                   "correct the kernel or the example; widen its rtol and atol if the difference is rounding",
                   "provider %s: output %u: %s", by, o, text);
        return;
    }
    check_pass(c, "examples", subject, "provider %s computes it", by);
}

/* Tries one provider. False: it does not offer the example. */
static bool run_by(struct check *c, const char *subject, const loaded_provider *p, const case_one *one,
                   const op_case *k, const inlay_op_example *e)
{
    const bench_how how = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result r;
    inlay_status status;
    struct bench b;

    if (bench_open(c, p, one, k, 1, &b, &diag) != INLAY_OK) {
        if (strcmp(b.phase, "assess") == 0)
            return false;
        check_fail(c, "examples", subject, "that it can be compiled and specialised",
                   "refuse in assess what cannot be run", "provider %s, %s: %s", p->name, b.phase, diag.text);
        return true;
    }
    status = bench_run(&b, &how, &r, &diag);
    if (status != INLAY_OK)
        check_fail(c, "examples", subject, "that it runs", "correct the kernel", "provider %s: %s", p->name, diag.text);
    else
        compare(c, subject, e, &r, p->name);
    bench_result_deinit(&r);
    bench_close(&b);
    return true;
}

static void try_example(struct check *c, const struct world *w, const inlay_operator *op, const inlay_op_example *e)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    bool taken = false;
    char subject[200];
    case_one one;
    op_case k;

    (void)snprintf(subject, sizeof subject, "%.80s-%u '%.80s'", op->op_type, op->since_version,
                   e->name != NULL ? e->name : "");
    if (!check_unit(c, "%s", subject))
        return;
    if (case_of(c, subject, op, e, &k)) {
        check_phase(c, "infer");
        if (case_graph(&k, &w->operators, CASE_SIZES, &one, &diag) != INLAY_OK) {
            check_fail(c, "examples", subject, "a node that the signature and infer accept",
                       "correct the example, the signature or infer", "%s", diag.text);
        } else {
            for (uint32_t i = 0; i < w->own_count; i++)
                taken |= run_by(c, subject, &w->own[i], &one, &k, e);
            for (uint32_t i = 0; i < w->peer_count && !taken; i++)
                taken = run_by(c, subject, &w->peers[i], &one, &k, e);
            if (!taken)
                check_skip(c, "examples", subject, "no provider here offers it; name one with --with");
            case_one_deinit(&one);
        }
    }
    case_deinit(&k);
}

void check_group_examples(struct check *c)
{
    struct world w;

    if (!world_open(c, "examples", true, &w))
        return;
    for (uint32_t i = 0; i < w.plugins[0].table.operator_count; i++) {
        const inlay_operator *op = &w.plugins[0].operators[i];

        for (uint32_t k = 0; k < op->example_count && op->example_stride >= sizeof(inlay_op_example); k++)
            try_example(c, &w, op, INLAY_AT(inlay_op_example, op->examples, op->example_stride, k));
    }
    world_close(&w);
}
