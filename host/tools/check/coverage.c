#include "check/coverage.h"
#include "check/patterns.h"

void coverage_begin_source(struct coverage *coverage)
{
    coverage->is_known = false;
    coverage->reason[0] = '\0';
}

void coverage_note(struct coverage *coverage, const harness_answer *answer)
{
    if (answer->kind == HARNESS_OFFERED) {
        coverage->is_known = true;
    } else if (answer->kind == HARNESS_REFUSED && answer->code != INLAY_REFUSE_OPERATOR) {
        coverage->is_known = true;
        if (coverage->reason[0] == '\0')
            (void)snprintf(coverage->reason, sizeof coverage->reason, "%.110s", answer->reason);
    }
}

void coverage_end_source(struct coverage *coverage, const case_source *source, uint32_t cases, uint32_t compared,
                         uint32_t declined, uint32_t repeated)
{
    coverage->known += coverage->is_known;
    coverage->ran += cases > 0;
    coverage->compared += compared > 0;
    coverage->own += cases > 0 && source->own != NULL;
    coverage->cases += cases;
    coverage->repeated += repeated;
    coverage->declined += declined;
    if (coverage->is_known && cases == 0 && coverage->reason_count < COVERAGE_REASONS)
        (void)snprintf(coverage->reasons[coverage->reason_count++], sizeof coverage->reasons[0], "%.40s (%s)",
                       source->op_type,
                       coverage->reason[0] != '\0' ? coverage->reason
                       : declined > 0              ? "declined after the offer"
                                                   : "no generated case is valid");
}

/* Writes "; never run: A (why), B (why), ..." or nothing. */
static void list_reasons(const struct coverage *coverage, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < coverage->reason_count && used < bytes; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s", i == 0 ? "; never run: " : ", ", coverage->reasons[i]);
    if (used < bytes && coverage->known - coverage->ran > coverage->reason_count)
        (void)snprintf(text + used, bytes - used, ", ...");
}

static void report_declined(const struct coverage *coverage, struct check *check, const char *name)
{
    if (coverage->declined > 0 && coverage->cases == 0)
        check_warn(check, "declined", name, "an offer that compile and specialize accept",
                   "refuse in assess what no shape allows", "all %u offered cases were declined", coverage->declined);
    else if (coverage->declined > 0)
        check_pass(check, "declined", name, "%u offers were taken back by compile or specialize, %u cases ran",
                   coverage->declined, coverage->cases);
}

void coverage_report(const struct coverage *coverage, struct check *check, const struct fixture *fixture,
                     const loaded_provider *provider)
{
    char missing[560];
    uint32_t groups;

    list_reasons(coverage, missing, sizeof missing);
    report_declined(coverage, check, provider->name);
    groups = coverage->ran == 0 ? patterns_count(check, fixture, provider) : 0;
    if (groups > 0)
        check_pass(check, "coverage", provider->name,
                   "it offers no operator alone, but %u groups of nodes: group `patterns` compares them", groups);
    else if (coverage->ran == 0 ? check->args->op == NULL : coverage->compared + coverage->repeated == 0)
        check_fail(check, "coverage", provider->name, "at least one operator whose results are compared",
                   coverage->known == 0
                       ? "if another plugin defines its operators, give --with FILE that plugin"
                       : "see the reasons, and what assess refuses in a model of yours: inlay explain MODEL",
                   "no result was compared: of %u operators that it knows, %u ran, none successfully%s",
                   coverage->known, coverage->ran, missing);
    else if (coverage->known == 0)
        check_warn(check, "coverage", provider->name, "an operator of --op that it knows",
                   "see the name of the operator", "it knows no operator that --op matches: nothing was run");
    else if (coverage->ran > coverage->own && coverage->compared == 0 && fixture->peer_count > 0)
        check_warn(check, "coverage", provider->name, "at least one result that is compared with another provider",
                   "give --with FILE a plugin that has the operators",
                   "no other provider runs the %u operators that ran: %u runs were compared with each other%s",
                   coverage->ran, coverage->repeated, missing);
    else if (coverage->ran < coverage->known && check->args->strict)
        check_fail(check, "coverage", provider->name, "every operator that it knows runs",
                   "state in the refusal what is required; --data DIR runs models of yours; without --strict it is a "
                   "warning",
                   "%u of %u operators that it knows ran%s", coverage->ran, coverage->known, missing);
    else if (coverage->ran < coverage->known)
        check_warn(check, "coverage", provider->name, "every operator that it knows runs in a common shape",
                   "state in the refusal what is required; --data DIR runs models of yours",
                   "%u of %u operators that it knows ran, %u compared with another provider%s", coverage->ran,
                   coverage->known, coverage->compared, missing);
    else
        check_pass(check, "coverage", provider->name,
                   "all %u operators that it knows ran, %u compared with another provider", coverage->ran,
                   coverage->compared);
}

struct plan {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
};

static bool count_case(void *user, op_case *entry)
{
    const struct plan *plan = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;
    case_instance built;

    if (case_graph(entry, &plan->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    harness_assess(plan->provider, &built, &answer);
    case_instance_deinit(&built);
    plan->check->compiles.operators += answer.kind == HARNESS_OFFERED;
    return false;
}

static bool count_source(void *user, const case_source *source)
{
    const struct plan *plan = user;
    const case_range range = { .seed = plan->check->args->seed, .scale = 1, .quick = true };

    check_tick(plan->check);
    generate_cases(source, &range, count_case, user);
    return true;
}

void coverage_plan(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                   const inlay_operator *const *custom, uint32_t custom_count)
{
    struct plan plan = { check, fixture, provider };

    check_phase(check, "assess");
    check->compiles.operators = 0;
    generate_sources(custom, custom_count, check->args->op, true, count_source, &plan);
    check_phase(check, "the checker");
}
