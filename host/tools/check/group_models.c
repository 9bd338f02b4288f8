/* Runs the nodes of the models of --model, each alone, at its own sizes and with its own constants: with several
 * numbers of threads, other values, other weights, values of another magnitude, and a NaN. A certificate lists the
 * nodes that agreed in all of these runs. */
#include "base/element.h"
#include "check/certify.h"
#include "check/compare_results.h"
#include "check/defined.h"
#include "check/host.h"
#include "check/models.h"
#include "check/peers.h"
#include "check/special.h"
#include "inlay/check.h"
#include <string.h>

enum {
    MOST_REPORTED = 4,
    FEW = 64,               /* elements of a constant that may set a shape */
    SHORT_NS = 5 * 1000000, /* nodes that the other provider runs longer have fewer runs, ... */
    LONG_NS = 200 * 1000000 /* ... and these even fewer */
};

struct nodes {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    const char *model;
    uint32_t seen, offered, compared, runs;
    case_failures failures;
    double ns; /* of the other provider for the current node */
};

/* A run of a node. */
struct node_run {
    uint32_t threads;
    bool tight, scattered; /* unaligned buffers; ranges of loops in another order */
};

static bool run_once(struct nodes *nodes, const op_case *entry, const case_instance *built, const struct node_run *run,
                     const harness_result *want)
{
    const harness_options options = { .tight = run->tight, .in_place = run->scattered, .fill = 0xff };
    const uint32_t failures = nodes->failures.count;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result got;
    struct harness harness;
    char text[400];
    inlay_status status = harness_open(nodes->check, nodes->provider, built, entry, run->threads, &harness, &diag);

    if (status == INLAY_UNSUPPORTED || (status != INLAY_OK && strcmp(harness.phase, "budget") == 0))
        return false;
    if (status != INLAY_OK) {
        case_fail(&nodes->failures, entry, "an offered node can be compiled and specialised",
                  "refuse in assess (kit: supports) what cannot be run", "%s returned '%s': %.300s", harness.phase,
                  inlay_status_text(status), diag.text);
        return true;
    }
    check_host_scatter_loops(run->scattered);
    status = harness_run(&harness, &options, &got, &diag);
    check_host_scatter_loops(false);
    nodes->runs++;
    if (status != INLAY_OK)
        case_fail(&nodes->failures, entry, "execute runs each node that was offered, compiled and specialised",
                  "refuse in assess (kit: supports) what cannot be run", "execute returned '%s': %.300s",
                  inlay_status_text(status), diag.text);
    else if (got.fault[0] != '\0')
        case_fail(&nodes->failures, entry, "the contract of execute is kept", got.fault_fix, "%s", got.fault);
    for (uint32_t o = 0; nodes->failures.count == failures && o < want->out_count && o < got.out_count; o++)
        if (!compare_one_result(&got, want, o, case_rounding(entry), text, sizeof text))
            case_fail(&nodes->failures, entry, "the result of the other provider",
                      "refuse in assess (kit: supports) the attributes and shapes that the kernel does not support",
                      "with %u thread%s%s: %s", run->threads, run->threads == 1 ? "" : "s",
                      run->tight ? ", unaligned buffers" : "", text);
    harness_result_deinit(&got);
    harness_close(&harness);
    return true;
}

/* Runs the case in each way, and records it. False: no other provider runs it. */
static bool compare(struct nodes *nodes, const op_case *entry, const struct node_run *runs, uint32_t count)
{
    const uint32_t failures = nodes->failures.count;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want;
    case_instance built;
    bool has_want, ran = true;

    if (case_graph(entry, &nodes->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    has_want = case_is_defined(entry, &built) && peers_run(nodes->check, nodes->fixture, &built, entry, &want);
    if (has_want) {
        nodes->ns = want.ns;
        certify_begin(nodes->check, nodes->provider, &built, entry, false);
        for (uint32_t i = 0; i < count && ran && nodes->failures.count == failures; i++)
            ran = run_once(nodes, entry, &built, &runs[i], &want);
        certify_end(nodes->check, ran && nodes->failures.count == failures, 0);
        harness_result_deinit(&want);
    }
    case_instance_deinit(&built);
    return has_want && ran;
}

/* Runs the node with values to which the rules apply, such as one NaN. */
static void compare_special(struct nodes *nodes, const op_case *entry, uint32_t all)
{
    const uint32_t failures = nodes->failures.count;
    const uint32_t rules = (all & SPECIAL_ONE_NAN) != 0 ? all | SPECIAL_LOST : all;
    const harness_options options = { .fill = 0x11 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want, got;
    struct harness harness;
    case_instance built;
    op_case changed;
    char text[400];

    if (rules == 0 || entry->in_count == 0 || entry->in[0].constant ||
        !case_special(entry, special_values(rules), &changed))
        return;
    if (case_graph(&changed, &nodes->fixture->operators, CASE_SIZES, &built, &diag) == INLAY_OK) {
        if (harness_open(nodes->check, nodes->provider, &built, &changed, 1, &harness, &diag) == INLAY_OK) {
            if (peers_run(nodes->check, nodes->fixture, &built, &changed, &want)) {
                certify_begin(nodes->check, nodes->provider, &built, &changed, true);
                if (harness_run(&harness, &options, &got, &diag) != INLAY_OK)
                    case_fail(&nodes->failures, &changed, "a run with NaN and infinities", "they are ordinary values",
                              "%s", diag.text);
                else if (special_compare(&got, &want, rules, text, sizeof text) == SPECIAL_DIFFERENT)
                    case_fail(&nodes->failures, &changed,
                              "the result of the other provider for NaN, infinities and zeros",
                              "compare so that NaN passes through; do not saturate at the largest number", "%s", text);
                certify_end(nodes->check, nodes->failures.count == failures, 0);
                harness_result_deinit(&got);
                harness_result_deinit(&want);
            }
            harness_close(&harness);
        }
        case_instance_deinit(&built);
    }
    case_deinit(&changed);
}

/* Another choice of values for a node. */
struct variant {
    bool scales;        /* short constants times 0.75 */
    bool has_negatives; /* integers from -2 instead of 0 or 1, such as indices from the end */
    uint32_t magnitude; /* CASE_USUAL ... */
    uint64_t seed;
};

/* A copy with other random inputs, and with constants of several floats in reverse order. False: out of memory. */
static bool vary(const op_case *from, const struct variant *variant, op_case *out)
{
    *out = *from;
    out->arena = (struct arena){ 0 };
    for (uint32_t i = 0; i < from->in_count; i++) {
        const case_tensor *old = &from->in[i];
        const size_t size = inlay_dtype_bits(old->dtype) / 8;
        case_tensor *tensor = &out->in[i];
        double re, im;

        if (old->dtype == INLAY_UNDEFINED || size == 0 || old->count == 0)
            continue;
        if (!old->constant) {
            tensor->data = NULL;
            if (element_is_float(old->dtype))
                tensor->magnitude = variant->magnitude;
            else
                tensor->low = variant->has_negatives ? -2 : tensor->low;
            continue;
        }
        if (!element_is_float(old->dtype))
            continue;
        tensor->data = arena_alloc(&out->arena, (size_t)old->bytes + size);
        if (tensor->data == NULL)
            goto failed;
        memcpy(tensor->data, old->data, (size_t)old->bytes);
        for (int64_t k = 0; k < old->count && old->count > FEW; k++)
            memcpy((char *)tensor->data + (size_t)k * size,
                   (const char *)old->data + (size_t)(old->count - 1 - k) * size, size);
        for (int64_t k = 0; k < old->count && old->count <= FEW && variant->scales; k++)
            if (element_number(old->dtype, old->data, k, &re, &im))
                (void)element_put_number(old->dtype, tensor->data, k, 0.75 * re);
    }
    if (case_fill(out, variant->seed) == INLAY_OK)
        return true;
failed:
    case_deinit(out);
    return false;
}

static void compare_varied(struct nodes *nodes, const op_case *entry, const struct variant *variant,
                           const struct node_run *runs, uint32_t count)
{
    op_case changed;

    if (vary(entry, variant, &changed)) {
        (void)compare(nodes, &changed, runs, count);
        case_deinit(&changed);
    }
}

static bool is_offered(struct nodes *nodes, const op_case *entry)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;
    case_instance built;

    if (case_graph(entry, &nodes->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    check_phase(nodes->check, "assess");
    harness_assess(nodes->provider, &built, &answer);
    check_phase(nodes->check, "the checker");
    case_instance_deinit(&built);
    return answer.kind == HARNESS_OFFERED;
}

static bool try_node(void *user, op_case *entry)
{
    static const struct node_run first[] = { { 1, false, false } };
    static const struct node_run most[] = { { 1, false, false }, { 3, true, false }, { 16, false, true } };
    static const struct node_run others[] = { { 2, true, false }, { 4, false, true } };
    static const struct variant before = { .scales = true, .seed = 1 };
    static const struct variant variants[] = { { .magnitude = CASE_LARGE, .seed = 2 },
                                               { .magnitude = CASE_SHIFTED, .seed = 3 },
                                               { .magnitude = CASE_LARGE, .has_negatives = true, .seed = 4 },
                                               { .magnitude = CASE_LARGE, .seed = 5 },
                                               { .has_negatives = true, .seed = 6 } };
    enum { VARIANTS = sizeof variants / sizeof variants[0] };
    struct nodes *nodes = user;
    char text[256];

    nodes->seen++;
    if (!check_unit(nodes->check, "%s", case_text(entry, text, sizeof text)) || !is_offered(nodes, entry))
        return true;
    nodes->offered++;
    /* Before the node itself, so that what a kernel keeps of it would be wrong for the node. */
    compare_varied(nodes, entry, &before, first, 1);
    if (!compare(nodes, entry, most, sizeof most / sizeof most[0]))
        return true;
    nodes->compared++;
    if (nodes->ns > LONG_NS)
        return true;
    for (uint32_t v = 0; v < (nodes->ns > SHORT_NS ? 1 : VARIANTS); v++)
        compare_varied(nodes, entry, &variants[v], v == 0 ? others : first, v == 0 ? 2 : 1);
    for (uint32_t turn = 0; turn < SPECIAL_TURNS; turn++)
        compare_special(nodes, entry, special_rules(entry->op_type, turn));
    return true;
}

void check_group_models(struct check *check)
{
    struct fixture fixture;
    model_set set;

    if (check->args->model_count == 0 || !fixture_open(check, "models", true, &fixture))
        return;
    models_open(check, "models", &set);
    for (uint32_t i = 0; i < fixture.own_count * set.count; i++) {
        struct nodes nodes = { .check = check,
                               .failures = { check, "models", MOST_REPORTED, 0 },
                               .fixture = &fixture,
                               .provider = &fixture.own[i / set.count],
                               .model = check->args->models[i % set.count] };

        models_nodes(&set, i % set.count, NULL, MODELS_OWN, try_node, &nodes);
        if (!case_fail_others(&nodes.failures, nodes.model) && nodes.failures.count == 0 &&
            check->args->child.from == 0)
            check_pass(check, "models", nodes.model,
                       "%u of %u nodes are offered, %u compared with another provider in %u runs", nodes.offered,
                       nodes.seen, nodes.compared, nodes.runs);
    }
    models_close(&set);
    fixture_close(&fixture);
}
