/* Runs work of asynchronous providers behind fences that are signalled in several orders, and calls quiesce while work
 * is in flight. */
#include "check/generate.h"
#include "check/harness.h"
#include "check/in_flight.h"
#include "inlay/check.h"
#include <stdlib.h>

enum { MOST_FENCES = 24 };

/* The case that is run. */
struct subject {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case entry;
    case_instance built;
    bool found;
};

static bool take_case(void *user, op_case *entry)
{
    struct subject *subject = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;

    if (entry->in_count == 0 || entry->in[0].count == 0)
        return true;
    subject->entry = *entry;
    if (case_graph(&subject->entry, &subject->fixture->operators, CASE_SIZES, &subject->built, &diag) != INLAY_OK)
        return true;
    harness_assess(subject->provider, &subject->built, &answer);
    if (answer.kind != HARNESS_OFFERED) {
        case_instance_deinit(&subject->built);
        return true;
    }
    entry->arena = (struct arena){ 0 }; /* the subject owns it now */
    subject->found = true;
    return false;
}

static bool take_source(void *user, const case_source *source)
{
    struct subject *subject = user;
    const case_range range = { .seed = subject->check->args->seed, .scale = 1, .quick = true };

    check_phase(subject->check, "assess");
    generate_cases(source, &range, take_case, subject);
    return !subject->found;
}

/* Runs the case with these fences. False: a failure was reported. */
static bool try_fences(const struct subject *subject, const loaded_provider *provider, const struct harness *harness,
                       const harness_fences *fences)
{
    const harness_options options = { .fences = fences };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;
    char text[256];
    const inlay_status status = harness_run(harness, &options, &result, &diag);
    const bool ok = status == INLAY_OK && result.fault[0] == '\0';

    (void)case_text(&subject->entry, text, sizeof text);
    if (status != INLAY_OK)
        check_fail(
            subject->check, "fences", provider->name, "a run that waits for any number of fences, up to max_waits",
            "set max_waits, or chain what the device cannot wait for at once with inlay_host.fence_notify",
            "%s with %u fences to wait for: '%s': %.300s", text, fences->count, inlay_status_text(status), diag.text);
    else if (result.fault[0] != '\0')
        check_fail(subject->check, "fences", provider->name,
                   fences->quiesce ? "quiesce returns when no work is in flight"
                                   : "work that waits for all of its fences",
                   result.fault_fix, "%s: %s", text, result.fault);
    harness_result_deinit(&result);
    return ok;
}

/* quiesce of a provider that is created for this purpose, as nothing may be submitted afterwards. */
static bool check_quiesce(const struct subject *subject)
{
    static const harness_fences fences = { .count = 1, .quiesce = true };
    const uint32_t index = (uint32_t)(subject->provider->table - subject->provider->plugin->providers);
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider own;
    struct harness harness;
    bool ok = true;

    if (loaded_create(subject->provider->plugin, index, subject->check->args, &own, &diag) != INLAY_OK)
        return true;
    if (harness_open(subject->check, &own, &subject->built, &subject->entry, 1, &harness, &diag) == INLAY_OK) {
        ok = try_fences(subject, &own, &harness, &fences);
        harness_close(&harness);
    }
    loaded_destroy(&own);
    return ok;
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    static const harness_fences plans[] = { { 1, FENCES_ASCENDING, false },      { 2, FENCES_ASCENDING, false },
                                            { 2, FENCES_DESCENDING, false },     { 3, FENCES_LAST_FIRST, false },
                                            { 8, FENCES_DESCENDING, false },     { 17, FENCES_ASCENDING, false },
                                            { MOST_FENCES, FENCES_MIXED, false } };
    const uint32_t limit = provider->table->max_waits, most = limit > 0 && limit < MOST_FENCES ? limit : MOST_FENCES;
    struct subject *subject;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;
    bool ok = true;

    if ((provider->table->flags & INLAY_PROVIDER_ASYNC) == 0 || !check_unit(check, "%s", provider->name))
        return;
    subject = calloc(1, sizeof *subject);
    if (subject == NULL)
        return;
    *subject = (struct subject){ .check = check, .fixture = fixture, .provider = provider };
    generate_sources(custom, custom_count, check->args->op, true, take_source, subject);
    if (subject->found &&
        harness_open(check, provider, &subject->built, &subject->entry, 1, &harness, &diag) == INLAY_OK) {
        for (size_t i = 0; i < sizeof plans / sizeof plans[0] && ok; i++)
            ok = plans[i].count > most || try_fences(subject, provider, &harness, &plans[i]);
        if (ok)
            ok = check_in_flight(&harness);
        if (ok) /* exactly as many as it states */
            ok = try_fences(subject, provider, &harness, &(harness_fences){ .count = most, .order = FENCES_MIXED });
        harness_close(&harness);
        ok = check_quiesce(subject) && ok;
        if (ok)
            check_pass(
                check, "fences", provider->name,
                "it waits for up to %u fences in any order, also in several runs at once; quiesce waits for work "
                "in flight",
                most);
    }
    if (subject->found) {
        case_instance_deinit(&subject->built);
        case_deinit(&subject->entry);
    }
    free(subject);
}

void check_group_fences(struct check *check)
{
    fixture_each(check, "fences", try_provider);
}
