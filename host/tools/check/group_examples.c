/* Runs the examples of the plugin's operators on the first provider that offers them: the plugin's own first. */
#include "check/compare_results.h"
#include "data/compare.h"
#include "inlay/check.h"
#include <string.h>

/* Do rank, dims, dtype and bytes of the view agree, and does it fit a case? */
static bool view_fits(const inlay_tensor_view *view)
{
    uint64_t count = 1;

    if (view->rank > CASE_RANK || (view->rank > 0 && view->dims == NULL) || inlay_dtype_bits(view->dtype) == 0)
        return false;
    for (uint32_t d = 0; d < view->rank; d++)
        if (view->dims[d] < 0 || __builtin_mul_overflow(count, (uint64_t)view->dims[d], &count))
            return false;
    return (count * inlay_dtype_bits(view->dtype) + 7) / 8 == view->bytes && (count == 0 || view->data != NULL);
}

/* Converts an example to a case. False: the example is invalid, or too large for a case. */
static bool case_of(struct check *check, const char *subject, const inlay_operator *op, const inlay_op_example *example,
                    op_case *entry)
{
    case_init(entry, op->domain, op->op_type, op->since_version);
    if (example->output_count > CASE_OUTPUTS)
        return false;
    entry->random = (op->flags & INLAY_OPERATOR_RANDOM) != 0;
    entry->out_count = example->output_count;
    for (uint32_t i = 0; i < example->input_count + example->output_count; i++) {
        const inlay_tensor_view *view =
            i < example->input_count ? &example->inputs[i] : &example->outputs[i - example->input_count];
        case_tensor *in;

        if (!view_fits(view)) {
            check_fail(
                check, "examples", subject, "tensors whose bytes follow from dims and dtype", "set bytes = sizeof data",
                "%s %u of rank %u has %llu bytes", i < example->input_count ? "input" : "output",
                i < example->input_count ? i : i - example->input_count, view->rank, (unsigned long long)view->bytes);
            return false;
        }
        if (i >= example->input_count)
            continue;
        in = case_input(entry, view->dtype, view->rank, view->dims, false);
        if (in == NULL)
            return false;
        in->data = (void *)(uintptr_t)view->data;
        in->bytes = view->bytes;
        in->count = (int64_t)(view->bytes * 8 / inlay_dtype_bits(view->dtype));
    }
    for (uint32_t i = 0; i < example->attr_count; i++)
        if (!case_attr(entry, INLAY_AT(inlay_attr_info, example->attrs, example->attr_stride, i)))
            return false;
    return true;
}

static void compare(struct check *check, const char *subject, const inlay_op_example *example,
                    const harness_result *result, const char *by)
{
    char text[400];

    INLAY_CHECK(result->out_count == example->output_count);
    for (uint32_t output = 0; output < example->output_count; output++) {
        if (compare_result_tensor(&result->out[output], &example->outputs[output], example->rtol, example->atol, text,
                                  sizeof text))
            continue;
        check_fail(check, "examples", subject, "the outputs of the example",
                   "correct the kernel or the example; widen its rtol and atol if the difference is rounding",
                   "provider %s: output %u: %s", by, output, text);
        return;
    }
    check_pass(check, "examples", subject, "correct on provider %s", by);
}

/* Runs the example on one provider. False: the provider does not offer it. */
static bool run_by(struct check *check, const char *subject, const loaded_provider *provider,
                   const case_instance *built, const op_case *entry, const inlay_op_example *example)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;
    inlay_status status;
    struct harness harness;

    if (harness_open(check, provider, built, entry, 1, &harness, &diag) != INLAY_OK) {
        if (strcmp(harness.phase, "assess") == 0)
            return false;
        check_fail(check, "examples", subject, "the example can be compiled and specialised",
                   "refuse in assess what cannot be run", "provider %s, %s: %s", provider->name, harness.phase,
                   diag.text);
        return true;
    }
    status = harness_run(&harness, &options, &result, &diag);
    if (status != INLAY_OK)
        check_fail(check, "examples", subject, "the example runs", "correct the kernel", "provider %s: %s",
                   provider->name, diag.text);
    else
        compare(check, subject, example, &result, provider->name);
    harness_result_deinit(&result);
    harness_close(&harness);
    return true;
}

static void try_example(struct check *check, const struct fixture *fixture, const inlay_operator *op,
                        const inlay_op_example *example)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    bool taken = false;
    char subject[200];
    case_instance built;
    op_case entry;

    (void)snprintf(subject, sizeof subject, "%.80s-%u '%.80s'", op->op_type, op->since_version,
                   example->name != NULL ? example->name : "");
    if (!check_unit(check, "%s", subject))
        return;
    if (case_of(check, subject, op, example, &entry)) {
        check_phase(check, "infer");
        if (case_graph(&entry, &fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK) {
            check_fail(check, "examples", subject, "a node that the signature and infer accept",
                       "correct the example, the signature or infer", "%s", diag.text);
        } else {
            for (uint32_t i = 0; i < fixture->own_count; i++)
                taken |= run_by(check, subject, &fixture->own[i], &built, &entry, example);
            for (uint32_t i = 0; i < fixture->peer_count && !taken; i++)
                taken = run_by(check, subject, &fixture->peers[i], &built, &entry, example);
            if (!taken)
                check_skip(check, "examples", subject,
                           "no available provider offers it; name another plugin with --with");
            case_instance_deinit(&built);
        }
    }
    case_deinit(&entry);
}

/* An example with a tolerance that any result meets checks nothing. */
static void check_strength(struct check *check, const inlay_operator *op)
{
    const double most = 0.25; /* also of types with few bits */
    char subject[200];

    (void)snprintf(subject, sizeof subject, "%.80s-%u", op->op_type, op->since_version);
    for (uint32_t k = 0; k < op->example_count && op->example_stride >= sizeof(inlay_op_example); k++) {
        const inlay_op_example *example = INLAY_AT(inlay_op_example, op->examples, op->example_stride, k);

        for (uint32_t i = 0; i < example->output_count; i++) {
            const inlay_tensor_view *view = &example->outputs[i];
            const double largest =
                view_fits(view) && view->dtype != INLAY_STRING
                    ? compare_largest(view, (int64_t)(view->bytes * 8 / inlay_dtype_bits(view->dtype)))
                    : 0;

            if (largest == 0 || (example->rtol <= most && example->atol <= most * largest))
                continue;
            check_warn(check, "examples", subject, "a tolerance that a wrong result exceeds",
                       "state the rounding of the kernel: 1e-4 is usual for float",
                       "example '%.80s' permits errors of %g + %g x, and its largest result is %g",
                       example->name != NULL ? example->name : "", example->atol, example->rtol, largest);
            break;
        }
    }
}

void check_group_examples(struct check *check)
{
    struct fixture fixture;

    if (!fixture_open(check, "examples", true, &fixture))
        return;
    for (uint32_t i = 0; i < fixture.plugins[0].table.operator_count; i++) {
        const inlay_operator *op = &fixture.plugins[0].operators[i];

        if (loaded_is_whole(op) && check_unit(check, "%s-%u", op->op_type, op->since_version))
            check_strength(check, op);
        for (uint32_t k = 0;
             loaded_is_whole(op) && k < op->example_count && op->example_stride >= sizeof(inlay_op_example); k++)
            try_example(check, &fixture, op, INLAY_AT(inlay_op_example, op->examples, op->example_stride, k));
    }
    fixture_close(&fixture);
}
